"""How fast this device runs the encoders, the training steps, the decoder and the ranking: a minute or two.

Each rate is measured through the function that the workflow's step calls, on made-up images and captions of
realistic sizes, and is the median of some repetitions after a warm-up.
"""

from __future__ import annotations

import io
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from vsepp.data.decode import Chunk, decode_chunk
from vsepp.data.tokens import END, START, Tokens
from vsepp.evaluation.encode import SplitRows, encode_split
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.features.crops import crop_boxes, gather_crops
from vsepp.features.frozen import encode_batch, encode_crops
from vsepp.models.encoders import ImageEncoder, build_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.spec import CropSpec, EncoderSpec, RunSpec, StoreSpec
from vsepp.training.batches import epoch_batches
from vsepp.training.data import TrainingData, TrainInputs
from vsepp.training.epoch import step_inputs
from vsepp.training.step import loss_function, make_optimiser, train_step

VOCABULARY = 10_000
PHOTOGRAPH = (640, 480)
"""Width and height of most photographs of COCO, pixels."""
_CAPTIONS_PER_IMAGE = 5
# Images of the made-up store: few, since one crop costs what another does.
_STORED = 64


class Effort(NamedTuple):
    """How long a rate is measured."""

    seconds: float = 4.0
    """Repeat until so much time has passed."""
    least: int = 3
    """Repetitions at least, unless a single one takes longer than that."""
    most: int = 50
    """Repetitions at most."""


EFFORT = Effort()


class Decoding(NamedTuple):
    """What is decoded into what."""

    store: StoreSpec
    photograph: tuple[int, int] = PHOTOGRAPH
    """Width and height in pixels."""


class Head(NamedTuple):
    """A run's model apart from its encoder."""

    run: RunSpec
    feature_dim: int
    """D_φ."""


class Ranking(NamedTuple):
    """Embeddings to rank."""

    joint_dim: int
    similarity: str


@dataclass(frozen=True)
class Wanted:
    """What to measure, by the name that the record gives it."""

    encoders: Mapping[str, EncoderSpec] = field(default_factory=dict)
    finetuned: Mapping[str, RunSpec] = field(default_factory=dict)
    """Runs whose encoder is trained, by the name of the encoder."""
    heads: Mapping[str, Head] = field(default_factory=dict)
    decoding: Mapping[str, Decoding] = field(default_factory=dict)
    ranking: Mapping[str, Ranking] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many measurements that is."""
        return sum(map(len, (self.encoders, self.finetuned, self.heads, self.decoding, self.ranking)))


def measure(
    wanted: Wanted, device: torch.device, effort: Effort = EFFORT
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure one thing after the other.

    Parameters
    ----------
    wanted
        What.
    device
        Where the networks run; photographs are decoded on one core, and ranks are counted on all of them.
    effort
        For each rate.

    Yields
    ------
    tuple
        Name of an entry and its rates, items a second, with the size of the batch and the number of repetitions:
        `forward_images_per_s`, `train_pairs_per_s`, `pairs_per_s`, `captions_per_s`, `images_per_s_per_core`,
        `scores_per_s`. An encoder comes twice where it is fine-tuned too.
    """
    for name, encoder in wanted.encoders.items():
        yield name, forward_rate(encoder, device, effort)
    for name, run in wanted.finetuned.items():
        yield name, finetuning_rate(run, device, effort)
    for name, head in wanted.heads.items():
        yield name, head_rate(head, device, effort)
    for name, decoding in wanted.decoding.items():
        yield name, decoding_rate(decoding, effort)
    for name, ranking in wanted.ranking.items():
        yield name, ranking_rate(ranking, effort)


def feature_dims(encoders: Mapping[str, EncoderSpec]) -> dict[str, int]:
    """D_φ of some encoders, without making their weights."""
    with torch.device("meta"):
        return {name: build_encoder(encoder).dim for name, encoder in encoders.items()}


def forward_rate(encoder: EncoderSpec, device: torch.device, effort: Effort) -> dict[str, Any]:
    """Crops a second that a frozen encoder turns into features, cut and scaled included, as tapes are written."""
    network = _network(encoder)
    batch = encode_batch(encoder.input_size, device)
    count = batch if device.type == "cpu" else 8 * batch
    store, rows = _store(encoder.store_side), np.arange(count) % _STORED
    boxes, flips = crop_boxes(np.arange(count), 0, 0, CropSpec("RC", encoder.input_size), encoder.store_side)
    rate, repetitions = _rate(
        lambda: encode_crops(store, network, rows, boxes, flips, device), count, device, effort
    )
    return {
        "forward_images_per_s": rate,
        "forward_batch": batch,
        "forward_repetitions": repetitions,
        "dim": network.dim,
        "parameters": sum(value.numel() for value in network.network.state_dict().values()),
    }


def finetuning_rate(run: RunSpec, device: torch.device, effort: Effort) -> dict[str, Any]:
    """Pairs a second of whole fine-tuning steps: crops, both encoders forward and backward, clipping and Adam.

    On a CPU a network of full size is measured with the batch of the frozen pass, since a step of 128 takes minutes.
    """
    batch = run.schedule.batch_size
    if device.type == "cpu":
        batch = min(batch, encode_batch(run.encoder.input_size, device))
    network = _network(run.encoder).requires_grad_(True).eval()
    store, side, size = _store(run.train_store.side), run.train_store.side, run.crop.size

    def crops(rows: np.ndarray, epoch: int) -> torch.Tensor:
        boxes, flips = crop_boxes(rows, run.draw, epoch, run.crop, side)
        return gather_crops(store, rows % _STORED, boxes, flips, size)

    data = _training_data(4 * batch, network.dim, crops)
    rate, repetitions = _step_rate(run, data, batch, device, effort, network)
    return {"train_pairs_per_s": rate, "train_batch": batch, "train_repetitions": repetitions}


def head_rate(head: Head, device: torch.device, effort: Effort) -> dict[str, Any]:
    """Pairs a second of whole steps on features that are there, and captions a second of a validation."""
    run, batch = head.run, head.run.schedule.batch_size
    features = np.random.default_rng(0).standard_normal((20 * batch, head.feature_dim), np.float32).clip(0)
    data = _training_data(
        len(features), head.feature_dim, lambda rows, epoch: torch.from_numpy(features[rows])
    )
    rate, repetitions = _step_rate(run, data, batch, device, effort)
    images = np.arange(0, len(features), _CAPTIONS_PER_IMAGE)
    captions = np.arange(len(features))
    rows = SplitRows(images, captions, captions // _CAPTIONS_PER_IMAGE)
    model = _model(run, data)
    captions_rate, _ = _rate(
        lambda: encode_split(model.to(device), data.eval_inputs, data.tokens, rows, device=device),
        len(captions),
        device,
        effort,
    )
    return {
        "pairs_per_s": rate,
        "captions_per_s": captions_rate,
        "batch": batch,
        "repetitions": repetitions,
    }


def decoding_rate(decoding: Decoding, effort: Effort) -> dict[str, Any]:
    """Photographs a second that one core decodes, resizes and writes into a store."""
    side, photographs = decoding.store.side, [_photograph(decoding.photograph, seed) for seed in range(48)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, data in enumerate(photographs):
            (folder / f"{number}.jpg").write_bytes(data)
        shape = (len(photographs), side, side, 3)
        file = folder / "images.npy"
        offset = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=shape).offset
        members = tuple((name, f"{number}.jpg") for number in range(len(photographs)))
        chunk = Chunk(0, members, file, offset, decoding.store)
        rate, repetitions = _rate(lambda: decode_chunk(chunk), len(members), torch.device("cpu"), effort)
    return {
        "images_per_s_per_core": rate,
        "photograph": "{}×{}".format(*decoding.photograph),
        "mean_bytes": round(statistics.mean(map(len, photographs))),
        "repetitions": repetitions,
    }


def ranking_rate(ranking: Ranking, effort: Effort) -> dict[str, Any]:
    """Scores a second that are made, counted and compared, both ways."""
    images = 2000 if ranking.similarity == "dot" else 300
    generator = np.random.default_rng(0)
    owners = np.repeat(np.arange(images), _CAPTIONS_PER_IMAGE)
    embeddings = [
        generator.standard_normal((count, ranking.joint_dim), np.float32) for count in (images, len(owners))
    ]
    for vectors in embeddings:
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rate, repetitions = _rate(
        lambda: retrieval_ranks(*embeddings, owners, ranking.similarity),
        images * len(owners),
        torch.device("cpu"),
        effort,
    )
    return {"scores_per_s": rate, "repetitions": repetitions}


def _rate(call: Callable[[], Any], items: int, device: torch.device, effort: Effort) -> tuple[float, int]:
    """Items a second of a call, the median of its repetitions after one that does not count."""
    seconds: list[float] = []
    call()
    _finish(device)
    started = time.perf_counter()
    while len(seconds) < effort.most:
        before = time.perf_counter()
        call()
        _finish(device)
        seconds.append(time.perf_counter() - before)
        enough = len(seconds) >= effort.least or seconds[-1] > effort.seconds
        if enough and time.perf_counter() - started >= effort.seconds:
            break
    return items / statistics.median(seconds), len(seconds)


def _finish(device: torch.device) -> None:
    """Wait for what was only handed to the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _step_rate(
    run: RunSpec,
    data: TrainingData,
    batch: int,
    device: torch.device,
    effort: Effort,
    encoder: ImageEncoder | None = None,
) -> tuple[float, int]:
    """Pairs a second of training steps, and how many were timed."""
    model = _model(run, data, encoder).to(device)
    optimiser = make_optimiser(model, run.schedule.learning_rate)
    loss = loss_function(replace(run.loss, negative_set=None))
    batches = list(epoch_batches(len(data.pairs), batch, order_seed=0, epoch=0))
    taken = itertools.count()

    def step() -> None:
        inputs = step_inputs(data, batches[next(taken) % len(batches)], 0, device)
        train_step(model, optimiser, loss, inputs, run.schedule.clip_norm)

    return _rate(step, batch, device, effort)


def _model(run: RunSpec, data: TrainingData, encoder: ImageEncoder | None = None) -> JointEmbedding:
    torch.manual_seed(0)
    return JointEmbedding(run.model, data.feature_dim, data.vocabulary_size, encoder)


def _network(encoder: EncoderSpec) -> ImageEncoder:
    # Which numbers the weights are makes no difference to the time, as long as none is denormal.
    torch.manual_seed(0)
    return build_encoder(encoder)


def _store(side: int) -> np.ndarray:
    """Made-up decoded images, uint8 `(n, side, side, 3)`."""
    return np.random.default_rng(0).integers(0, 256, (_STORED, side, side, 3), np.uint8)


def _training_data(pairs: int, feature_dim: int, inputs: TrainInputs) -> TrainingData:
    """Captions of random words, as long as COCO's (12.4 tokens in the mean), and where their images come from."""
    generator = np.random.default_rng(0)
    lengths = np.clip(np.rint(generator.normal(12.4, 2.4, pairs)), 7, 40).astype(int)
    # Word frequencies fall as in language, so that the gradient of the embeddings is as sparse as there.
    words = np.minimum(generator.zipf(1.3, lengths.sum()) + END, VOCABULARY - 1)
    captions = np.split(words, np.cumsum(lengths)[:-1])
    none = np.zeros(0, np.int64)
    return TrainingData(
        tokens=Tokens.from_lists([[START, *caption[1:-1], END] for caption in captions]),
        vocabulary_size=VOCABULARY,
        feature_dim=feature_dim,
        pairs=np.arange(pairs),
        image_of=np.arange(pairs),
        train_inputs=inputs,
        eval_inputs=lambda rows: inputs(rows, 0),
        validation=SplitRows(none, none, none),
    )


def _photograph(size: tuple[int, int], seed: int) -> bytes:
    """A JPEG of smooth shapes and some grain: at 640×480 of about 160 kB, as COCO's photographs are."""
    generator = np.random.default_rng(seed)
    width, height = size
    coarse = generator.integers(0, 256, (max(height // 24, 2), max(width // 24, 2), 3), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC), np.float32)
    grain = generator.normal(0, 12, (height, width, 1)).astype(np.float32)
    pixels = (smooth + grain).clip(0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=90)
    return stream.getvalue()
