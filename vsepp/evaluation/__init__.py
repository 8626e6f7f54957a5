"""How well a model retrieves: from scores of a test set to ranks, metrics, and how sure they are.

Read `test_set` (what is ranked) and `scores` (embeddings, a matrix or lists of the best, and how they are counted), `truth` and `truths`
(which items are correct), `ranks` (a rank is a count), `evaluate` (a test set under truths, and its files), `paper` and `metrics` (the paper's
metrics, and all of them), `intervals` (values per image, levels, effects), `ratings` (correlations with people's ratings), `best` (the best
items of each query) and `shown` (an evaluation to read). `encode`, `rerank` and `run` lead from a trained run to all of these, and alone
import torch. It imports `base`, `data`, `models` and `features`.
"""
