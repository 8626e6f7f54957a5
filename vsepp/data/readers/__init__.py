"""Readers of raw files: one module for each layout, found by its name (`vsepp.components`).

A module has `read(spec) -> RawCorpus` (see `vsepp.data.raw`); `Options`, a frozen dataclass, where the layout has any,
made by `vsepp.components.options("reader", spec.reader)`; and `CITATION`, of the data.
"""
