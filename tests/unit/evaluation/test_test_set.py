"""What a user gives to be scored: matrices and lists rank as a naive loop says, and what is wrong with them is said."""

import json
import sys
import types

import numpy as np
import pandas as pd
import pytest
import torch
from pages import DOCS, blocks, one
from raw_layouts import jpeg
from test_sets import under
from torchvision.transforms.functional import pil_to_tensor

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.data.tables import write_tables
from vsepp.evaluation.test_set import TestSet

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
    found = under(tested).ranks
    assert (found["i2t"].best.tolist(), found["t2i"].best.tolist()) == naive(scores, OWNER)


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
    return path


def list_arrays(k=5, other=4):
    (captions, i2t), (images, t2i) = best(SCORES, k), best(SCORES.T, other)
    return {"i2t_items": captions, "i2t_scores": i2t, "t2i_items": images, "t2i_scores": t2i}


def test_a_matrix_ranks_as_it_says(tmp_path):
    found = TestSet.read(save(tmp_path / "a.npz", scores=SCORES, image_ids=np.arange(IMAGES) + 9))
    assert_ranks(found, SCORES)
    assert (found.similarity, found.image_ids[2], found.caption_ids) == ("matrix of scores", 11, None)
    assert "30 captions in all, matrix of scores\n" in str(under(found))


def test_folds_of_a_matrix_are_its_parts(tmp_path):
    found = under(TestSet.read(save(tmp_path / "a.npz", scores=SCORES)), "5x1K", 2)
    for start in range(0, 10, 2):
        rows = np.flatnonzero((start <= OWNER) & (start + 2 > OWNER))
        i2t, t2i = naive(SCORES[start : start + 2, rows], OWNER[rows] - start)
        assert found.ranks["i2t"].best[start : start + 2].tolist() == i2t
        assert found.ranks["t2i"].best[np.isin(found.truth.tasks["t2i"].queries, rows)].tolist() == t2i


def test_what_lists_leave_out_is_tied_below(tmp_path):
    found = TestSet.read(save(tmp_path / "a.npz", **list_arrays()))
    of_images, of_captions = truncated(SCORES, 5, 4)
    ranks = under(found).ranks
    assert ranks["i2t"].best.tolist() == naive(of_images, OWNER)[0]
    assert ranks["t2i"].best.tolist() == naive(of_captions, OWNER)[1]
    assert found.similarity == "lists of the 5 and 4 best"


def test_a_shorter_list_ends_in_minus_one(tmp_path):
    arrays = list_arrays()
    arrays["i2t_items"][3, 2:], arrays["i2t_scores"][3, 2:] = -1, np.nan
    found = TestSet.read(save(tmp_path / "a.npz", **arrays))
    of_images, _ = truncated(SCORES, 5, 4)
    of_images[3] = -np.inf
    of_images[3, arrays["i2t_items"][3, :2]] = arrays["i2t_scores"][3, :2]
    assert under(found).ranks["i2t"].best.tolist() == naive(of_images, OWNER)[0]
    assert found.similarity.endswith(", some shorter")


def test_folds_of_lists_are_refused_unless_a_fold_is_all(tmp_path):
    found = TestSet.read(save(tmp_path / "a.npz", **list_arrays()))
    with pytest.raises(VseppError, match=r"lists of the 5 and 4 best: expected protocol 5K.*too low"):
        under(found, "1K", 6)
    assert under(found, "1K", IMAGES).metrics.to_dict() == under(found).metrics.to_dict()


def wrong_lists(**changes):
    return {"scores": None, **list_arrays(), **changes}


SPOILED = {
    "integers": ({"scores": SCORES.astype(int)}, "scores: "),
    "NaN": ({"scores": np.where(np.eye(IMAGES, CAPTIONS, 2), np.nan, SCORES)}, "scores: .* row 0"),
    "another number of captions": ({"scores": SCORES[:, :29]}, "29"),
    "with embeddings": ({"scores": SCORES, "image_embeddings": SCORES}, "image_embeddings"),
    "half of the lists": (wrong_lists(t2i_items=None), "i2t_items"),
    "twice": (wrong_lists(i2t_items=np.zeros((IMAGES, 5), int)), "i2t: .* query 0"),
    "outside": (wrong_lists(t2i_items=np.full((CAPTIONS, 4), 12)), "t2i: .* 12 "),
    "infinite": (wrong_lists(i2t_scores=np.full((IMAGES, 5), np.inf)), "i2t: .* query 0"),
    "no rows": (wrong_lists(t2i_items=np.array(3), t2i_scores=np.array(1.0)), r"t2i: .*\(\) and \(\)"),
    "dates": (wrong_lists(t2i_scores=np.zeros((CAPTIONS, 4), "M8[D]")), "t2i_scores: .*datetime64"),
    "counted from 1": (wrong_lists(i2t_items=best(SCORES, CAPTIONS)[0] + 1, i2t_scores=SCORES), "subtract 1"),
    "ragged": (wrong_lists(i2t_scores=np.ones((IMAGES, 4))), r"i2t: .*\(12, 5\) and \(12, 4\)"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_arrays_that_do_not_fit_are_refused(case, tmp_path):
    arrays, said = SPOILED[case]
    arrays = {
        name: value for name, value in {"caption_to_image": OWNER, **arrays}.items() if value is not None
    }
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(VseppError, match=f"^{tmp_path / 'a.npz'}: (.|\n)*{said}"):
        TestSet.read(tmp_path / "a.npz")


def test_the_command_scores_a_matrix(tmp_path, capsys):
    """Its scores are distinct; the output says that they rank like chance, and the folder has the metrics that are printed."""
    scores = np.random.default_rng(8).permutation(SCORES.size).reshape(SCORES.shape).astype(float)
    assert (
        main(["evaluate", str(save(tmp_path / "a.npz", scores=scores)), "--output", str(tmp_path / "out")])
        == 0
    )
    said = capsys.readouterr().out
    assert "30 captions in all, matrix of scores\n" in said
    assert said.endswith("\n5K: ranks like chance\n")
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())["5K"]
    assert metrics["i2t"]["meanr"] == np.mean(naive(scores, OWNER)[0]) + 1
    assert set(json.loads((tmp_path / "out/manifest.json").read_text())["inputs"]) == {"embeddings"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["a.npz", "--split", "val", "--encoder", "x"],
            "evaluate: --split, --encoder: only for a trained run",
        ),
        (["nowhere.npz"], "nowhere.npz: no such file"),
    ],
)
def test_options_that_do_not_go_with_what_is_scored(options, said, capsys):
    assert main(["evaluate", *options]) == 1
    assert said in capsys.readouterr().err


class NoModel:
    """As open_clip's models are called, with random embeddings."""

    def encode_image(self, pixels, normalize):
        return torch.nn.functional.normalize(torch.rand(len(pixels), 6))

    def encode_text(self, tokens, normalize):
        return torch.nn.functional.normalize(torch.rand(len(tokens), 6))

    def eval(self):
        return self


def test_what_the_page_writes_with_open_clip_is_evaluated(tmp_path, monkeypatch, capsys):
    """In the split test are images 0, 2 and 3, whose captions follow each other in no order."""
    names, owner = [f"{row}.jpg" for row in range(4)], np.array([3, 0, 1, 2, 0, 3], "i4")
    images = pd.DataFrame({"image_id": ["50", "51", "52", "53"], "file_name": names, "container": "images"})
    images = images.assign(member=names, split=["test", "train", "test", "test"])
    captions = pd.DataFrame({"caption_id": np.arange(6) + 700, "image_index": owner, "text": "a dog"})
    captions = captions.assign(split=images["split"].to_numpy()[owner])
    for folder in ("coco-1a2b3c4d", "pictures"):
        (tmp_path / folder).mkdir()
    write_tables(tmp_path / "coco-1a2b3c4d", images, captions)
    for row in (0, 2, 3):
        (tmp_path / "pictures" / names[row]).write_bytes(jpeg(row))
    stub = types.ModuleType("open_clip")
    stub.create_model_and_transforms = lambda name, pretrained: (NoModel(), None, pil_to_tensor)
    stub.get_tokenizer = lambda name: lambda texts: torch.zeros(len(texts), 77)
    monkeypatch.setitem(sys.modules, "open_clip", stub)
    monkeypatch.chdir(tmp_path)
    code = one(blocks((DOCS / "referee.md").read_text(encoding="utf-8")), "from pathlib import Path")
    for shown, here in (("results/paper/corpora", "."), ("/data/coco/val2014", "pictures")):
        assert shown in code
        code = code.replace(shown, here)
    exec(compile(code, "referee.md", "exec"), {})
    found = TestSet.read(tmp_path / "mine.npz")
    assert found.image_ids.tolist() == [50, 52, 53]
    assert found.caption_ids.tolist() == [700, 701, 703, 704, 705]
    assert found.caption_to_image.tolist() == [2, 0, 1, 0, 2]
    assert main(["evaluate", "mine.npz"]) == 0
    assert "protocol 5K: 1 fold of 3 images, 5 captions in all, dot similarity" in capsys.readouterr().out
