"""The page that opens a preset's default report: `reports/<preset>/index.html`."""

from __future__ import annotations

from html import escape
from pathlib import Path

from vsepp.provenance.manifest import write_text

DEFAULT_VARIANT = "paper"


def write_entry(report: Path) -> Path:
    """Write a page beside a variant's folder that opens the variant's page.

    Parameters
    ----------
    report
        `reports/<preset>/<variant>`, with its `index.html`.

    Returns
    -------
    Path
        The page.
    """
    entry = report.parent / "index.html"
    target = escape(f"{report.name}/index.html")
    write_text(
        entry,
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="refresh" content="0; url={target}"><title>{escape(report.parent.name)}</title></head>\n'
        f'<body><p><a href="{target}">Tables and figures of {escape(report.parent.name)}</a></p></body></html>\n',
    )
    return entry
