"""From downloads to the image store with as much data as the paper's: fetched, killed, resumed, timed.

    pytest -m rehearsal tests/rehearsal/test_full_size.py -s

Takes a quarter of an hour on two cores and up to 35 GB of disk below pytest's folder (`--basetemp`), which it
gives back. Where less than 45 GB are free the store has 64 pixels a side instead of 256, and 1.5 GB.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from artefacts import row, written
from dag import ROOT, Project
from file_server import Request, serve
from fullsize import FULL, corpus_spec, listing, write_raw
from PIL import Image
from processes import wait_until

from vsepp.base.digests import file_digest
from vsepp.base.spec import SourceSpec, StoreSpec, VectorsSpec, VocabularySpec
from vsepp.data.captions import Tokens, Vocabulary
from vsepp.data.decode import CHUNK_IMAGES
from vsepp.data.download import fetch
from vsepp.data.store import open_store
from vsepp.data.tables import read_tables
from vsepp.data.vectors import CaptionVectors

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(5400)]

GB = 10**9
KILLED = "train2014.zip"
PROJECT = Project(ROOT)


def kill_when(process, ready, seconds=900):
    """SIGKILL a step and all its processes as soon as `ready()`, which gives what was seen then."""
    seen = wait_until(ready, process, seconds)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    return seen


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def say(line):
    print(f"  {line}", flush=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fullsize")
    yield folder
    shutil.rmtree(folder)


def made(kind, folder, spec, raw=None, **inputs):
    """The command that makes an artefact in a folder."""
    file = written(folder.parent / "plans", row(kind, folder, spec, raw, **inputs))
    return ["vsepp", "make", kind, folder.name, "--plan", file]


def make_corpus(dataset, downloads, folder):
    """Read a corpus from its raw files."""
    spec = corpus_spec(dataset, downloads)
    PROJECT.said(*made("corpus", folder, replace(spec, files={}), spec.files))


@dataclass
class Downloads:
    """What became of the files of a server, one of whose downloads was killed."""

    folder: Path
    served: dict[str, str]
    """Name → SHA-256."""
    killed_at: int
    """Bytes that had been sent by then."""
    requests: list[Request]
    """For the file whose download was killed."""


@pytest.fixture(scope="module")
def downloads(folder):
    started = time.monotonic()
    files = write_raw(folder / "served")
    sizes = {name: path.stat().st_size for name, path in files.items()}
    say(f"made {sum(sizes.values()) / GB:.1f} GB in {time.monotonic() - started:.0f} s")
    sums = {name: file_digest(path) for name, path in files.items()}
    target, lock = folder / "downloads", folder / "sources.lock.yaml"
    with serve(files) as server:
        # The sum of one file is published, the others' are recorded by their first download.
        sources = {
            name: SourceSpec(
                file=name,
                mirrors=(server.url(name),),
                size=sizes[name],
                sha256=sums[name] if name == KILLED else None,
            )
            for name in files
        }
        server.files[KILLED].bytes_per_second = 150e6
        file = written(folder / "plans", sources={sources[KILLED]: target / KILLED}, lock=lock)
        process = PROJECT.start("vsepp", "fetch", KILLED, "--plan", file)

        def sent_so_far():
            sent = sum(request.sent for request in server.requests)
            return sent if sent > 0.4 * sizes[KILLED] else 0

        killed_at = kill_when(process, sent_so_far)
        assert not (target / KILLED).exists()
        server.files[KILLED].bytes_per_second = None
        started = time.monotonic()
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(fetch, source, target / name, lock) for name, source in sources.items()]:
                done.result()
        say(
            f"fetched and verified in {time.monotonic() - started:.0f} s, one from byte {killed_at / GB:.2f} GB on"
        )
        requests = [request for request in server.requests if request.name == KILLED]
    shutil.rmtree(folder / "served")
    yield Downloads(target, sums, killed_at, requests)
    shutil.rmtree(target)


@pytest.fixture(scope="module")
def coco(folder, downloads):
    """COCO's captions, tokens and vocabulary, and the seconds that these took."""
    out, began = folder / "coco", time.monotonic()
    make_corpus("coco", downloads.folder, out / "corpus")
    read = time.monotonic()
    words, captions = VocabularySpec(splits=("train",), threshold=4), out / "corpus/captions.parquet"
    PROJECT.said(*made("tokens", out / "tokens", words, captions=captions))
    seconds = time.monotonic() - began
    peak = max(manifest(out / step)["peak_memory_bytes"] for step in ("corpus", "tokens"))
    say(f"COCO: corpus {read - began:.0f} s, tokens {seconds - read + began:.0f} s, {peak / GB:.2f} GB")
    return out, seconds, peak


def test_downloads_are_the_served_files_and_a_killed_one_goes_on(downloads):
    found = {name: file_digest(downloads.folder / name) for name in downloads.served}
    assert found == downloads.served
    first, later = downloads.requests
    assert (first.range, first.status, later.status) == (None, 200, 206)
    begin = int(re.fullmatch(r"bytes=(\d+)-", later.range)[1])
    # What lay in the pipes is lost with a kill, and no more; some more came between the look and the kill.
    assert abs(begin - downloads.killed_at) < 64 * 2**20
    assert begin + later.sent == (downloads.folder / KILLED).stat().st_size


def test_cocos_splits_have_the_papers_sizes(coco):
    facts = manifest(coco[0] / "corpus")["facts"]
    assert facts["images"] == {"train": 82_783, "restval": 30_504, "val": 5_000, "test": 5_000}
    assert facts["captions"] == {"train": 413_915, "restval": 152_520, "val": 25_000, "test": 25_000}
    assert facts["ignored"]["surplus captions"] == 332
    images, captions = read_tables(coco[0] / "corpus")
    listed = listing("coco", FULL, 0)
    assert images["image_id"].tolist() == [str(number) for number in listed.ids]
    assert images["split"].tolist() == listed.splits
    assert np.array_equal(captions["image_index"], np.repeat(np.arange(123_287), 5))


def test_cocos_vocabulary_is_of_the_real_size_and_covers_all_captions(coco):
    vocabulary, tokens = Vocabulary.read(coco[0] / "tokens"), Tokens.load(coco[0] / "tokens")
    assert 8_800 < len(vocabulary) < 11_500
    assert len(tokens) == 616_435
    assert tokens.lengths.mean() == pytest.approx(13.5, abs=0.3)


def test_cocos_metadata_take_at_most_two_minutes_and_5_gb(coco):
    _, seconds, peak = coco
    assert peak <= 5 * GB
    assert seconds <= 120


def test_the_vectors_of_cocos_captions_take_at_most_ten_minutes_and_4_gb(coco):
    out, began = coco[0], time.monotonic()
    captions, vectors = out / "corpus/captions.parquet", out / "vectors"
    PROJECT.said(*made("vectors", vectors, VectorsSpec("tfidf", ("train", "restval")), captions=captions))
    seconds, peak = time.monotonic() - began, manifest(vectors)["peak_memory_bytes"]
    say(
        f"COCO: vectors of {len(CaptionVectors.load(vectors)):,} captions {seconds:.0f} s, {peak / GB:.2f} GB"
    )
    assert seconds <= 600 and peak <= 4 * GB


def test_flickr30ks_splits_have_the_papers_sizes(folder, downloads):
    out = folder / "flickr30k"
    make_corpus("flickr30k", downloads.folder, out)
    facts = manifest(out)["facts"]
    assert facts["images"] == {"train": 29_000, "val": 1_014, "test": 1_000}
    assert facts["captions"] == {"train": 145_000, "val": 5_070, "test": 5_000}


def test_the_whole_store_survives_a_kill_and_holds_the_photographs(folder, downloads, coco):
    rows = sum(FULL.coco.values())
    free = shutil.disk_usage(folder).free
    side = 256 if free >= 45 * GB else 64
    say(f"store of {side} pixels a side, {rows * side * side * 3 / GB:.1f} GB; {free / GB:.0f} GB free")
    out, raw = folder / "store", corpus_spec("coco", downloads.folder).files
    store = made("store", out, StoreSpec("squash", side), raw, corpus=coco[0] / "corpus/images.parquet")
    arguments = [*store, "--threads", 2]
    chunks = -(-rows // CHUNK_IMAGES)
    begun = {}

    def done():
        paths = list(out.parent.glob(".state/*/done.jsonl"))
        count = paths[0].read_text().count("\n") if paths else 0
        if count:
            begun.setdefault(count, time.monotonic())
        return count if count >= 0.4 * chunks else 0

    killed_at = kill_when(PROJECT.start(*arguments), done, seconds=3600)
    (first, first_at), (last, last_at) = min(begun.items()), max(begun.items())
    say(f"killed after {killed_at} of {chunks} chunks; until then {_rate(last - first, last_at - first_at)}")
    assert not out.exists() or not (out / "images.npy").exists()

    started = time.monotonic()
    said = PROJECT.said(*arguments)
    kept, missing = map(int, re.search(r"after (\d+) finished chunks, (\d+) to do", said).groups())
    say(f"went on after {kept}; {_rate(missing, time.monotonic() - started)}")
    assert kept >= killed_at
    assert kept + missing == chunks
    assert not list(out.parent.glob(".state/*/done.jsonl"))
    _compare(open_store(out), read_tables(coco[0] / "corpus")[0], downloads.folder, side)
    facts = manifest(out)
    assert facts["facts"]["images"] == rows
    assert facts["peak_memory_bytes"] <= 5 * GB
    shutil.rmtree(out)


def _rate(chunks, seconds):
    return f"{chunks * CHUNK_IMAGES / seconds:.0f} images/s"


def _compare(store, images, folder, side):
    """The first and last rows, those at the edges of chunks, and some others, against their own decoding."""
    assert store.shape == (len(images), side, side, 3)
    edges = np.arange(CHUNK_IMAGES, len(images), CHUNK_IMAGES)
    some = np.random.default_rng(0).choice(len(images), 400, replace=False)
    rows = np.unique(np.concatenate([[0, len(images) - 1], edges - 1, edges, some]))
    with zipfile.ZipFile(folder / "train2014.zip") as train, zipfile.ZipFile(folder / "val2014.zip") as val:
        archives = {"train_images": train, "val_images": val}
        for row in rows.tolist():
            archive = archives[images["container"][row]]
            photograph = Image.open(io.BytesIO(archive.read(images["member"][row])))
            expected = photograph.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
            np.testing.assert_array_equal(store[row], np.asarray(expected), err_msg=f"row {row}")
