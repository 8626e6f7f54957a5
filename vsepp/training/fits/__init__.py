"""Fits: the maps of images and captions in closed form, from all training pairs; one module each, found by name.

A module has

- `Options`, a frozen dataclass; its `alphas` are the regularisations to try: the α with the best rsum on validation is taken;
- `solve(moments, alpha, dim, options)`: `Maps` into `dim` dimensions, from the `Moments` of `vsepp.training.closed_form`;
- `CITATION`: its source.
"""
