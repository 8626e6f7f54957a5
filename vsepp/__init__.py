"""Reproduction of VSE++: visual-semantic embeddings with hard negatives (Faghri et al., 2018)."""

__version__ = "0.1.0"
