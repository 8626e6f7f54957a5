"""Damage to files: of any bytes, and of JSON, zip and `.npy` files by what they are made of."""

import io
import json
import re
import struct
import zipfile

NUMBERS = ["0", "-1", "3", "-2147483649", "9223372036854775808", "1e400", "0.5", "9" * 5000, "٤", "0x10"]
VALUES = [
    None, True, 0, -1, 1 << 40, 1 << 70, 1e300, float("nan"), "", "x", "\0", "\ud800", "7", [], [[]], {}, {"a": 1}, "../x",
]  # fmt: skip
TYPES = ["|O", "<f8", ">f4", "<f2", "|S0", "<U9", "<i8", "|b1", "<c8", "<M8[s]", "<f3", "", "('<f4', (2,))"]
NAMES = ["../x", "/x", "a/", "a\x1bb", "C:x", "extra.npy", "__MACOSX/x"]
SIZES = [0, 1, -1, 9, 99, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1]


def damaged_bytes(rng, data):
    """Flip, cut, copy or take out some bytes, or write a number over them."""
    data = bytearray(data or b"\0")
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    match rng.randrange(5):
        case 0:
            for _ in range(rng.choice([1, 1, 4, 20])):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 1:
            del data[rng.choice([start, len(data) - 1]) :]
        case 2:
            del data[start : min(end, start + rng.choice([1, 8, 1000]))]
        case 3:
            data[start:start] = data[start : start + rng.choice([1, 64, 1000])]
        case 4:
            _write_size(rng, data, start, rng.choice([2, 4, 8]))
    return bytes(data)


def _write_size(rng, data, start, width):
    number = rng.choice(SIZES) % (1 << 8 * width)
    data[start : start + width] = number.to_bytes(width, rng.choice(["little", "big"]))


def damaged_json(rng, data):
    """Put an odd value at any place, take one out, swap, wrap or rename one, or as `damaged_bytes`."""
    if rng.random() < 0.3:
        return damaged_bytes(rng, data)
    document = json.loads(data)
    holder, key = rng.choice(list(_holders(document)))
    match rng.randrange(5):
        case 0:
            holder[key] = rng.choice(VALUES)
        case 1:
            del holder[key]
        case 2:
            other, name = rng.choice(list(_holders(document)))
            holder[key], other[name] = rng.choice([(other[name], holder[key]), ([holder[key]], other[name])])
        case 3 if isinstance(holder, dict):
            holder[rng.choice([f"{key}s", "", "id", key.upper()])] = holder.pop(key)
        case _:
            text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
            numbers = list(re.finditer("-?[0-9]+", text))
            return _replaced(text, rng.choice(numbers), rng.choice([*NUMBERS, "[" * 100_000])).encode()
    try:
        return json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    except ValueError:  # a value that was swapped with its own part
        return b"[]"


def _holders(value):
    """All places of a JSON value, each a list or object and its index or key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _holders(value[key])


def _replaced(text, match, new):
    return text[: match.start()] + new + text[match.end() :]


_HEADS = {b"PK\x01\x02": 46, b"PK\x03\x04": 30, b"PK\x05\x06": 22}


def damaged_zip(rng, data, member=lambda rng, content: content):
    """Write a field of a header, or pack anew with a member changed, renamed, repeated or left out, or as `damaged_bytes`."""
    choice = rng.randrange(3)
    if choice == 0:
        return damaged_bytes(rng, data)
    if choice == 1:
        changed = bytearray(data)
        head = rng.choice(list(re.finditer(b"PK(\x01\x02|\x03\x04|\x05\x06)", data)))
        width = rng.choice([2, 4])
        start = head.start() + 4 + rng.randrange(0, _HEADS[head[0]] - 4 - width + 1, 2)
        _write_size(rng, changed, start, width)
        return bytes(changed)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    row = rng.randrange(len(members))
    name, content = members[row]
    members[row : row + 1] = rng.choice(
        [[(name, member(rng, content))], [(rng.choice(NAMES), content)], [members[row]] * 2, []]
    )
    stream = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def damaged_npy(rng, data):
    """Write another shape, type or order into the header, or as `damaged_bytes`."""
    if rng.random() < 0.4:
        return damaged_bytes(rng, data)
    (length,) = struct.unpack("<H", data[8:10])
    header, rows = data[10 : 10 + length].decode("latin1"), data[10 + length :]
    match rng.randrange(4):
        case 0:
            number = rng.choice(list(re.finditer(r"\d+", header)))
            header = _replaced(header, number, rng.choice([*NUMBERS, "25000000000", "(2, 2)", "None"]))
        case 1:
            header = re.sub(r"'descr': '[^']*'", f"'descr': '{rng.choice(TYPES)}'", header)
        case 2:
            header = header.replace("False", rng.choice(["True", "None", "[[[["]))
        case 3:
            header = header.replace(
                "'shape'", rng.choice(["'shapes'", "'descr'", "'" + "s" * 9000 + "'", "("])
            )
    raw = header.encode("latin1", "replace")[:65535]
    return data[:8] + struct.pack("<H", len(raw)) + raw + rows


def damaged_npz(rng, data):
    """As `damaged_zip`, or damage an array of an archive whose checksums stay right."""
    return damaged_zip(rng, data, damaged_npy)


BY_SUFFIX = {".json": damaged_json, ".zip": damaged_zip, ".npz": damaged_npz, ".npy": damaged_npy}


def damaged(rng, data, suffix):
    """A file's bytes after one kind of damage, rarely two."""
    data = BY_SUFFIX.get(suffix, damaged_bytes)(rng, data)
    return damaged_bytes(rng, data) if rng.random() < 0.05 else data
