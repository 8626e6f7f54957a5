"""Published features in place of computed ones."""

import json
import resource
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vsepp.cli import main
from vsepp.data.corpora import read_corpus
from vsepp.data.tables import write_tables
from vsepp.errors import VseppError
from vsepp.features import precomputed
from vsepp.features.extract import CachedFeatures
from vsepp.features.precomputed import import_precomputed
from vsepp.spec import CorpusSpec, to_json

SIZES = {"train": 7, "dev": 3, "test": 4}


def features_of(prefix, dim=5):
    return np.random.default_rng(len(prefix)).standard_normal((SIZES[prefix], dim)).astype(np.float32)


def write(root: Path, repeated=("train",), sizes=SIZES, dim=5) -> CorpusSpec:
    root.mkdir(parents=True, exist_ok=True)
    for prefix, count in sizes.items():
        rows = np.resize(features_of(prefix, dim), (count, dim))
        np.save(root / f"{prefix}_ims.npy", np.repeat(rows, 5, axis=0) if prefix in repeated else rows)
        (root / f"{prefix}_caps.txt").write_text("a caption\n" * 5 * count)
    return CorpusSpec("f30k", "precomp", {"folder": str(root)}, captions_per_image=5)


@pytest.fixture
def spec(tmp_path):
    return write(tmp_path / "f30k_precomp")


def imported(spec, tmp_path, images=None):
    images = read_corpus(spec)[0] if images is None else images
    return import_precomputed(spec, images, tmp_path / "out", tmp_path / "state")


def test_features_are_the_published_rows_in_the_order_of_the_images_table(spec, tmp_path):
    facts = imported(spec, tmp_path)
    expected = np.concatenate([features_of(prefix) for prefix in SIZES])
    features = CachedFeatures.open(tmp_path / "out")
    assert features.dim == 5
    np.testing.assert_array_equal(features.rows(np.arange(14)), expected)
    assert np.load(tmp_path / "out/features.npy").shape == (14, 1, 5)
    rows = {"train": 5, "val": 1, "test": 1}
    assert facts == {"images": 14, "dim": 5, "rows_per_image": rows, "unit_length": 0.0}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_gives_the_same_features(spec, tmp_path, compression):
    imported(spec, tmp_path)
    with zipfile.ZipFile(tmp_path / "all.zip", "w", compression) as archive:
        for path in Path(spec.files["folder"]).iterdir():
            archive.write(path, f"f30k_precomp/{path.name}")
    imported(replace(spec, files={"folder": str(tmp_path / "all.zip")}), tmp_path / "zip")
    assert (tmp_path / "zip/out/features.npy").read_bytes() == (tmp_path / "out/features.npy").read_bytes()


def test_rows_of_unit_length_are_counted(spec, tmp_path):
    path = Path(spec.files["folder"]) / "test_ims.npy"
    rows = np.load(path)
    np.save(path, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    assert imported(spec, tmp_path)["unit_length"] == 4 / 14


def test_a_rehearsal_takes_the_first_rows(spec, tmp_path):
    spec = replace(spec, first_images={"train": 3, "test": 1})
    imported(spec, tmp_path)
    expected = [features_of("train")[:3], features_of("dev"), features_of("test")[:1]]
    np.testing.assert_array_equal(np.load(tmp_path / "out/features.npy")[:, 0], np.concatenate(expected))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("prefix", "row"), [("dev", 1), ("train", 15)])
def test_values_that_are_not_finite_are_named_with_file_and_row(spec, tmp_path, value, prefix, row):
    path = Path(spec.files["folder"]) / f"{prefix}_ims.npy"
    rows = np.load(path)
    rows[row : row + (5 if prefix == "train" else 1), 2] = value
    np.save(path, rows)
    with pytest.raises(VseppError, match=rf"{path}: rows that hold NaN .*\(1 in all\): row {row}\."):
        imported(spec, tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_table_of_other_files_is_refused(spec, tmp_path):
    images, _ = read_corpus(spec)
    again = write(tmp_path / "other", sizes={**SIZES, "dev": 4})
    with pytest.raises(VseppError, match=r"dev_ims\.npy: has 4 rows, but .* takes 3 for its 3 images of val"):
        imported(again, tmp_path, images)
    once = write(tmp_path / "once", repeated=())
    with pytest.raises(VseppError, match=r"train_ims\.npy: has 7 rows, but .* takes 35"):
        imported(once, tmp_path, images)
    five = write(tmp_path / "five", repeated=("train", "dev"))
    with pytest.raises(VseppError, match=r"dev_ims\.npy: has 15 rows, but .* takes 3 for"):
        imported(five, tmp_path, images)


@pytest.mark.parametrize("change", ["order", "split", "shifted", "photograph"])
def test_rows_of_the_table_that_are_not_the_files_rows_are_refused(spec, tmp_path, change):
    images, _ = read_corpus(spec)
    if change == "order":
        images = images.iloc[[0, 2, 1, *range(3, 14)]]
    elif change == "split":
        images.loc[0, "split"] = "restval"
    elif change == "shifted":
        images.loc[8, "member"] = "dev_ims.npy#2"
    else:
        images.loc[0, "member"] = "1000268201.jpg"
    with pytest.raises(VseppError, match="images table"):
        imported(spec, tmp_path, images)


def test_dimensions_that_differ_between_splits_are_refused(spec, tmp_path):
    images, _ = read_corpus(spec)
    np.save(Path(spec.files["folder"]) / "dev_ims.npy", np.ones((3, 6), np.float32))
    with pytest.raises(VseppError, match=r"train_ims\.npy has 5, .*dev_ims\.npy has 6"):
        imported(spec, tmp_path, images)


def test_a_corpus_of_photographs_is_refused(spec, tmp_path):
    images, _ = read_corpus(spec)
    with pytest.raises(VseppError, match="reader karpathy has no published features"):
        imported(replace(spec, reader="karpathy"), tmp_path, images)


def test_one_image_a_split_is_read(tmp_path):
    spec = write(tmp_path / "one", sizes=dict.fromkeys(SIZES, 1))
    assert imported(spec, tmp_path)["rows_per_image"] == {"train": 5, "val": 1, "test": 1}
    expected = [features_of(prefix)[0] for prefix in SIZES]
    np.testing.assert_array_equal(np.load(tmp_path / "out/features.npy")[:, 0], expected)


@pytest.mark.parametrize("rows", [0, 1, 6, 7, 9, 13, 14])
def test_an_import_goes_on_wherever_it_was_stopped(spec, tmp_path, rows, monkeypatch):
    monkeypatch.setattr(precomputed, "BLOCK_IMAGES", 2)
    imported(spec, tmp_path / "whole")
    whole = (tmp_path / "whole/out/features.npy").read_bytes()
    header = len(whole) - 14 * 5 * 4
    (tmp_path / "state").mkdir()
    # What was written is kept: these rows hold other values than the files do.
    (tmp_path / "state/features.npy").write_bytes(
        whole[:header] + b"\1" * 20 * rows + b"cut off"[: 14 - rows]
    )
    imported(spec, tmp_path)
    result = (tmp_path / "out/features.npy").read_bytes()
    assert result == whole[:header] + b"\1" * 20 * rows + whole[header + 20 * rows :]


def test_a_full_disk_is_said_and_the_next_run_goes_on(spec, tmp_path, monkeypatch):
    monkeypatch.setattr(precomputed, "BLOCK_IMAGES", 2)
    images, _ = read_corpus(spec)
    # A limit on the size of files stops a write as a full disk does.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (128 + 5 * 20, before[1]))
    try:
        with pytest.raises(VseppError, match=r"features\.npy: no space left after 4 of 14 rows"):
            imported(spec, tmp_path, images)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "out").exists()
    imported(spec, tmp_path, images)
    expected = np.concatenate([features_of(prefix) for prefix in SIZES])
    np.testing.assert_array_equal(np.load(tmp_path / "out/features.npy")[:, 0], expected)


def arguments(spec, tmp_path, out="out"):
    given = ["precomputed", "--corpus-spec", to_json(spec), "--corpus", str(tmp_path / "corpus")]
    return [*given, "--output", str(tmp_path / "results" / out)]


def test_the_step_writes_features_and_a_manifest(spec, tmp_path):
    write_tables(tmp_path / "corpus", *read_corpus(spec))
    assert main(arguments(spec, tmp_path)) == 0
    manifest = json.loads((tmp_path / "results/out/manifest.json").read_text())
    assert manifest["step"] == "precomputed"
    assert set(manifest["outputs"]) == {"features.npy"}
    assert set(manifest["inputs"]) == {"images", "train", "dev", "test"}
    assert manifest["facts"]["dim"] == 5
    assert [path.suffix for path in (tmp_path / "results/.state").iterdir()] in ([], [".lock"])


# One row at a time, so that the kill meets the step in the middle.
STEP = """
import sys
from vsepp.cli import main
from vsepp.features import precomputed

precomputed.BLOCK_IMAGES = 1
sys.exit(main(sys.argv[1:]))
"""


def test_a_killed_step_goes_on_by_itself(tmp_path):
    spec = write(tmp_path / "big", repeated=(), sizes={"train": 9_000, "dev": 3, "test": 4}, dim=64)
    write_tables(tmp_path / "corpus", *read_corpus(spec))
    process = subprocess.Popen([sys.executable, "-c", STEP, *arguments(spec, tmp_path)])
    deadline = time.monotonic() + 60
    while not (
        part := [p for p in tmp_path.glob("results/.state/*/features.npy") if p.stat().st_size > 5000]
    ):
        assert process.poll() is None and time.monotonic() < deadline
    process.kill()
    process.wait()
    assert not (tmp_path / "results/out/features.npy").exists()
    assert 5000 < part[0].stat().st_size < 9_007 * 64 * 4
    inode = part[0].stat().st_ino
    assert main(arguments(spec, tmp_path)) == 0
    out = tmp_path / "results/out/features.npy"
    assert out.stat().st_ino == inode
    expected = [np.load(tmp_path / f"big/{prefix}_ims.npy") for prefix in SIZES]
    assert np.array_equal(np.load(out)[:, 0], np.concatenate(expected))
