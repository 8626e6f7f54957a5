"""Matchers: one module each, found by name (`vsepp.components`). A matcher scores whether an image and a caption belong together.

A module has

- `Options`, a frozen dataclass. Whatever else it has, `k`: captions or images that are re-ranked for a query; `weight`: of the matching
  loss beside the loss of the embeddings; `temperature`: by which scores are divided before negatives are drawn in proportion to them;
- `class Matcher(torch.nn.Module)`, made as `Matcher(image_dim, caption_dim, options)`: maps the vectors of n images, float32
  `(n, k, image_dim)`, with which of them there are, bool `(n, k)`, and the states of n captions, float32 `(n, l, caption_dim)`, with which of
  them there are, bool `(n, l)`, to `(n, 2)`: the logits of "no match" and of "match". Vectors are what the image head gives, states what the
  text encoder gives, both before their poolings. What is not there changes nothing;
- `CITATION`: its source.
"""
