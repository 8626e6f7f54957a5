"""Where the templates of pages, tables and figures lie."""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
TEMPLATES = next(
    (
        folder
        for folder in (_HERE / "templates", _HERE.parents[1] / "reports" / "templates")
        if folder.is_dir()
    ),
    _HERE,
)
"""Inside an installed package, or in `reports/templates` of a clone."""
