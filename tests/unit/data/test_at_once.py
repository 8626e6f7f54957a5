"""Two processes that make the same artefact at the same time, by the command line as the workflow calls it."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from raw_layouts import jpeg, write_karpathy

from vsepp.cli import main
from vsepp.data.corpora import read_corpus
from vsepp.data.partial import whole_file
from vsepp.data.store import build_store, open_store
from vsepp.data.tables import read_tables, write_tables
from vsepp.spec import StoreSpec, VocabularySpec, to_json

STEPS = """
import json, sys
from vsepp.cli import main
sys.exit(any(main(arguments) for arguments in json.loads(sys.argv[1])))
"""


def both(*steps: list[str]) -> None:
    """Run steps one after another in two processes at once; both must succeed."""
    command = [sys.executable, "-c", STEPS, json.dumps(steps)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error


def whole(folder: Path, *names: str) -> None:
    """Exactly these files and a manifest lie in a folder, and the manifest's digests are theirs."""
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "manifest.json"])
    outputs = json.loads((folder / "manifest.json").read_text())["outputs"]
    assert outputs == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


@pytest.fixture
def spec(tmp_path):
    return write_karpathy(tmp_path / "raw")


def test_two_stores_at_once_give_one_whole_store(spec, tmp_path):
    for path in Path(spec.files["images"]).iterdir():
        path.write_bytes(jpeg(len(path.name), (1500, 1100)))
    images, captions = read_corpus(spec)
    images = pd.concat([images] * 12, ignore_index=True)
    captions = captions.drop(columns="image_index").assign(image_index=np.int32(0), split=images["split"][0])
    write_tables(tmp_path / "corpus", images, captions)
    store = StoreSpec("squash", 64)
    out = tmp_path / "results/store"
    given = ["--spec", to_json(store), "--corpus-spec", to_json(spec), "--corpus", str(tmp_path / "corpus")]
    both(["store", *given, "--output", str(out)])
    whole(out, "images.npy")
    build_store(images, spec, store, tmp_path / "alone", tmp_path / "state", 1)
    assert np.array_equal(open_store(out), open_store(tmp_path / "alone"))
    assert [path for path in (tmp_path / "results/.state").iterdir() if path.is_dir()] == []


def test_two_readers_of_a_corpus_and_two_makers_of_tokens_at_once_give_whole_files(spec, tmp_path):
    corpus, tokens = tmp_path / "corpus", tmp_path / "tokens"
    words = ["tokens", "--spec", to_json(VocabularySpec(("train",), 1)), "--corpus", str(corpus)]
    both(["corpus", "--spec", to_json(spec), "--output", str(corpus)], [*words, "--output", str(tokens)])
    whole(corpus, "images.parquet", "captions.parquet")
    for table, expected in zip(read_tables(corpus), read_corpus(spec), strict=True):
        pd.testing.assert_frame_equal(table, expected)
    whole(tokens, "tokens.npz", "vocabulary.json")
    assert main([*words, "--output", str(tmp_path / "alone")]) == 0
    assert (tmp_path / "alone/tokens.npz").read_bytes() == (tokens / "tokens.npz").read_bytes()


WRITER = """
import sys
from pathlib import Path
from vsepp.data.partial import whole_file

path, content = Path(sys.argv[1]), sys.argv[2].encode()
for _ in range(200):
    with whole_file(path) as partial, partial.open("wb") as stream:
        for _ in range(10):
            stream.write(content * 100)
            stream.flush()
"""


def test_a_file_that_two_processes_write_again_and_again_is_never_mixed(tmp_path):
    path = tmp_path / "file"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_bytes())
    seen.add(path.read_bytes())
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen <= {b"a" * 1000, b"b" * 1000}
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "file") as partial:
        partial.write_text("half")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"
