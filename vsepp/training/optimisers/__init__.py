"""Optimisers: one module each, found by name (`vsepp.base.components`).

A module has

- `Options`, a frozen dataclass, if it has options;
- `class Optimiser`, made as `Optimiser(parameters, options)` with names and trained parameters in pairs, the model's first, the
  loss's last, as `loss.<name>`. It has `parameters`, a list of tensors; `zero_grad()`, `step(learning_rate)`; and `state_dict()` and
  `load_state_dict(state)`, which let a resumed training reach the same bits;
- `CITATION`: its source.
"""
