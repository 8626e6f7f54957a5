"""Models on the same test images: of folders, of embeddings, of one seed and of several, two and more."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from embedded_sets import noisy, under
from plans import PARAMS
from processes import python
from trained_models import CLEAN, ranks_by_lot, seal

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.metrics import RECALLS
from vsepp.report import compare as comparing
from vsepp.report.compare import UNSETTLED

pytestmark = pytest.mark.usefixtures("few_resamples")
N, OWNER = 60, np.repeat(np.arange(60), 5)


def embeddings(noise, seed=0, owner=OWNER, similarity="dot"):
    """Embeddings of images and captions whose likeness drowns in noise."""
    return noisy(owner, 16, noise, np.random.default_rng(seed), Component(similarity))


def evaluated(folder, noise=0.5, protocol="5K", seed=0, corpus=None, **metrics):
    """An evaluation's folder, as `vsepp evaluate` writes it, with more metrics; the corpus is a digest."""
    folder.mkdir(parents=True)
    save([under(embeddings(noise, seed), protocol, 12)], folder)
    written = json.loads((folder / "metrics.json").read_text())
    written[protocol] |= metrics
    (folder / "metrics.json").write_text(json.dumps(written))
    seal(folder, "evaluation", CLEAN, [], {"corpus": corpus} if corpus else {})
    return folder


def compare(a, b, protocol=None, fold_size=None):
    return comparing.compare({"A": a, "B": b}, protocol, fold_size)


def effect(comparison, metric="i2t_r1"):
    """The effect of two models."""
    return comparison.effects[metric, "A", "B"]


def levels(comparison, metric="i2t_r1"):
    return [level.mean for level in comparison.levels[metric].values()]


@pytest.fixture
def files(tmp_path):
    """Write embeddings, and say where."""

    def write(name, *noise, **values):
        path = tmp_path / f"{name}.npz"
        embeddings(*noise, **values).save(path)
        return path

    return write


@pytest.fixture
def pair(models):
    """Two models of three seeds; A is ahead by ten points in caption retrieval."""
    for run, by_seed in (("a", (50, 51, 50.2)), ("b", (40, 41.2, 40))):
        for seed, level in enumerate(by_seed):
            models.add(run, seed=seed, ranks=ranks_by_lot(level, lot=seed))
    return models.root / "evaluations"


# Two models.


def test_what_differs_is_told_and_what_does_not_too(pair):
    comparison = compare(pair / "a", pair / "b")
    assert list(comparison.levels) == [*RECALLS, "rsum"]
    assert levels(comparison) == pytest.approx((50.4, 40.4))
    assert effect(comparison).value == pytest.approx(10)
    assert effect(comparison).by_seed == pytest.approx((10, 9.8, 10.2))
    assert comparison.paired.seeds == (0, 1, 2) and len(comparison.mcnemar) == 3
    assert effect(comparison, "rsum").sign == 1, "rsum has the same ten points six times over"
    alike = [effect(comparison, metric) for metric in RECALLS if metric.startswith("t2i")]
    assert {(effect.value, effect.p, effect.sign) for effect in alike} == {(0, 1, 0)}
    assert "A is ahead by 10.0 [" in str(comparison)
    turned = compare(pair / "b", pair / "a")
    assert effect(turned).value == pytest.approx(-10) and "B is ahead by 10.0 [" in str(turned)
    by_run = compare(pair.parent / "runs/a", pair.parent / "runs/b")
    assert by_run.to_dict() == comparison.to_dict(), "a run's folder means its evaluation"


def test_seeds_are_matched_by_number_and_a_seed_that_is_given_twice_is_refused(pair, models):
    for seed in (2, 7):
        models.add("c", seed=seed, ranks=ranks_by_lot(60, lot=2))
    models.add("d", seed=5, ranks=ranks_by_lot(60, lot=3))
    comparison = compare(pair / "c", pair / "a")
    assert comparison.paired.seeds == (2,) and effect(comparison).value == pytest.approx(60 - 50.2)
    with pytest.raises(VseppError, match=r"A has 0, 1 and 2, B has 5"):
        compare(pair / "a", pair / "d")
    shutil.copytree(pair / "a/seed-0", pair / "a/seed-7")
    with pytest.raises(VseppError, match=r"seed-0.*seed-7"):
        compare(pair / "a", pair / "b")


def test_embeddings_are_ranked_as_evaluate_ranks_them(files, tmp_path):
    good, bad = files("good", 0.5), files("bad", 1.5)
    comparison = compare(good, bad, "5x1K", 12)
    metrics = under(embeddings(0.5), "5x1K", 12).metrics
    assert levels(comparison)[0] == pytest.approx(metrics.i2t.r1)
    assert levels(comparison, "rsum")[0] == pytest.approx(metrics.rsum)
    assert compare(good, bad).test == {
        "protocol": "5K", "folds": 1, "fold_size": 60, "n_images": 60, "n_captions": 300,
    }  # fmt: skip
    beside = compare(good, evaluated(tmp_path / "bad", 1.5, "5x1K"))
    assert beside.to_dict()["metrics"] == comparison.to_dict()["metrics"], "under the folder's protocol"
    same = compare(good, good)
    assert {(effect.value, effect.p) for effect in same.effects.values()} == {(0, 1)}


def test_warnings_name_another_similarity_and_chance(files):
    comparison = compare(files("a", 0.5), files("b", 0.5, similarity="order"))
    assert "similarities differ: A by dot, B by order" in comparison.warnings
    comparison = compare(files("a", 0.5), files("lost", 1000.0))
    assert any(warning.startswith("B ranks like chance") for warning in comparison.warnings)
    assert comparison.effects == {} and len(levels(comparison)) == 2


# What is not alike.


def test_test_sets_of_other_shape_order_or_truth_are_refused(files, models, tmp_path):
    a = files("a", 0.5)
    with pytest.raises(VseppError, match=r"b.npz, 5K: n_captions is 240, but 300 in .*a.npz"):
        compare(a, files("b", 0.5, owner=np.repeat(np.arange(N), 4)))
    with pytest.raises(VseppError, match=r"caption 0 belongs to image 59, but to image 0 in .*a.npz"):
        compare(a, files("c", 0.5, owner=np.roll(OWNER, 1)))
    models.add("d", ranks=ranks_by_lot(40, lot=0))
    models.add("e", ranks=ranks_by_lot(40, lot=0), fold_size=50)
    with pytest.raises(VseppError, match="fold_size is 50, but 100"):
        compare(*(models.root / "evaluations" / name for name in "de"))
    with pytest.raises(VseppError, match=r"g, 5K: truth is g, but f in .*f;"):
        compare(*(evaluated(tmp_path / name, truth=name) for name in "fg"))


def test_models_are_compared_with_each_other_not_with_the_first_alone(tmp_path):
    """The first names no corpus; the others name two."""
    corpora = {"unknown": None, "coco": "a1", "flickr": "b2"}
    folders = {name: evaluated(tmp_path / name, corpus=corpus) for name, corpus in corpora.items()}
    with pytest.raises(VseppError, match=r"flickr, 5K: .*corpus b2.* a1 in .*coco"):
        comparing.compare(folders)
    del folders["flickr"]
    comparison = comparing.compare(folders)
    assert comparison.paired.doubts == (str(folders["unknown"]),), "which nothing tells from another corpus"
    assert str(folders["unknown"]) in comparison.warnings[-1]


def test_embeddings_of_other_images_or_captions_of_one_shape_are_refused(tmp_path, files):
    def with_ids(name, **ids):
        arrays = {kind: np.asarray(values) for kind, values in ids.items()}
        replace(embeddings(0.5), **arrays).save(tmp_path / f"{name}.npz")
        return tmp_path / f"{name}.npz"

    coco, flickr = (np.char.add(name, np.arange(N).astype(str)) for name in ("coco", "flickr"))
    first = with_ids("first", image_ids=coco, caption_ids=np.arange(5 * N))
    with pytest.raises(VseppError, match=r"other.npz, 5K: image_ids .*first.npz"):
        compare(first, with_ids("other", image_ids=flickr))
    with pytest.raises(VseppError, match=r"other.npz, 5K: caption_ids"):
        compare(first, with_ids("other", caption_ids=np.arange(5 * N)[::-1]))
    partly = with_ids("partly", image_ids=np.where(np.arange(N) < 12, coco, flickr))
    assert compare(first, partly, "1K", 12).paired.doubts == (), "the images that are ranked are the same"
    nameless = files("nameless", 0.5)
    assert compare(first, nameless).paired.doubts == (str(nameless),)


# More than two.


@pytest.fixture
def three(models):
    """Three models of three seeds: `high` and `same` rank alike, `low` finds a fifth less."""
    for name, level, step in (("low", 30, 0.4), ("high", 50, 0.2), ("same", 50, 0.2)):
        for seed in range(3):
            models.add(name, seed=seed, ranks=ranks_by_lot(level + step * seed, lot=seed))
    return {name: models.root / "evaluations" / name for name in ("low", "high", "same")}


def test_models_stand_in_order_and_equal_ones_are_named(three):
    comparison = comparing.compare(three)
    assert list(comparison.levels["rsum"]) == ["high", "same", "low"]
    alike = [
        models
        for (metric, *models), effect in comparison.effects.items()
        if metric == "rsum" and not effect.sign
    ]
    assert alike == [["high", "same"]]
    lines = str(comparison).splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("high", "same", "low"))] == [
        "high",
        "same",
        "low",
    ]
    assert "No significant difference in rsum: high and same." in lines


def test_effects_are_those_of_two_models_and_holm_counts_pairs_and_metrics(three):
    key = ("rsum", "high", "low")
    two = comparing.compare({name: three[name] for name in ("high", "low")}).effects[key]
    alone = comparing.compare(three, metrics=["rsum"]).effects[key]
    assert (two.value, two.images, two.seeds) == (alone.value, alone.images, alone.seeds)
    # Two of three pairs differ, each by the least p that a test of 999 permutations has.
    assert alone.p_alone == 1 / 500 and alone.p == pytest.approx(3 / 500)
    assert comparing.compare(three).effects[key].p > alone.p


def test_a_file_stands_beside_each_seed_and_is_one_seed_and_seeds_are_those_of_all(files, tmp_path):
    for name, seeds in (("mine", (3, 4, 5)), ("theirs", (4, 5, 6))):
        for seed in seeds:
            evaluated(tmp_path / f"{name}/seed-{seed}", seed=seed)
    models = {"mine": tmp_path / "mine", "file": files("f", 1.5), "theirs": tmp_path / "theirs"}
    comparison = comparing.compare(models)
    assert comparison.paired.seeds == (4, 5)
    seeds = {name: len(level.by_seed) for name, level in comparison.levels["rsum"].items()}
    assert seeds == {"mine": 2, "file": 1, "theirs": 2}
    beside = [effect for (_, *names), effect in comparison.effects.items() if "file" in names]
    assert {(len(effect.by_seed), effect.sign) for effect in beside} == {(2, 0)}


# The command.


def test_the_command_prints_a_table_and_json(files, capsys):
    a, b, c = (str(files(name, noise)) for name, noise in (("a", 0.5), ("b", 1.0), ("c", 1.5)))
    assert main(["compare", a, b, "--protocol", "1K", "--fold-size", "20"]) == 0
    assert "protocol 1K: 1 fold of 20 images, 100 captions in all; 1 seed" in capsys.readouterr().out
    assert main(["compare", a, b, c, "--json", "--metric", "rsum"]) == 0
    comparison = comparing.compare({name: name for name in (a, b, c)}, metrics=["rsum"])
    assert json.loads(capsys.readouterr().out)["metrics"].keys() == comparison.to_dict()["metrics"].keys()
    assert main(["compare", a, b, a]) == 1
    assert "a.npz" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "named"), [("coco-vsepp-1d", "coco-vsepp-1c?"), ("coco-vsepp-1c", "fix: snakemake")]
)
def test_the_command_names_what_is_not_there(files, capsys, monkeypatch, tmp_path, name, named):
    a = files("a", 0.5)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", name, str(a), "--params", str(PARAMS)]) == 1
    assert named in capsys.readouterr().err


def test_folders_and_files_need_no_workflow_packages(files):
    without = "import sys; sys.modules |= dict.fromkeys(['snakemake', 'dvc', 'jinja2']); "
    code = f"{without}from vsepp.apps.cli import main; sys.exit(main(sys.argv[1:]))"
    assert UNSETTLED in python(code, "compare", files("a", 0.5), files("b", 1.5))
