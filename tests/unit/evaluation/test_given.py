"""What a user gives to be scored: matrices, lists and TREC runs rank as a naive loop says, and what is wrong with them is said."""

import json

import numpy as np
import pandas as pd
import pytest

from vsepp.cli import main
from vsepp.data.tables import write_tables
from vsepp.errors import VseppError
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.given import read_given
from vsepp.evaluation.metric_list import METRICS
from vsepp.evaluation.protocols import evaluate
from vsepp.evaluation.scores import BestLists, ScoredSet, ScoreMatrix
from vsepp.evaluation.trec import write_trec

IMAGES, CAPTIONS = 12, 30
OWNER = np.random.default_rng(4).permutation(np.r_[np.arange(IMAGES), np.arange(IMAGES), :6])
SCORES = np.random.default_rng(5).integers(0, 40, (IMAGES, CAPTIONS)) / 8.0  # many are tied


def rank(row, right):
    """Half of the tied wrong ones above the best right one."""
    best = max(row[item] for item in right)
    wrong = [score for item, score in enumerate(row) if item not in right]
    return sum(score > best for score in wrong) + sum(score == best for score in wrong) / 2


def naive(scores, owner):
    i2t = [rank(row, set(np.flatnonzero(owner == image))) for image, row in enumerate(scores)]
    return i2t, [rank(column, {image}) for column, image in zip(scores.T, owner, strict=True)]


def assert_ranks(tested, scores):
    found = evaluate(tested, "5K").ranks
    assert (found.i2t.tolist(), found.t2i.tolist()) == naive(scores, OWNER)


def best(scores, k):
    items = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return items, np.take_along_axis(scores, items, axis=1)


def truncated(scores, k, other):
    """Scores as lists of k captions and of `other` images know them, for either direction."""
    of_images, of_captions = (np.full(each.shape, -np.inf) for each in (scores, scores.T))
    for table, (items, values) in ((of_images, best(scores, k)), (of_captions, best(scores.T, other))):
        np.put_along_axis(table, items, values, axis=1)
    return of_images, of_captions.T


def save(path, **arrays):
    np.savez(path, **{"caption_to_image": OWNER, **arrays})
    return str(path)


def list_arrays(k=5, other=4):
    (captions, i2t), (images, t2i) = best(SCORES, k), best(SCORES.T, other)
    return {"i2t_items": captions, "i2t_scores": i2t, "t2i_items": images, "t2i_scores": t2i}


def test_a_matrix_ranks_as_it_says(tmp_path):
    found = read_given(save(tmp_path / "a.npz", scores=SCORES, image_ids=np.arange(IMAGES) + 9))
    assert_ranks(found, SCORES)
    assert (found.similarity, found.image_ids[2], found.caption_ids) == ("matrix of scores", 11, None)
    assert "30 captions in all, matrix of scores\n" in str(evaluate(found, "5K"))


def test_folds_of_a_matrix_are_its_parts(tmp_path):
    found = evaluate(read_given(save(tmp_path / "a.npz", scores=SCORES)), "5x1K", fold_size=2)
    for start in range(0, 10, 2):
        rows = np.flatnonzero((start <= OWNER) & (start + 2 > OWNER))
        i2t, t2i = naive(SCORES[start : start + 2, rows], OWNER[rows] - start)
        assert found.ranks.i2t[start : start + 2].tolist() == i2t
        assert found.ranks.t2i[np.isin(found.caption_rows, rows)].tolist() == t2i


def test_what_lists_leave_out_is_tied_below(tmp_path):
    found = read_given(save(tmp_path / "a.npz", **list_arrays()))
    of_images, of_captions = truncated(SCORES, 5, 4)
    ranks = evaluate(found, "5K").ranks
    assert ranks.i2t.tolist() == naive(of_images, OWNER)[0]
    assert ranks.t2i.tolist() == naive(of_captions, OWNER)[1]
    assert found.similarity == "lists of the 5 and 4 best"


def test_a_shorter_list_ends_in_minus_one(tmp_path):
    arrays = list_arrays()
    arrays["i2t_items"][3, 2:], arrays["i2t_scores"][3, 2:] = -1, np.nan
    found = read_given(save(tmp_path / "a.npz", **arrays))
    of_images, _ = truncated(SCORES, 5, 4)
    of_images[3] = -np.inf
    of_images[3, arrays["i2t_items"][3, :2]] = arrays["i2t_scores"][3, :2]
    assert evaluate(found, "5K").ranks.i2t.tolist() == naive(of_images, OWNER)[0]
    assert found.similarity.endswith(", some shorter")
    # In another order of the rows the ranks are the same.
    images, captions = np.random.default_rng(0).permutation(IMAGES), np.random.default_rng(1).permutation(30)
    moved = ScoredSet(found.scores.in_order(images, captions), np.argsort(images)[OWNER[captions]], "x")
    assert evaluate(moved, "5K").ranks.i2t.tolist() == evaluate(found, "5K").ranks.i2t[images].tolist()


def test_folds_of_lists_are_refused_unless_a_fold_is_all(tmp_path):
    found = read_given(save(tmp_path / "a.npz", **list_arrays()))
    with pytest.raises(VseppError, match=r"lists of the 5 and 4 best: expected protocol 5K.*too low"):
        evaluate(found, "1K", fold_size=6)
    assert evaluate(found, "1K", fold_size=IMAGES).metrics == evaluate(found, "5K").metrics


def wrong_lists(**changes):
    return {"scores": None, **list_arrays(), **changes}


SPOILED = {
    "integers": ({"scores": SCORES.astype(int)}, "scores: expected floating-point numbers"),
    "one dimension": ({"scores": SCORES[0]}, r"got shape \(30,\)"),
    "NaN": ({"scores": np.where(np.eye(IMAGES, CAPTIONS, 2), np.nan, SCORES)}, "got NaN in image row 0"),
    "another number of captions": ({"scores": SCORES[:, :29]}, "expected 29 integers, one per caption"),
    "ids twice": ({"scores": SCORES, "image_ids": np.zeros(IMAGES, int)}, "image_ids: 0 stands at row 0 and"),
    "no owners": ({"scores": SCORES, "caption_to_image": None}, "expected caption_to_image, scores, and ids"),
    "both": ({"scores": SCORES, **list_arrays()}, "expected caption_to_image, scores, and ids"),
    "with embeddings": ({"scores": SCORES, "image_embeddings": SCORES}, "got caption_to_image, image_embeddings"),
    "half of the lists": (wrong_lists(t2i_items=None), "expected caption_to_image, i2t_items"),
    "twice": (wrong_lists(i2t_items=np.zeros((IMAGES, 5), int)), "i2t: the list of query 0 has an item .* twice"),
    "outside": (wrong_lists(t2i_items=np.full((CAPTIONS, 4), 12)), "t2i: .* outside the 12"),
    "infinite": (wrong_lists(i2t_scores=np.full((IMAGES, 5), np.inf)), "not finite"),
    "ragged": (wrong_lists(i2t_scores=np.ones((IMAGES, 4))), r"got int64 \(12, 5\) and \(12, 4\)"),
    "a pickle": ({"scores": np.array([None])}, "no Python objects"),
    "other name": ({"score": SCORES}, "did you mean scores"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_arrays_that_do_not_fit_are_refused(case, tmp_path):
    arrays, said = SPOILED[case]
    arrays = {
        name: value for name, value in {"caption_to_image": OWNER, **arrays}.items() if value is not None
    }
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(VseppError, match=f"^{tmp_path / 'a.npz'}: (.|\n)*{said}"):
        read_given(str(tmp_path / "a.npz"))


@pytest.fixture
def corpus(tmp_path):
    """Its test split has these captions, in their order, and another image lies in between."""
    images = pd.DataFrame({"image_id": [f"im{row}" for row in range(IMAGES + 1)]})
    images = images.assign(file_name=images.image_id + ".jpg", container="c", member="m", split="test")
    images.loc[2, "split"] = "val"
    owner = np.append(OWNER + (OWNER >= 2), 2)
    captions = pd.DataFrame({"caption_id": np.arange(CAPTIONS + 1) + 700, "image_index": owner.astype("i4")})
    captions = captions.assign(text="a", split=["test"] * CAPTIONS + ["val"])
    (tmp_path / "corpus").mkdir()
    write_tables(tmp_path / "corpus", images, captions)
    return tmp_path / "corpus"


IMAGE_IDS = [f"im{row + (row >= 2)}" for row in range(IMAGES)]
CAPTION_IDS = [str(row + 700) for row in range(CAPTIONS)]


def write_runs(folder, k=5, other=4):
    """Lines in no order, the column of ranks wrong."""
    folder.mkdir(exist_ok=True)
    for task, scores, queries, documents, depth in (
        ("i2t", SCORES, IMAGE_IDS, CAPTION_IDS, k),
        ("t2i", SCORES.T, CAPTION_IDS, IMAGE_IDS, other),
    ):
        lines = [
            f"{queries[row]} Q0 {documents[item]} 1 {score} mine"
            for row, (items, values) in enumerate(zip(*best(scores, depth), strict=True))
            for item, score in zip(items, values, strict=True)
        ]
        np.random.default_rng(0).shuffle(lines)
        (folder / f"{task}.run").write_text("\n".join(lines) + "\n")
    return folder


def test_runs_rank_by_their_scores(tmp_path, corpus):
    found = read_given(str(write_runs(tmp_path / "runs")), corpus)
    of_images, of_captions = truncated(SCORES, 5, 4)
    ranks = evaluate(found, "5K").ranks
    assert ranks.i2t.tolist() == naive(of_images, OWNER)[0]
    assert ranks.t2i.tolist() == naive(of_captions, OWNER)[1]
    assert (found.image_ids.tolist(), found.caption_ids[3]) == (IMAGE_IDS, 703)


def test_a_query_with_fewer_results_than_others(tmp_path, corpus):
    runs = write_runs(tmp_path / "runs")
    lines = (runs / "i2t.run").read_text().splitlines()
    kept = [line for line in lines if line.startswith("im5 ")][:1]
    (runs / "i2t.run").write_text("\n".join([line for line in lines if not line.startswith("im5 ")] + kept))
    found = read_given(str(runs), corpus)
    row, caption = IMAGE_IDS.index("im5"), int(kept[0].split()[2]) - 700
    only = np.full(CAPTIONS, -np.inf)
    only[caption] = 1
    expected = rank(only, set(np.flatnonzero(row == OWNER)))
    assert evaluate(found, "5K").ranks.i2t[row] == expected
    assert found.similarity == "lists of the 5 and 4 best, some shorter"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("im0 Q0 700 1 nan x", "expected a finite score, got nan"),
        ("im0 Q0 700 1 1e999 x", "expected a finite score, got 1e999"),
        ("im0 Q0 700 1 high x", "expected a finite score, got high"),
        ("im2 Q0 700 1 1 x", "got query im2, which it has not"),
        ("im0 Q0 730 1 1 x", "got document 730, which it has not"),
        ("im0 Q0 700 1 1", "expected lines of a TREC run: query, Q0, .*; got 5 fields"),
    ],
)
def test_a_wrong_line_of_a_run_is_named(line, said, tmp_path, corpus):
    runs = write_runs(tmp_path / "runs")
    text = (runs / "i2t.run").read_text()
    (runs / "i2t.run").write_text(line + "\n" + text)
    with pytest.raises(VseppError, match=f"^{runs / 'i2t.run'}: line 1: .*{said}"):
        read_given(str(runs), corpus)


def test_runs_that_lack_something_are_refused(tmp_path, corpus):
    runs = write_runs(tmp_path / "runs")
    text = (runs / "t2i.run").read_text()
    (runs / "t2i.run").write_text(text + text.split("\n")[0] + "\n")
    with pytest.raises(
        VseppError, match=r"t2i.run: line 121: expected each document once, but query \d+ lists im\d+ twice"
    ):
        read_given(str(runs), corpus)
    lines = [line for line in text.splitlines() if not line.startswith(("703 ", "705 "))]
    (runs / "t2i.run").write_text("\n".join(lines))
    with pytest.raises(VseppError, match=r"all 30 queries, got none of 703 \(2 have none\)"):
        read_given(str(runs), corpus)
    (runs / "t2i.run").unlink()
    with pytest.raises(VseppError, match=r"t2i.run: no such file; expected lines of a TREC run"):
        read_given(str(runs), corpus)
    with pytest.raises(VseppError, match=r"runs: expected the tables of the corpus"):
        read_given(str(runs))


def distinct():
    """A matrix whose scores are distinct in float32, in whole numbers."""
    scores = np.random.default_rng(8).permutation(IMAGES * CAPTIONS).reshape(IMAGES, CAPTIONS).astype(float)
    return ScoredSet(ScoreMatrix(scores), OWNER, "x", np.array(IMAGE_IDS), np.array(CAPTION_IDS))


def test_what_is_written_is_read_again(tmp_path, corpus):
    tested = distinct()
    write_trec(tested, tmp_path / "out")
    found = read_given(str(tmp_path / "out"), corpus)
    assert evaluate(found, "5K").metrics == evaluate(tested, "5K").metrics
    write_trec(found, tmp_path / "again")
    for name in ("i2t.run", "t2i.run", "i2t.qrels", "t2i.qrels"):
        assert (tmp_path / "again" / name).read_text() == (tmp_path / "out" / name).read_text()


def test_the_hundred_best_are_written_best_first_and_rows_without_ids(tmp_path):
    scores = np.random.default_rng(0).random((2, 140))
    write_trec(ScoredSet(ScoreMatrix(scores), np.arange(140) % 2, "x"), tmp_path)
    lines = [line.split() for line in (tmp_path / "i2t.run").read_text().splitlines()]
    assert [len([line for line in lines if line[0] == query]) for query in "01"] == [100, 100]
    order = np.argsort(-scores[0])
    assert lines[:2] == [
        ["0", "Q0", str(order[row]), str(row + 1), repr(float(scores[0, order[row]])), "vsepp"] for row in (0, 1)
    ]  # fmt: skip
    assert (tmp_path / "t2i.qrels").read_text().splitlines()[:2] == ["0 0 0 1", "1 0 1 1"]
    assert (tmp_path / "i2t.qrels").read_text().splitlines()[:2] == ["0 0 0 1", "0 0 2 1"]


def test_lists_are_written_without_what_they_lack(tmp_path):
    items, scores = np.array([[1, -1], [0, 1]]), np.array([[0.5, np.nan], [0.1, 0.2]])
    write_trec(ScoredSet(BestLists((items, scores), (items, scores)), np.arange(2), "x"), tmp_path)
    assert (tmp_path / "i2t.run").read_text().splitlines() == [
        "0 Q0 1 1 0.5 vsepp",
        "1 Q0 1 1 0.2 vsepp",
        "1 Q0 0 2 0.1 vsepp",
    ]


def test_ids_with_spaces_cannot_be_written(tmp_path):
    tested = ScoredSet(ScoreMatrix(np.eye(2)), np.arange(2), "x", np.array(["a b", "c"]))
    with pytest.raises(VseppError, match="ids without spaces for TREC runs, got 'a b'"):
        write_trec(tested, tmp_path)


def test_pytrec_eval_reads_the_files_and_finds_our_metrics(tmp_path):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    rows = np.random.default_rng(2).standard_normal((IMAGES + CAPTIONS, 8)).astype(np.float32)
    rows[IMAGES:] += rows[OWNER]
    for tested in (distinct(), Embeddings(rows[:IMAGES], rows[IMAGES:], OWNER)):
        write_trec(tested, tmp_path)
        ours = evaluate(tested, "5K").ranks
        for task in ("i2t", "t2i"):
            with (tmp_path / f"{task}.qrels").open() as qrels, (tmp_path / f"{task}.run").open() as run:
                judged = pytrec_eval.RelevanceEvaluator(
                    pytrec_eval.parse_qrel(qrels), {"success.1,5,10", "recip_rank", "ndcg_cut.10"}
                )
                theirs = judged.evaluate(pytrec_eval.parse_run(run)).values()
            found = {name: np.mean([each[name] for each in theirs]) for name in next(iter(theirs))}
            for k in (1, 5, 10):
                assert METRICS[f"r{k}"](ours.of(task)) == pytest.approx(100 * found[f"success_{k}"], abs=1e-9)
            assert np.mean(1 / (ours.of(task).best + 1)) == pytest.approx(found["recip_rank"], abs=1e-12)
            assert METRICS["ndcg10"](ours.of(task)) == pytest.approx(100 * found["ndcg_cut_10"], abs=1e-9)


def test_the_command_scores_and_writes_all_forms(tmp_path, corpus, capsys):
    out, trec = tmp_path / "out", tmp_path / "trec"
    given = save(tmp_path / "a.npz", scores=distinct().scores.scores, image_ids=np.array(IMAGE_IDS),
                 caption_ids=np.arange(CAPTIONS) + 700)  # fmt: skip
    assert main(["evaluate", given, "--output", str(out), "--trec", str(trec)]) == 0
    first = capsys.readouterr().out
    assert "30 captions in all, matrix of scores\n" in first
    assert first.endswith("\nprotocol 5K: ranks like chance\n")
    again = tmp_path / "again"
    assert main(["evaluate", str(trec), "--corpus", str(corpus), "--output", str(again)]) == 0
    metrics = [json.loads((place / "metrics.json").read_text())["5K"] for place in (out, again)]
    assert metrics[0]["i2t"] == metrics[1]["i2t"] and metrics[0]["t2i"] == metrics[1]["t2i"]
    manifest = json.loads((again / "manifest.json").read_text())
    assert set(manifest["inputs"]) == {"embeddings", "corpus"}
    assert manifest["spec"]["split"] == "test"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["a.npz", "--model", "x"], "evaluate: --model: only for a trained run"),
        (["a.npz", "--pictures", "x"], "evaluate: --pictures: only for a trained run"),
        (["mod:name", "--encoder", "x"], "evaluate: --encoder: only for a trained run"),
        (["--run", "r", "--corpus", "c", "--trec", "x"], "evaluate: --trec: not for a trained run"),
        (
            ["nowhere.run"],
            "nowhere.run: no such file; expected an .npz of embeddings, scores or lists, or a folder",
        ),
    ],
)
def test_options_that_do_not_go_with_what_is_scored(options, said, capsys):
    assert main(["evaluate", *options]) == 1
    assert said in capsys.readouterr().err
