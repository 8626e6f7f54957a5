"""How well a model retrieves: from scores of a test set to ranks, metrics, and how sure they are.

Read `test_set` (what is ranked) and `scores`, with `embedding_scores` and `best` (a matrix, embeddings, lists of the best; a rank is
a count), `meaning` (what arrays of the right shape get wrong), `truth`, `gallery` and `truths` (which items are correct, by rows and by
ids), `ranks`, `paper` and `metrics` (the paper's metrics, and all of them), `evaluate` (a test set under truths, and its files), `shown` (an
evaluation to read), `intervals` (values per image, levels, effects) and `ratings` (correlations with people's ratings). `evaluate_run` leads
from a run's embeddings to these; `encode` and `rerank` from its model, and alone import torch.

It imports `base`, `data`, `features` and `models`.
"""
