"""Text encoders: one module each, with a class `TextEncoder`.

`TextEncoder(vocabulary_size, word_dim, text_dim)` maps tokens to ψ(c; θ_ψ), the state before W_g (Eq. 2).
"""
