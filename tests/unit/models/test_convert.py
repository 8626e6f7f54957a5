"""Checkpoints of the released code become runs that embed as the authors' code does."""

import json

import legacy_files
import pytest
import specs
import torch
import torchvision
from legacy_files import (
    vocabulary,
    write_pickle,
    write_released,
)
from rounding import assert_near
from torch import nn

from vsepp.base.errors import VseppError
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import Component, CropSpec, from_dict
from vsepp.data.captions import Vocabulary
from vsepp.models import weights as weight_files
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import load_joint
from vsepp.models.released import ReleasedCheckpoint, import_released, our_state, read_vocabulary
from vsepp.models.sets import ImageBatch

WORDS = ["<pad>", "<start>", "<end>", "<unk>", "zebra", "a", "café"]
WORD_DIM, DIM, FEATURE, SIDE = 4, 6, 128, 24
FROZEN = specs.change(specs.RUN, id="coco-vsepp-1c")
LIVE = specs.change(
    FROZEN,
    id="coco-vsepp-rc-rv-ft",
    trainset="RC",
    restval=True,
    encoder__architecture="torchvision/resnet18",
    crop=CropSpec("RC", SIDE, "resized_crop", True),
    finetune_from="coco-vsepp-rc-rv",
    encoder_mode="legacy-master",
)
SUM = Component("sum_of_hinges")
FLAGS = {
    "data_path": "/data",
    "data_name": "coco_precomp",
    "cnn_type": "vgg19",
    "img_dim": FEATURE,
    "crop_size": 224,
    "embed_size": DIM,
    "word_dim": WORD_DIM,
    "num_layers": 1,
    "measure": "cosine",
    "margin": 0.2,
    "learning_rate": 0.01,
    "max_violation": True,
    "use_abs": False,
    "no_imgnorm": False,
    "finetune": False,
    "use_restval": False,
    "vocab_size": len(WORDS),
}
LIVE_FLAGS = {
    **FLAGS,
    "data_name": "coco",
    "cnn_type": "resnet18",
    "img_dim": 4096,  # the default, without effect beside a CNN
    "crop_size": SIDE,
    "finetune": True,
    "use_restval": True,
}


def text_state(words=7, seed=0):
    return legacy_files.text_state(words, WORD_DIM, DIM, seed)


def image_state(dim=FEATURE, seed=1):
    return legacy_files.image_state(dim, DIM, seed)


def write_checkpoint(folder, image=None, text=None, opt=None, **options):
    states = image or image_state(), text or text_state()
    return write_released(folder / "model_best.pth.tar", *states, FLAGS if opt is None else opt, **options)


@pytest.fixture
def words(tmp_path):
    return write_pickle(tmp_path / "coco_vocab.pkl", vocabulary(WORDS))


def authors_norm(x):
    return x / (x * x).sum(1, keepdim=True).sqrt()


def authors_images(features, state, no_imgnorm, use_abs):
    """The released code's image side, its steps written out."""
    embeddings = authors_norm(features) @ state["fc.weight"].T + state["fc.bias"]
    embeddings = embeddings if no_imgnorm else authors_norm(embeddings)
    return embeddings.abs() if use_abs else embeddings


def authors_captions(captions, state, use_abs):
    """The released code's caption side, one caption at a time."""
    gru = nn.GRU(WORD_DIM, DIM)
    gru.load_state_dict({key: state[f"rnn.{key}"] for key in gru.state_dict()})
    states = [gru(state["embed.weight"][ids])[1][0] for ids in captions]
    embeddings = authors_norm(torch.stack(states))
    return embeddings.abs() if use_abs else embeddings


CAPTIONS = [[1, 5, 4, 6, 2], [1, 3, 2], [1, 2]]


def our_captions(model):
    ids = torch.zeros(len(CAPTIONS), 5, dtype=torch.int64)
    for row, caption in zip(ids, CAPTIONS, strict=True):
        row[: len(caption)] = torch.tensor(caption)
    return model.embed_captions(ids, torch.tensor([len(caption) for caption in CAPTIONS]))


ORDER_FLAGS = {
    "measure": "order",
    "use_abs": True,
    "margin": 0.05,
    "max_violation": False,
    "data_name": "10crop_precomp",
}
ORDER = {
    "model__absolute": True,
    "model__similarity": Component("order", {"form": "root"}),
    "loss": SUM,
    "trainset": "10C",
    "restval": True,
}


@pytest.mark.parametrize(
    ("version", "flags", "changes"),
    [
        ("0.3", {}, {}),
        (
            "0.4",
            {"no_imgnorm": True, "max_violation": False},
            {"model__normalise_images": False, "loss": SUM},
        ),
        ("0.4", ORDER_FLAGS, ORDER),
    ],
)
def test_a_model_of_precomputed_features_embeds_as_the_authors_do(tmp_path, words, version, flags, changes):
    run = specs.change(FROZEN, **changes)
    checkpoint = write_checkpoint(tmp_path, opt=FLAGS | flags, version=version)
    import_released(checkpoint, words, run, tmp_path / "run")
    model = load_joint(run, tmp_path / "run" / "model.safetensors", len(WORDS))
    features = torch.rand(4, FEATURE, generator=torch.Generator().manual_seed(3))
    no_imgnorm, use_abs = flags.get("no_imgnorm", False), flags.get("use_abs", False)
    with torch.no_grad():
        expected = authors_images(features, image_state(), no_imgnorm, use_abs)
        assert_near(model.embed_images(ImageBatch(features)), expected, 1e-5)
        assert_near(our_captions(model), authors_captions(CAPTIONS, text_state(), use_abs), 1e-5)


def test_a_fine_tuned_model_brings_its_cnn(tmp_path, words):
    torch.manual_seed(5)
    cnn = torchvision.models.resnet18().eval()
    cnn.fc = nn.Sequential()
    for name, buffer in cnn.named_buffers():
        if name.endswith("running_mean"):
            buffer.uniform_(-0.1, 0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    state = {f"cnn.module.{key}": value for key, value in cnn.state_dict().items()}
    # PyTorch before 0.4.1 did not count batches.
    state = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    state |= image_state(512)
    checkpoint = write_checkpoint(tmp_path, state, opt=LIVE_FLAGS, device="cuda:0")
    facts = import_released(checkpoint, words, LIVE, tmp_path / "run")
    assert facts["opt"]["cnn_type"] == "resnet18"
    weights = tmp_path / "run" / "model.safetensors"
    assert weight_files.read(weights)["encoder.network.bn1.num_batches_tracked"].item() == 0
    model = load_joint(LIVE, weights, len(WORDS))
    crops = torch.randint(
        0, 256, (3, SIDE, SIDE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(4)
    )
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (LIVE.encoder.mean, LIVE.encoder.std))
    with torch.no_grad():
        features = cnn((crops.permute(0, 3, 1, 2) / 255 - mean) / std)
        expected = authors_images(features, state, no_imgnorm=False, use_abs=False)
        assert_near(model.embed_images(ImageBatch(crops)), expected, 1e-4)


@pytest.mark.parametrize(
    ("architecture", "old_numbers"), [("vgg19", False), ("vgg19", True), ("resnet152", False)]
)
def test_the_papers_networks_find_their_weights(architecture, old_numbers):
    """Names alone: with their numbers these files have hundreds of megabytes."""
    run = specs.change(LIVE, encoder__architecture=f"torchvision/{architecture}")
    with torch.device("meta"):
        network = getattr(torchvision.models, architecture)().state_dict()
        expected = build_encoder(run.encoder).state_dict()
    image = {}
    for key, value in network.items():
        if architecture == "resnet152" and not key.startswith("fc."):
            image[f"cnn.module.{key}"] = value
        elif key.startswith("features."):
            image[key.replace("features.", "cnn.features.module.")] = value
        elif key.startswith(("classifier.0.", "classifier.3.")):
            number = str(int(key.split(".")[1]) + old_numbers)
            image[f"cnn.classifier.{number}.{key.rpartition('.')[2]}"] = value
    state = our_state(ReleasedCheckpoint(image, {}, {}, {}))
    assert {key: value.shape for key, value in state.items()} == {
        f"encoder.{key}": value.shape for key, value in expected.items()
    }


def test_wrappers_anywhere_are_seen_through_and_double_weights_become_single(tmp_path, words):
    image = {f"module.{key}": value.double() for key, value in image_state().items()}
    text = {key.replace("rnn.", "rnn.module."): value for key, value in text_state().items()}
    import_released(write_checkpoint(tmp_path, image, text), words, FROZEN, tmp_path / "run")
    weights = weight_files.read(tmp_path / "run" / "model.safetensors")
    assert torch.equal(weights["image_map.weight"], image_state()["fc.weight"])


def test_files_and_facts_of_a_released_checkpoint(tmp_path, words):
    flags = FLAGS | {"learning_rate": 0.001, "margin": 0.05}
    checkpoint = write_checkpoint(tmp_path, opt=flags)
    out = tmp_path / "run"
    out.mkdir()
    facts = import_released(checkpoint, words, FROZEN, out)
    assert {path.name for path in out.iterdir()} == {"model.safetensors", "config.json", "vocabulary.json"}
    assert (facts["epoch"], facts["best_rsum"], facts["Eiters"], facts["words"]) == (27, 401.5, 12345, 7)
    assert facts["opt"] == flags
    assert from_dict(RunSpec, json.loads((out / "config.json").read_text())) == FROZEN
    assert Vocabulary.read(out).words == tuple(WORDS)


CNN = {**image_state(512), "cnn.module.conv1.weight": torch.zeros(64, 3, 7, 7)}
KEPT_APART = specs.change(LIVE, finetune_from=None, encoder_mode="eval")
# Run → parts of the checkpoint → what the message names.
OTHERS = {
    "several flags": (
        specs.change(FROZEN, model__normalise_features=False),
        {"opt": FLAGS | {"measure": "order", "use_abs": True, "data_name": "10crop_precomp"}},
        ["measure is 'order'", "use_abs is True", "data_name is '10crop_precomp'", "computed ones"],
    ),
    "a flag of a fine-tuned run": (
        LIVE,
        {"image": CNN, "opt": LIVE_FLAGS | {"finetune": False, "use_restval": False, "crop_size": 224}},
        ["finetune is False", "use_restval is False", "crop_size is 224"],
    ),
    "no image encoder": (LIVE, {"opt": LIVE_FLAGS}, ["image encoder"]),
    "an image encoder": (KEPT_APART, {"image": CNN, "opt": LIVE_FLAGS}, ["image encoder"]),
    "another dimension": (FROZEN, {"image": image_state(64)}, ["image_map.weight [6, 64]"]),
    "another layer": (
        FROZEN,
        {"text": {**text_state(), "rnn.weight_ih_l1": torch.zeros(3)}},
        ["unknown: text.gru.weight_ih_l1"],
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_with_all_that_differs(tmp_path, words, case):
    run, parts, messages = OTHERS[case]
    checkpoint = write_checkpoint(tmp_path, **parts)
    with pytest.raises(VseppError) as error:
        import_released(checkpoint, words, run, tmp_path / "run")
    assert str(error.value).startswith(f"{checkpoint}: ") and not (tmp_path / "run").exists()
    for message in messages:
        assert message in str(error.value)


def test_flags_without_effect_or_missing_ones_are_left_out(tmp_path, words):
    idle = {"cnn_type": "resnet152", "use_restval": True, "finetune": True}
    import_released(write_checkpoint(tmp_path, opt=FLAGS | idle), words, FROZEN, tmp_path / "a")
    checkpoint = write_checkpoint(tmp_path, opt={"data_name": "coco_precomp", "max_violation": True})
    assert import_released(checkpoint, words, FROZEN, tmp_path / "b")["opt"]["data_name"] == "coco_precomp"


def test_published_features_may_have_any_dimension(tmp_path, words):
    checkpoint = write_checkpoint(tmp_path, image_state(64), opt=FLAGS | {"img_dim": 64})
    run = specs.change(FROZEN, image_features="precomputed", model__normalise_features=False)
    import_released(checkpoint, words, run, tmp_path / "run")


@pytest.mark.parametrize(
    "value",
    [
        vocabulary(WORDS, idx2word=dict(enumerate([*WORDS[:6], "a"]))),
        vocabulary(WORDS, idx2word={**dict(enumerate(WORDS)), 6: 6}),
        vocabulary(["a", "b"]),
        {"word2idx": {}},
    ],
    ids=["a word twice", "a number as a word", "no special words", "a dict"],
)
def test_a_vocabulary_that_is_not_whole_is_refused(tmp_path, value):
    with pytest.raises(VseppError, match=r"v\.pkl: "):
        read_vocabulary(write_pickle(tmp_path / "v.pkl", value))
