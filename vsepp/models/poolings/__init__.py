"""Poolings: one module each, found by name (`vsepp.base.components`). A pooling maps a set of vectors to one vector.

A module has

- `Options`, a frozen dataclass, if it has options;
- `class Pooling(torch.nn.Module)`, made as `Pooling(options)`: maps `values`, float32 `(n, k, d)`, and `lengths`, int64 `(n,)` on the CPU,
  from 1 to k, to `(n, d)`. A set's vectors stand first; after them comes padding, which changes nothing;
- `CITATION`: its source.
"""
