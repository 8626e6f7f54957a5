"""Captions as people keep them: a table (CSV in its dialects, JSON, JSON lines), or text files
beside the pictures."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict  # pydantic takes none of Python 3.11's own

from vsepp.base.errors import VseppError, first_of
from vsepp.base.files import LARGEST_TEXT, json_of, require_file, shortly, utf8
from vsepp.base.signatures import kind_of
from vsepp.data.container import Container, composed
from vsepp.data.raw import RawFile, read_raw

NAMES = {
    "image": ("image", "image_name", "file_name", "filepath", "filename", "image_path", "image_id"),
    "caption": ("caption", "text", "title", "comment", "captions"),
    "split": ("split",),
}
"""Content of a column → its possible names, the best first; upper case and blanks for `_`
are the same names."""
BESIDE, TABLES = (".txt", ".caption"), (".csv", ".tsv", ".json", ".jsonl")
"""Endings of text files beside a picture, and of tables."""
_DELIMITERS = ("\t", ";", "|", ",")


class CaptionRow(NamedTuple):
    """A caption of an image; `image` and `split` as the table gives them."""

    number: int
    """From 1, of the caption in its file: a CSV's row."""
    image: str
    caption: Any
    split: str | None
    where: str
    """What messages call it: `captions.csv: row 3`."""


@dataclass
class CaptionTable:
    """Captions in the order of their file."""

    where: str
    """What messages call the file."""
    has_splits: bool = False
    rows: list[CaptionRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Rows that are left out: where, and why."""


def columns_of(text: str) -> dict[str, str]:
    """Content → column, from a text such as `image=file,caption=words`.

    Raises
    ------
    VseppError
        On another form, or on an unknown content.
    """
    columns: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        content, equals, name = item.partition("=")
        if not equals or not name.strip() or content.strip() not in NAMES.keys() - columns:
            raise VseppError(f"columns: got {shortly(item)}; expected image=NAME,caption=NAME, each once")
        columns[content.strip()] = name.strip()
    return columns


def read_captions(path: Path, columns: Mapping[str, str] | None = None) -> CaptionTable:
    """Read a table of captions, whatever it is called: CSV with `,`, tab, `;` or `|`; JSON lines; or JSON.

    JSON is a list of objects, an object of names of images and their captions, or COCO's captions
    (`images` and `annotations`).

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
    """Captions of text files beside the pictures, a caption a line; and the text files
    that no picture has."""
    unowned: dict[str, list[str]] = {}
    for name in reversed(container.names):  # .txt before .caption
        if name.lower().endswith(BESIDE):
            unowned.setdefault(composed(name.rpartition(".")[0]), []).append(name)
    table = CaptionTable(str(container.path))
    for picture in pictures:
        for name in unowned.pop(composed(picture.rpartition(".")[0]), []):
            where = container.where(name)
            try:
                text = utf8(container.read(name), where).rstrip()
            except VseppError as error:
                table.problems.append(str(error))
                continue
            for number, line in enumerate(text.splitlines() or [""], start=1):
                if line.strip() or not text:  # a file without text is an empty caption, as an empty cell is
                    table.rows.append(
                        CaptionRow(
                            len(table.rows) + 1, picture, line.strip(), None, f"{where}: line {number}"
                        )
                    )
    return table, sorted(chain(*unowned.values()))


_Id = Annotated[int | str, Field(union_mode="left_to_right")]  # `3`, `3.0` and `"3"` are one


class _Image(TypedDict):
    id: _Id
    file_name: str


class _Annotation(TypedDict):
    image_id: _Id
    caption: Any


@dataclass(frozen=True)
class _Coco:
    """COCO's captions, each with the id of its image."""

    images: list[_Image]
    annotations: list[_Annotation]


def _objects(file: RawFile, text: str, columns: Mapping[str, str]) -> Sequence[Any]:
    """The objects of JSON lines or of a JSON list; other forms become a list of objects."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if len(lines) > 1 and _is_object(lines[0][1]):
        return [json_of(line, f"{file.where}: line {number}") for number, line in lines]
    value = json_of(text, file.where)
    if isinstance(value, list):
        return value
    if {"image", "caption"} <= _columns_by_content(list(value), columns).keys():
        return [value]
    if {"images", "annotations"} <= value.keys():
        coco = file.json(_Coco)
        names: dict[Any, str] = {}
        for image in coco.images:
            if (first := names.setdefault(image["id"], image["file_name"])) != image["file_name"]:
                raise VseppError(
                    f"{file.where}: images: id {shortly(image['id'])} is of {shortly(first)} and of "
                    f"{shortly(image['file_name'])}; give each image an id of its own"
                )
        return [
            # Of an id that no image has, the annotation is what is named.
            {"image": names.get(annotation["image_id"], annotation), "caption": annotation["caption"]}
            for annotation in coco.annotations
        ]
    if all(map(_are_captions, value.values())):
        return [{"image": name, "caption": captions} for name, captions in value.items()]
    raise VseppError(
        f"{file.where}: is an object with the keys {first_of(list(map(shortly, value)))}; expected a list of "
        "objects with image and caption, names of images with their captions, or COCO's images and "
        "annotations"
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
    for place, entry in enumerate(objects, start=1):
        if not isinstance(entry, dict):
            raise VseppError(f"{table.where}: entry {place}: got {shortly(entry)}; expected an object")
    names = _required_columns(table.where, [*dict.fromkeys(chain(*objects))], columns)
    table.has_splits = "split" in names
    for place, entry in enumerate(objects, start=1):
        _add(table, names, f"{table.where}: entry {place}", entry, len(table.rows) + 1)


def _add(
    table: CaptionTable, names: Mapping[str, str], where: str, entry: Mapping[str, Any], first: int
) -> None:
    """Add the captions of an entry, numbered from `first`; an empty list, or `null` as a split,
    counts as an empty cell."""
    image, captions = entry.get(names["image"]), entry.get(names["caption"])
    if not isinstance(image, str) or not PurePosixPath(image.strip()).name:
        table.problems.append(f"{where}: got {shortly(image)}; expected an image's name")
        return
    split = str(entry.get(names["split"]) or "").strip() if table.has_splits else None
    captions = captions if captions and isinstance(captions, list) else [captions]
    for number, caption in enumerate(captions, start=first):
        table.rows.append(CaptionRow(number, image, caption, split, where))


def _add_cells(table: CaptionTable, text: str, columns: Mapping[str, str]) -> None:
    separator = re.match(r'\s*"?sep=(.)"?[ \t]*[\r\n]', text)
    text = text[separator.end() :] if separator else text
    delimiter = (
        separator[1] if separator else _delimiter(re.split(r"[\r\n]", text.lstrip(), maxsplit=1)[0], columns)
    )
    # Blanks behind a delimiter are no part of a cell where a cell outside of quotes has them.
    padded = re.search(rf'^[^"\r\n]*{re.escape(delimiter)} ', text, re.MULTILINE) is not None
    cells = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        skipinitialspace=padded,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if _has_quoted_cells(text, delimiter) else csv.QUOTE_NONE,
    )
    limit = csv.field_size_limit(LARGEST_TEXT)  # Python's own is 128 KiB for a caption
    number = 0
    try:
        rows = (row for row in cells if any(map(str.strip, row)))
        head = _without_empty_end(next(rows, []))
        names = _required_columns(table.where, head, columns)
        table.has_splits = "split" in names
        for row in rows:
            number += 1
            filled = _without_empty_end(row, len(head))
            where = f"{table.where}: row {number}"
            if len(filled) == len(head):
                _add(table, names, where, dict(zip(head, filled, strict=True)), number)
            else:
                table.problems.append(
                    f"{where}: {len(filled)} cells, expected {len(head)}; is a caption with a comma not in "
                    "quotes?"
                )
    except csv.Error as error:
        raise VseppError(
            f"{table.where}: row {number + 1}: {error}; look for a quote that is not closed"
        ) from error
    finally:
        csv.field_size_limit(limit)  # it holds for all of this process


def _delimiter(head: str, columns: Mapping[str, str]) -> str:
    """The delimiter of a heading: it gives the most known columns or, among equals, the most cells."""

    def known(delimiter: str) -> tuple[int, int]:
        cells = [cell.strip(' "\r') for cell in head.split(delimiter)]
        return len(_columns_by_content(cells, columns)), len(cells)

    return max(reversed(_DELIMITERS), key=known)


def _has_quoted_cells(text: str, delimiter: str) -> bool:
    """Whether quotes enclose cells. Where tabs or `|` part them they may be letters of a caption:
    `" Go ! " says a man .`

    They are letters where the lines of the file are rows as they stand, and a cell begins with a quote but
    does not end with one.
    """
    if delimiter in ",;":
        return True
    head, *lines = [line for line in text.splitlines() if line.strip()] or [""]
    counts, most = [line.count(delimiter) for line in lines], head.count(delimiter)
    # Else quoted cells hold line breaks and delimiters.
    one_row_a_line = max(counts, default=0) <= most and counts.count(most) >= 0.95 * len(counts)
    cells = (cell.strip() for line in lines for cell in line.split(delimiter))
    return not one_row_a_line or all(re.fullmatch('"([^"]|"")*"|[^"].*|', cell) for cell in cells)


def _without_empty_end(row: Sequence[str], least: int = 0) -> list[str]:
    row = list(row)
    while len(row) > least and not row[-1].strip():
        row.pop()
    return row


def _normal(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def _columns_by_content(heading: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """`image`, `caption`, `split` → the column of a heading that holds it, if there is one."""
    by_name = {_normal(name): name for name in reversed(heading)}
    by_content = {}
    for content, names in NAMES.items():
        spellings = map(_normal, (columns[content],) if content in columns else names)
        if column := next((by_name[name] for name in spellings if name in by_name), None):
            by_content[content] = column
    return by_content


def _required_columns(where: str, heading: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """`_columns_by_content`, if no column is missing or given twice."""
    names = _columns_by_content(heading, columns)
    shortened = ", ".join(shortly(name) for name in heading[:20]) or "none"
    for content in ("image", "caption", *columns):
        if content not in names:
            wanted = f"named {columns[content]}" if content in columns else f"for the {content}"
            raise VseppError(
                f"{where}: no column {wanted}; the heading has {shortened}; name the columns there, or say "
                "which they are: columns image=NAME,caption=NAME"
            )
    counts = Counter(map(_normal, heading))
    if repeated := [name for name in names.values() if counts[_normal(name)] > 1]:
        raise VseppError(f"{where}: columns given twice: {', '.join(repeated)}; keep one of each")
    return names
