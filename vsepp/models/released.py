"""A released checkpoint and its vocabulary → the files of a run of this package.

Both are pickles; nothing but tensors and a few named classes is allowed in them.

The released code saves two state dicts: of the image encoder (the map W_f, `fc`, and a CNN if images were read) and of the
text encoder. `opt` are the flags of its training, which must match the run that the file is taken for.
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from vsepp.base.errors import VseppError
from vsepp.base.files import bytes_of, read_json, reading, shortly, write_text
from vsepp.base.publish import CONFIG, MODEL_FILE
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import to_json
from vsepp.data.captions import SPECIAL, Vocabulary
from vsepp.models import weights
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding

TOKENIZER = (
    "of the released code: lower case, nltk's Punkt sentences, then its word tokenizer; the released file holds "
    "words alone, so counts, threshold, splits and captions are left empty"
)
EXPECTED = (
    "a file of the released code as its authors published it, unpacked. Nothing in it was executed: fetch it again and compare "
    "its SHA-256"
)
_OF_JSON = "an object of `word2idx`, word → index, and `idx2word`, index → word, as SCAN and VSE∞ publish theirs: give the file of the model"
# vocab.py writes them as the main program, so in its pickles the class belongs to __main__.
_VOCABULARY = (("vocab", "Vocabulary"), ("__main__", "Vocabulary"))
_KEYS = ("word2idx", "idx2word")
_MEASURES = {"dot": "cosine", "order": "order"}
_MAX_VIOLATION = {"max_of_hinges": True, "sum_of_hinges": False}


@dataclass(frozen=True)
class ReleasedCheckpoint:
    """Content of a released checkpoint."""

    image: dict[str, torch.Tensor]
    text: dict[str, torch.Tensor]
    opt: dict[str, Any]
    """Flags of the training."""
    progress: dict[str, int | float | None]
    """`epoch`, `best_rsum` and `Eiters` (steps); `None` if an older file lacks them."""


def import_released(checkpoint: Path, vocabulary: Path, run: RunSpec, out: Path) -> dict[str, Any]:
    """Write a released model as a trained run: `model.safetensors`, `config.json` and `vocabulary.json`.

    Parameters
    ----------
    checkpoint
        `model_best.pth.tar` of the released code.
    vocabulary
        The `<data_name>_vocab.pkl` that the checkpoint was trained with.
    run
        The run that the checkpoint is taken for; with the encoder inside the model if the file holds a CNN.
    out
        Folder to write into.

    Returns
    -------
    dict
        Facts for the manifest: `epoch`, `best_rsum` and `Eiters` of the file, `opt` and `words`.

    Raises
    ------
    VseppError
        If a file is refused, does not have the released code's structure, or is not of this run; then with all
        disagreements: key, value of the file, value of the run.
    """
    content = read_checkpoint(checkpoint)
    words = read_vocabulary(vocabulary)
    if problems := disagreements(content, run):
        raise VseppError(
            f"{checkpoint}: not a model of run {run.id}: {'; '.join(problems)}. Give the checkpoint and the "
            "vocabulary of this run, or the run that they belong to"
        )
    state = fit_state(our_state(content), run, len(words), checkpoint)
    words.write(out)
    write_text(out / CONFIG, to_json(run) + "\n")
    save_file({key: value.contiguous() for key, value in state.items()}, out / MODEL_FILE)
    return {**content.progress, "opt": content.opt, "words": len(words)}


def read_checkpoint(path: Path) -> ReleasedCheckpoint:
    """Read a released checkpoint onto the CPU: a file of `torch.save`, of PyTorch 0.1.12 to 1.5 (sequential) or newer (zip).

    Raises
    ------
    VseppError
        If the file is missing, damaged, names anything but tensors, containers and `argparse.Namespace`, or is not
        `{model: [image encoder, text encoder], opt, ...}`.
    """
    with warnings.catch_warnings(action="ignore"):
        content = weights.unpickle(path, EXPECTED, [argparse.Namespace, *_OF_NUMPY])
    match content:
        case {"model": [dict(image), dict(text)], "opt": argparse.Namespace() as flags} if vars(flags):
            progress = {key: content.get(key) for key in ("epoch", "best_rsum", "Eiters")}
        case _:
            raise VseppError(
                f"{path}: not a checkpoint of the released code: expected a dictionary with `model` (the state dicts "
                f"of the image and the text encoder) and `opt` (the flags of its training), found {shortly(content)}"
            )
    with reading(path, EXPECTED):
        # They are written into the manifest.
        opt = {key: _plain(value, f"opt.{key}") for key, value in vars(flags).items()}
        progress = {key: _plain(value, key) for key, value in progress.items()}
        most = path.stat().st_size
        return ReleasedCheckpoint(
            _tensors(image, "model.0", most), _tensors(text, "model.1", most), opt, progress
        )


class _NumpyType:
    """Stands in for numpy.dtype, so that a file steers nothing in NumPy."""

    def __init__(self, code: str, *_: object) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: Sequence[Any]) -> None:
        self.order = state[1]


def _number(kind: _NumpyType, data: bytes) -> Any:
    """The Python value of a scalar of NumPy."""
    if not re.fullmatch(r"[biuf]\d|U\d{1,4}", kind.code):
        raise VseppError(
            f"it holds a scalar of NumPy's type {shortly(kind.code)}; expected a number or a text"
        )
    order = kind.order if kind.order in "<>" else "="
    (value,) = np.frombuffer(data, np.dtype(f"{order}{kind.code}"))
    return value.item()


_OF_NUMPY = (
    (_NumpyType, "numpy.dtype"),
    (_number, "numpy.core.multiarray.scalar"),  # NumPy 1
    (_number, "numpy._core.multiarray.scalar"),
)


def _plain(value: Any, key: str) -> Any:
    """A value of a checkpoint as JSON has it: a tensor of one number is that number."""
    match value:
        case torch.Tensor() if value.numel() == 1 and not value.is_complex():
            return value.item()
        case list() | tuple():
            return [_plain(item, key) for item in value]
        case dict():
            return {str(name): _plain(item, f"{key}.{name}") for name, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
    raise VseppError(f"{key} is {_kind(value)}; expected numbers, texts, and lists of them")


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {tuple(value.shape)} on {value.device.type}, {value.layout}"
    return f"a {type(value).__name__}"


def _tensors(state: dict[Any, Any], key: str, most: int) -> dict[str, torch.Tensor]:
    """Contiguous copies, also of tensors that share their numbers or are laid out otherwise; none of more bytes than `most`."""
    copies = {}
    for name, value in state.items():
        plain = (
            isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type == "cpu"
        )
        if not (plain and isinstance(name, str) and value.nbytes <= most):
            raise VseppError(
                f"{key}.{shortly(name)} is {_kind(value)}; expected the name of a parameter, and a tensor that the file holds"
            )
        copies[name] = value.detach().clone(memory_format=torch.contiguous_format)
    return copies


def read_vocabulary(path: Path) -> Vocabulary:
    """A released vocabulary, its words in the order of their indices: of a pickle, or of JSON with `word2idx` and `idx2word`.

    Raises
    ------
    VseppError
        If the file is missing, damaged or holds anything but a `Vocabulary`, an index is missing, a word is repeated, or the
        special words are not first.
    """
    # A new class each time: a pickle can set attributes of the class that it names.
    vocabulary = type("Vocabulary", (), {})

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> type:
            if (module, name) not in _VOCABULARY:
                raise VseppError(f"it names {module}.{name}, which such a file may not hold")
            return vocabulary

    is_json = bytes_of(path, EXPECTED).removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")
    expected = _OF_JSON if is_json else EXPECTED
    with reading(path, expected, kinds=("a pickle", "JSON", "text")):
        if is_json:
            values = read_json(path, expected)
            if not (isinstance(values, dict) and all(isinstance(values.get(key), dict) for key in _KEYS)):
                raise VseppError(f"holds {shortly(values)}; expected {expected}")
            values["idx2word"] = {int(row): word for row, word in values["idx2word"].items()}
        else:
            with path.open("rb") as stream:
                content = Unpickler(stream, encoding="utf-8").load()
            if not isinstance(content, vocabulary):
                raise VseppError(f"holds a {type(content).__name__}; expected {EXPECTED}")
            values = vars(content)
        names = values["idx2word"]
        words = tuple(names[i] for i in range(len(names)))
        "".join(words).encode()  # a pickle may hold half a letter
        fits = values["word2idx"] == {word: i for i, word in enumerate(words)} and words[:4] == SPECIAL
    if not fits:
        raise VseppError(
            f"{path}: expected the words {', '.join(SPECIAL)} first, each word once, and word2idx as the inverse of idx2word; "
            f"found {shortly(words)}"
        )
    return Vocabulary(words, {}, 0, (), 0, TOKENIZER)


def disagreements(content: ReleasedCheckpoint, run: RunSpec) -> list[str]:
    """Disagreements of a checkpoint's flags with a run, one text each: key, value of the file, value of the run.

    Sizes and networks are compared when the weights are loaded. Flags that the file lacks are left out, and so are flags
    without effect in its training: `finetune`, `crop_size` and `use_restval` with precomputed features, and `use_restval` for
    other data than COCO.
    """
    opt, model = content.opt, run.model
    expected: dict[str, Any] = {
        "measure": _MEASURES.get(model.similarity.name, model.similarity.name),
        "max_violation": _MAX_VIOLATION.get(run.loss.name, run.loss.name),
        "use_abs": model.absolute,
        "no_imgnorm": not model.normalise_images,
    }
    name, fixed = str(opt.get("data_name", "")), run.trainset != "RC"
    holds_cnn = any(key.startswith("cnn.") for key in content.image)
    if holds_cnn:
        expected |= {"crop_size": run.crop.size, "finetune": run.finetuned}
        if name == "coco":
            expected["use_restval"] = run.restval
    wrong = [
        f"{key} is {opt[key]!r}, of the run {value!r}"
        for key, value in expected.items()
        if opt.get(key, value) != value
    ]
    if holds_cnn != run.live_encoder:
        holds = "an" if holds_cnn else "no"
        keeps = (
            "in the model" if run.live_encoder else "outside it, since it is frozen and in evaluation mode"
        )
        wrong.append(f"the file holds {holds} image encoder, the run keeps its encoder {keeps}")
    if name and (name.endswith("_precomp") != fixed or (name.startswith("10crop") and run.trainset != "10C")):
        wrong.append(f"data_name is {name!r}, the run's training set {run.trainset!r}")
    if model.normalise_features != (run.image_features == "computed"):
        wrong.append(
            f"computed features are normalised there and published ones not; the run has {run.image_features} ones"
        )
    return wrong


def our_state(content: ReleasedCheckpoint) -> dict[str, torch.Tensor]:
    """The weights under their names here."""
    # Early versions of torchvision put dropout before each linear layer of VGG's classifier, not after it.
    old_vgg = "cnn.classifier.1.weight" in content.image
    names = {key: _image_name(key, old_vgg) for key in content.image}
    names |= {key: _text_name(key) for key in content.text}
    state = {names[key]: value for key, value in (content.image | content.text).items()}
    return {key: value.float() if value.is_floating_point() else value for key, value in state.items()}


def _image_name(key: str, old_vgg: bool) -> str:
    # DataParallel adds a level `module` wherever it is applied.
    parts = [part for part in key.split(".") if part != "module"]
    if old_vgg and parts[:2] == ["cnn", "classifier"]:
        parts[2] = {"1": "0", "4": "3"}.get(parts[2], parts[2])
    if parts[0] == "cnn":
        parts[:1] = ["encoder", "network"]
    elif parts[0] == "fc":
        parts[0] = "image_map"
    return ".".join(parts)


def _text_name(key: str) -> str:
    parts = [part for part in key.split(".") if part != "module"]
    return ".".join(["text", {"embed": "words", "rnn": "gru"}.get(parts[0], parts[0]), *parts[1:]])


def fit_state(
    state: dict[str, torch.Tensor], run: RunSpec, words: int, source: object
) -> dict[str, torch.Tensor]:
    """State of the run's model with these weights.

    Parameters
    ----------
    state
        Weights under their names here.
    run, words
        The run and the size of its vocabulary.
    source
        For the message.

    Raises
    ------
    VseppError
        Naming weights that are missing, unknown or of another shape.
    """
    weight = state.get("image_map.weight")
    dim = None if run.image_features == "computed" or weight is None else weight.shape[1]
    with torch.device("meta"), warnings.catch_warnings(action="ignore"):  # no memory to initialise
        encoder = build_encoder(run.encoder)
        model = JointEmbedding(run.model, dim or encoder.dim, words, encoder if run.live_encoder else None)
    model = model.to_empty(device="cpu")
    model.load_weights(state, source)
    return model.state_dict()
