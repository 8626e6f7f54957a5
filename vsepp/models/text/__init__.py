"""Text encoders: one module each, found by name (`vsepp.components`).

A module has

- `Options`, a frozen dataclass; its `dim` is D_ψ, the size of the state before W_g (Eq. 2);
- `class TextEncoder(torch.nn.Module)`, made as `TextEncoder(vocabulary_size, options)`: maps `ids`, int64
  `(n, longest)` from `<start>` to `<end>`, and `lengths`, int64 `(n,)` on the CPU, to ψ(c; θ_ψ), `(n, dim)`. Its weights
  may have any names;
- `GIVES_SETS = True`, if the states are those of all tokens, `(n, longest, dim)`, which the run's `caption_pooling` pools;
- `TOKENS`, the kind of `vsepp.data.tokens.Tokens` that it takes, if not `words`. Where it has an option `weights` that is `random`, it
  takes words;
- `TextEncoder.start(file)`, if a training can start from weights that are not drawn: reads them, from the raw file where `weights` is
  `file/<name>`, else `None` is given. A trained model is loaded without it;
- `TextEncoder.states(ids, lengths)`, if it has an option `frozen`: what it computes of captions before all that is trained, `(n, longest,
  size)`; it is then also called with these states in place of `ids`. What is trained is `linear`, a `torch.nn.Linear`, if a run's `fit`
  is to compute it;
- `CITATION`: its source.
"""
