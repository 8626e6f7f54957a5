"""From ranks and histories to tables, figures, verdicts and the pages that hold them.

Read `entries` (what `tables.yaml` and `claims.yaml` hold, and a report's spec), `models` and `records` (trained models), `pairing` (which
count, and which are compared), `published` (a paper's numbers), `tables` (rows filled from both), `verdicts`, `claims_base` and `claims`,
`figures` and `plots`, `answers` (what a model finds), `run_page` and `index_page` (what a page shows), `cells` (tables and verdicts as a page
and LaTeX print them), `pages` (all files of a report); then `compare` and `sources` (models beside each other), `expected`, and `text`, the
only place where numbers become words.
A number's path: `ranks.npz`, `metrics.json` → `MeasuredModel` → `pair` or `sound` → `level` → `Cell` → `PageCell` → template.
It imports `models`, `losses`, `evaluation`, `data` and `base`; never torch; matplotlib where something is drawn. Templates
print: what has a condition is computed here.
"""
