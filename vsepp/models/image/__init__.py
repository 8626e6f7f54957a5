"""Families of image encoders: one module each, found by name (`vsepp.base.components`).

A family is a module with

- `architectures()`: names of the family's networks;
- `build(name, input_size, options) -> CutNetwork`: one of its networks with random weights, drawn under torch's seed,
  for inputs of `input_size` pixels; see `vsepp.models.encoder`;
- optionally `published(name, weights, input_size, options) -> CutNetwork`, and `PUBLISHED`, where its weights are published: `pip` or
  `torchvision`;
- optionally `Options`, a frozen dataclass, and `CITATION`.
"""
