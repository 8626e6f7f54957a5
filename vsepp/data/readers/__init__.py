"""One module per raw layout, each with `read(spec) -> RawCorpus`; `vsepp.data.corpora` finds it by name."""
