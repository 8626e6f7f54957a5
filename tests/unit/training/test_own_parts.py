"""Losses, image heads and optimisers of another package, and images as sets of vectors; see `own_loss`."""

import own_loss
import pytest
import tiny_corpus as tiny
import torch
from specs import change

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.features.images import open_eval_images
from vsepp.models.joint import JointEmbedding
from vsepp.training.batches import epoch_batches, load_batch
from vsepp.training.step import RunLoss, Training, make_optimiser, take_step

pytestmark = pytest.mark.usefixtures("package")

POOLED = change(tiny.FROZEN, model__image_head=Component("own"), model__image_pooling=Component("mean"))


def test_a_trained_number_of_a_loss_is_drawn_under_the_runs_seed_and_clipped_with_the_models(corpus):
    run = change(own_loss.RUN, schedule__clip_norm=0.5)
    data = tiny.data_of(run, corpus)
    starts = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        model = JointEmbedding(run.model, data.images.dim, len(data.vocabulary))
        loss = RunLoss.from_run(run, own_loss.folders(corpus), tiny.CPU)
        starts.append(loss.state.mix.item())
    assert starts[0] == starts[1] != starts[2]
    training = Training(run, model, loss, make_optimiser(run, model, loss), tiny.CPU)
    batch = next(epoch_batches(len(data.pairs), run.schedule, 0, 1))
    take_step(training, load_batch(training, data, batch, 1), 0.01)
    gradients = [parameter.grad for parameter in (*model.parameters(), loss.state.mix)]
    assert gradients[-1].abs() > 1e-3
    norm = torch.linalg.vector_norm(torch.cat([gradient.flatten() for gradient in gradients]))
    assert norm.item() == pytest.approx(0.5, rel=1e-4)
    assert abs(loss.state.mix.item() - starts[-1]) == pytest.approx(0.01, rel=1e-3), "the first step of Adam"


def test_a_run_that_pools_sets_refuses_single_vectors_and_the_reverse(corpus, sets):
    alone = tiny.artefacts(corpus)["features"]
    for run, features, count in ((POOLED, alone, 1), (tiny.FROZEN, sets, 4)):
        message = f"{features}.*: has {count} vectors"
        with pytest.raises(VseppError, match=message):  # of training and validation
            tiny.data_of(run, corpus, features=features)
        with pytest.raises(VseppError, match=message):  # of the test images
            open_eval_images(run, {"features": features}, sum(tiny.SPLITS.values()), tiny.CPU)
