"""Scores and loss of a batch hold matrices of pairs, and never a vector for each pair of pairs."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vsepp import components
from vsepp.losses import Batch
from vsepp.similarity import scorer
from vsepp.similarity.order_violation import TILE_ON_CPU
from vsepp.spec import Component

PAIRS, QUERIES, DIM = 512, 128, 256
ORDER = [Component("order", {"form": form}) for form in ("squared", "root")]


class Largest(TorchDispatchMode):
    """Remembers how large the storage of the largest result of any operation is, in bytes."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else (found,):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes())
        return found


@pytest.mark.parametrize("loss", ["sum_of_hinges", "max_of_hinges"])
@pytest.mark.parametrize("similarity", [Component("dot"), *ORDER], ids=str)
def test_nothing_is_larger_than_the_embeddings_the_scores_or_a_tile(loss, similarity):
    embeddings = [torch.randn(PAIRS, DIM, requires_grad=True) for _ in range(2)]
    negatives = torch.randperm(PAIRS, generator=torch.Generator().manual_seed(0))
    module, score = components.load("loss", loss), scorer(similarity)
    with Largest() as largest:
        module.loss(score(*embeddings), batch=Batch(QUERIES, negatives)).backward()
    assert all(one.grad.abs().sum() > 0 for one in embeddings)
    # Positions among the candidates are int64, twice as large as scores.
    assert largest.size <= max(4 * PAIRS * DIM, 8 * PAIRS * PAIRS, 4 * TILE_ON_CPU)
    assert largest.size < 4 * QUERIES * PAIRS * DIM / 16
