"""Each kind of figure: the values it draws and says in words, and which runs it names."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from embedded_sets import embedded, under
from PIL import Image
from pydantic import TypeAdapter
from trained_models import DIRTY, I2T, seal, write_pictures

from vsepp.base.errors import VseppError
from vsepp.base.spec import Component
from vsepp.evaluation.best import BestLists, best_items
from vsepp.evaluation.intervals import Effect, Interval
from vsepp.pipeline.steps.figure_data import STEP as FIGURE_DATA
from vsepp.report.answers import Answers
from vsepp.report.entries import Claim, Feed, FigureDataSpec, ReportSpec
from vsepp.report.figures.constellations import Figure as Constellations
from vsepp.report.figures.curves import Figure as Curves
from vsepp.report.figures.differences import Figure as Differences
from vsepp.report.figures.differences import write_gaps
from vsepp.report.figures.examples import Figure as Examples
from vsepp.report.figures.negative_set import Figure as NegativeSet
from vsepp.report.figures.weights import Figure as Weights
from vsepp.report.pairing import Material
from vsepp.report.plots import write_figure
from vsepp.report.verdicts import CHANCE, NOT_RUN, SAME, Measured, Verdict

pytestmark = pytest.mark.usefixtures("formats")
FORMATS = ("png", "svg", "pdf")
CURVES = Curves(
    kind="curves", title="Curves", caption="A caption.", dataset="flickr",
    metrics=("i2t_r1", "t2i_r1"), runs=("vse0", "vsepp"), labels=("VSE0", "VSE++"),
)  # fmt: skip
NEGATIVE_SET = NegativeSet(
    kind="negative_set", title="Negative set", caption="A caption.", dataset="flickr",
    metrics=("i2t_r1",), protocol="1K", runs={2: "neg2", 8: "neg8", 512: "neg512"}, labels=("VSE++", "VSE0"),
    baseline="vse0",
)  # fmt: skip


def add_sizes(models, seeds=1):
    """Add runs of a baseline and of two of three sizes."""
    for run, r1 in (("neg2", 30), ("neg512", 35), ("vse0", 31)):
        for seed in range(seeds):
            models.add(run, (r1 + seed, *I2T[1:]), protocol="1K", seed=seed)


def texts(drawn):
    """What an SVG has as text: beside each one's glyphs stands a comment."""
    return set(re.findall(r"<!-- (.*?) -->", svg_of(drawn)))


def svg_of(drawn):
    return (drawn.folder / f"{drawn.id}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("formats", [FORMATS], indirect=True, ids="+".join)
def test_the_same_numbers_give_the_same_files_and_others_do_not(models, context, tmp_path):
    add_sizes(models, seeds=2)
    folders = [tmp_path / name for name in "abc"]
    fewer = {run: seeds[:1] for run, seeds in models.records.items()}
    for folder, records in zip(folders, (models.records, models.records, fewer), strict=True):
        write_figure("figure2b", NEGATIVE_SET, Material(ReportSpec(context), records, {}), folder)
    for suffix in FORMATS:
        first, second, other = ((folder / f"figure2b.{suffix}").read_bytes() for folder in folders)
        assert first == second != other
    with Image.open(tmp_path / "a/figure2b.png") as image:
        assert image.size[0] >= 900


def test_the_caption_names_seeds_missing_runs_and_whose_numbers_these_are(models, own_data, draw):
    add_sizes(models, seeds=2)
    caption = draw("figure2b", NEGATIVE_SET).caption
    assert "Mean over 2 seeds." in caption and "Not run: neg8." in caption
    assert "scenes B in place of Flickr30K" in caption
    assert "in place of" not in draw("figure2b", NEGATIVE_SET, own_data).caption
    fewer = {run: seeds[:1] if run == "neg2" else seeds for run, seeds in models.records.items()}
    assert "Mean over 1 and 2 seeds." in draw("figure2b", NEGATIVE_SET, records=fewer).caption


def test_a_figure_without_any_run_says_so(draw):
    drawn = draw("figure2b", NEGATIVE_SET)
    assert "Nothing was run." in drawn.alt and texts(drawn) == {"not run"}
    assert "Not run: neg2, neg8, neg512 and vse0." in drawn.caption and "One seed" not in drawn.caption
    assert "Nothing was run." in draw("figure1", CONSTELLATIONS).alt


def test_points_of_runs_in_trouble_are_hollow_and_named(models, draw):
    add_sizes(models)
    models.add("neg8", (1.0, 5.0, 10.0, 50, 50.0), (1.0, 5.0, 10.0, 50, 50.0), protocol="1K")
    drawn = draw("figure2b", NEGATIVE_SET)
    assert "Hollow: neg8 ranks like chance (seed 0)." in drawn.caption
    assert svg_of(drawn).count("fill: #ffffff; stroke: #0072b2") == 1


DIFFERENCES = Differences(
    kind="differences", title="Differences", caption="A caption.", dataset="flickr", metrics=("i2t_r1",), protocol="1K",
    runs=(("neg2", "vse0"),), labels=("a gap",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "alternative"),
    [
        (replace(CURVES, runs=("neg2", "vse0")), "VSE0 30.0 after epoch 1, 40.0 after epoch 2"),
        (NEGATIVE_SET, "VSE++ with 2: 40.0"),
        (DIFFERENCES, ": +9.9 ["),
    ],
)
def test_a_seed_that_collapsed_beside_sound_ones_is_left_out_and_named(models, draw, spec, alternative):
    for seed, r1 in enumerate((40, 4, 40)):
        models.add("neg2", (r1, *I2T[1:]), protocol="1K", seed=seed, history=(r1 - 10, r1), collapsed=r1 == 4)
        models.add("vse0", (30 + seed / 10, *I2T[1:]), protocol="1K", seed=seed)
    drawn = draw(
        "figure", spec, runs={run: {"dataset": "flickr", "encoder": "vgg"} for run in ("neg2", "vse0")}
    )
    assert alternative in drawn.alt
    assert "neg2 collapsed (seed 1), left out." in drawn.caption and "Hollow" not in drawn.caption


def test_the_papers_values_are_marked_on_its_own_data_alone(models, own_data, published, draw):
    add_sizes(models)
    fed = {"3.11": Feed("neg512", "1K"), "3.9": Feed("vse0", "1K"), "3.8": Feed("neg8", "5K")}
    runs = {"neg512": {"dataset": "flickr", "encoder": "vgg"}}
    on_own_data = draw("figure2b", NEGATIVE_SET, own_data, published, feeds=fed, runs=runs)
    assert "38.6 for size 512; 31.6 for VSE0" in on_own_data.alt and "Crosses" in on_own_data.caption
    elsewhere = draw("figure2b", NEGATIVE_SET, published=published, feeds=fed, runs=runs)
    assert "38.6" not in elsewhere.alt and "Crosses" not in elsewhere.caption


@pytest.mark.parametrize("formats", [("pdf",)], indirect=True, ids="+".join)
def test_the_type_is_serif_where_that_is_asked_for(models, context, draw):
    models.add("vse0")
    models.add("vsepp")
    sans, serif = (draw(str(on), CURVES, replace(context, serif=on)) for on in (False, True))
    assert b"STIX" in (serif.folder / "True.pdf").read_bytes()
    assert b"STIX" not in (sans.folder / "False.pdf").read_bytes()


# Figures that a step computes something for, and figures of formulas.

POINTS = {
    "positive": [0.0, 1.0],
    "negatives": [[[0.5, 0.0], [0.0, -2.0]], [[1.1, 0.0], [-1.1, 0.0], [0.0, -1.1]]],
}
CONSTELLATIONS = Constellations(
    kind="constellations", title="Losses", caption="A caption.", labels=("SH loss", "MH loss"), **POINTS,
    losses=(Component("sum_of_hinges"), Component("max_of_hinges")),
)  # fmt: skip


def computed(figure, folder):
    """What the step of a figure's data keeps, in its folder."""
    folder.mkdir()
    FIGURE_DATA.run(FigureDataSpec(figure), {}, folder, None)
    seal(folder, "figure-data", DIRTY, {})
    return json.loads((folder / "data.json").read_text())


def test_losses_in_a_plane_are_those_of_the_negatives_inside_the_margin(tmp_path, draw):
    first, second = computed(CONSTELLATIONS, tmp_path / "made")["panels"]
    assert first["losses"] == pytest.approx([0.7, 0.7])
    assert second["losses"] == pytest.approx([0.3, 0.1])
    data = {"figure1": str(tmp_path / "made")}
    assert "SH loss 0.30; MH loss 0.10" in draw("figure1", CONSTELLATIONS, data=data).alt
    (tmp_path / "made/data.json").write_text("{}")
    with pytest.raises(VseppError, match=r"data\.json"):
        draw("figure1", CONSTELLATIONS, data=data)


def test_triplet_weights_are_those_of_the_equations_at_each_place(tmp_path, draw):
    options = [{}, {"triplet": "nca"}, {"triplet": "circle", "offset": 0.5}]
    spec = Weights(
        kind="weights", title="Weights", caption="A caption.", of="triplet", labels=("one", "two", "three"),
        losses=tuple(Component("goal", chosen) for chosen in options),
    )  # fmt: skip
    data = computed(spec, tmp_path / "made")
    places = [round(100 * s) for s in data["similarities"]]
    negative, positive = places.index(30), places.index(60)
    values = [panel[negative][positive] for panel in data["weights"]]
    expected = [0, 1 / (1 + math.exp(10 * 0.3)), 1 / (1 + math.exp(10 * (0.6 * 1.4 - 0.09 - 0.5)))]
    assert values == pytest.approx(expected)
    assert "0.0474 at 0.6 and 0.3" in draw("figure2", spec, data={"figure2": str(tmp_path / "made")}).alt


ANSWERS = Examples(
    kind="examples", images=2, title="Answers", caption="A caption.", dataset="coco",
    runs=("vse0", "vsepp"), labels=("VSE0", "VSE++"), protocol="5K", width="page",
)  # fmt: skip
WILD = "50 % of $x_1$ <b>&amp;</b> {\\evil} שלום כלב 🐕" + " word" * 40


def turned(scores, fold, captions):
    """The two best of each query the other way round, as a matcher may say."""
    best = best_items(scores, 2)
    return BestLists(*((items, np.tile([0.0, 1.0], (len(items), 1))) for items in best))


def answering(models, run, ranked_first, pictures, rerank=None, **more):
    """A model of three images with two captions each that puts, for the first image, a caption of `ranked_first` first."""
    spec = models.add(run, protocol="5K", fold_size=500, **more)
    images = np.eye(3, dtype=np.float32)
    captions = np.repeat(images, 2, axis=0)
    captions[2 * ranked_first, 0] = 5.0
    tested = embedded(images, captions, np.repeat(np.arange(3), 2))
    models.keep_test_set(spec, tested, under(tested, rerank=rerank), pictures)


@pytest.fixture
def pictures(tmp_path):
    pixels = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(pixels, "JPEG")
    texts = list(enumerate(["a dog", "a puppy", WILD, "a cat", "a cow", "a calf"]))
    captions = {f"9{k}": texts[2 * k : 2 * k + 2] for k in range(3)}
    write_pictures(tmp_path / "pictures", captions, pixels.getvalue())
    return tmp_path / "pictures"


@pytest.mark.parametrize("photographs", [True, False])
def test_answers_show_pictures_or_ids_and_captions_are_text(models, pictures, photographs, draw):
    answering(models, "vse0", 1, pictures)
    answering(models, "vsepp", 0, pictures)
    drawn = draw("figure3", ANSWERS, photographs=("coco",) if photographs else ())
    assert f"Image 90: VSE0: rank 2: {WILD}; VSE++: rank 1 ✓: a dog; True: a dog." in drawn.alt
    assert "Image 92: " in drawn.alt and "Image 91: " not in drawn.alt, "the first and the last"
    assert ("<image" in svg_of(drawn)) is photographs and ("image 92" in texts(drawn)) is not photographs


def test_answers_of_both_models_are_those_of_a_seed_that_is_sound_in_both(models, pictures, draw):
    for seed in (0, 1):
        answering(models, "vse0", seed, pictures, seed=seed, collapsed=seed == 0)
        answering(models, "vsepp", seed, pictures, seed=seed)
    drawn = draw("figure3", ANSWERS)
    assert f"Image 90: VSE0: rank 2: {WILD}; VSE++: rank 2: {WILD};" in drawn.alt
    assert "seed 1." in drawn.caption and "vse0 collapsed (seed 0)" in drawn.caption
    alone = {"vse0": models.records["vse0"][1:], "vsepp": models.records["vsepp"][:1]}
    assert texts(draw("figure3", ANSWERS, records=alone)) == {"no seed common to both"}


def test_answers_of_a_model_that_was_re_ranked_are_those_of_its_lists(models, pictures, draw):
    answering(models, "vse0", 1, pictures, turned)
    answering(models, "vsepp", 1, pictures)
    # By the embeddings WILD, then "a dog", one of its own.
    assert f"Image 90: VSE0: rank 1 ✓: a dog; VSE++: rank 2: {WILD};" in draw("figure3", ANSWERS).alt
    (record,) = models.records["vse0"]
    assert Answers(record, "5K").ranked("i2t", 0).tolist() == [0, 2, 1, 3, 4, 5]
    with (Path(models.specs["vse0"][0].run) / "embeddings.npz").open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(VseppError, match=r"embeddings\.npz"):
        draw("figure3", ANSWERS)


# All gaps.


def verdict(
    claim="A claim.", kind="difference", metric="i2t_r1", runs=("a", "b"), word=SAME, value=3.0, **more
):
    keys = {"claim": claim, "place": "Table 1", "kind": kind, "runs": runs, "published": {metric: 5.9}}
    keys |= {"protocol": "1K"} if kind != "crossing" else {}
    spec = TypeAdapter(Claim).validate_python(keys)
    effect = None
    if value is not None:
        effect = Effect(value, (value,), Interval(value - 1, value + 1))
    return Verdict(spec, metric, False, Measured(effect, 1), roles=("coco",), word=word, **more)


def test_all_gaps_stand_in_one_plot_and_what_has_none_says_why(context, tmp_path):
    verdicts = [
        verdict("B gains in caption retrieval."),
        verdict("B gains in image retrieval.", metric="t2i_r1", value=-40.0),
        verdict("C gains.", runs=("c", "d"), word=NOT_RUN, value=None),
        verdict(f"With a word that is said {'over and ' * 4}again, C gains.", runs=("c", "d")),
        verdict("E gains.", runs=("e", "f"), word=CHANCE, value=None, why="e ranks like chance"),
        verdict(kind="difference_of_differences", runs=("a", "b", "c", "d")),
    ]
    drawn = write_gaps(verdicts, Material(ReportSpec(context), {}, {}), tmp_path)
    metric = "R@1 of caption retrieval"
    assert f"B gains, {metric} (a − b): +3.0 [+2.0, +4.0], the paper's +5.9." in drawn.alt
    assert f"C gains, {metric} (c − d): not run" in drawn.alt
    assert f"E gains, {metric} (e − f): like chance" in drawn.alt
    assert "Not drawn: 1 (not run)." in drawn.caption
    labels = texts(drawn)
    assert labels >= {"B gains", "E gains", "scenes A", "−40.0 [−41.0, −39.0]"}
    # A long name has several lines.
    assert labels >= {"With a word that is said over and over and over and over", "and again, C gains"}


def test_chosen_differences_stand_under_their_names_beside_the_papers_effect(models, draw):
    for run, r1 in (("vsepp", 40), ("vse0", 30)):
        for seed in range(2):
            models.add(run, (r1 + seed, *I2T[1:]), protocol="1K", seed=seed)
    pairs = (("vsepp", "vse0"), ("vse0", "missing"))
    spec = replace(DIFFERENCES, metrics=("i2t_r1", "rsum"), runs=pairs, labels=("MH − SH", "a name"))
    claimed = replace(verdict(runs=("vsepp", "vse0")).spec, published={"i2t_r1": 2.1})
    runs = {run: {"dataset": "flickr", "encoder": "vgg"} for run in spec.named}
    drawn = draw("differences", spec, claims=(("gain", claimed),), runs=runs)
    assert texts(drawn) >= {"MH − SH", "a name", "rsum", "not run"}
    values = re.findall(r"MH − SH, [^()]+ \(vsepp − vse0\): (\S+) \[", drawn.alt)
    assert values == ["+10.0", "+10.0"] and drawn.alt.count("+2.1") == 1
