"""Captions as people keep them: a table (CSV in its dialects, JSON, JSON lines), or text files beside the pictures."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from vsepp.base.errors import VseppError
from vsepp.base.files import LARGEST_TEXT, json_of, require_file, shortly, utf8
from vsepp.data.raw import Container, RawFile, read_raw

NAMES = {
    "image": ("image", "image_name", "file_name", "filepath", "filename", "image_path", "image_id"),
    "caption": ("caption", "text", "title", "comment", "captions"),
    "split": ("split",),
}
"""What a column holds → the names that it is known by, the first found is taken; in any case, with blanks or `_`."""
BESIDE = (".txt", ".caption")
"""Endings of files of captions beside a picture."""
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
    """Read a table of captions: CSV with `,`, tab, `;` or `|`, a list in JSON, or JSON lines, whatever it is called.

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
    if not path.is_dir():
        require_file(path, "a table of captions (CSV, JSON or JSON lines)")
    file = read_raw(path, "captions.csv")
    text = file.text()
    table = CaptionTable(file.where)
    if text.lstrip()[:1] in ("[", "{"):
        _add_objects(table, _objects(file, text), columns or {})
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
            lines = utf8(container.read(name), container.where(name)).splitlines()
            table.rows += [
                Row(len(table.rows) + k, picture, line.strip(), None)
                for k, line in enumerate(filter(str.strip, lines), start=1)
            ]
    return table, sorted(alone)


def _objects(file: RawFile, text: str) -> Iterator[Any]:
    """The objects of a JSON list, or of JSON lines."""
    if text.lstrip().startswith("["):
        yield from json_of(text, file.where)
        return
    try:
        whole = json.loads(text)
    except ValueError:
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield json_of(line, f"{file.where}: line {number}")
    else:
        yield whole


def _add_objects(table: CaptionTable, objects: Iterable[Any], columns: Mapping[str, str]) -> None:
    number, names = 0, None
    for place, entry in enumerate(objects, start=1):
        if not isinstance(entry, dict):
            raise VseppError(f"{table.where}: entry {place}: got {shortly(entry)}; expected an object")
        names = names or _found(table.where, [str(key) for key in entry], columns)
        image, split = entry.get(names["image"]), entry.get(names.get("split", ""))
        captions = entry.get(names["caption"])
        if not isinstance(image, str) or not PurePosixPath(image.strip()).name:
            table.problems.append(f"{table.where}: entry {place}: names no image")
            continue
        for caption in captions if isinstance(captions, list) else [captions]:
            number += 1
            table.rows.append(Row(number, image, caption, split if split is None else str(split)))
    table.has_splits = "split" in (names or {})


def _add_cells(table: CaptionTable, text: str, columns: Mapping[str, str]) -> None:
    delimiter = _delimiter(text.lstrip().partition("\n")[0], columns)
    # Blanks behind a delimiter are no part of a cell where a cell outside of quotes has them.
    blanks = re.search(rf'^[^"\n]*{re.escape(delimiter)} ', text, re.MULTILINE) is not None
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
        head = _without_empty_end(next((row for row in cells if row), []))
        names = _found(table.where, head, columns)
        place = {held: head.index(name) for held, name in names.items()}
        table.has_splits = "split" in place
        for row in filter(None, cells):
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
    most = head.count(delimiter)
    if any(line.count(delimiter) > most for line in lines):
        return True
    cells = (cell.strip() for line in lines for cell in line.split(delimiter))
    return not any(
        cell.startswith('"') and not re.fullmatch('"([^"]|"")*"', cell) for cell in cells
    ) or not _are_whole(lines, most, delimiter)


def _are_whole(lines: Iterable[str], most: int, delimiter: str) -> bool:
    """Whether nearly all lines have all cells: else quoted cells hold line breaks."""
    counts = [line.count(delimiter) == most for line in lines]
    return sum(counts) >= 0.95 * len(counts)


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
                f"{where}: no column {wanted}; found are {shortened}; say which they are: columns image=NAME,caption=NAME"
            )
    counts = Counter(map(_normal, found))
    if repeated := [name for name in names.values() if counts[_normal(name)] > 1]:
        raise VseppError(f"{where}: columns given twice: {', '.join(repeated)}; keep one of each")
    return names
