"""Image heads: one module each, found by name (`vsepp.base.components`). A head maps an image's features into the joint space.

A module has

- `Options`, a frozen dataclass, if it has options;
- `class ImageHead(torch.nn.Module)`, made as `ImageHead(feature_dim, spec, options)` with D_φ and the `ModelSpec`: maps features
  float32 `(n, D_φ)` to `(n, D)`, before they are scaled to unit length. Where the run has an `image_pooling`, the head is called with sets
  `(n, k, D_φ)`, padded by zeros, and their lengths, int64 `(n,)` on the CPU, and returns `(n, k, D)`. Its weights may have any names;
- `ImageHead.initialise()`: draws its first weights, after all other parts of the model were made;
- `ImageHead.feature_dim(weights)`, static: D_φ of trained weights, by their names within the head;
- `BATCH_STATISTICS = True`, if a training step's output for an image depends on the other images of its batch;
- `CITATION`: its source.
"""
