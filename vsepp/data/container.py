"""A folder or zip archive whose files are read in place."""

from __future__ import annotations

import os
import stat
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO

from vsepp.base.errors import VseppError
from vsepp.base.files import reading, require_file, shortly, shown
from vsepp.base.signatures import TORCH, ZIP

EXPECTED = "a folder or a whole zip archive that is not encrypted; it may be truncated: fetch it again"
LARGEST_MEMBER = 2 << 30
"""A member is read into memory whole; no photograph or caption file is larger."""

_SYSTEM = {
    *(
        "@eadir",
        "@tmp",
        "@recycle",
        "@recently-snapshot",
        "@__thumb",
        "@synoresource",
        "@database",
        "@sharebin",
    ),
    *("#recycle", "#snapshot", "~snapshot", "lost+found", "lost.dir", "found.000", "backups.backupdb"),
    *("__macosx", "network trash folder", "temporary items", "icon\r", "ipod photo cache", "__pycache__"),
    *("$recycle.bin", "recycler", "recycled", "system volume information"),
    *("thumbs.db", "ehthumbs.db", "desktop.ini", "picasa.ini"),
}
"""Names, in small letters, that systems, network drives and programs give to what is theirs:
thumbnails, bins, metadata."""
HIDDEN, LINKS, NO_FILES = (
    "hidden or of the system",
    "links to folders or to nothing",
    "FIFOs, sockets or devices",
)
"""Kinds of what `Container.names` leaves out."""
_FILE, _FOLDER = "file", "folder"
_ENCRYPTED, _UTF8 = 0x1, 0x800  # flags of a member
_WINDOWS, _UNIX = 0, 3  # where a member was packed
_MEMBER, _END, _LARGE_END = b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06"
_LONGEST_END = 56 + 20 + 22 + 0xFFFF


class Container:
    """Files of a folder or of a zip archive, which is not unpacked. Each process opens its own.

    Parameters
    ----------
    path
        A folder or a zip archive.
    expected
        What messages say that it should be.

    Raises
    ------
    VseppError
        If `path` does not exist or is neither a folder nor a zip archive, or if two
        members have the same name.
    """

    def __init__(self, path: Path | str, expected: str = EXPECTED):
        self.path = Path(path)
        self.is_folder = self.path.is_dir()
        self._archive = None if self.is_folder else _opened(self.path, expected)
        self._members = None if self._archive is None else _members_of(self.path, self._archive)

    def locate(self, path: str) -> str | None:
        r"""The member that `path` names, or `None`.

        An exact path wins. Otherwise one path must end with the other, since one release packs the
        photographs in a folder (`Flicker8k_Dataset/NAME.jpg`) and another does not: a base name stands for a
        path only where one of them has no folder. Blanks at the ends of names do not count, and folders may
        be parted by `\`, as Windows writes them.

        Raises
        ------
        VseppError
            If several members match.
        """
        wanted = PurePosixPath(composed(path).strip()).as_posix()
        candidates = self._by_basename.get(wanted.rpartition("/")[2].strip(), [])
        if path in candidates:
            return path
        inside = [name for name in candidates if f"/{composed(name).strip()}".endswith(f"/{wanted}")]
        candidates = inside or [
            name for name in candidates if f"/{wanted}".endswith(f"/{composed(name).strip()}")
        ]
        if len(candidates) > 1:
            raise VseppError(
                f"{self.path}: {path} is ambiguous: {' and '.join(candidates[:3])} match; "
                "keep one of them, or give the folder that holds it"
            )
        if not candidates and "\\" in path:
            return self.locate(path.replace("\\", "/"))
        if not candidates and not path.isascii():
            self._refuse_code_page()
        return candidates[0] if candidates else None

    def _refuse_code_page(self) -> None:
        """Refuse an archive whose names may be others than they seem, once one of them is missed."""
        for name, info in (self._members or {}).items():
            if _utf8_name(info) is None:
                raise VseppError(
                    f"{self.path}: its names are not UTF-8 (one of them is read as {shown(name)}): unpack it "
                    "by the code page that it was packed in, and give the folder"
                )

    def read(self, member: str, largest: int = LARGEST_MEMBER) -> bytes:
        """Bytes of a member, given by its exact path inside.

        Raises
        ------
        VseppError
            If it is missing, damaged, encrypted, no file or has more than `largest` bytes,
            naming member and container.
        """
        with self.open(member) as (stream, size):
            if size > largest:
                raise VseppError(
                    f"{self.where(member)}: has {size:,} bytes, expected at most {largest:,}; check where "
                    "the copy comes from"
                )
            # At the end of an archive's member its checksum is compared.
            return stream.read(size) + stream.read(1)

    @contextmanager
    def open(self, member: str) -> Iterator[tuple[IO[bytes], int]]:
        """Open a member that is too large for memory: a stream, and the number of bytes that it should have.

        Errors as in `read`; an error of reading that the body raises is reported as one of the member.
        """
        where, expected = self.where(member), "a whole copy: fetch it again"
        if self._archive is None:
            if PurePosixPath(member).is_absolute() or ".." in PurePosixPath(member).parts:
                raise VseppError(f"{where}: leads out of the folder; give a path inside")
            size = require_file(self.path / member, expected).st_size
            with reading(where, expected), (self.path / member).open("rb") as stream:
                yield stream, size
            return
        info = (self._members or {}).get(member)
        if info is None:
            raise VseppError(f"{where}: no such member; expected {expected}")
        if info.flag_bits & _ENCRYPTED:
            raise VseppError(f"{where}: is encrypted; give a copy that needs no password")
        with reading(where, expected), self._archive.open(info) as packed:
            yield packed, info.file_size

    def where(self, member: str) -> str:
        """What messages call a member."""
        return shown(f"{self.path}/{member}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Paths of all files inside, relative and with forward slashes, sorted; without
        what `left_out` counts."""
        return tuple(sorted(self._by_kind[_FILE]))

    @property
    def left_out(self) -> Mapping[str, int]:
        """What is no data: kind → number of files, and of folders that are not looked into."""
        return {kind: len(paths) for kind, paths in sorted(self._by_kind.items()) if kind != _FILE}

    @cached_property
    def _by_kind(self) -> Mapping[str, set[str]]:
        """Kind → paths inside."""
        paths: dict[str, set[str]] = {_FILE: set()}
        for path, kind in self._folder_entries() if self._members is None else self._archive_entries():
            paths.setdefault(kind, set()).add(path)
        return paths

    def _archive_entries(self) -> Iterator[tuple[str, str]]:
        """Path and kind of every member; of what is hidden, the path of the first hidden folder."""
        for name, info in (self._members or {}).items():
            parts = name.split("/")
            hidden = next((place for place, part in enumerate(parts) if _is_hidden(part)), None)
            if hidden is not None:
                yield "/".join(parts[: hidden + 1]), HIDDEN
            elif info.create_system == _UNIX and stat.S_ISLNK(info.external_attr >> 16):
                yield name, LINKS
            else:
                yield name, _FILE

    def _folder_entries(self) -> Iterator[tuple[str, str]]:
        """Path and kind of everything below the folder but folders that are looked into."""
        folders = [""]
        while folders:
            below = folders.pop()
            with (
                reading(self.path / below, "a folder whose files can be listed"),
                os.scandir(self.path / below) as scan,
            ):
                entries = list(scan)
            for entry in entries:
                path, kind = below + entry.name, _kind_of(entry)
                if kind == _FOLDER:
                    folders.append(f"{path}/")
                else:
                    yield path, kind

    @cached_property
    def _by_basename(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self.names:
            index.setdefault(composed(name.rpartition("/")[2]).strip(), []).append(name)
        return index


def _is_hidden(name: str) -> bool:
    return (name.startswith((".", "~$")) and name not in (".", "..")) or name.lower() in _SYSTEM


def _kind_of(entry: os.DirEntry[str]) -> str:
    if _is_hidden(entry.name):
        return HIDDEN
    if entry.is_dir(follow_symlinks=False):
        return _FOLDER
    with suppress(OSError):  # a link in a circle
        if entry.is_file():
            return _FILE
    return LINKS if entry.is_symlink() and not _is_special(entry) else NO_FILES


def _is_special(entry: os.DirEntry[str]) -> bool:
    """Whether a link leads to something that is neither file nor folder."""
    try:
        return not stat.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return False


def composed(name: str) -> str:
    """One spelling of a name: macOS keeps `é` as two letters."""
    return unicodedata.normalize("NFC", name)


def _opened(path: Path, expected: str) -> zipfile.ZipFile:
    size = require_file(path, expected).st_size
    with reading(path, expected, kinds=(ZIP, TORCH)):
        with path.open("rb") as stream:
            head = stream.read(4)
            stream.seek(max(0, size - _LONGEST_END))
            end = stream.read()
        at = end.rfind(_END)
        if at < 0 and head == _MEMBER:
            raise VseppError(
                f"ends early ({size:,} bytes, no directory of a zip archive): copy it again; expected "
                f"{expected}"
            )
        archive = zipfile.ZipFile(path)
    listed = len(archive.filelist)
    # The directory's end counts its entries: a wrong byte in the directory must not lose some of them.
    declared = int.from_bytes(end[at + 10 : at + 12], "little")
    if declared == 0xFFFF and (large := end.rfind(_LARGE_END, 0, at)) >= 0:
        declared = int.from_bytes(end[large + 32 : large + 40], "little")
    if declared not in (listed, listed & 0xFFFF):
        raise VseppError(f"{path}: its directory lists {listed} of {declared} members; expected {expected}")
    first = min((info.header_offset for info in archive.filelist), default=-1)
    if (first < 0 and listed) or (first != 0 and head == _MEMBER):
        raise VseppError(f"{path}: its directory does not list its first members; expected {expected}")
    return archive


def _members_of(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by their names; folders are none."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.filelist:
        name = _name_of(info)
        if name.endswith("/") and not info.file_size:
            continue
        if name.endswith("/") or not name:
            raise VseppError(
                f"{path}: the name of a file in it is damaged: {shortly(info.orig_filename)}; fetch it again"
            )
        if name in members:
            raise VseppError(f"{path}: several members are named {shortly(name)}; keep one of them")
        members[name] = info
    return members


def _name_of(member: zipfile.ZipInfo) -> str:
    name = _utf8_name(member) or member.filename
    return name.replace("\\", "/") if member.create_system == _WINDOWS else name


def _utf8_name(member: zipfile.ZipInfo) -> str | None:
    """A member's name; many programs write UTF-8 without the flag that says so, which zipfile
    reads as code page 437."""
    if member.flag_bits & _UTF8:
        return member.filename
    try:
        return member.filename.encode("cp437").decode()
    except UnicodeError:
        return None
