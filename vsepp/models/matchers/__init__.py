"""Matchers: one module each, found by name (`vsepp.base.components`). A matcher scores whether an image and a caption belong together.

A module has

- `Options`, a frozen dataclass. It has at least `k`: number of captions or images that are re-ranked for a query; `weight`: weight of the
  matching loss beside the loss of the embeddings; `temperature`: divides scores before negatives are drawn in proportion to their softmax,
  `None`: the temperature that the loss of the embeddings trains; `drawn_from`: pairs among which they are drawn, `None`: the batch;
  `before_maps`: whether the matcher takes images' vectors before the image head;
- `class Matcher(torch.nn.Module)`, made as `Matcher(image_dim, caption_dim, options)`: maps the vectors of n images, float32
  `(n, k, image_dim)`, with a mask, bool `(n, k)`, and the states of n captions, float32 `(n, l, caption_dim)`, with a mask, bool `(n, l)`, to
  `(n, 2)`: the logits of "no match" and of "match". A mask is false at padding, and padding changes nothing. Vectors are the image head's
  output or input, states the text encoder's output, all before their poolings;
- `CITATION`: its source.
"""
