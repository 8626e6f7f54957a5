"""What a preset has taken here, as a row of the table in docs/running.md: downloads, disk, hours of its jobs.

    uv run python benchmarks/presets.py mini      # in the project's folder, after the preset was run

Hours are of all jobs, one after the other, as their manifests have them. Random-crop features that were deleted after their last
reader have no manifest any more, and are not counted.
"""

import sys
from pathlib import Path

from vsepp.base.manifest import MANIFEST, read_manifest
from vsepp.base.progress import bytes_text


def bytes_in(*folders: Path) -> int:
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def row(preset: str) -> str:
    """A row of Markdown: preset, bytes of downloads, bytes of results and reports, hours, CPU hours."""
    folders = Path("results", preset), Path("reports", preset)
    manifests = [read_manifest(file.parent) for folder in folders for file in folder.rglob(MANIFEST)]
    hours = (sum(made[seconds] for made in manifests) / 3600 for seconds in ("wall_seconds", "cpu_seconds"))
    sizes = bytes_text(bytes_in(Path("resources", "downloads"))), bytes_text(bytes_in(*folders))
    return f"| `{preset}` | {' | '.join([*sizes, *(f'{number:.2f}' for number in hours)])} |"


if __name__ == "__main__":
    print(row(sys.argv[1]))
