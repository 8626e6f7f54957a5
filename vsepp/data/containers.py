"""A folder or a zip archive of photographs, read where it lies."""

from __future__ import annotations

import os
import threading
import zipfile
import zlib
from functools import cached_property
from pathlib import Path

from vsepp.errors import VseppError
from vsepp.spec import CorpusSpec

# What macOS adds to the archives that it packs: shadows of the members, not members.
_SHADOWS = "__MACOSX/"


class Container:
    """Files of a folder or of a zip archive, which is not unpacked.

    Processes and threads may share one: each opens the archive for itself, because a file position that is
    shared after a fork gives one process the bytes that another asked for. It can be pickled.

    Parameters
    ----------
    path
        A folder or a zip archive.

    Raises
    ------
    VseppError
        Where there is nothing at `path`, or something that is neither.
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        if not self.path.exists():
            raise VseppError(
                f"{self.path}: no such folder or zip archive; check the path in the corpus's files"
            )
        self.is_folder = self.path.is_dir()
        self._handles = threading.local()
        if not self.is_folder:
            self._archive()

    def __reduce__(self) -> tuple[type[Container], tuple[Path]]:
        return Container, (self.path,)

    def names(self) -> tuple[str, ...]:
        """Paths of all files inside, relative and with forward slashes, sorted."""
        return self._names

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
        if path in self._name_set:
            return path
        candidates = self._by_basename.get(path.rpartition("/")[2], [])
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
            Where it is missing or damaged, naming member and container.
        """
        try:
            if self.is_folder:
                return (self.path / member).read_bytes()
            return self._archive().read(member)
        except (KeyError, FileNotFoundError) as error:
            raise VseppError(f"{self.path}: holds no {member}; fetch a complete copy") from error
        except (
            OSError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise VseppError(
                f"{self.path}: {member} cannot be read ({error}); the copy is damaged, fetch it again"
            ) from error

    def _archive(self) -> zipfile.ZipFile:
        handles = self._handles
        if getattr(handles, "pid", None) != os.getpid():
            try:
                handles.archive = zipfile.ZipFile(self.path)
            except (zipfile.BadZipFile, OSError, ValueError) as error:
                raise VseppError(
                    f"{self.path}: expected a folder or a whole zip archive, found "
                    f"{self.path.stat().st_size} bytes that are not one ({error}); "
                    "it may be truncated: fetch it again"
                ) from error
            handles.pid = os.getpid()
        return handles.archive

    @cached_property
    def _names(self) -> tuple[str, ...]:
        if not self.is_folder:
            members = self._archive().namelist()
            return tuple(sorted(n for n in members if not n.endswith("/") and not n.startswith(_SHADOWS)))
        found = []
        # Links are followed: large image folders are often linked to another disk.
        for folder, _, files in os.walk(self.path, followlinks=True):
            below = Path(folder).relative_to(self.path)
            found += [(below / name).as_posix() for name in files]
        return tuple(sorted(found))

    @cached_property
    def _name_set(self) -> frozenset[str]:
        return frozenset(self._names)

    @cached_property
    def _by_basename(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for name in self._names:
            index.setdefault(name.rpartition("/")[2], []).append(name)
        return index


def role_path(spec: CorpusSpec, role: str) -> Path:
    """Path of the file, archive or folder that plays a role.

    Raises
    ------
    VseppError
        Where the corpus declares none.
    """
    if role not in spec.files:
        raise VseppError(
            f"corpus {spec.name}: reader {spec.reader} needs a path for {role!r} under `files`, "
            f"found only {sorted(spec.files)}"
        )
    return Path(spec.files[role]).expanduser()
