"""Similarities of image and caption embeddings: one module each, found by name (`vsepp.base.components`).

Read `common` (what a module of a similarity has, and `Similarity`, which calls one), then `dot` and `order`.
"""
