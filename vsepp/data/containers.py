"""A folder or a zip archive of photographs, read in place."""

from __future__ import annotations

import copy
import lzma
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO

from vsepp.errors import VseppError, refuse
from vsepp.foreign import kind_of, reason_of, require_file
from vsepp.spec import CorpusSpec

# macOS adds these to its archives: metadata of the members, not members.
_SHADOWS = "__MACOSX/"
# A member is read into memory whole; no photograph or caption file is larger.
LARGEST_MEMBER = 2 << 30
# A large member that unpacks to this many times its size is taken for a decompression bomb: photographs hardly shrink in
# an archive, text about tenfold.
LARGEST_RATIO, RATIO_MATTERS_ABOVE = 200, 100 << 20
_OUTSIDE = re.compile(r"/|[A-Za-z]:|.*[\\\0]|(.*/)?\.\.(/|$)", re.DOTALL)
# Flags of a member: encrypted, strongly encrypted, its directory encrypted.
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_UNREADABLE = (
    OSError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    RuntimeError,
)


class Container:
    """Files of a folder or of a zip archive, which is not unpacked. Each process opens its own.

    Parameters
    ----------
    path
        A folder or a zip archive.

    Raises
    ------
    VseppError
        If `path` does not exist or is neither; if a member's path leaves the archive, two have the same, or declared sizes
        are those of a decompression bomb or beyond the archive.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self.is_folder = self.path.is_dir()
        self._root = os.path.realpath(self.path)
        self._archive = None if self.is_folder else _opened(self.path)

    def locate(self, path: str) -> str | None:
        """The member that `path` names, or `None`.

        An exact path wins. Otherwise the base name decides, since one release packs the photographs in a folder
        (`Flicker8k_Dataset/NAME.jpg`) and another does not; of several members with that base name, the one whose path
        ends in `path`.

        Raises
        ------
        VseppError
            If several members match.
        """
        candidates = self._by_basename.get(path.rpartition("/")[2], [])
        if path in candidates:
            return path
        if len(candidates) > 1:
            candidates = [name for name in candidates if name.endswith("/" + path)] or candidates
        if len(candidates) > 1:
            raise VseppError(
                f"{self.path}: {path} is ambiguous: {' and '.join(candidates[:3])} match; "
                "keep one of them, or give the folder that holds it"
            )
        return candidates[0] if candidates else None

    def read(self, member: str, largest: int = LARGEST_MEMBER) -> bytes:
        """Bytes of a member, given by its exact path inside.

        Raises
        ------
        VseppError
            If it is missing, damaged, encrypted, no file, outside the container or has more than `largest` bytes, naming
            member and container.
        """
        with self.open(member) as (stream, size):
            if size > largest:
                raise VseppError(
                    f"{self.path}: {member} has {size:,} bytes, expected at most {largest:,} for a "
                    "photograph or text; check where the copy comes from"
                )
            # Ask for one byte more: otherwise a member that holds more than it declares would be cut short silently.
            data = stream.read(size + 1)
            if len(data) != size:
                found = "more" if len(data) > size else f"{len(data):,}"
                raise self._unreadable(member, f"it declares {size:,} bytes but holds {found}")
        return data

    @contextmanager
    def open(self, member: str) -> Iterator[tuple[IO[bytes], int]]:
        """Open a member that is too large for memory: a stream, and the number of bytes that it should have.

        Errors as in `read`; a reading error that the body raises is reported as one of the member.
        """
        try:
            if self._archive is None:
                with self._inside(member).open("rb") as stream:
                    yield stream, os.fstat(stream.fileno()).st_size
            elif member not in self._archive.NameToInfo:
                raise FileNotFoundError(member)
            else:
                info = copy.copy(self._archive.getinfo(member))
                if info.flag_bits & _ENCRYPTED:
                    raise VseppError(
                        f"{self.path}: {member} is encrypted; give a copy that needs no password"
                    )
                declared = info.file_size
                # By itself the stream would end at the declared size, its checksum correct: this shows what lies beyond.
                info.file_size += 1 << 16
                with self._archive.open(info) as stream:
                    yield stream, declared
        except FileNotFoundError as error:
            raise VseppError(f"{self.path}: holds no {member}; fetch a complete copy") from error
        except NotImplementedError as error:  # a RuntimeError, so before the others
            raise self._unreadable(member, "its compression is not known here") from error
        except _UNREADABLE as error:
            own = isinstance(error, OSError | MemoryError)
            raise self._unreadable(
                member, reason_of(error) if own else "checksum or packing is wrong"
            ) from error

    def _unreadable(self, member: str, reason: str) -> VseppError:
        return VseppError(
            f"{self.path}: {member} cannot be read ({reason}); the copy is damaged, fetch it again"
        )

    def _inside(self, member: str) -> Path:
        """Path of a file of a folder; refused, before it is opened, if it is none or a link leads out of the folder."""
        place = self.path / member
        if not self._holds(place):
            raise _leads_out(self.path, member)
        if not stat.S_ISREG(mode := place.stat().st_mode):
            raise VseppError(f"{self.path}: {member} is {kind_of(mode)}, expected a file; take it away")
        return place

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Paths of all files inside, relative and with forward slashes, sorted."""
        if self._archive is not None:
            members = self._archive.namelist()
            return tuple(sorted(n for n in members if not n.endswith("/") and not n.startswith(_SHADOWS)))
        found = []
        for folder, folders, files in os.walk(self._root, onerror=self._unlisted):
            below = Path(folder).relative_to(self._root)
            found += [(below / name).as_posix() for name in files]
            # Links to other folders inside are not followed: what is there is listed anyway, and they may go round in circles.
            for name in folders:
                if not self._holds(Path(folder) / name):
                    raise _leads_out(self.path, (below / name).as_posix())
        return tuple(sorted(found))

    def _holds(self, path: Path) -> bool:
        """Whether a path, its links followed, is inside the folder."""
        return f"{os.path.realpath(path)}/".startswith(f"{self._root.rstrip('/')}/")

    def _unlisted(self, error: OSError) -> None:
        raise VseppError(f"{error.filename}: its files cannot be listed: {reason_of(error)}") from error

    @cached_property
    def _by_basename(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self.names:
            index.setdefault(name.rpartition("/")[2], []).append(name)
        return index


def _opened(path: Path) -> zipfile.ZipFile:
    """Open an archive, but refuse a malicious one: paths that leave its folder, members that fill memory, two of one name."""
    size = require_file(path, "a folder or a zip archive").st_size
    try:
        archive = zipfile.ZipFile(path)
    except NotImplementedError as error:
        raise VseppError(
            f"{path}: a zip archive that is encrypted as a whole, or of a version that is not known here; pack it again"
        ) from error
    except PermissionError as error:
        raise VseppError(f"{path}: cannot be read: {reason_of(error)}") from error
    except _UNREADABLE as error:
        raise VseppError(
            f"{path}: expected a folder or a whole zip archive, found {size:,} bytes of something else, or of an archive "
            "that is damaged; it may be truncated: fetch it again"
        ) from error
    leaving, bombs, beyond, repeated = [], [], [], []
    seen: set[str] = set()
    for info in archive.infolist():
        if _OUTSIDE.match(info.orig_filename):
            leaving.append(repr(info.orig_filename))
        if info.file_size > max(RATIO_MATTERS_ABOVE, LARGEST_RATIO * info.compress_size):
            bombs.append(f"{info.filename} ({info.compress_size:,} bytes unpack to {info.file_size:,})")
        if info.compress_size > size:
            beyond.append(f"{info.filename} ({info.compress_size:,} bytes)")
        if info.filename in seen:
            repeated.append(info.filename)
        seen.add(info.filename)
    refuse(
        leaving,
        f"{path}: members whose path leaves the archive's folder",
        "Paths must be relative, with forward slashes; check where the copy comes from.",
    )
    refuse(bombs, f"{path}: members that unpack to an implausible size", "Check where the copy comes from.")
    refuse(beyond, f"{path}: members that are larger than the archive, {size:,} bytes", "Fetch it again.")
    refuse(repeated, f"{path}: members that have the name of another one", "Keep one of them.")
    return archive


def _leads_out(path: Path, member: str) -> VseppError:
    return VseppError(
        f"{path}: {member} is a link that leads out of the folder; give the folder that it leads to, or put a copy here"
    )


def role_path(spec: CorpusSpec, role: str) -> Path:
    """Path of the file, archive or folder that the reader knows by this role.

    Raises
    ------
    VseppError
        If the corpus declares none.
    """
    if role not in spec.files:
        raise VseppError(
            f"corpus {spec.name}: reader {spec.reader.name} needs a path for {role!r} under `files`, "
            f"found only {sorted(spec.files)}"
        )
    return Path(spec.files[role]).expanduser()
