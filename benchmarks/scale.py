"""A training and a ranking of many made-up pairs: rates, seconds, and memory beside the
sizes of what is read.

    python benchmarks/scale.py --pairs 100000 1000000

The image of a pair has features of 256 numbers, its caption 12 words; GRU and joint space have 256
dimensions, batches 128 pairs. A training takes an epoch. Then all images are embedded and ranked for the
captions of 10,000 of them, and these captions for their images. Each part runs in a process of its own. From
one number of pairs to the next its memory may grow by the sizes that are printed.
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

from vsepp.base.manifest import recorded
from vsepp.base.placement import Placing
from vsepp.base.run_spec import RunSpec
from vsepp.data.captions import END, SPECIAL, START, Tokens, Vocabulary
from vsepp.data.tables import CAPTIONS, IMAGES, read_tables, write_tables
from vsepp.evaluation.embedding_scores import EmbeddingScores
from vsepp.evaluation.encode import embed_captions, embed_images, evaluation_mode
from vsepp.evaluation.ranks import rank_positives
from vsepp.evaluation.truth import own_captions
from vsepp.features.captions import open_captions
from vsepp.features.frozen import FILE as FEATURES
from vsepp.features.images import open_eval_images
from vsepp.models.joint import load_joint
from vsepp.training.data import load_training_data
from vsepp.training.loop import train

DIM, WORDS, JOINT = 256, 12, 256
QUERIES = 10_000
"""Captions that ask, each of another image."""
HELD_OUT = 1000
"""Images of the validation split, and of the test split."""
CPU = torch.device("cpu")


def the_run() -> RunSpec:
    """VSE++ on features, for an epoch."""
    run = made_up.base_run("mini/resnet_mini", 24, 46, JOINT, JOINT)
    return replace(run, schedule=replace(run.schedule, epochs=1))


def make(folder: Path, pairs: int) -> dict[str, float]:
    """Write tables, word ids and features, as the steps before a training do."""
    draw = np.random.default_rng(0)
    split = np.full(pairs, "train", object)
    split[:HELD_OUT], split[HELD_OUT : 2 * HELD_OUT] = "val", "test"
    names = pd.Series(np.arange(pairs)).astype(str) + ".jpg"
    images = {"image_id": names, "file_name": names, "container": "images", "member": names, "split": split}
    owners = np.arange(pairs, dtype=np.int32)
    captions = {"caption_id": np.arange(pairs), "image_index": owners, "text": "", "split": split}
    corpus = folder / "corpus"
    corpus.mkdir()
    with recorded(corpus, "corpus", spec={}, inputs={}):
        write_tables(corpus, pd.DataFrame(images), pd.DataFrame(captions))
    ids = np.empty((pairs, WORDS + 2), np.int32)
    ids[:, 0], ids[:, -1] = START, END
    # Word frequencies fall as in language, so that the gradient of the embeddings is as sparse as there.
    ids[:, 1:-1] = np.minimum(draw.zipf(1.3, (pairs, WORDS)) + END, made_up.VOCABULARY - 1)
    (folder / "tokens").mkdir()
    Tokens(ids.reshape(-1), np.arange(pairs + 1) * ids.shape[1]).save(folder / "tokens")
    words = (*SPECIAL, *(f"w{number}" for number in range(made_up.VOCABULARY - len(SPECIAL))))
    Vocabulary(words, {}, 1, ("train",), pairs, "none").write(folder / "tokens")
    (folder / "features").mkdir()
    features = draw.standard_normal((pairs, 1, DIM), np.float32).clip(0)
    np.save(folder / "features" / FEATURES, features)
    tables = zip((IMAGES, CAPTIONS), read_tables(corpus), strict=True)
    return {
        # Columns as arrays; texts are pointers to strings, of which equal ones are there once.
        "tables_bytes": sum(table[name].nbytes for columns, table in tables for name in columns.names),
        "word_ids_bytes": ids.nbytes + 8 * (pairs + 1),
        "features_bytes": features.nbytes,
    }


def roles(folder: Path) -> dict[str, Path]:
    """Role → folder of what a run reads."""
    return {role: folder / role for role in ("corpus", "tokens", "features")}


def learn(folder: Path, pairs: int) -> dict[str, float]:
    """Train for an epoch."""
    run, folders = the_run(), roles(folder)
    data = load_training_data(run, folders, Placing(CPU))
    (folder / "run").mkdir()
    train(run, data, folder / "run", folder / "state", CPU)
    (rate,) = pd.read_csv(folder / "run/history.csv")["pairs_per_second"]
    return {"pairs_per_second": rate}


def rank(folder: Path, pairs: int) -> dict[str, float]:
    """Embed all images and the captions that ask, and rank both ways."""
    run, folders = the_run(), roles(folder)
    images, captions = read_tables(folders["corpus"])
    texts = open_captions(folders, len(captions))
    asking = np.arange(0, pairs, max(1, pairs // QUERIES))[:QUERIES]
    model = load_joint(run, folder / "run/model.safetensors", made_up.VOCABULARY)
    read = open_eval_images(run, folders, len(images), CPU)
    started = time.monotonic()
    with evaluation_mode(model, CPU):
        vectors = embed_images(model, read, np.arange(pairs), CPU)
        queries = embed_captions(model, texts, asking, CPU)
    embedded = time.monotonic()
    scores = EmbeddingScores(vectors, queries, run.model.similarity)
    ranks = rank_positives(scores, own_captions(asking))
    return {
        "embed_seconds": embedded - started,
        "rank_seconds": time.monotonic() - embedded,
        "embeddings_bytes": vectors.nbytes + queries.nbytes,
        "median_rank": float(np.median(ranks["t2i"].best)),
    }


PARTS: dict[str, Callable[[Path, int], dict[str, float]]] = {"make": make, "train": learn, "rank": rank}


def memory_bytes() -> np.ndarray:
    """Memory of this process: all of it, and what no file backs."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return np.array([1024 * int(lines[name].split()[0]) for name in ("VmRSS", "RssAnon")])


def watched(part: Callable[[Path, int], dict[str, float]], folder: Path, pairs: int) -> dict[str, float]:
    """Figures of a part, its seconds and its largest memory, read twenty times a second."""
    ended, seen = threading.Event(), [memory_bytes()]

    def watch() -> None:
        while not ended.wait(0.05):
            seen.append(memory_bytes())

    watching = threading.Thread(target=watch)
    watching.start()
    started = time.monotonic()
    figures = part(folder, pairs)
    seconds = time.monotonic() - started
    ended.set()
    watching.join()
    resident, anonymous = np.max(seen, axis=0).tolist()
    return {"seconds": seconds, "resident_bytes": resident, "anonymous_bytes": anonymous, **figures}


def measured(folder: Path, pairs: int) -> dict[str, dict[str, float]]:
    """Part → its figures, each from a process of its own."""
    figures = {}
    for part in PARTS:
        command = [sys.executable, __file__, "--part", part, "--folder", str(folder), "--pairs", str(pairs)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        figures[part] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Measure each number of pairs and print its figures, a line a part."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="of a part that is measured by itself")
    parser.add_argument("--part", choices=PARTS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(watched(PARTS[options.part], options.folder, options.pairs[0])))
        return
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory(prefix="vsepp-scale-") as folder:
            for part, figures in measured(Path(folder), pairs).items():
                print(json.dumps({"pairs": pairs, "part": part, **figures}), flush=True)


if __name__ == "__main__":
    main()
