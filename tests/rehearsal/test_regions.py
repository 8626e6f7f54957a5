"""Published regions of many images: their copy and a training hold a small part of them in memory.

    pytest -m rehearsal tests/rehearsal/test_regions.py -n 0 -s

20,000 made-up images of 36 × 2,048 numbers, as in the regions that SCAN published. Takes two minutes on two cores and 12 GB of
disk below pytest's folder (`--basetemp`), which it gives back.
"""

import dataclasses
import json
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import specs
from artefacts import row, written
from dag import ROOT, Project
from specs import change

from vsepp.base.spec import Component, CorpusSpec, VocabularySpec

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(3600)]

GB = 10**9
SIZES = {"train": 18_000, "dev": 1_000, "testall": 1_000}
REGIONS, DIM = 36, 2048
PROJECT = Project(ROOT)
# The largest that a job may hold besides the files that it maps, of 5.9 GB of features.
MOST = 3 * GB
RUN = dataclasses.replace(
    specs.RUN,
    trainset="regions",
    vocabulary=VocabularySpec(("train",), 4),
    image_features="precomputed",
    model=change(
        specs.MODEL,
        text__word_dim=32,
        text__dim=64,
        joint_dim=64,
        normalise_features=False,
        image_head=Component("regions"),
        image_pooling=Component("gpo"),
    ),
    schedule=change(specs.RUN.schedule, batch_size=128, epochs=1),
)


def write_regions(folder):
    """The folder as SCAN has it; an image's vectors are as many numbers, non-negative, none like another's."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for prefix, count in SIZES.items():
        repeated = 5 if prefix == "dev" else 1
        shape = (count * repeated, REGIONS, DIM)
        rows = np.lib.format.open_memmap(folder / f"{prefix}_ims.npy", "w+", np.float32, shape)
        for start in range(0, count, 100):
            made = rng.random((100, REGIONS, DIM), dtype=np.float32)
            rows[start * repeated : (start + 100) * repeated] = np.repeat(made, repeated, axis=0)
        del rows
        words = rng.integers(0, 500, (5 * count, 8))
        lines = (" ".join(f"w{word}" for word in caption) for caption in words)
        (folder / f"{prefix}_caps.txt").write_text("".join(f"{line}\n" for line in lines))


def anonymous_bytes(pid):
    """What a process holds that is in no file."""
    with suppress(OSError):  # it has ended
        if found := re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text()):
            return int(found[1]) * 1024
    return 0


def made(folder, kind, spec, raw=None, **inputs):
    """Make an artefact; its facts, the seconds, and the most that its process held."""
    began, most = time.monotonic(), 0
    file = written(folder / "plans", row(kind, folder / kind, spec, raw, **inputs))
    process = PROJECT.start("vsepp", "make", kind, kind, "--plan", file, "--device", "cpu")
    while process.poll() is None:
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.01)
    assert process.returncode == 0, process.stdout.read()
    seconds = time.monotonic() - began
    print(f"  {kind}: {seconds:.0f} s, {most / GB:.2f} GB of anonymous memory at most", flush=True)
    return json.loads((folder / kind / "manifest.json").read_text())["facts"], most


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regions")
    write_regions(folder / "f30k_butd")
    yield folder
    shutil.rmtree(folder)


def test_published_regions_are_copied_and_trained_on_with_a_part_of_them_in_memory(folder):
    # One caption an image: fewer steps, with all images in them.
    corpus = CorpusSpec(
        name="f30k", reader=Component("precomp"), captions_per_image=1, surplus_captions="drop"
    )
    raw, tables = {"folder": folder / "f30k_butd"}, folder / "corpus"
    made(folder, "corpus", corpus, raw)
    made(folder, "tokens", RUN.vocabulary, captions=tables / "captions.parquet")
    facts, copying = made(folder, "published", corpus, raw, corpus=tables / "images.parquet")
    assert (facts["images"], facts["vectors"], facts["dim"]) == (20_000, REGIONS, DIM)
    assert facts["rows_per_image"] == {"train": 1, "val": 5, "test": 1}
    assert copying < GB
    shutil.rmtree(folder / "f30k_butd")
    read = {"corpus": tables, "tokens": folder / "tokens", "features": folder / "published"}
    facts, training = made(folder, "run", RUN, **read)
    assert facts["data_on"] == {"image features": "mapped"}
    assert training < MOST
