"""Families of image encoders: one module each, found by its name (`vsepp.components`).

A family is a module with

- `architectures()`: the names that it knows;
- `build(name, input_size, options) -> CutNetwork`: one of its networks with random weights, drawn under torch's seed,
  for inputs of `input_size` pixels; see `vsepp.models.encoder`;
- `published(name, weights, input_size, options) -> CutNetwork`, where there are weights to be had by a name;
- `SIZES`, where they are known: name → D_φ and the numbers in the weights, those of batch normalisation included, which
  `vsepp plan` reckons with;
- `Options`, a frozen dataclass, where its networks have any, and `CITATION`.
"""
