"""What a user gives to be scored: embeddings, matrices and lists rank as a naive loop says, and what is wrong with them is named."""

import io
import json
import pickle

import numpy as np
import pytest
from embedded_sets import embedded, under
from naive_ranks import assert_ranks, best, naive_ranks

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.evaluate_run import mean_of_scores
from vsepp.evaluation.test_set import TestSet
from vsepp.evaluation.truth import own_captions

IMAGES, CAPTIONS = 12, 30
OWNER = np.random.default_rng(4).permutation(np.r_[np.arange(IMAGES), np.arange(IMAGES), :6])
SCORES = np.random.default_rng(5).integers(0, 40, (IMAGES, CAPTIONS)) / 8.0  # many are tied
ROOT = Component("order", {"form": "root"})


def save(path, **arrays):
    arrays = {"caption_to_image": OWNER, **arrays}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def vectors(**changes):
    """Arrays of embeddings."""
    rng = np.random.default_rng(0)
    images, captions = (rng.standard_normal((n, 4)).astype(np.float32) for n in (IMAGES, CAPTIONS))
    return {"image_embeddings": images, "caption_embeddings": captions, "similarity": "order", **changes}


def list_arrays(**changes):
    """Arrays of lists of the 5 best captions and of the 4 best images."""
    (captions, i2t), (images, t2i) = best(SCORES, 5), best(SCORES.T, 4)
    return {"i2t_items": captions, "i2t_scores": i2t, "t2i_items": images, "t2i_scores": t2i, **changes}


def with_similarity(similarity):
    arrays = vectors()
    return embedded(arrays["image_embeddings"], arrays["caption_embeddings"], OWNER, similarity)


# Embeddings.


def test_what_is_saved_is_loaded_and_equal_embeddings_give_equal_bytes(tmp_path):
    tested, path = with_similarity(ROOT), tmp_path / "new" / "embeddings.npz"
    tested.save(path)
    loaded = TestSet.read(path)
    for name, array in tested.scores.arrays.items():
        np.testing.assert_array_equal(loaded.scores.arrays[name], array)
    np.testing.assert_array_equal(loaded.caption_to_image, tested.caption_to_image)
    assert (loaded.scores.similarity, loaded.scores.words) == (ROOT, "order")
    assert [file.name for file in path.parent.iterdir()] == ["embeddings.npz"]
    with_similarity(ROOT).save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_similarity_is_dot_unless_said_and_its_options_the_defaults(tmp_path):
    path = tmp_path / "a.npz"
    for name, similarity in ((None, Component("dot")), ("order", Component("order"))):
        assert TestSet.read(save(path, **vectors(similarity=name))).scores.similarity == similarity
    with_similarity(Component("order", {"form": "squared"})).save(path)
    with np.load(path) as saved:
        assert saved["similarity"] == "order" and "similarity_options" not in saved


# Matrices and lists.


def test_a_matrix_ranks_as_it_says(tmp_path):
    tested = TestSet.read(save(tmp_path / "a.npz", scores=SCORES, image_ids=np.arange(IMAGES) + 9))
    assert_ranks(under(tested).ranks, SCORES, own_captions(OWNER))
    assert (tested.scores.words, tested.image_ids[2], tested.caption_ids) == ("matrix of scores", 11, None)


def test_folds_of_a_matrix_are_its_parts(tmp_path):
    evaluation = under(TestSet.read(save(tmp_path / "a.npz", scores=SCORES)), "5x1K", 2)
    for start in range(0, 10, 2):
        rows = np.flatnonzero((start <= OWNER) & (start + 2 > OWNER))
        part, truth = SCORES[start : start + 2, rows], own_captions(OWNER[rows] - start)
        asked = np.isin(evaluation.truth.tasks["t2i"].queries, rows)
        assert (
            evaluation.ranks["t2i"].best[asked].tolist() == naive_ranks(part.T, truth.tasks["t2i"]).tolist()
        )


def test_folds_of_lists_are_refused_unless_a_fold_is_all(tmp_path):
    tested = TestSet.read(save(tmp_path / "a.npz", **list_arrays()))
    with pytest.raises(VseppError, match="expected protocol 5K"):
        under(tested, "1K", 6)
    assert under(tested, "1K", IMAGES).metrics.to_dict() == under(tested).metrics.to_dict()


# Ensembles.


def random_set(seed, dim, similarity="dot"):
    rng = np.random.default_rng(seed)
    images, captions = rng.standard_normal((6, dim)), rng.standard_normal((12, dim))
    return embedded(images, captions, np.repeat(np.arange(6), 2), Component(similarity))


def test_scores_of_an_ensemble_are_the_mean_of_both_models():
    first, second = random_set(0, 5), random_set(1, 3)
    both = mean_of_scores(first, second)
    products = [tested.scores.images @ tested.scores.captions.T for tested in (first, second, both)]
    np.testing.assert_allclose(products[2], (products[0] + products[1]) / 2, atol=1e-6)
    turned = TestSet(first.scores, first.caption_to_image[::-1])
    for other in (random_set(1, 5, "order"), turned):
        with pytest.raises(VseppError):
            mean_of_scores(first, other)


# What is refused.


SPOILED = {
    "no owners": ({"caption_to_image": None, **vectors()}, "caption_to_image"),
    "owners beyond": ({"caption_to_image": OWNER + 1, **vectors()}, "caption_to_image: row .*subtract 1"),
    "an image without": ({"caption_to_image": np.maximum(OWNER, 1), **vectors()}, "image row 0"),
    "integers": (vectors(image_embeddings=np.ones((IMAGES, 4), int)), r"image_embeddings.*astype\("),
    "other dimensions": (vectors(image_embeddings=np.ones((IMAGES, 5), "f4")), "5 .*caption_embeddings 4"),
    "NaN": (vectors(caption_embeddings=np.full((CAPTIONS, 4), np.nan, "f4")), "caption_embeddings: row 0"),
    "a similarity": (vectors(similarity="cosine"), "'cosine'"),
    "its options": (vectors(similarity_options='{"form": "cube"}'), "form.*'cube'"),
    "options' form": (vectors(similarity_options='["root"]'), "similarity_options"),
    "scores of fewer captions": ({"scores": SCORES[:, :29]}, "29"),
    "scores and embeddings": ({"scores": SCORES, "image_embeddings": SCORES}, "image_embeddings"),
    "half of the lists": (list_arrays(t2i_items=None), "i2t_items"),
    "an item twice": (list_arrays(i2t_items=np.zeros((IMAGES, 5), int)), "i2t: .* query 0"),
    "items outside": (list_arrays(t2i_items=np.full((CAPTIONS, 4), 12)), "t2i: .* 12 "),
}


@pytest.mark.parametrize("case", SPOILED)
def test_arrays_that_do_not_fit_are_refused_with_file_and_key(case, tmp_path):
    arrays, named = SPOILED[case]
    path = save(tmp_path / "a.npz", **arrays)
    with pytest.raises(VseppError, match=f"^{path}: (.|\n)*{named}"):
        TestSet.read(path)


def bytes_of(write, *arguments, **options):
    stream = io.BytesIO()
    write(stream, *arguments, **options)
    return stream.getvalue()


OTHER_FILES = {
    "is text": b"def embed(): ...\n",
    "is an array of NumPy": bytes_of(np.save, SCORES),
    "is a pickle": pickle.dumps(vectors(), 4),
    "ends early": bytes_of(np.savez, **vectors())[:400],
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_what_is_no_npz_is_named_by_its_first_bytes(tmp_path, kind):
    path = tmp_path / "a.npz"
    path.write_bytes(OTHER_FILES[kind])
    with pytest.raises(VseppError, match=rf"a\.npz: .*{kind}"):
        TestSet.read(path)


def test_a_damaged_array_is_named(tmp_path):
    path = save(tmp_path / "a.npz", **vectors())
    content = bytearray(path.read_bytes())
    content[content.index(vectors()["caption_embeddings"].tobytes()[:16])] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(VseppError, match=r"caption_embeddings\.npy"):
        TestSet.read(path)


# The command.


def test_the_command_scores_a_matrix(tmp_path, capsys):
    """Its scores are distinct; the output says that they rank like chance, and the folder has the metrics that are printed."""
    scores = np.random.default_rng(8).permutation(SCORES.size).reshape(SCORES.shape).astype(float)
    path, folder = save(tmp_path / "a.npz", scores=scores), tmp_path / "out"
    options = ["--protocol", "5K", "1K", "--fold-size", "6", "--output", str(folder)]
    assert main(["evaluate", str(path), *options]) == 0
    assert "ranks like chance" in capsys.readouterr().out
    metrics = json.loads((folder / "metrics.json").read_text())
    ranks = naive_ranks(scores.T, own_captions(OWNER).tasks["t2i"])
    assert metrics["5K"]["t2i"]["meanr"] == np.mean(ranks) + 1 and metrics["1K"]["n_images"] == 6
    assert json.loads((folder / "manifest.json").read_text())["inputs"].keys() == {"embeddings"}


@pytest.mark.parametrize(
    ("options", "named"), [(["a.npz", "--split", "val"], "--split"), (["nowhere.npz"], "nowhere.npz")]
)
def test_options_that_do_not_go_with_what_is_scored(options, named, capsys):
    assert main(["evaluate", *options]) == 1
    assert named in capsys.readouterr().err
