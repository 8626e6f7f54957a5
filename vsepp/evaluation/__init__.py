"""What is ranked, what is correct, and what ranks say.

To read in this order: `scores` (embeddings, a matrix, lists of the best: whatever counts the items above a score), `truth` and `truths` (correct
items of each query: own captions under a protocol, what people judged), `test_set`, `ranks` (of every correct item, and the paper's metrics),
`evaluate` (a test set under truths, as it is written), `metrics` (all metrics, and their values for each image), `ratings`, `intervals` (how sure a
level or a difference is); then `encode`, `rerank` and `run`, from a trained run to its evaluation.

It imports features, models, data and base; only `encode`, `rerank` and `run` need torch.
"""
