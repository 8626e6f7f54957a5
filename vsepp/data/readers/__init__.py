"""Readers of raw files: one module per layout, found by name (`vsepp.components`).

A module has `read(spec) -> RawCorpus` (see `vsepp.data.raw_files`); optionally `Options`, a frozen
dataclass, which `vsepp.components.options("reader", spec.reader)` makes; and `CITATION` of the data.
"""
