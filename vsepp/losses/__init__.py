"""Ranking losses over the similarities of a batch: one module each, with a function `loss`.

`loss(scores, margin, *, queries, negatives, image_of)` is the loss summed over queries and both directions.
"""
