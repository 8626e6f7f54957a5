"""Readers of raw files: one module per layout, found by name (`vsepp.base.components`).

A module has `read(spec) -> RawCorpus` (see `vsepp.data.raw_files`); optionally `Options`, a frozen
dataclass, which `vsepp.base.components.options("reader", spec.reader)` makes; and `CITATION` of the data.
"""
