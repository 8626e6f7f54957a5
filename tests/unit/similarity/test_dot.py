import torch

from vsepp.similarity.dot import scores


def test_scores_are_inner_products_image_by_caption():
    images = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    captions = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, -1.0]])
    expected = torch.tensor([[3.0, 1.0, 0.0], [8.0, 0.0, -2.0]])
    assert torch.equal(scores(images, captions), expected)
