"""What a project has made, without times: equal however and wherever it was made."""

import json
import re

import pandas as pd

from vsepp.base.digests import file_digest

FOLDERS = ("resources", "results", "reports/tiny")


def content(project):
    """File → what must be equal however it was made: its bytes, but for times and memory."""
    contents = {}
    for path in (file for top in FOLDERS for file in (project.folder / top).rglob("*") if file.is_file()):
        name = path.relative_to(project.folder)
        if not {"logs", ".state"} & set(name.parts) and path.name != ".snakemake_timestamp":
            contents[str(name)] = _timeless(path)
    return contents


def _timeless(path):
    if path.name == "history.csv" or path.parent.name == "curves":
        return pd.read_csv(path).drop(columns=["seconds", "pairs_per_second"]).to_csv()
    if path.suffix == ".html" and path.parent.name == "runs":
        return re.sub(r"(?s)<tr>(?:(?!</tr>).)* MB</td>.*?</tr>", "", path.read_text())
    if path.name == "manifest.json":
        return json.dumps(_without_times(json.loads(path.read_text())))
    return file_digest(path)


def _without_times(value):
    """Content of a manifest without times, and without digests of files that hold times, also in its ancestors."""
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    timed = {"wall_seconds", "start_cpu_seconds", "cpu_seconds", "peak_memory_bytes", "pairs_per_second"}
    timed |= {"digest", "history.csv", "curves", "runs"}
    kept = {key: item for key, item in value.items() if key not in timed and not key.startswith("history/")}
    return {key: _without_times(item) for key, item in kept.items()}


def differing(contents, expected):
    """Names of files that one side lacks, or that differ."""
    return sorted(
        name for name in contents.keys() | expected.keys() if contents.get(name) != expected.get(name)
    )
