import pytest
import specs
import torch
from closeness import assert_near
from installed import MEAN_OF_WORDS, install
from safetensors.torch import save_file

from vsepp.base.errors import VseppError
from vsepp.base.progress import peak_memory
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


def lengths_of(embeddings):
    return embeddings.norm(dim=1)


def test_both_sides_lie_on_the_unit_sphere_and_the_score_is_the_cosine():
    joint = model()
    images, captions = joint.embed_images(ImageBatch(features())), joint.embed_captions(IDS, LENGTHS)
    torch.testing.assert_close(lengths_of(images), torch.ones(3))
    torch.testing.assert_close(lengths_of(captions), torch.ones(2))
    cosine = torch.nn.functional.cosine_similarity(images[:, None], captions[None], dim=2)
    assert_near(joint.scores(images, captions), cosine, 1e-5)


def test_vse0_leaves_the_image_embedding_as_long_as_it_is():
    joint = model(normalise_images=False)
    f = features()
    expected = (f / f.norm(dim=1, keepdim=True)) @ joint.image_map.weight.T + joint.image_map.bias
    assert_near(joint.embed_images(ImageBatch(f)), expected, 1e-5)
    torch.testing.assert_close(lengths_of(joint.embed_captions(IDS, LENGTHS)), torch.ones(2))


def test_without_normalise_features_their_length_matters():
    assert_near(
        *(model(normalise_images=False).embed_images(ImageBatch(k * features())) for k in (1, 9)), 1e-5
    )
    plain = model(normalise_images=False, normalise_features=False)
    assert_near(
        plain.embed_images(ImageBatch(9 * features())), 9 * plain.embed_images(ImageBatch(features())), 1e-5
    )


def test_absolute_values_are_taken_after_the_normalisation():
    signed, absolute = model(), model(absolute=True)
    torch.testing.assert_close(
        absolute.embed_images(ImageBatch(features())), signed.embed_images(ImageBatch(features())).abs()
    )
    captions = signed.embed_captions(IDS, LENGTHS)
    assert (captions < 0).any()
    torch.testing.assert_close(absolute.embed_captions(IDS, LENGTHS), captions.abs())


def test_the_image_map_starts_xavier_uniform_with_a_zero_bias():
    joint = model(feature_dim=300)
    bound = (6 / (300 + 6)) ** 0.5
    assert bound * 0.99 < joint.image_map.weight.abs().max() <= bound
    assert torch.equal(joint.image_map.bias, torch.zeros(6))
    assert model(image_bias=False).image_map.bias is None


def test_the_caption_projection_maps_the_state_before_it_is_normalised():
    joint = model(text__dim=9, caption_projection=True)
    expected = l2_normalise(joint.text(IDS, LENGTHS) @ joint.caption_map.weight.T)
    assert_near(joint.embed_captions(IDS, LENGTHS), expected, 1e-5)


def test_models_score_with_the_similarity_and_the_options_of_their_spec():
    images, captions = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])
    assert model(similarity__name="order").scores(images, captions).item() == -25
    assert model(similarity=Component("order", {"form": "root"})).scores(images, captions).item() == -5


def test_a_zero_vector_stays_zero_with_a_finite_gradient():
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    unit = l2_normalise(vectors)
    unit.sum().backward()
    torch.testing.assert_close(unit, torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    assert vectors.grad[0].tolist() == [1, 1]
    torch.testing.assert_close(vectors.grad[1], torch.tensor([0.032, -0.024]))


def test_an_encoder_in_the_model_sees_normalised_crops():
    encoder = build_encoder(ENCODER).eval()
    joint = model(encoder, encoder.dim).eval()
    crops = torch.randint(
        0, 256, (2, 24, 24, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    pixels = (crops.permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
    expected = l2_normalise(joint.image_map(l2_normalise(encoder.network(pixels))))
    assert_near(joint.embed_images(ImageBatch(crops)), expected, 1e-5)


@pytest.mark.parametrize("text", ["gru", "mean_of_words"])
def test_a_model_is_trained_and_read_back_whatever_its_text_encoder(tmp_path, monkeypatch, text):
    install(monkeypatch, tmp_path, "vsepp.models.text", "mean_of_words", MEAN_OF_WORDS)
    run = specs.RUN
    if text != "gru":
        run = specs.change(run, model__text=Component(text, {"dim": 6}))
    joint = model(text=run.model.text)
    before = {key: value.clone() for key, value in joint.state_dict().items()}
    optimiser = torch.optim.SGD(joint.parameters(), lr=0.1)
    (
        -joint.scores(joint.embed_images(ImageBatch(features(2))), joint.embed_captions(IDS, LENGTHS)).trace()
    ).backward()
    optimiser.step()
    assert not any(torch.equal(value, before[key]) for key, value in joint.state_dict().items())
    save_file(joint.state_dict(), tmp_path / "model.safetensors")
    read = load_joint(run, tmp_path / "model.safetensors", 8)
    assert torch.equal(read.embed_images(ImageBatch(features())), joint.embed_images(ImageBatch(features())))
    assert torch.equal(read.embed_captions(IDS, LENGTHS), joint.embed_captions(IDS, LENGTHS))
    with pytest.raises(
        VseppError, match=r"model.safetensors: .*\btext\.\S*weight\b.*\[8, [46]\].*\[9, [46]\]"
    ):
        load_joint(run, tmp_path / "model.safetensors", 9)


def test_weights_of_a_frozen_run_leave_the_encoder_alone_and_a_live_ones_replace_it():
    def live(seed):
        torch.manual_seed(seed)
        encoder = build_encoder(ENCODER)
        return model(encoder, encoder.dim, seed=seed)

    joint, other = live(0), live(1)
    conv = "encoder.network.0.weight"
    before = joint.state_dict()[conv].clone()
    joint.load_weights(model(feature_dim=128, seed=5).state_dict(), "frozen")
    assert torch.equal(joint.state_dict()[conv], before)
    assert torch.equal(joint.image_map.weight, model(feature_dim=128, seed=5).image_map.weight)
    joint.load_weights(other.state_dict(), "live")
    assert torch.equal(joint.state_dict()[conv], other.state_dict()[conv])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(VseppError, match=r"model\.safetensors: .*delete"):
        load_joint(specs.RUN, tmp_path / "model.safetensors", 8)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__joint_dim": 10**12}, r"image_map\.weight \[6, 10\] for \[1000000000000, 10\]"),
        ({"model__text__dim": 10**9}, r"no memory holds its sizes"),
        ({"model__joint_dim": 10**30}, r"no memory holds its sizes"),
        ({"model__text": Component("bert", {"layers": 10**9, "hidden": 4, "heads": 2})}, "parameters"),
        (
            {"encoder__architecture": "vit/vit_mini", "encoder__input_size": 8192, "finetune_from": "it"},
            "missing",
        ),
    ],
)
def test_sizes_that_the_file_does_not_have_take_no_memory(tmp_path, changes, said):
    save_file(model().state_dict(), tmp_path / "model.safetensors")
    before = peak_memory()
    with pytest.raises(VseppError, match=rf"model\.safetensors: not the weights of this model.*{said}"):
        load_joint(specs.change(specs.RUN, **changes), tmp_path / "model.safetensors", 8)
    assert peak_memory() - before < 1e8
