"""Several models on the same test images: their order, groups by letters, a figure, and what is refused."""

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from reported import CLEAN, seal
from test_compare import N, embeddings, evaluated, shares

from vsepp.cli import main
from vsepp.errors import VseppError
from vsepp.evaluation.intervals import Effect, Interval
from vsepp.reporting.compare import compare, compare_many
from vsepp.reporting.groups import Standing, Told, letters

pytestmark = pytest.mark.usefixtures("few_resamples")
NOTHING, MUCH = Interval(-1, 1), Interval(1, 2)


@pytest.fixture
def three(models):
    """Three models of three seeds: `high` and `same` rank alike, `low` finds a fifth less."""
    for name, level in (("low", 30), ("high", 50), ("same", 50)):
        for seed in range(3):
            models.add(name, seed=seed, ranks=shares(level + seed / 5, seed))
    return {name: models.root / "evaluations" / name for name in ("low", "high", "same")}


@pytest.fixture
def files(tmp_path):
    def write(name, *given, **values):
        embeddings(*given, **values).save(tmp_path / f"{name}.npz")
        return tmp_path / f"{name}.npz"

    return write


def test_models_stand_in_order_and_equal_ones_share_a_letter(three):
    found = compare_many(three)
    assert [model.label for model in found.standings["rsum"]] == ["high", "same", "low"]
    assert found.groups["rsum"] == {"high": "a", "same": "a", "low": "b"}
    assert found.groups["t2i_r1"] == {"low": "a", "high": "a", "same": "a"}
    assert found.seeds == (0, 1, 2)
    lines = str(found).splitlines()
    assert lines[0] == "3 models, protocol 5x1K: 5 folds of 100 images, 2,500 captions in all; 3 seeds"
    rows = [line.split() for line in lines if line.startswith(("high", "same", "low"))]
    assert [row[:3:2] for row in rows] == [["high", "a"], ["same", "a"], ["low", "b"]]
    assert found.standings["i2t_r1"][0].level == pytest.approx(50.2)


def test_effects_are_those_of_two_models_and_holm_counts_pairs_and_metrics(three):
    pair = compare_many({name: three[name] for name in ("high", "low")}).standings["rsum"][0].above["low"]
    two = compare(three["high"], three["low"]).differences[-1]
    assert (pair.effect, pair.p) == (two.effect, two.p)
    alone = compare_many(three, metrics=["rsum"]).standings["rsum"][0].above["low"]
    # Two of three pairs differ, each by the least p that a test of 999 permutations has.
    assert alone.effect.p == 1 / 500 and alone.p == pytest.approx(3 / 500)
    every = compare_many(three).standings["rsum"][0].above["low"]
    assert every.p > alone.p


def test_json_has_all_pairs_unrounded(three):
    found = json.loads(json.dumps(compare_many(three).to_dict()))
    rsum = {model["label"]: model for model in found["standings"]["rsum"]}
    assert set(rsum["high"]["above"]) == {"same", "low"} and set(rsum["same"]["above"]) == {"low"}
    assert rsum["high"]["above"]["low"]["effect"]["value"] == pytest.approx(6 * 20 / 2)
    assert found["groups"]["rsum"]["low"] == "b"


def test_a_file_stands_beside_each_seed_and_seeds_are_those_of_all(files, tmp_path):
    for name, seeds in (("mine", (3, 4, 5)), ("theirs", (4, 5, 6))):
        for seed in seeds:
            evaluated(tmp_path / f"{name}/seed-{seed}", seed=seed)
    found = compare_many({"mine": tmp_path / "mine", "file": files("f", 1.5), "theirs": tmp_path / "theirs"})
    assert found.seeds == (4, 5)
    assert {model.n_seeds for model in found.standings["rsum"]} == {2}
    assert {model.label: model.seeds is None for model in found.standings["rsum"]}["file"]
    assert "one seed" in str(found)
    assert found.groups["rsum"] == {"mine": "a", "theirs": "a", "file": "b"}


def test_a_model_that_ranks_like_chance_is_in_no_comparison(files):
    found = compare_many({"a": files("a", 0.5), "b": files("b", 1.5), "lost": files("c", 1000.0)})
    assert found.groups["rsum"] == {"a": "a", "b": "b", "lost": ""}
    assert set(found.standings["rsum"][0].above) == {"b"}
    assert "Note: lost ranks like chance" in str(found)
    assert "Note: one seed per model" in str(found)


def test_what_is_not_alike_is_refused(three, files, models, tmp_path):
    owner = np.repeat(np.arange(N), 4)
    with pytest.raises(VseppError, match=r"c.npz, 5K: n_captions is 240, but 300 in .*a.npz"):
        compare_many({"a": files("a", 0.5), "b": files("b", 0.5), "c": files("c", 0.5, owner=owner)})
    with pytest.raises(VseppError, match="no protocol in common: they were evaluated under 5x1K and 5K"):
        compare_many({**three, "other": evaluated(tmp_path / "other")})
    models.add("late", seed=7, ranks=shares(40, 0))
    with pytest.raises(VseppError, match=r"no seed in common: low has 0, 1 and 2, high has .*, late has 7"):
        compare_many({**three, "late": models.root / "evaluations/late"})
    with pytest.raises(VseppError, match=r"a seed is given twice, or none is named: .*low/seed-0 and"):
        compare_many({**three, "low": [three["low"] / "seed-0"] * 2})
    with pytest.raises(VseppError, match=r"metric: expected one of i2t_r1, .* got 'i2t_r2'"):
        compare_many(three, metrics=["i2t_r2"])


def test_another_truth_is_refused(tmp_path):
    folders = {name: evaluated(tmp_path / name) for name in ("a", "b", "c")}
    for name, folder in folders.items():
        metrics = json.loads((folder / "metrics.json").read_text())
        metrics["5K"]["truth"] = "first" if name != "c" else "second"
        (folder / "metrics.json").write_text(json.dumps(metrics))
        (folder / "manifest.json").unlink()
        seal(folder, "evaluation", CLEAN, [])
    with pytest.raises(VseppError, match=r"c, 5K: truth is second, but first in .*a; both must have"):
        compare_many(folders)
    del folders["c"]
    assert compare_many(folders, metrics=["rsum"]).groups["rsum"] == {"a": "a", "b": "a"}


def test_older_records_say_what_they_lack(three):
    for seed in range(3):
        ranks = three["low"] / f"seed-{seed}/ranks.npz"
        assert "5x1K_i2t_captions" not in np.load(ranks)
    with pytest.raises(VseppError, match=r"low.*mAP@R: needs the ranks of all correct items, which were not"):
        compare_many(three, metrics=["i2t_mapr"])


def standing_models(n, alike):
    """Models 0 to n - 1; the pairs in `alike` are not told apart."""
    told = {
        is_alike: Told(Effect(0, NOTHING if is_alike else MUCH, None, 0, (0,)), 0.0) for is_alike in (0, 1)
    }
    return [
        Standing(str(i), 1, "", -i, NOTHING, None, {str(j): told[(i, j) in alike] for j in range(i + 1, n)})
        for i in range(n)
    ]


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.sampled_from(pairs_of(n))))))
def test_models_share_a_letter_where_no_difference_was_found_and_only_there(drawn):
    n, alike = drawn
    found = letters(standing_models(n, alike))
    for i, j in combinations(range(n), 2):
        assert bool(set(found[str(i)]) & set(found[str(j)])) == ((i, j) in alike)
    assert all(found.values()) and "a" in found["0"]
    for of_model in found.values():
        assert list(of_model) == sorted(set(of_model))


def pairs_of(n):
    """All pairs; where there is none, one that is no pair of the models."""
    return list(combinations(range(n), 2)) or [(n, n)]


def test_more_groups_than_small_letters():
    found = letters(standing_models(54, set()))
    assert [found[str(i)] for i in (0, 25, 26, 51, 52)] == ["a", "z", "A", "Z", "a'"]
    assert len(set(found.values())) == 54


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_the_figure_is_drawn_and_said_in_words(files, tmp_path, capsys, suffix):
    paths = [str(files(name, noise)) for name, noise in (("a", 0.5), ("b", 1.0), ("a_rather_long_name", 1.5))]
    figure = tmp_path / f"new/figure.{suffix}"
    assert main(["compare", *paths, "--metric", "t2i_r1", "--figure", str(figure)]) == 0
    out = capsys.readouterr().out
    said = out[out.index("In words: ") :]
    assert all(f"{path}: " in said for path in paths)
    assert "R@1, image retrieval of 3 models, protocol 5K" in said
    assert figure.stat().st_size > 4000
    if suffix == "png":
        with Image.open(figure) as image:
            assert np.asarray(image.convert("L")).min() < 100


def test_the_command_takes_two_with_a_figure_and_refuses_what_it_cannot_do(files, tmp_path, capsys):
    a, b = str(files("a", 0.5)), str(files("b", 1.0))
    figure = tmp_path / "two.svg"
    assert main(["compare", a, b, "--json", "--metric", "rsum", "--figure", str(figure)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert a in found["alt"] and b in found["alt"] and found["caption"].startswith("rsum of 2 models")
    assert list(found["standings"]) == ["rsum"]
    assert main(["compare", a, b, "--metric", "t2i_r5"]) == 0
    assert "A is ahead by" in (out := capsys.readouterr().out) and "McNemar" not in out
    assert main(["compare", a, b, a]) == 1
    assert "a.npz: is given more than once; give each model once" in capsys.readouterr().err
    assert main(["compare", a, b, "--figure", "two.jpg"]) == 1
    assert "two.jpg: expected a figure's name, which ends in .svg, .png or .pdf" in capsys.readouterr().err
