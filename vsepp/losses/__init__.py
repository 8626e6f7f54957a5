"""Losses over the similarities of a batch: one module each, found by name (`vsepp.base.components`).

Read `batch` (what a module of a loss has, and what it is told), `common` (which candidates are negatives, and how much they violate a
margin), then `sum_of_hinges` and `max_of_hinges`, the paper's losses. A loss imports `base` and `data`.
"""
