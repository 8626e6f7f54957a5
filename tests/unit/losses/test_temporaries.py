"""Scores and loss of a batch hold matrices of pairs, and never a vector for each pair of pairs."""

import dataclasses

import pytest
import torch
from loss_checks import MOST_CAPTIONS, OBJECTIVES, Objective, random_captions, write_corpus
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode

from vsepp.base.spec import Component
from vsepp.models.similarity.common import Similarity
from vsepp.models.similarity.order_violation import TILE_ON_CPU

PAIRS, QUERIES, DIM = 512, 128, 256
SCORES = 4 * PAIRS * PAIRS
ORDER = [Component("order", {"form": form}) for form in ("squared", "root")]


class Largest(TorchDispatchMode):
    """Remembers how large the storage of the largest result of any operation is, in bytes."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        for tensor in results if isinstance(results, tuple | list) else (results,):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes())
        return results


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """What losses may read."""
    return write_corpus(tmp_path_factory.mktemp("corpus"), random_captions(PAIRS))


def largest_of_a_step(objective, similarity):
    """Bytes of the largest tensor of scores, loss and gradients, of `QUERIES` among `PAIRS` that are all candidates."""
    embeddings = [normalize(torch.randn(PAIRS, DIM)).requires_grad_() for _ in range(2)]
    negatives = torch.randperm(PAIRS, generator=torch.Generator().manual_seed(0))
    (value, _), score = objective.function(), Similarity(similarity).matrix
    with Largest() as largest:
        scores = score(*embeddings)
        value(scores, order=range(PAIRS), queries=QUERIES, negatives=negatives).backward()
    assert all(side.grad.abs().sum() > 0 for side in embeddings)
    return largest.size


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_nothing_of_a_loss_is_larger_than_the_scores(objective, folders):
    """But for relative margins, which compare each caption with all captions of each image: `(7n, n)`."""
    largest = largest_of_a_step(dataclasses.replace(objective, folders=folders), Component("dot"))
    assert largest <= SCORES * (MOST_CAPTIONS if objective.name == "relative_margins" else 1)


@pytest.mark.parametrize("loss", ["sum_of_hinges", "max_of_hinges"])
@pytest.mark.parametrize("similarity", ORDER, ids=str)
def test_nothing_of_order_violations_is_larger_than_the_scores_or_a_tile(loss, similarity):
    largest = largest_of_a_step(Objective(loss), similarity)
    assert largest <= max(SCORES, 4 * TILE_ON_CPU) < 4 * QUERIES * PAIRS * DIM / 16
