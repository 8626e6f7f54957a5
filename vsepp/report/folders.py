"""Where the templates of pages, tables and figures lie."""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
TEMPLATES = next(
    (place for place in (_HERE / "templates", _HERE.parents[1] / "reports" / "templates") if place.is_dir()),
    _HERE,
)
"""Inside an installed package, or in `reports/templates` of a clone."""
