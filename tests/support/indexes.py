"""Questions to a model, among embeddings that are made up."""

import dataclasses
import struct
import zlib
from pathlib import Path

import numpy as np
import specs
import torch

from vsepp.api import Model
from vsepp.apps.query import Index
from vsepp.base.spec import Component
from vsepp.data.captions import SPECIAL, Vocabulary
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding

DOT, ORDER = Component("dot"), Component("order", {"form": "root"})
DIM = specs.MODEL.joint_dim
PICTURE = np.random.default_rng(3).integers(0, 256, (40, 30, 3), np.uint8)
CAPTIONS = [f"caption {number}" for number in range(12)]


def index(similarity=DOT, **changes):
    """Seven images with one to three captions each, embedded at random; image 4 has none."""
    torch.manual_seed(0)
    run = dataclasses.replace(specs.RUN, model=specs.change(specs.MODEL, similarity=similarity))
    words = Vocabulary((*SPECIAL, "a", "dog", "red"), {}, 1, ("train",), 1, "")
    encoder = build_encoder(run.encoder)
    joint = JointEmbedding(run.model, encoder.dim, len(words))
    numbers = np.random.default_rng(0)
    owners = np.array([0, 1, 1, 2, 3, 3, 3, 5, 5, 5, 6, 6])
    answers = Index(
        Model(run, joint, words, encoder, torch.device("cpu")),
        Path("run"),
        "nowhere",
        numbers.normal(size=(7, DIM)).astype(np.float32),
        [f"id-{row}" for row in range(7)],
        [f"{row}.jpg" for row in range(7)],
        numbers.normal(size=(12, DIM)).astype(np.float32),
        CAPTIONS,
        owners,
        numbers.integers(0, 256, (20, 9, 9, 3), np.uint8),
        np.arange(7) + 5,
    )
    return dataclasses.replace(answers, **changes)


def png(width, height):
    """A PNG that claims a size and holds hardly a pixel."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(b"0" * 1000)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
