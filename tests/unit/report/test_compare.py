"""Two models on the same test images: of folders, of embeddings, of one seed and of several."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from plans import PARAMS
from reported import CLEAN, ranks_of, seal
from test_sets import embedded, under

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.evaluate import save
from vsepp.evaluation.metrics import RECALLS
from vsepp.report import compare as comparing
from vsepp.report.compare import ONE_SEED

pytestmark = pytest.mark.usefixtures("few_resamples")
N, OWNER = 60, np.repeat(np.arange(60), 5)


def embeddings(noise, seed=0, owner=OWNER, similarity="dot"):
    """Embeddings of images and captions whose likeness drowns in noise."""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((N, 16))
    captions = images[owner] + noise * rng.standard_normal((len(owner), 16))
    return embedded(images, captions, owner, Component(similarity))


def evaluated(folder, noise=0.5, protocol="5K", seed=0, inputs=None, ancestors=()):
    """An evaluation's folder, as `vsepp evaluate` writes it."""
    folder.mkdir(parents=True)
    save([under(embeddings(noise, seed), protocol, 12)], folder)
    seal(folder, "evaluation", CLEAN, list(ancestors), inputs)
    return folder


def compare(a, b, protocol=None, fold_size=None):
    return comparing.compare({"A": a, "B": b}, protocol, fold_size)


def effect(found, metric="i2t_r1"):
    """The one effect of two models."""
    return found.effects[metric, "A", "B"]


def levels(found, metric="i2t_r1"):
    return [level.mean for level in found.levels[metric].values()]


@pytest.fixture
def files(tmp_path):
    """Write embeddings, and say where."""

    def write(name, *given, **values):
        path = tmp_path / f"{name}.npz"
        embeddings(*given, **values).save(path)
        return path

    return write


def shares(i2t_r1, lot, n_images=500):
    """Ranks with this R@1 of caption retrieval, spread by lot; the ranks of image retrieval are always alike."""
    drawn = np.random.default_rng(lot).permutation(n_images)
    return ranks_of(
        np.where(drawn < round(n_images * i2t_r1 / 100), 0.0, 20.0), np.arange(5 * n_images) % 7.0
    )


@pytest.fixture
def pair(models):
    """Two models of three seeds; A is ahead by ten points in caption retrieval."""
    for run, levels in (("a", (50, 51, 50.2)), ("b", (40, 41.2, 40))):
        for seed, level in enumerate(levels):
            models.add(run, seed=seed, ranks=shares(level, seed))
    return models.root


def test_what_differs_is_told_and_what_does_not_too(pair):
    comparison = compare(pair / "evaluations/a", pair / "evaluations/b")
    assert list(comparison.levels) == [*RECALLS, "rsum"]
    assert levels(comparison) == pytest.approx((50.4, 40.4))
    assert effect(comparison).value == pytest.approx(10)
    assert effect(comparison).by_seed == pytest.approx((10, 9.8, 10.2))
    assert comparison.paired.seeds == (0, 1, 2)
    assert len(comparison.mcnemar) == 3
    assert effect(comparison, "rsum").sign == 1, "rsum has the same ten points six times over"
    alike = [effect(comparison, metric) for metric in RECALLS if metric.startswith("t2i")]
    assert {(one.value, one.p, one.sign) for one in alike} == {(0, 1, 0)}
    text = str(comparison)
    assert "A is ahead by 10.0 [" in text and "] in R@1 of caption retrieval." in text
    assert "No significant difference in R@1, R@5 and R@10 of image retrieval: the seeds have equal" in text
    assert "protocol 5x1K: 5 folds of 100 images, 2,500 captions in all; 3 seeds" in text
    turned = compare(pair / "evaluations/b", pair / "evaluations/a")
    assert effect(turned).value == pytest.approx(-10) and "B is ahead by 10.0 [" in str(turned)


def test_a_runs_folder_means_its_evaluation(pair):
    by_run, by_evaluation = (
        compare(pair / kind / "a", pair / kind / "b") for kind in ("runs", "evaluations")
    )
    assert by_run.to_dict() == by_evaluation.to_dict()
    one = compare(pair / "runs/a/seed-1", pair / "evaluations/b/seed-1")
    assert effect(one).value == pytest.approx(9.8)
    assert effect(one).seeds is None


def test_one_seed_has_intervals_and_settles_nothing(pair):
    """Over the images alone A would be ahead, by ten points, with the least p that there is."""
    one = compare(pair / "evaluations/a/seed-1", pair / "evaluations/b/seed-1")
    assert effect(one).images.low > 0 and effect(one).p < 0.05
    assert {told.sign for told in one.effects.values()} == {0}
    assert str(one).splitlines()[-1] == ONE_SEED and "ahead" not in str(one)
    verdicts = [told["differences"][0]["verdict"] for told in one.to_dict()["metrics"].values()]
    assert set(verdicts) == {"one seed"}
    assert ONE_SEED not in str(compare(pair / "evaluations/a", pair / "evaluations/b"))


def test_seeds_that_differ_too_much_are_said_so(models):
    for seed, level in enumerate((60, 41, 40.4)):
        models.add("a", seed=seed, ranks=shares(level, seed))
        models.add("b", seed=seed, ranks=shares(40, seed))
    comparison = compare(models.root / "evaluations/a", models.root / "evaluations/b")
    why = "the interval over the seeds contains zero"
    assert effect(comparison).images.sign == 1 and effect(comparison).why == why
    assert f"in R@1, R@5 and R@10 of caption retrieval; and rsum: {why}." in str(comparison)


def test_seeds_are_matched_by_number(pair, models):
    models.add("c", seed=2, ranks=shares(60, 2))
    models.add("c", seed=7, ranks=shares(60, 3))
    models.add("d", seed=5, ranks=shares(60, 3))
    models.add("d", seed=6, ranks=shares(60, 3))
    comparison = compare(pair / "evaluations/c", pair / "evaluations/a")
    assert comparison.paired.seeds == (2,)
    assert effect(comparison).value == pytest.approx(60 - 50.2)
    with pytest.raises(VseppError, match="no seed in common: A has 0, 1 and 2, B has 5 and 6"):
        compare(pair / "evaluations/a", pair / "evaluations/d")


def test_other_seeds_are_said(pair):
    a, b = (pair / "evaluations" / name for name in "ab")
    comparison = compare(a / "seed-0", b / "seed-1")
    assert len(effect(comparison).by_seed) == 1 and "a/seed-0\nB" in str(comparison)


def test_embeddings_are_ranked_as_evaluate_ranks_them(files, tmp_path):
    good, bad = files("good", 0.5), files("bad", 1.5)
    comparison = compare(good, bad, "5x1K", 12)
    metrics = under(embeddings(0.5), "5x1K", 12).metrics
    assert levels(comparison)[0] == pytest.approx(metrics.i2t.r1)
    assert levels(comparison, "rsum")[0] == pytest.approx(metrics.rsum)
    assert effect(comparison, "rsum").images.sign == 1
    everything = compare(good, bad)
    assert everything.test == {
        "protocol": "5K",
        "folds": 1,
        "fold_size": 60,
        "n_images": 60,
        "n_captions": 300,
    }


def test_embeddings_beside_a_folder_take_its_protocol_and_fold_size(files, tmp_path):
    good, bad = files("good", 0.5), files("bad", 1.5)
    beside = compare(good, evaluated(tmp_path / "bad", 1.5, "5x1K"))
    assert beside.to_dict()["metrics"] == compare(good, bad, "5x1K", 12).to_dict()["metrics"]


def test_a_file_is_held_against_each_seed_of_a_run(files, tmp_path):
    for seed in (3, 4):
        evaluated(tmp_path / f"mine/seed-{seed}", seed=seed)
    comparison = compare(tmp_path / "mine", files("other", 1.5))
    assert comparison.paired.seeds == (3, 4)
    assert len(effect(comparison).by_seed) == 2
    assert compare(files("other", 1.5), tmp_path / "mine").paired.seeds == (3, 4)


def test_a_model_beside_itself(files):
    path = files("one", 1.0)
    comparison = compare(path, path)
    assert {(one.value, one.p) for one in comparison.effects.values()} == {(0, 1)}
    assert comparison.paired.doubts == ()


def test_warnings_name_another_similarity_and_chance(files):
    comparison = compare(files("a", 0.5), files("b", 0.5, similarity="order"))
    assert "similarities differ: A by dot, B by order" in comparison.warnings
    comparison = compare(files("a", 0.5), files("lost", 1000.0))
    assert any(warning.startswith("B ranks like chance") for warning in comparison.warnings)
    assert comparison.effects == {} and len(levels(comparison)) == 2


def test_equal_sizes_of_other_images_and_captions_are_refused(tmp_path):
    def of_corpus(name, corpus, made_with):
        ancestors = [
            {"step": "corpus", "digest": corpus, "spec_digest": made_with, "code_digest": "c", **CLEAN}
        ]
        return evaluated(tmp_path / name, inputs={"corpus": corpus}, ancestors=ancestors)

    coco, flickr = of_corpus("coco", "a1", "coco's"), of_corpus("flickr", "b2", "flickr's")
    message = (
        r"flickr, 5K: images and captions come from corpus b2, but from corpus a1 in .*coco; both must have"
    )
    with pytest.raises(VseppError, match=message):
        compare(coco, flickr)
    compare(coco, of_corpus("elsewhere", "c3", "coco's"))  # tables with other bytes, as of another pyarrow


def test_models_are_compared_with_each_other_not_with_the_first_alone(tmp_path):
    """The first names no corpus; the others name two."""
    folders = [evaluated(tmp_path / name, inputs=of) for name, of in CORPORA.items()]
    with pytest.raises(
        VseppError, match=r"flickr, 5K: images and captions come from corpus b2.* a1 in .*coco"
    ):
        comparing.compare({folder.name: folder for folder in folders})
    found = comparing.compare({folder.name: folder for folder in folders[:2]})
    assert found.paired.doubts == (str(folders[0]),), "which nothing tells from another corpus"
    assert str(folders[0]) in found.warnings[-1]


CORPORA = {"unknown": {}, "coco": {"corpus": "a1"}, "flickr": {"corpus": "b2"}}


def with_ids(path, **ids):
    replace(embeddings(0.5), **{kind: np.asarray(given) for kind, given in ids.items()}).save(path)
    return path


def test_embeddings_of_other_images_or_captions_of_one_shape_are_refused(tmp_path, files):
    coco, flickr = (np.char.add(name, np.arange(N).astype(str)) for name in ("coco", "flickr"))
    one = with_ids(tmp_path / "one.npz", image_ids=coco, caption_ids=np.arange(5 * N))
    with pytest.raises(VseppError, match=r"other.npz, 5K: image_ids are others than those in .*one.npz"):
        compare(one, with_ids(tmp_path / "other.npz", image_ids=flickr))
    with pytest.raises(VseppError, match=r"other.npz, 5K: caption_ids are others than those"):
        compare(one, with_ids(tmp_path / "other.npz", caption_ids=np.arange(5 * N)[::-1]))
    same = with_ids(tmp_path / "same.npz", image_ids=coco)
    assert compare(one, same).paired.doubts == ()
    first = with_ids(tmp_path / "first.npz", image_ids=np.where(np.arange(N) < 12, coco, flickr))
    assert compare(one, first, "1K", 12).paired.doubts == (), "the images that are ranked are the same"
    nameless = files("nameless", 0.5)
    assert compare(one, nameless).paired.doubts == (str(nameless),)


def test_protocols_that_rank_the_same_images_in_one_fold_are_one(tmp_path):
    """Of 60 images, all of which a fold of 60 holds."""
    first, every = tmp_path / "first", tmp_path / "every"
    for folder, protocol, noise in ((first, "1K", 0.5), (every, "5K", 1.5)):
        folder.mkdir()
        save([under(embeddings(noise), protocol, N)], folder)
        seal(folder, "evaluation", CLEAN, [])
    found = compare(first, every)
    assert (found.protocol, found.test["n_images"]) == ("1K", N)
    assert levels(found, "rsum") == levels(compare(evaluated(tmp_path / "a", 0.5), every), "rsum")
    assert compare(first, every, "5K").protocol == "5K"
    with pytest.raises(VseppError, match="no protocol in common"):
        compare(evaluated(tmp_path / "fold", protocol="1K"), every)


def test_a_seed_that_is_given_twice_is_refused_on_either_side(pair, files, tmp_path):
    twice = [evaluated(tmp_path / "mine/seed-0")] * 2
    alone = files("alone", 1.5)
    for sides in ((twice, alone), (alone, twice), (twice, twice), ([alone, files("second", 0.5)], alone)):
        with pytest.raises(VseppError, match="a seed is given twice, or none is named: "):
            compare(*sides)
    copied = pair / "evaluations/a/seed-7"
    shutil.copytree(copied.with_name("seed-0"), copied)
    with pytest.raises(VseppError, match=r"a seed is given twice.*seed-0.*seed-7"):
        compare(copied.parent, pair / "evaluations/b")


def test_a_seed_that_collapsed_is_named_and_left_out(models):
    for run, level in (("a", 50), ("b", 40)):
        for seed in range(3):
            models.add(
                run, seed=seed, ranks=shares(level + seed / 5, seed), collapsed=(run, seed) == ("a", 1)
            )
    found = compare(models.root / "evaluations/a", models.root / "evaluations/b")
    assert found.paired.seeds == (0, 2) and "A collapsed (seed 1), left out" in found.warnings
    assert levels(found) == pytest.approx((50.2, 40.2))


def test_models_without_a_sound_seed_are_shown_with_their_seeds_and_not_compared(models):
    for run in "ab":
        for seed in range(3):
            models.add(run, seed=seed, collapsed=True)
    found = compare(models.root / "evaluations/a", models.root / "evaluations/b")
    assert (found.paired.seeds, found.effects) == ((), {})
    assert [level.by_seed for level in found.levels["rsum"].values()] == [
        found.levels["rsum"]["A"].by_seed
    ] * 2
    assert len(found.levels["rsum"]["A"].by_seed) == 3
    assert sum("collapsed (seeds 0, 1 and 2)" in warning for warning in found.warnings) == 2
    assert not any("one seed" in warning for warning in found.warnings) and "; 0 seeds" in str(found)


def test_other_test_sets_are_refused(files, tmp_path, models):
    a = files("a", 0.5)
    with pytest.raises(VseppError, match=r"b.npz, 5K: n_captions is 240, but 300 in .*a.npz"):
        compare(a, files("b", 0.5, owner=np.repeat(np.arange(N), 4)))
    turned = files("c", 0.5, owner=np.roll(OWNER, 1))
    with pytest.raises(VseppError, match=r"ranked caption 0 belongs to image 59, but to image 0 in .*a.npz"):
        compare(a, turned)
    models.add("d", ranks=shares(40, 0))
    models.add("e", ranks=shares(40, 0), fold_size=50)
    folders = [models.root / "evaluations" / name for name in "de"]
    with pytest.raises(VseppError, match="fold_size is 50, but 100"):
        compare(*folders)
    with pytest.raises(VseppError, match="no protocol 1K; it has 5x1K"):
        compare(*folders, protocol="1K")
    with pytest.raises(VseppError, match="no protocol in common: they were evaluated under 5x1K and 5K"):
        compare(folders[0], evaluated(tmp_path / "all"))


def test_what_is_no_model_is_refused(pair, tmp_path):
    a = pair / "evaluations/a"
    (tmp_path / "runs/x").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "runs/x"):
        with pytest.raises(VseppError, match=r"expected the folder of an evaluation, with metrics.json and"):
            compare(a, folder)
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(VseppError, match=r"text\.npz: is text"):
        compare(a, tmp_path / "text.npz")
    with pytest.raises(VseppError, match="expected two models to compare, got none"):
        compare(a, [])


def test_results_that_were_changed_by_hand_or_have_no_manifest_are_refused(pair):
    file = pair / "evaluations/a/seed-0/metrics.json"
    file.write_text(file.read_text().replace("0", "1"))
    with pytest.raises(VseppError, match="is not what its step wrote"):
        compare(pair / "evaluations/a", pair / "evaluations/b")
    (file.parent / "manifest.json").unlink()
    with pytest.raises(VseppError, match=r"manifest.json: missing, so .* has no provenance"):
        compare(pair / "evaluations/a", pair / "evaluations/b")


def test_the_command_prints_a_table_and_json(files, capsys):
    a, b = files("a", 0.5), files("b", 1.5)
    assert main(["compare", str(a), str(b), "--protocol", "1K", "--fold-size", "20"]) == 0
    out = capsys.readouterr().out
    assert "protocol 1K: 1 fold of 20 images, 100 captions in all; 1 seed" in out
    assert "exact McNemar" in out
    assert main(["compare", str(a), str(b), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == compare(a, b).to_dict()
    assert found["metrics"]["rsum"]["differences"][0]["p_holm"] <= 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("coco-vsepp-1d", "no run of preset mini, which `vsepp runs` lists; did you mean coco-vsepp-1c?"),
        ("zzz", "no run of preset mini, which `vsepp runs` lists"),
        ("coco-vsepp-1c", "was not evaluated\n    fix: snakemake --cores all -- results/mini/"),
    ],
)
def test_the_command_names_what_is_not_there(files, capsys, monkeypatch, tmp_path, name, said):
    a = files("a", 0.5)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", name, str(a), "--params", str(PARAMS)]) == 1
    assert said in capsys.readouterr().err
    assert main(["compare", name, str(a)]) == 1
    assert "run ids need the project's folder, with params/" in capsys.readouterr().err


WITHOUT = "import sys; sys.modules |= dict.fromkeys({!r}); from vsepp.apps.cli import main; sys.exit(main(sys.argv[1:]))"


def test_folders_and_files_need_no_workflow_packages(files):
    command = [sys.executable, "-c", WITHOUT.format(["snakemake", "dvc", "jinja2"])]
    paths = [str(files("a", 0.5)), str(files("b", 1.5))]
    done = subprocess.run([*command, "compare", *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert ONE_SEED in done.stdout


def test_a_missing_package_is_named_with_what_brings_it(files):
    command = [sys.executable, "-c", WITHOUT.format(["scipy"])]
    paths = [str(files("a", 0.5)), str(files("b", 1.5))]
    done = subprocess.run([*command, "compare", *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "needs scipy, which is not installed" in done.stderr
    assert "pip install 'vsepp[workflow]'" in done.stderr
    assert "Traceback" not in done.stderr
