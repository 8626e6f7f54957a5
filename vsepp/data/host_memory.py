"""How much memory of the host a process may still take."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_OWN_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def available_memory(meminfo: Path = _MEMINFO, own_group: Path = _OWN_GROUP, groups: Path = _GROUPS) -> int:
    """Bytes that the machine has available and the limits of containers and schedulers (cgroup v2) leave.

    Parameters
    ----------
    meminfo, own_group, groups
        Where the kernel tells: memory of the machine, the process's group, and all groups.

    Returns
    -------
    int
        0 where the kernel does not tell at all.
    """
    found = [room for room in map(_group_room, _own_and_above(own_group, groups)) if room is not None]
    return max(0, min([_available_here(meminfo), *found]))


def _available_here(meminfo: Path) -> int:
    if not meminfo.is_file():
        return 0
    for line in meminfo.read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return 0


def _own_and_above(own_group: Path, groups: Path) -> list[Path]:
    """Folder of the process's group and of those it lies in."""
    if not own_group.is_file():
        return [groups]
    for line in own_group.read_text(encoding="utf-8").splitlines():
        if line.startswith("0::"):
            inner = Path(line.removeprefix("0::").strip().lstrip("/"))
            return [groups / inner, *(groups / parent for parent in inner.parents)]
    return [groups]


def _group_room(folder: Path) -> int | None:
    """What a group's limit leaves, the files that the kernel keeps for it not counted as taken; `None` without one."""
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        if limit == "max":
            return None
        taken = int((folder / "memory.current").read_text(encoding="ascii"))
        stat = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kept = sum(int(line.split()[1]) for line in stat if line.split()[0] in ("inactive_file", "active_file"))
    return int(limit) - taken + kept
