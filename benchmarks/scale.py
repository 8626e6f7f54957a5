"""From shards to ranks at several numbers of made-up pairs: rates, and the largest anonymous memory of each part.

    python benchmarks/scale.py --pairs 10000 100000 1000000

Images have features of 512 dimensions in shards, captions 12 words; GRU and joint space have 256. A training of `order: windows` takes
about as many steps of each number, at most 20 epochs. Then 10,000 captions ask among all images, counted in ranges of them. Each part
runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import made_up
import numpy as np
import pandas as pd
import torch

from vsepp.data.shard_files import list_shards
from vsepp.data.tables import read_tables, write_tables
from vsepp.data.tokens import END, SPECIAL, START, Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.evaluation.encode import (
    caption_inputs,
    corpus_tokens,
    embed_captions,
    embed_images,
    eval_images,
    evaluation_mode,
)
from vsepp.evaluation.pieces import Vectors, counts_of_images
from vsepp.evaluation.scores import ranges
from vsepp.features.extract import FILE as FEATURES
from vsepp.models.joint import load_joint
from vsepp.provenance.manifest import recorded
from vsepp.spec import RunSpec
from vsepp.training.data import load_training_data
from vsepp.training.loop import train

DIM, WORDS, JOINT = 512, 12, 256
ITEMS, PARTS = 25_000, 4
"""Images of a shard, and jobs that share them."""
QUERIES, RANGE = 10_000, 50_000
"""Captions that ask, and images of a range."""
HELD_OUT = 1000
"""Images of the validation split."""
CPU = torch.device("cpu")


def the_run(pairs: int) -> RunSpec:
    """VSE++ in windows, for about as many steps of each number of pairs."""
    run = made_up.base_run("mini/resnet_mini", 24, 46, JOINT, JOINT)
    epochs = max(1, min(20, 300_000 // pairs))
    schedule = replace(run.schedule, epochs=epochs, order="windows", order_shard=1024, order_window=4)
    return replace(run, schedule=schedule)


def make(folder: Path, pairs: int) -> dict[str, float]:
    """Write tables and features in shards, and word ids, as the steps before a training do."""
    draw = np.random.default_rng(0)
    split = np.where(np.arange(pairs) < HELD_OUT, "val", "train")
    names = pd.Series(np.arange(pairs)).astype(str) + ".jpg"
    images = {"image_id": names, "file_name": names, "container": "images", "member": names, "split": split}
    owners = np.arange(pairs, dtype=np.int32)
    captions = {"caption_id": np.arange(pairs), "image_index": owners, "text": "", "split": split}
    corpus = folder / "corpus"
    corpus.mkdir()
    with recorded(corpus, "corpus", spec={}, inputs={}):
        write_tables(corpus, pd.DataFrame(images), pd.DataFrame(captions), ITEMS)
    ids = np.empty((pairs, WORDS + 2), np.int32)
    ids[:, 0], ids[:, -1] = START, END
    # Word frequencies fall as in language, so that the gradient of the embeddings is as sparse as there.
    ids[:, 1:-1] = np.minimum(draw.zipf(1.3, (pairs, WORDS)) + END, made_up.VOCABULARY - 1)
    (folder / "tokens").mkdir()
    Tokens(ids.reshape(-1), np.arange(pairs + 1) * ids.shape[1]).save(folder / "tokens")
    words = (*SPECIAL, *(f"w{number}" for number in range(made_up.VOCABULARY - len(SPECIAL))))
    Vocabulary(words, {}, 1, ("train",), pairs, "none").write(folder / "tokens")
    parts = [folder / f"features/part-{part:03}" for part in range(PARTS)]
    shards = list(enumerate(ranges(pairs, ITEMS)))
    for number, part in enumerate(parts):
        part.mkdir(parents=True)
        with recorded(part, "features_part", spec={}, inputs={}):
            for shard, rows in shards[number * len(shards) // PARTS : (number + 1) * len(shards) // PARTS]:
                values = draw.standard_normal((rows.stop - rows.start, 1, DIM), np.float32).clip(0)
                np.save(part / f"{shard:05}.{FEATURES}", values)
    return list_shards(parts, folder / "features", folder / "features")


def roles(folder: Path) -> dict[str, Path]:
    """Role → folder of what a run reads."""
    return {role: folder / role for role in ("corpus", "tokens", "features")}


def learn(folder: Path, pairs: int) -> dict[str, float]:
    """Train, and give the rate of the epochs after the first, or of the only one."""
    run, folders = the_run(pairs), roles(folder)
    data = load_training_data(run, folders, CPU, data_on="mapped")
    (folder / "run").mkdir()
    train(run, data, folder / "run", folder / "state", CPU, folders)
    rates = pd.read_csv(folder / "run/history.csv")["pairs_per_second"].to_numpy()
    return {
        "epochs": len(rates),
        "pairs_per_second": float(np.median(rates[1:] if len(rates) > 1 else rates)),
    }


def rank(folder: Path, pairs: int) -> dict[str, float]:
    """Embed all images into a file and the captions that ask, count range by range, and rank."""
    run, folders = the_run(pairs), roles(folder)
    images, captions = read_tables(folders["corpus"])
    tokens = corpus_tokens(folders, len(captions), run)
    asking = np.arange(0, pairs, max(1, pairs // QUERIES))[:QUERIES]
    model = load_joint(run.model, folder / "run/model.safetensors", made_up.VOCABULARY, None)
    read = eval_images(run, folders, len(images)).rows
    vectors = np.lib.format.open_memmap(folder / "images.npy", "w+", np.float32, (pairs, JOINT))
    started = time.monotonic()
    with evaluation_mode(model, CPU):
        for part in ranges(pairs, RANGE):
            vectors[part] = embed_images(model, read, np.arange(pairs)[part], CPU)
        queries = embed_captions(model, caption_inputs(folders, tokens), asking, CPU)
    embedded = time.monotonic()
    sides = Vectors(vectors, queries, run.model.similarity)
    counts = np.zeros((2, len(asking)), np.int64)
    for part in ranges(pairs, RANGE):
        counts += counts_of_images(sides, asking, part)
    counted = time.monotonic()
    ranks = counts[1] / 2
    return {
        "embed_seconds": embedded - started,
        "count_seconds": counted - embedded,
        "median_rank": float(np.median(ranks)),
    }


PARTS_OF_IT: dict[str, Callable[[Path, int], dict[str, float]]] = {"make": make, "train": learn, "rank": rank}


def anonymous_bytes() -> int:
    """Memory of this process that no file backs."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RssAnon:"))
    return 1024 * int(line.split()[1])


def watched(part: Callable[[Path, int], dict[str, float]], folder: Path, pairs: int) -> dict[str, float]:
    """Figures of a part, its seconds and its largest anonymous memory, read twenty times a second."""
    ended, seen = threading.Event(), [anonymous_bytes()]

    def watch() -> None:
        while not ended.wait(0.05):
            seen.append(anonymous_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    started = time.monotonic()
    found = part(folder, pairs)
    seconds = time.monotonic() - started
    ended.set()
    watching.join()
    return {"seconds": seconds, "anonymous_bytes": max(seen), **found}


def measured(folder: Path, pairs: int) -> dict[str, dict[str, float]]:
    """Part → its figures, each from a process of its own."""
    figures = {}
    for part in PARTS_OF_IT:
        command = [sys.executable, __file__, "--part", part, "--folder", str(folder), "--pairs", str(pairs)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        figures[part] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure each number of pairs and print its figures, a line a part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="of a part that is measured by itself")
    parser.add_argument("--part", choices=PARTS_OF_IT)
    given = parser.parse_args()
    if given.part:
        print(json.dumps(watched(PARTS_OF_IT[given.part], given.folder, given.pairs[0])))
        return
    for pairs in given.pairs:
        with tempfile.TemporaryDirectory(prefix="vsepp-scale-") as folder:
            for part, figures in measured(Path(folder), pairs).items():
                print(json.dumps({"pairs": pairs, "part": part, **figures}), flush=True)


if __name__ == "__main__":
    main()
