"""Captions as people keep them: a table (CSV in its dialects, JSON, JSON lines), or text files beside the pictures."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from typing_extensions import TypedDict  # pydantic takes none of Python 3.11's own

from vsepp.base.errors import VseppError, first_of
from vsepp.base.files import LARGEST_TEXT, json_of, require_file, shortly, utf8
from vsepp.base.signatures import kind_of
from vsepp.data.raw import Container, RawFile, read_raw

NAMES = {
    "image": ("image", "image_name", "file_name", "filepath", "filename", "image_path", "image_id"),
    "caption": ("caption", "text", "title", "comment", "captions"),
    "split": ("split",),
}
"""What a column holds → the names that it is known by, the first found is taken; in any case, with blanks or `_`."""
BESIDE, TABLES = (".txt", ".caption"), (".csv", ".tsv", ".json", ".jsonl")
"""Endings of files of captions: of those beside a picture, and of tables."""
_DELIMITERS = ("\t", ";", "|", ",")


class Row(NamedTuple):
    """A caption of an image; `image` and `split` as the table gives them."""

    number: int
    """From 1, of the caption in its file: a CSV's row."""
    image: str
    caption: Any
    split: str | None


@dataclass
class CaptionTable:
    """Captions in the order of their file."""

    where: str
    """What messages call the file."""
    has_splits: bool = False
    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Rows that are left out: where, and why."""


def columns_of(text: str) -> dict[str, str]:
    """Columns by what they hold, as people write them: `image=file,caption=words`.

    Raises
    ------
    VseppError
        On another form, or on what no column holds.
    """
    found: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        held, equals, name = item.partition("=")
        if not equals or not name.strip() or held.strip() not in NAMES:
            raise VseppError(f"columns: got {shortly(item)}; expected image=NAME,caption=NAME")
        found[held.strip()] = name.strip()
    return found


def read_captions(path: Path, columns: Mapping[str, str] | None = None) -> CaptionTable:
    """Read a table of captions, whatever it is called: CSV with `,`, tab, `;` or `|`; JSON lines; or JSON.

    JSON is a list of objects, an object of names of images and their captions, or COCO's captions (`images` and `annotations`).

    Parameters
    ----------
    path
        The table, or a folder or zip archive that holds `captions.csv`.
    columns
        What a column holds (`image`, `caption`, `split`) → its name, where `NAMES` does not know it.

    Raises
    ------
    VseppError
        If it cannot be read or no columns hold images and captions, naming the columns found.
    """
    expected = "a table of captions: CSV, JSON or JSON lines, in UTF-8 (Excel: CSV UTF-8)"
    if not path.is_dir():
        require_file(path, expected)
    file = read_raw(path, "captions.csv")
    if (kind := kind_of(file.data)) not in ("text", "JSON", ""):
        raise VseppError(f"{file.where}: is {kind}; expected {expected}")
    text = file.text()
    table = CaptionTable(file.where)
    if text.lstrip()[:1] in ("[", "{"):
        _add_objects(table, _objects(file, text, columns or {}), columns or {})
    else:
        _add_cells(table, text, columns or {})
    return table


def read_beside(container: Container, pictures: Iterable[str]) -> tuple[CaptionTable, list[str]]:
    """Captions of text files beside the pictures, a caption a line; and the text files that no picture has."""
    alone = {name for name in container.names if name.lower().endswith(BESIDE)}
    table = CaptionTable(str(container.path))
    for picture in pictures:
        stem = str(PurePosixPath(picture).with_suffix(""))
        for name in (stem + ending for ending in BESIDE):
            if name not in alone:
                continue
            alone.remove(name)
            try:
                lines = utf8(container.read(name), container.where(name)).splitlines()
            except VseppError as error:
                table.problems.append(str(error))
                continue
            table.rows += [
                Row(len(table.rows) + k, picture, line.strip(), None)
                for k, line in enumerate(filter(str.strip, lines), start=1)
            ]
    return table, sorted(alone)


class _Image(TypedDict):
    id: int | str
    file_name: str


class _Annotation(TypedDict):
    image_id: int | str
    caption: Any


@dataclass(frozen=True)
class _Coco:
    """COCO's captions: those of an image by its id."""

    images: list[_Image]
    annotations: list[_Annotation]


def _objects(file: RawFile, text: str, columns: Mapping[str, str]) -> Sequence[Any]:
    """The objects of JSON lines or of a JSON list; other forms become such a list."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if len(lines) > 1 and _is_object(lines[0][1]):
        return [json_of(line, f"{file.where}: line {number}") for number, line in lines]
    whole = json_of(text, file.where)
    if isinstance(whole, list):
        return whole
    if {"image", "caption"} <= _by_name(list(whole), columns).keys():
        return [whole]
    if {"images", "annotations"} <= whole.keys():
        coco = file.json(_Coco)
        names = {image["id"]: image["file_name"] for image in coco.images}
        return [
            {"image": names.get(said["image_id"]), "caption": said["caption"]} for said in coco.annotations
        ]
    if all(map(_are_captions, whole.values())):
        return [{"image": name, "caption": captions} for name, captions in whole.items()]
    raise VseppError(
        f"{file.where}: is an object with the keys {first_of(list(map(shortly, whole)))}; expected a list of objects with image and caption, names of images with "
        "their captions, or COCO's images and annotations"
    )


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _are_captions(value: Any) -> bool:
    return all(
        text is None or isinstance(text, str) for text in (value if isinstance(value, list) else [value])
    )


def _add_objects(table: CaptionTable, objects: Sequence[Any], columns: Mapping[str, str]) -> None:
    number, names = 0, None
    for place, entry in enumerate(objects, start=1):
        if not isinstance(entry, dict):
            raise VseppError(f"{table.where}: entry {place}: got {shortly(entry)}; expected an object")
        names = names or _found(table.where, [str(key) for key in entry], columns)
        image, split = entry.get(names["image"]), entry.get(names.get("split", ""))
        captions = entry.get(names["caption"])
        if not isinstance(image, str) or not PurePosixPath(image.strip()).name:
            table.problems.append(
                f"{table.where}: entry {place}: got {shortly(image)}; expected an image's name"
            )
            continue
        for caption in captions if isinstance(captions, list) else [captions]:
            number += 1
            table.rows.append(Row(number, image, caption, split if split is None else str(split)))
    table.has_splits = "split" in (names or {})


def _add_cells(table: CaptionTable, text: str, columns: Mapping[str, str]) -> None:
    excel = re.match(r'\s*"?sep=(.)"?[ \t]*[\r\n]', text)
    text = text[excel.end() :] if excel else text
    delimiter = excel[1] if excel else _delimiter(re.split(r"[\r\n]", text.lstrip(), maxsplit=1)[0], columns)
    # Blanks behind a delimiter are no part of a cell where a cell outside of quotes has them.
    blanks = re.search(rf'^[^"\r\n]*{re.escape(delimiter)} ', text, re.MULTILINE) is not None
    cells = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        skipinitialspace=blanks,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if _has_quoted_cells(text, delimiter) else csv.QUOTE_NONE,
    )
    limit = csv.field_size_limit(LARGEST_TEXT)  # Python's own is 128 KiB for a caption
    number = 0
    try:
        rows = (row for row in cells if any(map(str.strip, row)))
        head = _without_empty_end(next(rows, []))
        names = _found(table.where, head, columns)
        place = {held: head.index(name) for held, name in names.items()}
        table.has_splits = "split" in place
        for row in rows:
            number += 1
            given = _without_empty_end(row, len(head))
            where = f"{table.where}: row {number}"
            if len(given) > len(head):
                table.problems.append(
                    f"{where}: more cells than columns, is a caption with a comma not in quotes?"
                )
            elif len(given) < len(head):
                table.problems.append(f"{where}: fewer cells than columns")
            elif not PurePosixPath(given[place["image"]].strip()).name:
                table.problems.append(f"{where}: names no image")
            else:
                split = given[place["split"]].strip() if table.has_splits else None
                table.rows.append(Row(number, given[place["image"]], given[place["caption"]], split))
    except csv.Error as error:
        raise VseppError(
            f"{table.where}: row {number + 1}: {error}; look for a quote that is not closed"
        ) from error
    finally:
        csv.field_size_limit(limit)  # it holds for all of this process


def _delimiter(head: str, columns: Mapping[str, str]) -> str:
    """What parts the cells of a heading: that by which most of its columns are known, or else that which is there most often."""

    def known(delimiter: str) -> tuple[int, int]:
        cells = [cell.strip(' "\r') for cell in head.split(delimiter)]
        return len(_by_name(cells, columns)), len(cells)

    return max(reversed(_DELIMITERS), key=known)


def _has_quoted_cells(text: str, delimiter: str) -> bool:
    """Whether quotes enclose cells. Where tabs or `|` part them they may be letters of a caption: `" Go ! " says a man .`

    They are letters where the lines of the file are rows as they stand, and a cell begins with a quote but does not end with one.
    """
    if delimiter in ",;":
        return True
    head, *lines = [line for line in text.splitlines() if line.strip()] or [""]
    counts, most = [line.count(delimiter) for line in lines], head.count(delimiter)
    # Else quoted cells hold line breaks and delimiters.
    whole = max(counts, default=0) <= most and counts.count(most) >= 0.95 * len(counts)
    cells = (cell.strip() for line in lines for cell in line.split(delimiter))
    return not whole or all(re.fullmatch('"([^"]|"")*"|[^"].*|', cell) for cell in cells)


def _without_empty_end(row: Sequence[str], least: int = 0) -> list[str]:
    row = list(row)
    while len(row) > least and not row[-1].strip():
        row.pop()
    return row


def _normal(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def _by_name(found: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """What is held → the column that holds it."""
    known = {_normal(name): name for name in reversed(found)}
    wanted = {held: (columns[held],) if held in columns else names for held, names in NAMES.items()}
    return {
        held: known[_normal(next(name for name in names if _normal(name) in known))]
        for held, names in wanted.items()
        if any(_normal(name) in known for name in names)
    }


def _found(where: str, found: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of images, captions and splits; `_by_name` with its refusals."""
    names = _by_name(found, columns)
    shortened = ", ".join(shortly(name) for name in found[:20]) or "none"
    for held in ("image", "caption", *columns):
        if held not in names:
            wanted = f"named {columns[held]}" if held in columns else f"of each {held}"
            raise VseppError(
                f"{where}: no column {wanted}; found are {shortened}; name them in a heading, or say which they are: "
                "columns image=NAME,caption=NAME"
            )
    counts = Counter(map(_normal, found))
    if repeated := [name for name in names.values() if counts[_normal(name)] > 1]:
        raise VseppError(f"{where}: columns given twice: {', '.join(repeated)}; keep one of each")
    return names
