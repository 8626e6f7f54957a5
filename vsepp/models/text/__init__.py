"""Text encoders: one module each, found by name (`vsepp.base.components`).

A module has

- `Options`, a frozen dataclass; its `dim` is D_ψ, the size of the state before W_g (Eq. 2);
- `class TextEncoder(torch.nn.Module)`, made as `TextEncoder(vocabulary_size, options)`: maps `ids`, int64
  `(n, longest)` from `<start>` to `<end>`, and `lengths`, int64 `(n,)` on the CPU, to ψ(c; θ_ψ), `(n, dim)`. Its weights
  may have any names;
- `GIVES_SETS = True`, if it gives the states of all tokens, `(n, longest, dim)`, which the run's `caption_pooling` pools;
- `TOKENS`, the kind of `vsepp.data.captions.Tokens` that the encoder takes, if not `words`. Where it has an option `weights` and this is
  `random`, it takes words;
- `TextEncoder.start(file)`, if a training can start from weights that are not drawn: reads these weights. `file` is the raw file where
  `weights` is `file/<name>`, else `None`. A trained model is loaded without `start`;
- `TextEncoder.states(ids, lengths)`, if it has an option `frozen`: the states of captions before the trained part, `(n, longest, size)`;
  the encoder is then also called with these states in place of `ids`;
- `CITATION`: its source.

Read `gru` (the paper's), then `bert`. `inputs` says from a declaration alone which tokens and files an encoder takes.
"""
