"""A folder or a zip archive of photographs, read where it lies."""

from __future__ import annotations

import copy
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO

from vsepp.errors import VseppError, refuse
from vsepp.spec import CorpusSpec

# What macOS adds to the archives that it packs: shadows of the members, not members.
_SHADOWS = "__MACOSX/"
# Read whole into memory: more than any photograph or caption file takes.
LARGEST_MEMBER = 2 << 30
# A member that unpacks to so many times its size, and is large, is made to fill memory: photographs hardly
# shrink in an archive, text about tenfold.
LARGEST_RATIO, RATIO_MATTERS_ABOVE = 200, 100 << 20
_OUTSIDE = re.compile(r"/|[A-Za-z]:|.*[\\\0]|(.*/)?\.\.(/|$)", re.DOTALL)
_UNREADABLE = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    RuntimeError,
)


class Container:
    """Files of a folder or of a zip archive, which is not unpacked; each process opens one for itself.

    Parameters
    ----------
    path
        A folder or a zip archive.

    Raises
    ------
    VseppError
        Where there is nothing at `path`, or something that is neither; where a member's path leaves the archive,
        or its declared sizes are those of a decompression bomb.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        if not self.path.exists():
            raise VseppError(
                f"{self.path}: no such folder or zip archive; check the path in the corpus's files"
            )
        self.is_folder = self.path.is_dir()
        self._archive = None if self.is_folder else _opened(self.path)

    def locate(self, path: str) -> str | None:
        """Member that `path` means, or `None`.

        The exact path counts first. Otherwise the base name decides, since one release packs the photographs
        below a folder (`Flicker8k_Dataset/NAME.jpg`) and another does not; among several members of that base
        name, the one whose path ends in `path`.

        Raises
        ------
        VseppError
            Where several members would do.
        """
        candidates = self._by_basename.get(path.rpartition("/")[2], [])
        if path in candidates:
            return path
        if len(candidates) > 1:
            candidates = [name for name in candidates if name.endswith("/" + path)] or candidates
        if len(candidates) > 1:
            raise VseppError(
                f"{self.path}: {path} is ambiguous: {' and '.join(candidates[:3])} have that name; "
                "keep one of them, or give the folder that holds it"
            )
        return candidates[0] if candidates else None

    def read(self, member: str) -> bytes:
        """Bytes of a member, given by its exact path inside.

        Raises
        ------
        VseppError
            Where it is missing, damaged or larger than `LARGEST_MEMBER`, naming member and container.
        """
        with self.open(member) as (stream, size):
            if size > LARGEST_MEMBER:
                raise VseppError(
                    f"{self.path}: {member} takes {size:,} bytes, more than the {LARGEST_MEMBER:,} of any "
                    "photograph or text; check where the copy comes from"
                )
            # One byte more is asked for: a member that holds more than it declares would be cut short silently.
            data = stream.read(size + 1)
            if len(data) != size:
                raise zipfile.BadZipFile(
                    f"it declares {size:,} bytes and holds {'more' if len(data) > size else f'{len(data):,}'}"
                )
        return data

    @contextmanager
    def open(self, member: str) -> Iterator[tuple[IO[bytes], int]]:
        """Give a member as a stream, and the bytes that it should have: for what is too large for memory.

        Errors are those of `read`; one of reading that the body raises is put down to the member.
        """
        try:
            if self._archive is None:
                with (self.path / member).open("rb") as stream:
                    yield stream, os.fstat(stream.fileno()).st_size
            elif member not in self._archive.NameToInfo:
                raise FileNotFoundError(member)
            else:
                info = copy.copy(self._archive.getinfo(member))
                declared = info.file_size
                # The stream would end, content with its sum, where it is told to: what lies beyond is to be seen.
                info.file_size += 1 << 16
                with self._archive.open(info) as stream:
                    yield stream, declared
        except FileNotFoundError as error:
            raise VseppError(f"{self.path}: holds no {member}; fetch a complete copy") from error
        except _UNREADABLE as error:
            raise VseppError(
                f"{self.path}: {member} cannot be read ({error}); the copy is damaged, fetch it again"
            ) from error

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Paths of all files inside, relative and with forward slashes, sorted."""
        if self._archive is not None:
            members = self._archive.namelist()
            return tuple(sorted(n for n in members if not n.endswith("/") and not n.startswith(_SHADOWS)))
        found = []
        # Links are followed: large image folders are often linked to another disk.
        for folder, _, files in os.walk(self.path, followlinks=True):
            below = Path(folder).relative_to(self.path)
            found += [(below / name).as_posix() for name in files]
        return tuple(sorted(found))

    @cached_property
    def _by_basename(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self.names:
            index.setdefault(name.rpartition("/")[2], []).append(name)
        return index


def _opened(path: Path) -> zipfile.ZipFile:
    """Open an archive, but none that is made to do harm: paths that leave its folder, members that fill memory."""
    try:
        archive = zipfile.ZipFile(path)
    except _UNREADABLE as error:
        raise VseppError(
            f"{path}: expected a folder or a whole zip archive, found {path.stat().st_size} bytes that are not one "
            f"({error}); it may be truncated: fetch it again"
        ) from error
    leaving, bombs = [], []
    for info in archive.infolist():
        if _OUTSIDE.match(info.orig_filename):
            leaving.append(repr(info.orig_filename))
        if info.file_size > max(RATIO_MATTERS_ABOVE, LARGEST_RATIO * info.compress_size):
            bombs.append(f"{info.filename} ({info.compress_size:,} bytes unpack to {info.file_size:,})")
    refuse(
        leaving,
        f"{path}: members whose path leaves the archive's folder",
        "Paths must be relative, with forward slashes; check where the copy comes from.",
    )
    refuse(bombs, f"{path}: members that unpack to more than is sane", "Check where the copy comes from.")
    return archive


def role_path(spec: CorpusSpec, role: str) -> Path:
    """Path of the file, archive or folder that plays a role.

    Raises
    ------
    VseppError
        Where the corpus declares none.
    """
    if role not in spec.files:
        raise VseppError(
            f"corpus {spec.name}: reader {spec.reader.name} needs a path for {role!r} under `files`, "
            f"found only {sorted(spec.files)}"
        )
    return Path(spec.files[role]).expanduser()
