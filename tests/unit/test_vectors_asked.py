"""A model's questions are looked for among vectors in files: among all, or among the vectors an approximate index lists."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import vsepp
from vsepp.cli import main
from vsepp.errors import VseppError
from vsepp.evaluation.approximate import FEWEST, RECALL_AT, open_approximate
from vsepp.search import index_vectors

TEXT = "two dogs on the grass"
MANY = 70_000
"""More vectors than are scored at once."""


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 4), st.integers(1, 30)),
        elements=st.sampled_from([-1, 0, 0.5, 2]),
    ),
    st.lists(st.integers(0, 30), max_size=4),
    st.integers(1, 40),
)
def test_blocks_rank_as_the_whole(scores, cuts, k):
    blocks = [
        block
        for block in np.split(scores, sorted(min(cut, scores.shape[1]) for cut in cuts), axis=1)
        if block.size
    ]
    expected = [sorted(range(len(row)), key=lambda column: -row[column])[:k] for row in scores]
    assert vsepp.rank(iter(blocks), k).tolist() == expected
    assert vsepp.rank(scores, k).tolist() == expected


def test_blocks_without_scores_or_with_nan_are_refused():
    with pytest.raises(VseppError, match="an iterator of none"):
        vsepp.rank(iter([]), k=1)
    with pytest.raises(VseppError, match="candidate 3 has NaN"):
        vsepp.rank(iter([np.zeros((2, 2)), np.array([[0, 0], [1, np.nan]])]), k=1)
    with pytest.raises(VseppError, match=r"got \(2,\)"):
        vsepp.rank(iter([np.zeros(2)]), k=1)


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("efficientnet_lite_pytorch")
    return vsepp.load("flickr8k", device="cpu")


@pytest.fixture(scope="module")
def vectors(model, tmp_path_factory):
    """A folder of three files, and all of their rows: clusters, and a row that is there three times."""
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((300, model.dim), np.float32)
    rows = centres[draw.integers(0, 300, MANY)] + 0.3 * draw.standard_normal((MANY, model.dim), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[[5, 66_000, 69_999]] = model.embed_captions([TEXT])
    folder = tmp_path_factory.mktemp("vectors")
    for number, part in enumerate(np.split(rows, [10, 65_000])):
        np.save(folder / f"{number:05}.npy", part)
    return folder, rows


def test_a_question_finds_the_rows_that_all_scores_rank_first(model, vectors, capsys):
    folder, rows = vectors
    scores = rows @ model.embed_captions([TEXT])[0]
    assert main(["query", "flickr8k", "--text", TEXT, "--vectors", str(folder), "-k", "5", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [int(answer["image_id"]) for answer in answers[:3]] == [5, 66_000, 69_999]
    assert [int(answer["image_id"]) for answer in answers[3:]] == np.argsort(-scores)[3:5].tolist()
    assert main(["query", "flickr8k", "--text", TEXT, "--vectors", str(folder), "-k", "2"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["rank", "score", "image", "id"] and [line.split()[-1] for line in lines] == [
        "5",
        "66000",
    ]


def test_a_picture_finds_rows_too(model, vectors):
    folder, rows = vectors
    picture = np.random.default_rng(1).integers(0, 256, (300, 300, 3), np.uint8)
    best = np.argsort(-(rows @ model.embed_images([picture])[0]))[:4]
    hits = index_vectors(
        "flickr8k", [folder / "00000.npy", folder / "00001.npy", folder / "00002.npy"]
    ).captions_for(picture, 4)
    assert [int(hit.caption) for hit in hits] == best.tolist()
    assert {hit.row for hit in hits} == {-1}


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda file, dim: None, "no such file"),
        (lambda file, dim: np.save(file, np.zeros((3, dim + 1), np.float32)), "a.npy: expected float32 (n, "),
        (lambda file, dim: np.save(file, np.zeros((3, dim))), "got float64"),
        (lambda file, dim: np.save(file, np.array([{}] * 3)), "a.npy"),
        (lambda file, dim: file.write_bytes(b"\x93NUMPY"), "a.npy"),
        (lambda file, dim: file.mkdir(), "found none"),
    ],
)
def test_files_of_something_else_are_named(model, tmp_path, capsys, write, said):
    write(tmp_path / "a.npy", model.dim)
    assert main(["query", "flickr8k", "--text", TEXT, "--vectors", str(tmp_path / "a.npy")]) == 1
    assert said in capsys.readouterr().err


def test_a_truncated_file_and_a_row_that_is_not_a_number_are_named(model, vectors, tmp_path, capsys):
    (tmp_path / "a.npy").write_bytes((vectors[0] / "00001.npy").read_bytes()[:-4])
    assert main(["query", "flickr8k", "--text", TEXT, "--vectors", str(tmp_path / "a.npy")]) == 1
    assert "a.npy" in capsys.readouterr().err
    rows = np.ones((9, model.dim), np.float32)
    rows[7, 3] = np.nan
    np.save(tmp_path / "b.npy", rows)
    assert main(["query", "flickr8k", "--text", TEXT, "--vectors", str(tmp_path / "b.npy")]) == 1
    assert "candidate 7 has NaN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--vectors", "a.npy", "--captions", "b.txt"], "neither --pictures nor --captions"),
        (["--approximate", "a.faiss"], "--approximate: expected --vectors"),
    ],
)
def test_options_that_do_not_go_together(options, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.txt").write_text("a dog\n")
    assert main(["query", "flickr8k", "--text", TEXT, *options]) == 1
    assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def index(model, vectors, tmp_path_factory):
    """An index's file, a folder of its vectors, and all of them."""
    pytest.importorskip("faiss", exc_type=ImportError)
    folder, rows = tmp_path_factory.mktemp("index"), vectors[1][-FEWEST:]
    np.save(folder / "rows.npy", rows)
    open_approximate(folder / "rows.faiss", rows)
    return folder / "rows.faiss", folder, rows


def test_it_says_what_share_of_the_nearest_it_finds(index):
    file, _, rows = index
    approximate = open_approximate(file, rows)
    asking = np.linspace(0, len(rows) - 1, 64).astype(int)
    shares = []
    for row in asking:
        scores = rows @ rows[row]
        scores[row] = -np.inf
        listed = approximate.candidates(rows[row : row + 1], RECALL_AT)
        shares.append(np.isin(np.argsort(-scores)[:RECALL_AT], listed).mean())
    assert approximate.recall == pytest.approx(np.mean(shares), abs=0.01)
    assert 0.5 < approximate.recall <= 1


def test_answers_are_exact_among_the_candidates_and_the_recall_is_printed(index, capsys):
    given = ["query", "flickr8k", "--text", TEXT, "--vectors", str(index[1]), "--approximate", str(index[0])]
    assert main([*given, "-k", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [int(answer["image_id"]) for answer in said["answers"][:2]] == [6000, 9999]
    assert said["recall"] == open_approximate(index[0], index[2]).recall
    assert main([*given, "-k", "3"]) == 0
    assert f"approximate: {said['recall']:.1%} of the ten nearest" in capsys.readouterr().out


def test_other_vectors_and_damaged_files_are_refused(index, tmp_path):
    file, _, rows = index
    with pytest.raises(VseppError, match="of other vectors"):
        open_approximate(file, rows[1:])
    copies = tmp_path / file.name, tmp_path / f"{file.name}.json"
    copies[0].write_bytes(file.read_bytes()[:1000])
    copies[1].write_text(file.with_name(copies[1].name).read_text())
    with pytest.raises(VseppError, match=r"rows\.faiss: .* delete both"):
        open_approximate(copies[0], rows)
    copies[0].write_bytes(file.read_bytes())
    copies[1].unlink()
    with pytest.raises(VseppError, match=r"rows\.faiss: .* delete both"):
        open_approximate(copies[0], rows)


def test_few_vectors_are_scanned(model, tmp_path):
    pytest.importorskip("faiss", exc_type=ImportError)
    with pytest.raises(VseppError, match=f"needs {FEWEST:,} vectors, got 9"):
        open_approximate(tmp_path / "a.faiss", np.ones((9, model.dim), np.float32))
