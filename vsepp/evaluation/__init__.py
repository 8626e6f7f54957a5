"""Embeddings of a model, the ranks that they give, and the recalls under a protocol."""
