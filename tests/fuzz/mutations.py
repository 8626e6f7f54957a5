"""Damage to files: of any bytes, and of text, JSON, zip and `.npy` files by what they are made of."""

import io
import json
import re
import struct
import zipfile
import zlib

NUMBERS = [
    "0",
    "-1",
    "1",
    "3",
    "99999999",
    "-2147483649",
    "9223372036854775808",
    "1e400",
    "0.5",
    "9" * 5000,
    "٤",
    "²",
    "0x10",
]
LETTERS = [
    "\0",
    "\x1b",
    "\x85",
    "\u2028",
    "\ufeff",
    "\t",
    "\r",
    "\n",
    '"',
    "#4",
    "٣",
    "\U0001f984",
    " " * 3000,
    "a" * 3000,
    ",",
]
VALUES = [
    None,
    True,
    0,
    -1,
    1 << 40,
    1 << 70,
    1e300,
    float("nan"),
    "",
    "x",
    "\0",
    "\ud800",
    "7",
    [],
    [[]],
    {},
    {"a": 1},
    "../x",
]
EDGES = [0, 1, 0x7F, 0x80, 0xFF]


def of_bytes(made, data):
    """Flip, set, cut, copy, take out or move some bytes."""
    data = bytearray(data)
    if not data:
        return b"\0"
    at, other = sorted(made.randrange(len(data) + 1) for _ in range(2))
    match made.randrange(9):
        case 0 | 1:
            for _ in range(made.choice([1, 1, 1, 4, 20])):
                data[made.randrange(len(data))] ^= 1 << made.randrange(8)
        case 2:
            for _ in range(made.choice([1, 1, 4])):
                data[made.randrange(len(data))] = made.choice(EDGES)
        case 3:
            del data[made.choice([at, len(data) - 1, len(data) - made.randrange(min(len(data), 40)) - 1]) :]
        case 4:
            del data[at : min(other, at + made.choice([1, 2, 8, 1000]))]
        case 5:
            data[at:at] = data[at : at + made.choice([1, 4, 64, 1000])]
        case 6:
            data[at:at] = made.randbytes(made.choice([1, 4, 64]))
        case 7:
            chunk = data[other : other + made.choice([4, 16, 200])]
            data[at : at + len(chunk)] = chunk
        case 8:
            number = made.choice([0, 1, -1, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 40, (1 << 63) - 1])
            width, order = made.choice([2, 4, 8]), made.choice(["little", "big"])
            data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, order)
    return bytes(data)


def of_text(made, data):
    """Repeat, take out or swap lines, put odd letters and numbers in, or as `of_bytes`."""
    lines = data.split(b"\n")
    one, other = made.randrange(len(lines)), made.randrange(len(lines))
    match made.randrange(8):
        case 0:
            lines.insert(other, lines[one])
        case 1:
            del lines[one]
        case 2:
            lines[one], lines[other] = lines[other], lines[one]
        case 3 | 4:
            at = made.randrange(len(data) + 1)
            return data[:at] + made.choice(LETTERS).encode() + data[at:]
        case 5 | 6:
            found = list(re.finditer(rb"-?[0-9]+", data))
            if found:
                start, end = made.choice(found).span()
                return data[:start] + made.choice(NUMBERS).encode() + data[end:]
        case 7:
            return of_bytes(made, data)
    return b"\n".join(lines)


def of_json(made, data):
    """Put an odd value at any place, take one out, move, wrap, rename or repeat one, or as `of_text`."""
    if made.random() < 0.3:
        return of_text(made, data)
    document = json.loads(data)
    for _ in range(made.choice([1, 1, 1, 2])):
        document = _edited(made, document)
    text = json.dumps(document, ensure_ascii=made.random() < 0.5)
    if made.random() < 0.05:
        text = text.replace("null", made.choice(["[" * 3000 + "]" * 3000, "[" * 100_000, "9" * 5000]), 1)
    if made.random() < 0.05 and (keys := re.findall(r'"(\w+)": ', text)):
        name = made.choice(keys)
        text = text.replace(f'"{name}": ', f'"{name}": 0, "{name}": ', 1)
    return text.encode("utf-8", "surrogatepass")


def _edited(made, document):
    """A JSON value with one part changed."""
    places = list(_places(document))
    if not places:
        return made.choice(VALUES)
    holder, key = made.choice(places)
    match made.randrange(6):
        case 0 | 1:
            holder[key] = made.choice(VALUES)
        case 2:
            del holder[key]
        case 3:
            elsewhere, name = made.choice(places)
            holder[key], elsewhere[name] = elsewhere[name], holder[key]
        case 4:
            holder[key] = made.choice([[holder[key]], {"x": holder[key]}, str(holder[key])])
        case 5:
            if isinstance(holder, list):
                holder.insert(made.randrange(len(holder) + 1), holder[key])
            else:
                holder[made.choice([f"{key}s", "", "id", "name", str(key).upper()])] = holder.pop(key)
    try:
        return json.loads(json.dumps(document))  # a value swapped with its own part holds itself
    except (ValueError, RecursionError):
        return made.choice(VALUES)


def _places(value):
    """All places of a JSON value, each a list or object and its index or key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


_HEADS = {b"PK\x01\x02": 46, b"PK\x03\x04": 30, b"PK\x05\x06": 22}


def of_zip(made, data):
    """Write a field of a header, pack anew with a member renamed, repeated or encrypted, or as `of_bytes`."""
    choice = made.random()
    if choice < 0.35:
        return of_bytes(made, data)
    if choice < 0.75:
        places = [
            (found.start(), _HEADS[found[0]])
            for found in re.finditer(b"PK(\x01\x02|\x03\x04|\x05\x06)", data)
        ]
        changed = bytearray(data)
        for _ in range(made.choice([1, 1, 2])):
            start, length = made.choice(places)
            width = made.choice([2, 4])
            at = start + 4 + made.randrange(0, length - 4 - width + 1, 2)
            number = made.choice(
                [0, 1, 8, 9, 12, 14, 99, 0x41, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, made.randrange(1 << 16)]
            )
            changed[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
        return bytes(changed)
    return repacked(made, _members(data))


def _members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def repacked(made, members):
    """An archive of members, one of them perhaps renamed, repeated, left out or doubled."""
    members = list(members)
    at = made.randrange(len(members))
    name, content = members[at]
    match made.randrange(6):
        case 0:
            members[at] = (
                made.choice(["../x", "/x", "x", name.upper(), f"a/{name}", f"{name}/", "", "a\x1bb", "C:x"]),
                content,
            )
        case 1:
            members.append(members[at])
        case 2:
            del members[at]
        case 3:
            made.shuffle(members)
        case 4:
            members.append((made.choice(["extra.npy", "__MACOSX/x", "a/"]), content))
    stream = io.BytesIO()
    method = made.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, content)
    return stream.getvalue()


def of_npy(made, data):
    """Write another shape, type or order into the header, or as `of_bytes`."""
    if made.random() < 0.4 or not data.startswith(b"\x93NUMPY\x01"):
        return of_bytes(made, data)
    (length,) = struct.unpack("<H", data[8:10])
    header, rest = data[10 : 10 + length].decode("latin1"), data[10 + length :]
    match made.randrange(4):
        case 0:
            numbers = list(re.finditer(r"\d+", header.partition("shape")[2])) or [re.match("", "")]
            found, shift = made.choice(numbers), len(header.partition("shape")[0]) + len("shape")
            number = made.choice([*NUMBERS, "25000000000", "(2, 2)", "None", "3L"])
            header = header[: shift + found.start()] + number + header[shift + found.end() :]
        case 1:
            kinds = [
                "|O",
                "<f8",
                ">f4",
                "<f2",
                "|S0",
                "|V0",
                "<U9",
                "<i8",
                "|b1",
                "<c8",
                "<M8[s]",
                "<f3",
                "<f16",
                "",
                "('<f4', (2,))",
            ]
            header = re.sub(r"'descr': '[^']*'", f"'descr': '{made.choice(kinds)}'", header)
        case 2:
            header = header.replace("False", made.choice(["True", "None", "0", "[[[["]))
        case 3:
            header = header.replace(
                "'shape'", made.choice(["'shapes'", "'descr'", "'" + "s" * 9000 + "'", "("])
            )
    raw = header.encode("latin1", "replace")[:65535]
    return data[:8] + struct.pack("<H", len(raw)) + raw + rest


def of_npz(made, data):
    """Damage an array of an archive whose checksums stay right, or as `of_zip`."""
    if made.random() < 0.5:
        return of_zip(made, data)
    members = _members(data)
    at = made.randrange(len(members))
    members[at] = (members[at][0], of_npy(made, members[at][1]))
    return repacked(made, members)


def of_png(made, data):
    """Damage the parts of a PNG and mend their checksums, or as `of_bytes`."""
    if made.random() < 0.5:
        return of_bytes(made, data)
    parts, at = [], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        parts.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    one = made.randrange(len(parts))
    kind, content = parts[one]
    parts[one] = (kind, of_bytes(made, content) if content else b"x")
    whole = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in parts]
    return data[:8] + b"".join(whole)


BY_SUFFIX = {
    ".json": of_json,
    ".zip": of_zip,
    ".npz": of_npz,
    ".npy": of_npy,
    ".png": of_png,
}


def damaged(made, data, suffix):
    """A file's bytes after one kind of damage, rarely two."""
    mutate = BY_SUFFIX.get(suffix, of_bytes)
    data = mutate(made, data)
    return of_bytes(made, data) if made.random() < 0.05 else data
