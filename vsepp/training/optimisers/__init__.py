"""Optimisers: one module each, found by name (`vsepp.components`).

A module has

- `Options`, a frozen dataclass, if it has options;
- `class Optimiser`, made as `Optimiser(parameters, learning_rate, options)` with pairs of a name and a trained parameter, those of the
  model first, those of the loss last, as `loss.<name>`. It has `parameters`, a list of tensors; `learning_rate`, which is set between
  steps; `zero_grad()`, `step()`; and `state_dict()` and `load_state_dict(state)`, with which a training goes on to the same bits;
- `CITATION`: its source.
"""
