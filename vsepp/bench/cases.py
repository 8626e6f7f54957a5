"""From a measurement to a call that does its work once, through the functions that the workflow's steps call."""

from __future__ import annotations

import itertools
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vsepp.bench import reference
from vsepp.bench.case import Case
from vsepp.bench.catalogue import LARGE_PIXELS
from vsepp.bench.made_up import (
    CAPTIONS_PER_IMAGE,
    VOCABULARY,
    captions_of,
    made_up_encoder,
    tables,
    write_artefacts,
    write_features,
    write_photographs,
)
from vsepp.bench.measurement import Measurement
from vsepp.bench.sharing import sharing_case
from vsepp.bench.steps import model_of, step_case, trained_size
from vsepp.data.placement import Placement
from vsepp.data.store import build_store, open_store
from vsepp.evaluation.encode import encode_split
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.evaluation.ranks_on_device import ranks_on_device
from vsepp.features.extract import FILE, extract_features
from vsepp.features.frozen import encode_batch
from vsepp.features.needs import pass_bytes
from vsepp.features.tape_writer import CHUNK_CAPTIONS, TapeJob, write_tape
from vsepp.models.encoder import ImageEncoder, load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.precision import fp32_products_in, products_in
from vsepp.spec import CorpusSpec, RunSpec
from vsepp.training.data import load_training_data

# Steps of a reference epoch: its loader is empty at the start and at the end, so that it works in its own turn alone.
REFERENCE_STEPS = 8
# Where a step of a network of full size takes ten seconds and its loader next to nothing of them.
_REFERENCE_STEPS_ON_CPU = 2
# Chunks of a tape: on a GPU, what is written after the last one was computed should be little beside them.
_TAPE_CHUNKS = {"cpu": 4, "cuda": 8}
# One in so many queries is ranked by sorting: all of them would take minutes.
_SORTED = 500


def make_case(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """Set up a measurement.

    Parameters
    ----------
    measurement
        What.
    folder
        Empty, for made-up artefacts; it must outlive the calls.
    device
        Where networks run. Stores are made on the CPU, and ranks but for `rank-device`.
    """
    make = {
        "forward": _forward,
        "forward-backward": _forward_backward,
        "tape": _tape,
        "step": _step,
        "sharing": sharing_case,
        "reference": _reference,
        "store": _store,
        "features": _features,
        "encode": _encode,
        "rank": _rank,
        "rank-device": _rank_on_device,
        "argsort": _argsort,
    }[measurement.kind]
    return make(measurement, folder, device)


def _pixels(measurement: Measurement, count: int, device: torch.device) -> tuple[Any, torch.Tensor]:
    """The run's encoder, and so many normalised images for it, `(n, 3, size, size)` in its memory format."""
    encoder = made_up_encoder(measurement.run).to(device).eval()
    size = measurement.run.encoder.input_size
    crops = np.random.default_rng(0).integers(0, 256, (count, size, size, 3), np.uint8)
    return encoder, encoder.normalise(torch.from_numpy(crops).to(device))


def _forward(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """Batches through the encoder and nothing else; in bf16 the weights are cast before, not in each call."""
    count = encode_batch(measurement.run.encoder.input_size, device)
    encoder, pixels = _pixels(measurement, count, device)
    if encoder.spec.precision == "bf16":
        cast_weights(encoder)

    def call() -> None:
        with torch.inference_mode(), products_in(encoder.spec.precision, device):
            encoder(pixels)

    return Case(call, count, {"batch": count})


def cast_weights(encoder: nn.Module) -> None:
    """Bring the weights of products to bf16, as autocast would: it computes the same and has none left to cast."""
    for module in encoder.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.to(torch.bfloat16)


def _forward_backward(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    count = measurement.run.schedule.batch_size
    encoder, pixels = _pixels(measurement, count, device)
    encoder.requires_grad_(True)
    slope = torch.ones(count, encoder.dim, device=device)

    def call() -> None:
        for parameter in encoder.parameters():
            parameter.grad = None
        with fp32_products_in(measurement.run.precision, device):
            with torch.autocast(device.type, torch.bfloat16, enabled=measurement.run.precision == "bf16"):
                features = encoder(pixels)
            features.backward(slope.to(features.dtype))

    return Case(call, count, {"batch": count})


def _tape(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """An epoch of a tape, placed, computed and written as the tape step does it, and removed."""
    encoder, store, facts = _frozen_pass(measurement, folder, device)
    job = tape_job(measurement.run, len(store), encoder.dim, folder, device)

    def call() -> None:
        write_tape(job, store, encoder, device=device)
        shutil.rmtree(job.out)
        shutil.rmtree(job.state)

    weights = sum(value.numel() for value in encoder.network.state_dict().values())
    return Case(call, len(job.caption_rows), {**facts, "dim": encoder.dim, "weights": weights})


def _frozen_pass(
    measurement: Measurement, folder: Path, device: torch.device
) -> tuple[ImageEncoder, np.ndarray | torch.Tensor, dict[str, Any]]:
    """An encoder and a store in the place where the steps that run it over images put it, and the facts of both."""
    run = replace(measurement.run, trainset="RC", rc_features="inline")
    artefacts = write_artefacts(replace(measurement, run=run), folder)
    encoder, placement = load_encoder(run.encoder, artefacts.encoder), Placement(device, leave=0)
    placement.leave_for(lambda: pass_bytes(encoder))
    store = placement.place(open_store(artefacts.train_store), "image store").array
    return (
        encoder,
        store,
        {"batch": encode_batch(run.encoder.input_size, device), "data_on": placement.chosen},
    )


def tape_job(run: RunSpec, images: int, dim: int, folder: Path, device: torch.device) -> TapeJob:
    """An epoch of some chunks; on a CPU, where a chunk of large crops takes minutes, of a batch."""
    slow = device.type == "cpu" and run.encoder.input_size > LARGE_PIXELS
    chunks = _TAPE_CHUNKS[device.type] * CHUNK_CAPTIONS
    rows = np.arange(encode_batch(run.encoder.input_size, device) if slow else chunks)
    return TapeJob(
        crop=run.crop,
        caption_rows=rows,
        image_rows=rows // CAPTIONS_PER_IMAGE % images,
        caption_ids=rows,
        dim=dim,
        draw=run.draw,
        epochs=range(1),
        out=folder / "written",
        state=folder / "written-state",
    )


def _step(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    return step_case(measurement, write_artefacts(measurement, folder), device)


def _reference(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """An epoch of reference steps, data loading included."""
    run, size = measurement.run, measurement.run.schedule.batch_size
    slow = device.type == "cpu" and run.trainset == "RC" and run.encoder.input_size > LARGE_PIXELS
    pairs = (_REFERENCE_STEPS_ON_CPU if slow else REFERENCE_STEPS) * size
    measurement = replace(measurement, images=-(-pairs // CAPTIONS_PER_IMAGE))
    tokens = captions_of(pairs)
    captions, image_of = [tokens[row] for row in range(pairs)], np.arange(pairs) // CAPTIONS_PER_IMAGE
    if run.trainset == "RC":
        names = write_photographs(measurement, folder / "photographs")
        files = [folder / "photographs" / name for name in names]
        encoder = made_up_encoder(run).requires_grad_(run.finetuned).eval()
        rows, dim = reference.PhotographPairs(files, captions, image_of, run), encoder.dim
    else:
        encoder, dim = None, measurement.feature_dim
        features = np.load(write_features(folder / "features", measurement.images, dim) / FILE)[:, 0]
        rows = reference.FeaturePairs(features, captions, image_of)
    torch.manual_seed(run.init_seed)
    model = reference.ReferenceModel(JointEmbedding(run.model, dim, VOCABULARY), encoder).to(device)
    optimiser = reference.make_optimiser(model, run.schedule.learning_rate)
    workers = reference_workers()
    loader = reference.make_loader(rows, size, workers, device)

    def call() -> None:
        for batch in loader:
            reference.reference_step(model, optimiser, batch, run)

    return Case(call, pairs, {"batch": size, "workers": workers, "parameters": trained_size(model)})


def reference_workers() -> int:
    """Processes that load: ten, the released code's default, where there are so many cores."""
    return min(10, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _store(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """Photographs decoded, resized and written on one core."""
    members = write_photographs(measurement, folder / "photographs")
    images, _ = tables(len(members), members)
    spec = CorpusSpec("made-up", "coco", {"images": str(folder / "photographs")})
    turn = itertools.count()

    def call() -> None:
        out = folder / f"store-{next(turn)}"
        build_store(images, spec, measurement.run.train_store, out, out / "state", workers=1)

    return Case(
        call,
        len(members),
        {"photograph": "{}×{}".format(*measurement.photograph), "cores": 1, "device": "cpu"},
    )


def _features(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    encoder, store, facts = _frozen_pass(measurement, folder, device)
    turn = itertools.count()

    def call() -> None:
        out = folder / f"features-{next(turn)}"
        extract_features(store, encoder, measurement.run.eval_crop, out, out / "state", device=device)

    return Case(call, len(store), facts)


def _encode(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """A split's captions, and its images from features that are there."""
    data = load_training_data(measurement.run, write_artefacts(measurement, folder), device)
    model, rows = model_of(measurement, data).to(device), data.validation

    def call() -> None:
        encode_split(model, data.eval_inputs, data.tokens, rows, device=device)

    return Case(call, len(rows.captions), {"images": len(rows.images)})


def _rank(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    images, captions, owner = embeddings(measurement)

    def call() -> None:
        retrieval_ranks(images, captions, owner, measurement.run.model.similarity)

    return Case(call, len(images) * len(captions), {"captions": len(captions), "device": "cpu"})


def _rank_on_device(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """As `rank`, the embeddings' way to the device and the ranks' way back included."""
    images, captions, owner = embeddings(measurement)

    def call() -> None:
        ranks_on_device(images, captions, owner, measurement.run.model.similarity, device)

    return Case(call, len(images) * len(captions), {"captions": len(captions)})


def _argsort(measurement: Measurement, folder: Path, device: torch.device) -> Case:
    """One in so many queries, both ways; a score is counted as in `rank`, whose ranks need each of them twice."""
    images, captions, owner = embeddings(measurement)
    image_rows = range(0, len(images), min(_SORTED, len(images)))
    caption_rows = range(0, len(captions), min(_SORTED, len(captions)))

    def call() -> None:
        reference.argsort_ranks(images, captions, owner, image_rows, caption_rows)

    scores = (len(image_rows) * len(captions) + len(caption_rows) * len(images)) // 2
    return Case(call, scores, {"queries": len(image_rows) + len(caption_rows), "device": "cpu"})


def embeddings(measurement: Measurement) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors of images and captions, each caption somewhat nearer to its own image than to others."""
    generator, dim = np.random.default_rng(0), measurement.run.model.joint_dim
    owner = np.repeat(np.arange(measurement.images), CAPTIONS_PER_IMAGE)
    images = generator.standard_normal((measurement.images, dim), np.float32)
    captions = 8 * generator.standard_normal((len(owner), dim), np.float32) + images[owner]
    for vectors in (images, captions):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return images, captions, owner
