"""Several models on the same test images: their order, which pairs differ, and what is refused."""

import json

import numpy as np
import pytest
from reported import CLEAN, seal
from test_compare import N, embeddings, evaluated, shares

from vsepp.apps.cli import main
from vsepp.base.errors import VseppError
from vsepp.report.compare import ONE_SEED, compare

pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.fixture
def three(models):
    """Three models of three seeds: `high` and `same` rank alike, `low` finds a fifth less."""
    for name, level, step in (("low", 30, 0.4), ("high", 50, 0.2), ("same", 50, 0.2)):
        for seed in range(3):
            models.add(name, seed=seed, ranks=shares(level + step * seed, seed))
    return {name: models.root / "evaluations" / name for name in ("low", "high", "same")}


@pytest.fixture
def files(tmp_path):
    def write(name, *given, **values):
        embeddings(*given, **values).save(tmp_path / f"{name}.npz")
        return tmp_path / f"{name}.npz"

    return write


def alike(found, metric="rsum"):
    """Pairs that no test tells apart."""
    return [
        (one, other) for (of, one, other), effect in found.effects.items() if of == metric and not effect.sign
    ]


def test_models_stand_in_order_and_equal_ones_are_named(three):
    found = compare(three)
    assert list(found.levels["rsum"]) == ["high", "same", "low"]
    assert alike(found) == [("high", "same")] and len(alike(found, "t2i_r1")) == 3
    assert found.paired.seeds == (0, 1, 2)
    lines = str(found).splitlines()
    assert lines[0] == "3 models, protocol 5x1K: 5 folds of 100 images, 2,500 captions in all; 3 seeds"
    rows = [line.split() for line in lines if line.startswith(("high", "same", "low"))]
    assert [row[0] for row in rows] == ["high", "same", "low"]
    assert "No significant difference in rsum: high and same." in lines
    assert found.levels["i2t_r1"]["high"].mean == pytest.approx(50.2)


def test_effects_are_those_of_two_models_and_holm_counts_pairs_and_metrics(three):
    two = compare({name: three[name] for name in ("high", "low")}).effects["rsum", "high", "low"]
    alone = compare(three, metrics=["rsum"]).effects["rsum", "high", "low"]
    assert (two.value, two.images, two.seeds) == (alone.value, alone.images, alone.seeds)
    # Two of three pairs differ, each by the least p that a test of 999 permutations has.
    assert alone.p_alone == 1 / 500 and alone.p == pytest.approx(3 / 500)
    assert compare(three).effects["rsum", "high", "low"].p > alone.p


def test_json_has_all_pairs_unrounded(three):
    found = json.loads(json.dumps(compare(three).to_dict()))["metrics"]["rsum"]
    assert [level["label"] for level in found["levels"]] == ["high", "same", "low"]
    pairs = {(told["first"], told["second"]): told for told in found["differences"]}
    assert set(pairs) == {("high", "same"), ("high", "low"), ("same", "low")}
    assert pairs["high", "low"]["difference"] == pytest.approx(3 * 19.8)


def test_a_file_stands_beside_each_seed_and_is_one_seed_and_seeds_are_those_of_all(files, tmp_path):
    for name, seeds in (("mine", (3, 4, 5)), ("theirs", (4, 5, 6))):
        for seed in seeds:
            evaluated(tmp_path / f"{name}/seed-{seed}", seed=seed)
    found = compare({"mine": tmp_path / "mine", "file": files("f", 1.5), "theirs": tmp_path / "theirs"})
    assert found.paired.seeds == (4, 5)
    assert {name: len(level.by_seed) for name, level in found.levels["rsum"].items()} == {
        "mine": 2,
        "file": 1,
        "theirs": 2,
    }
    beside = [effect for (_, *names), effect in found.effects.items() if "file" in names]
    assert {len(effect.by_seed) for effect in beside} == {2} and {effect.sign for effect in beside} == {0}
    assert any(warning.startswith("file: one model beside each seed") for warning in found.warnings)
    assert {frozenset(pair) for pair in alike(found)} >= {frozenset(("mine", "theirs"))}
    assert str(found).splitlines()[-1] == ONE_SEED


def test_a_model_that_ranks_like_chance_is_in_no_comparison(files):
    found = compare({"a": files("a", 0.5), "b": files("b", 1.5), "lost": files("c", 1000.0)})
    assert {names[1:] for names in found.effects} == {("a", "b")}
    assert any(warning.startswith("lost ranks like chance") for warning in found.warnings)
    assert str(found).splitlines()[-1] == ONE_SEED and "differ significantly" not in str(found)


def test_what_is_not_alike_is_refused(three, files, models, tmp_path):
    owner = np.repeat(np.arange(N), 4)
    with pytest.raises(VseppError, match=r"c.npz, 5K: n_captions is 240, but 300 in .*a.npz"):
        compare({"a": files("a", 0.5), "b": files("b", 0.5), "c": files("c", 0.5, owner=owner)})
    with pytest.raises(VseppError, match="no protocol in common: they were evaluated under 5x1K and 5K"):
        compare({**three, "other": evaluated(tmp_path / "other")})
    models.add("late", seed=7, ranks=shares(40, 0))
    with pytest.raises(VseppError, match=r"no seed in common: low has 0, 1 and 2, high has .*, late has 7"):
        compare({**three, "late": models.root / "evaluations/late"})
    with pytest.raises(VseppError, match=r"a seed is given twice, or none is named: .*low/seed-0 and"):
        compare({**three, "low": [three["low"] / "seed-0"] * 2})
    with pytest.raises(VseppError, match=r"metric: expected one of i2t_r1, .* got 'i2t_r2'"):
        compare(three, metrics=["i2t_r2"])


def test_another_truth_is_refused(tmp_path):
    folders = {name: evaluated(tmp_path / name) for name in ("a", "b", "c")}
    for name, folder in folders.items():
        metrics = json.loads((folder / "metrics.json").read_text())
        metrics["5K"]["truth"] = "first" if name != "c" else "second"
        (folder / "metrics.json").write_text(json.dumps(metrics))
        (folder / "manifest.json").unlink()
        seal(folder, "evaluation", CLEAN, [])
    with pytest.raises(VseppError, match=r"c, 5K: truth is second, but first in .*a; both must have"):
        compare(folders)
    del folders["c"]
    assert alike(compare(folders, metrics=["rsum"])) == [("a", "b")]


def test_older_records_say_what_they_lack(three):
    for seed in range(3):
        ranks = three["low"] / f"seed-{seed}/ranks.npz"
        assert "5x1K_i2t_captions" not in np.load(ranks)
    with pytest.raises(VseppError, match=r"low.*mAP@R: needs the ranks of all correct items, which were not"):
        compare(three, metrics=["i2t_mapr"])


def test_the_command_compares_three_and_refuses_a_model_that_is_given_twice(files, capsys):
    a, b, c = (str(files(name, noise)) for name, noise in (("a", 0.5), ("b", 1.0), ("c", 1.5)))
    assert main(["compare", a, b, c, "--json", "--metric", "rsum"]) == 0
    assert list(json.loads(capsys.readouterr().out)["metrics"]) == ["rsum"]
    assert main(["compare", a, b, a]) == 1
    assert "a.npz: is given more than once; give each model once" in capsys.readouterr().err
