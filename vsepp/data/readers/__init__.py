"""Readers of raw files: one module per layout, found by name (`vsepp.base.components`).

A module has `FILES`, its names of the files that it reads, and `read(spec, files) -> RawCorpus` (see
`vsepp.data.raw`) with `files`: such a name → its path; optionally `Options`, a frozen dataclass, which
`vsepp.base.components.options("reader", spec.reader)` makes; and `CITATION` of the data. What does not depend
on the layout `vsepp.data.corpus` checks for all.
"""
