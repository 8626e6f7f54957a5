import io
import os
import pickle

import numpy as np
import pytest
import safetensors.numpy
import torch
from test_sets import embedded, under

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.run import mean_of_scores
from vsepp.evaluation.scores import ScoreMatrix
from vsepp.evaluation.test_set import TestSet

ROOT = Component("order", {"form": "root"})


def arrays(**changes):
    rng = np.random.default_rng(0)
    values = {
        "image_embeddings": rng.standard_normal((3, 4)).astype(np.float32),
        "caption_embeddings": rng.standard_normal((5, 4)).astype(np.float32),
        "caption_to_image": np.array([2, 0, 1, 1, 0], dtype=np.int32),
        "similarity": np.array("order"),
    }
    return {key: value for key, value in {**values, **changes}.items() if value is not None}


def made(similarity):
    images, captions, owner, _ = arrays().values()
    return embedded(images, captions, owner, similarity)


def written(path, **changes):
    np.savez(path, **arrays(**changes))
    return path


def test_what_is_saved_is_loaded(tmp_path):
    embeddings = made(ROOT)
    path = tmp_path / "new" / "embeddings.npz"
    embeddings.save(path)
    loaded = TestSet.read(path)
    for name, array in embeddings.scores.arrays.items():
        np.testing.assert_array_equal(loaded.scores.arrays[name], array)
    np.testing.assert_array_equal(loaded.caption_to_image, embeddings.caption_to_image)
    assert (loaded.scores.similarity, loaded.similarity) == (ROOT, "order")
    assert [file.name for file in path.parent.iterdir()] == ["embeddings.npz"]


def test_equal_embeddings_give_equal_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        made(ROOT).save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_similarity_is_dot_unless_said_and_its_options_the_defaults(tmp_path):
    assert TestSet.read(written(tmp_path / "e.npz", similarity=None)).scores.similarity == Component("dot")
    assert TestSet.read(written(tmp_path / "e.npz")).scores.similarity == Component("order")
    made(Component("order", {"form": "squared"})).save(tmp_path / "e.npz")
    with np.load(tmp_path / "e.npz") as saved:
        assert saved["similarity"] == "order" and "similarity_options" not in saved
    made(ROOT).save(tmp_path / "e.npz")
    with np.load(tmp_path / "e.npz") as saved:
        assert saved["similarity_options"] == '{"form": "root"}'


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types_become_float32(tmp_path, dtype):
    images = np.array([[1.5, 2, 3, 4]] * 3, dtype=dtype)
    loaded = TestSet.read(written(tmp_path / "e.npz", image_embeddings=images))
    assert loaded.scores.images.dtype == np.float32
    np.testing.assert_array_equal(loaded.scores.images, images.astype(np.float32))


def captions(row=0, value=0.0):
    embeddings = np.zeros((5, 4), dtype=np.float32)
    embeddings[row, 2] = value
    return embeddings


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "caption_to_image",
            None,
            "expected caption_embeddings, caption_to_image, .* the file has caption_embeddings, image_emb",
        ),
        (
            "image_embeddings",
            np.zeros((3, 4), dtype=int),
            "image_embeddings: expected floating-point.* int64",
        ),
        ("image_embeddings", np.zeros(3, dtype=np.float32), r"image_embeddings: expected shape .* \(3,\)"),
        ("caption_embeddings", captions()[:0], r"caption_embeddings: expected shape .* got \(0, 4\)"),
        ("image_embeddings", np.zeros((3, 5), dtype=np.float32), "5 dimensions, caption_embeddings 4"),
        ("caption_embeddings", captions(1, np.nan), "caption_embeddings: row 1 holds NaN"),
        ("caption_embeddings", captions(1, np.inf), "caption_embeddings: row 1 holds a value or norm beyond"),
        ("caption_embeddings", captions(0, 1e20), "caption_embeddings: row 0 holds a value or norm beyond"),
        (
            "caption_to_image",
            [0, 1, 2, 3, 0],
            "caption_to_image: row 3 is 3, expected an image row from 0 to 2",
        ),
        ("caption_to_image", [0, -1, 2, 1, 0], "caption_to_image: row 1 is -1"),
        ("caption_to_image", [0, 1, 1, 1, 0], "image row 2 has no caption"),
        ("caption_to_image", [0, 1, 2], r"caption_to_image: expected 5 integers.* shape \(3,\)"),
        ("caption_to_image", [0.5, 1.0, 2.0, 0.0, 0.0], "caption_to_image: expected 5 integers.* float64"),
        ("similarity", "cosine", "no similarity is named 'cosine'; there are dot, order"),
        ("similarity", ["dot", "dot"], "similarity: expected one string"),
        ("similarity", 3, "similarity: expected one string"),
        (
            "similarity_options",
            '{"form": "cube"}',
            "form of similarity order: got 'cube'; input should be 'squared' or 'root'",
        ),
        ("similarity_options", '["root"]', "similarity_options: expected a JSON object"),
        ("similarity_options", "root", "similarity_options: not valid JSON"),
        ("similarity_options", 1, "similarity_options: expected one string"),
    ],
)
def test_bad_files_are_refused_with_file_and_key(tmp_path, key, value, message):
    path = written(tmp_path / "theirs.npz", **{key: None if value is None else np.array(value)})
    with pytest.raises(VseppError, match=message) as caught:
        TestSet.read(path)
    assert str(caught.value).startswith(str(path))


def test_a_pickled_array_is_not_read(tmp_path):
    path = written(tmp_path / "theirs.npz", similarity=np.array({"any": "object"}, dtype=object))
    with pytest.raises(VseppError, match="similarity: "):
        TestSet.read(path)


def bytes_of(write, *given, **options):
    stream = io.BytesIO()
    write(stream, *given, **options)
    return stream.getvalue()


VECTORS = arrays()["image_embeddings"]
OTHER_FILES = {
    "is text": b"def embed(): ...\n",
    "is JSON": b"[[1.0, 2.0]]",
    "is an HTML page": b"<!DOCTYPE html><html>",
    "is a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
    "is empty": b"",
    "is an array of NumPy": bytes_of(np.save, VECTORS),
    "is HDF5": b"\x89HDF\r\n\x1a\n" + bytes(99),
    "is safetensors": safetensors.numpy.save({"a": VECTORS}),
    "is a pickle": pickle.dumps(arrays(), 4),
    "a pickle of the first protocol": pickle.dumps(arrays(), 0),
    "is a file of torch.save": bytes_of(lambda stream: torch.save({"a": torch.ones(3)}, stream)),
    "ends early": bytes_of(np.savez, **arrays())[:400],
}


@pytest.mark.parametrize("said", OTHER_FILES)
def test_what_is_no_npz_is_named_by_its_first_bytes(tmp_path, said):
    path = tmp_path / "emb.npz"
    path.write_bytes(OTHER_FILES[said])
    with pytest.raises(
        VseppError, match=rf"emb\.npz: .*{said.split(' of the ')[0]}.*expected an \.npz.*numpy\.savez"
    ):
        TestSet.read(path)


@pytest.mark.parametrize(
    ("name", "said"), [("word", "no such file"), ("folder", "a folder"), ("fifo", "a FIFO")]
)
@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_what_is_no_file_is_named(tmp_path, capsys, monkeypatch, command, name, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    others = [str(written(tmp_path / "b.npz"))] if command == "compare" else []
    assert main([command, name, *others]) == 1
    error = capsys.readouterr().err
    assert f"{name}: " in error and (said in error or (command, name) == ("compare", "folder"))


def test_objects_of_python_are_not_read(tmp_path):
    path = written(tmp_path / "e.npz", image_embeddings=VECTORS.astype(object))
    with pytest.raises(VseppError, match=r"e\.npz: image_embeddings: .*objects of Python"):
        TestSet.read(path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"image_embeddings": np.ones((3, 4), int)}, r'image_embeddings\.astype\("float32"\)'),
        ({"caption_to_image": np.array([3, 1, 2, 2, 1])}, "caption_to_image: row 0 is 3.*subtract 1"),
        ({"image_embeddings": np.ones((7, 4), "f"), "caption_to_image": np.arange(7)}, "7 images.*5 captions.*transpose"),
    ],
)  # fmt: skip
def test_a_usual_mistake_is_told_with_its_cure(tmp_path, changes, said):
    with pytest.raises(VseppError, match=said):
        TestSet.read(written(tmp_path / "e.npz", **changes))
    whole = written(tmp_path / "e.npz", caption_to_image=arrays()["caption_to_image"].astype(float))
    assert TestSet.read(whole).caption_to_image.tolist() == [2, 0, 1, 1, 0]


def test_a_damaged_array_is_named(tmp_path):
    path = written(tmp_path / "e.npz")
    content = bytearray(path.read_bytes())
    position = content.index(arrays()["caption_embeddings"].tobytes()[:16])
    content[position] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(VseppError, match=r"caption_embeddings\.npy: it is damaged"):
        TestSet.read(path)


def random_embeddings(seed, dim, similarity="dot"):
    rng = np.random.default_rng(seed)
    images, captions = rng.standard_normal((6, dim)), rng.standard_normal((12, dim))
    return embedded(images, captions, np.repeat(np.arange(6), 2), Component(similarity))


def test_scores_of_an_ensemble_are_the_mean_of_both_models():
    one, other = random_embeddings(0, 5), random_embeddings(1, 3)
    both = mean_of_scores(one, other)
    products = [each.scores.images @ each.scores.captions.T for each in (one, other, both)]
    np.testing.assert_allclose(products[2], (products[0] + products[1]) / 2, atol=1e-6)
    matrix = TestSet(ScoreMatrix((products[0] + products[1]) / 2), one.caption_to_image)
    assert under(both).metrics == under(matrix).metrics


def test_models_whose_scores_do_not_add_up_make_no_ensemble():
    one = random_embeddings(0, 5)
    with pytest.raises(VseppError, match="expected the similarity dot of both runs, got order"):
        mean_of_scores(one, random_embeddings(1, 5, "order"))
    turned = TestSet(one.scores, one.caption_to_image[::-1])
    with pytest.raises(VseppError, match="embedded other images or captions"):
        mean_of_scores(one, turned)
