"""Pairs per second of the training step at full size, on synthetic features and captions.

    python benchmarks/bench_step.py --threads 2 --json step.json

VSE++ on 1C: 4096-d features, GRU 1024, joint space 1024, word embeddings 300, a vocabulary of 10,000,
captions of about 12.5 tokens, batch 128, MH. Timed are the gathers, the forward and backward pass, clipping and
Adam. On a machine that does other work too, pairs per CPU second with one thread is the figure to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from vsepp.bench.catalogue import FULL_MODEL
from vsepp.data.tokens import END, START, Tokens
from vsepp.evaluation.encode import SplitRows
from vsepp.models.joint import JointEmbedding
from vsepp.spec import LossSpec
from vsepp.training.batches import epoch_batches
from vsepp.training.data import TrainingData
from vsepp.training.epoch import step_inputs
from vsepp.training.step import loss_function, make_optimiser, train_step


def synthetic_data(pairs: int, feature_dim: int, vocabulary: int, seed: int = 0) -> TrainingData:
    """Random features and captions; lengths are spread as COCO's are, 12.5 tokens in the mean."""
    generator = np.random.default_rng(seed)
    lengths = np.clip(np.rint(generator.normal(12.4, 2.4, pairs)), 7, 40).astype(int)
    # Word frequencies fall as in language, so that the gradient of the embeddings is as sparse as there.
    words = np.minimum(generator.zipf(1.3, lengths.sum()) + 3, vocabulary - 1)
    captions = np.split(words, np.cumsum(lengths)[:-1])
    tokens = Tokens.from_lists([[START, *caption[1:-1], END] for caption in captions])
    features = generator.standard_normal((pairs, feature_dim), dtype=np.float32).clip(0)
    none = np.zeros(0, np.int64)
    return TrainingData(
        tokens=tokens,
        vocabulary_size=vocabulary,
        feature_dim=feature_dim,
        pairs=np.arange(pairs),
        image_of=np.arange(pairs),
        train_inputs=lambda rows, epoch: torch.from_numpy(features[rows]),
        eval_inputs=lambda rows: torch.from_numpy(features[rows]),
        validation=SplitRows(none, none, none),
    )


def measure(arguments: argparse.Namespace) -> dict:
    """Time `repeats` blocks of `steps` steps after a warm-up."""
    device = torch.device(arguments.device)
    data = synthetic_data(arguments.batch * 20, arguments.features, arguments.vocabulary)
    torch.manual_seed(0)
    model = JointEmbedding(FULL_MODEL, data.feature_dim, data.vocabulary_size).to(device)
    optimiser = make_optimiser(model, 2e-4)
    loss = loss_function(LossSpec(name=arguments.loss, margin=0.2))
    batches = list(epoch_batches(len(data.pairs), arguments.batch, order_seed=0, epoch=0))

    def block(first: int, steps: int) -> tuple[float, float]:
        started, cpu = time.perf_counter(), time.process_time()
        for step in range(first, first + steps):
            inputs = step_inputs(data, batches[step % len(batches)], 0, device)
            value = train_step(model, optimiser, loss, inputs, clip_norm=2.0)
        assert torch.isfinite(value).item()
        pairs = arguments.batch * steps
        return pairs / (time.perf_counter() - started), pairs / (time.process_time() - cpu)

    block(0, arguments.warm_up)
    blocks = [block(repeat * arguments.steps, arguments.steps) for repeat in range(arguments.repeats)]
    rates, per_cpu_second = zip(*blocks, strict=True)
    return {
        "what": "training step, pairs per second",
        "median": statistics.median(rates),
        "min": min(rates),
        "max": max(rates),
        "per_cpu_second": statistics.median(per_cpu_second),
        "repeats": arguments.repeats,
        "steps_per_repeat": arguments.steps,
        "batch": arguments.batch,
        "tokens_per_caption": float(data.tokens.lengths.mean()),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Parse the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), help="torch threads (default: all cores)"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--features", type=int, default=4096, help="dimensions of an image's feature")
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--loss", default="max_of_hinges")
    parser.add_argument("--steps", type=int, default=10, help="steps per repeat")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=3, help="steps before the clock starts")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    figures = measure(arguments)
    print(
        "pairs/s: median {median:.0f}, min {min:.0f}, max {max:.0f}; per CPU second {per_cpu_second:.0f}; "
        "{threads} threads, load {load_average:.1f}".format(**figures)
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
