"""A loss of another package with all that a loss may have: what it knows of the pairs, a trained number, an artefact."""

import tiny_corpus as tiny

from vsepp.base.spec import Component

SOURCE = '''
from dataclasses import dataclass

import torch

from vsepp.data.tables import read_tables
from vsepp.losses.batch import WHOLE
from vsepp.losses.common import hinge_costs

READS = ("corpus",)


@dataclass(frozen=True)
class Options:
    alpha: float = 0.2


def needs(options):
    return ("image_rows", "caption_rows")


class State(torch.nn.Module):
    """The weight of MH against SH, and those of images."""

    def __init__(self, options, folders):
        super().__init__()
        assert list(folders) == ["corpus"]
        images, captions = read_tables(folders["corpus"])
        self.mix = torch.nn.Parameter(torch.randn(()))
        self.register_buffer("weight", 1 + torch.arange(len(images)) % 3)
        self.register_buffer("owner", torch.tensor(captions["image_index"]))


def loss(scores, options=Options(), batch=WHOLE):
    state = batch.state
    assert torch.equal(state.owner[batch.caption_rows], batch.image_rows)
    costs = hinge_costs(scores, options.alpha, batch)
    mix = torch.sigmoid(state.mix + batch.epoch / batch.epochs)
    costs_of_queries = sum(mix * cost.max(dim=1).values + (1 - mix) * cost.sum(dim=1) for cost in costs)
    return (costs_of_queries * state.weight[batch.image_rows[: batch.queries]]).sum()
'''
RUN = tiny.change(tiny.FROZEN, loss=Component("weighed_hinges"))


def folders(corpus):
    return {"corpus": corpus / "corpus", "tokens": corpus / "tokens", "caption_vectors": corpus / "vectors"}
