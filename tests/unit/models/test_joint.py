"""The joint embedding: maps, lengths, signs, and its weights in files."""

import pytest
import specs
import torch
from safetensors.torch import save_file

from vsepp.base.errors import VseppError
from vsepp.base.provenance import peak_memory
from vsepp.base.spec import Component
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding, l2_normalise, load_joint
from vsepp.models.sets import ImageBatch

SPEC = specs.MODEL
ENCODER = specs.change(specs.ENCODER, name="resnet", architecture="mini/resnet_mini")
IDS, LENGTHS = torch.tensor([[1, 5, 2], [1, 2, 0]]), torch.tensor([3, 2])


def model(encoder=None, feature_dim=10, seed=0, **changes):
    torch.manual_seed(seed)
    return JointEmbedding(specs.change(SPEC, **changes), feature_dim, 8, encoder)


def features(n=3, seed=1):
    return torch.rand(n, 10, generator=torch.Generator().manual_seed(seed))


def test_the_image_map_starts_xavier_uniform_with_a_zero_bias():
    joint = model(feature_dim=300)
    bound = (6 / (300 + 6)) ** 0.5
    assert bound * 0.99 < joint.image_map.weight.abs().max() <= bound
    assert torch.equal(joint.image_map.bias, torch.zeros(6))
    assert model(image_bias=False).image_map.bias is None


def test_a_zero_vector_stays_zero_with_a_finite_gradient():
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    unit = l2_normalise(vectors)
    unit.sum().backward()
    torch.testing.assert_close(unit, torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    assert vectors.grad[0].tolist() == [1, 1]
    torch.testing.assert_close(vectors.grad[1], torch.tensor([0.032, -0.024]))


def test_a_model_is_trained_and_read_back(tmp_path):
    joint = model()
    before = {key: value.clone() for key, value in joint.state_dict().items()}
    images, captions = joint.embed_images(ImageBatch(features(2))), joint.embed_captions(IDS, LENGTHS)
    (-joint.scores(images, captions).trace()).backward()
    torch.optim.SGD(joint.parameters(), lr=0.1).step()
    assert not any(torch.equal(value, before[key]) for key, value in joint.state_dict().items())
    path = tmp_path / "model.safetensors"
    save_file(joint.state_dict(), path)
    loaded = load_joint(specs.RUN, path, 8)
    for read, trained in zip(loaded.parameters(), joint.parameters(), strict=True):
        assert torch.equal(read, trained)
    with pytest.raises(VseppError, match=r"model.safetensors: .*\btext\.\S*weight\b.*\[8, 4\].*\[9, 4\]"):
        load_joint(specs.RUN, path, 9)


def test_weights_of_a_frozen_run_leave_the_encoder_alone_and_a_live_ones_replace_it():
    def live(seed):
        torch.manual_seed(seed)
        encoder = build_encoder(ENCODER)
        return model(encoder, encoder.dim, seed=seed)

    joint, trained = live(0), live(1)
    conv = "encoder.network.0.weight"
    before = joint.state_dict()[conv].clone()
    joint.load_weights(model(feature_dim=128, seed=5).state_dict(), "frozen")
    assert torch.equal(joint.state_dict()[conv], before)
    assert torch.equal(joint.image_map.weight, model(feature_dim=128, seed=5).image_map.weight)
    joint.load_weights(trained.state_dict(), "live")
    assert torch.equal(joint.state_dict()[conv], trained.state_dict()[conv])


@pytest.mark.parametrize(
    "changes",
    [
        {"model__joint_dim": 10**12},
        {"model__joint_dim": 10**30},
        {"model__text": Component("bert", {"layers": 10**9, "hidden": 4, "heads": 2})},
        {"encoder__architecture": "vit/vit_mini", "encoder__input_size": 8192, "finetune_from": "it"},
    ],
)
def test_sizes_that_the_file_does_not_have_take_no_memory(tmp_path, changes):
    save_file(model().state_dict(), tmp_path / "model.safetensors")
    before = peak_memory()
    with pytest.raises(VseppError, match=r"model\.safetensors: "):
        load_joint(specs.change(specs.RUN, **changes), tmp_path / "model.safetensors", 8)
    assert peak_memory() - before < 1e8
