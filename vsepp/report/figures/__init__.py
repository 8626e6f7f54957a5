"""Kinds of figures, one module each, found by name as all components are; see `vsepp.base.components`.

A kind is a class `Figure`, based on a class of `base`: its fields are the keys of its entries in a `tables.yaml`, of which `kind`
is the name of the module. `draw` draws an entry and returns what captions and text alternatives say of it; it is called only where
results of one of its runs, or its computed data, are there. What draws with matplotlib imports it in a function, since all kinds are
imported where a `tables.yaml` is read. Read `base`, `curves`, then any other; a kind imports what `vsepp.report.plots` draws with,
and of the report only what reads models and judges them.
"""
