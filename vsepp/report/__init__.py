"""From ranks and histories to tables, figures, verdicts and the pages that hold them.

Read `entries` (what `tables.yaml` and `claims.yaml` hold, and a report's spec), `models` and `records` (trained models, and which count),
`published` (a paper's numbers), `tables` and `cells` (rows, and how they are printed), `claims` and `verdicts`, `plots` and `figures`,
`answers`, `run_page`, `pages` (all files of a report), `compare` (models beside each other), `expected`, and `text`, where numbers become
words. A number's path: `ranks.npz`, `metrics.json` → `Model` → `pair` or `sound` → `level` → `Cell` → template. It never imports torch,
and draws with matplotlib only inside functions. It imports `base`, `data` and `evaluation`.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent
TEMPLATES = next(
    (place for place in (_HERE / "templates", _HERE.parents[1] / "reports" / "templates") if place.is_dir()),
    _HERE,
)
"""Folder of the templates of pages, tables and figures: inside an installed package, or in `reports/templates` of a clone."""
