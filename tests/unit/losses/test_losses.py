"""Both losses on examples made by hand; their equations as loops are in `test_baseline_losses`."""

import pytest
import torch

from vsepp.base.errors import VseppError
from vsepp.losses import max_of_hinges, sum_of_hinges
from vsepp.losses.batch import Batch, first_epoch_after
from vsepp.losses.common import hinge_costs


def test_directions_are_not_swapped():
    # Image 0 is close to caption 1, but caption 0 is far from image 1.
    scores = torch.tensor([[1.0, 0.9], [0.0, 1.0]])
    captions, images = hinge_costs(scores, 0.2)
    torch.testing.assert_close(captions, torch.tensor([[0.0, 0.1], [0.0, 0.0]]))
    torch.testing.assert_close(images, torch.tensor([[0.0, 0.0], [0.1, 0.0]]))


def test_a_mask_needs_the_images():
    with pytest.raises(VseppError, match=r"batch\.image_rows"):
        max_of_hinges.loss(torch.eye(2), max_of_hinges.Options(mask_same_image=True))


def test_equally_hard_negatives_share_no_gradient():
    scores = torch.zeros(3, 3, requires_grad=True)
    max_of_hinges.loss(scores, batch=Batch(queries=1)).backward()
    assert scores.grad[0, 1:].tolist().count(1.0) == 1
    assert scores.grad[1:, 0].tolist().count(1.0) == 1
    assert scores.grad[0, 0].item() == -2


@pytest.mark.parametrize(
    ("epochs", "fraction", "first"),
    [(30, 0.5, 15), (12, 2 / 3, 8), (1, 0.5, 1), (15, 1.0, 15), (4, 0.0, 0)],
)
def test_a_curriculum_begins_with_sh_for_its_fraction_of_the_epochs(epochs, fraction, first):
    scores = torch.tensor([[1.0, 1.1, 0.9], [-5.0, 9.0, -5.0], [-5.0, -5.0, 9.0]])
    options = max_of_hinges.Options(curriculum=fraction)
    batches = [Batch(epoch=epoch, epochs=epochs) for epoch in range(epochs)]
    values = [max_of_hinges.loss(scores, options, batch) for batch in batches]
    sh, mh = sum_of_hinges.loss(scores), max_of_hinges.loss(scores)
    assert sh != mh and values == [sh] * first + [mh] * (epochs - first)
    assert first_epoch_after(fraction, epochs) == first
