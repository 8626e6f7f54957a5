from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from PIL import Image
from reported import DIRTY, I2T

from vsepp.reporting.figures import inline_svg, write_figure
from vsepp.reporting.specs import FigureSpec

SVG = "{http://www.w3.org/2000/svg}"
CURVES = FigureSpec(
    "figure2a",
    "curves",
    "Curves",
    "A caption.",
    "flickr",
    ("i2t_r1", "t2i_r1"),
    ("vse0", "vsepp"),
    ("VSE0", "VSE++"),
)
NEGATIVE_SET = FigureSpec(
    "figure2b",
    "negative_set",
    "Negative set",
    "A caption.",
    "flickr",
    ("i2t_r1",),
    runs=("neg2", "neg8", "neg512"),
    labels=("VSE++", "VSE0"),
    sizes=(2, 8, 512),
    baseline="vse0",
)


def add_curves(models, seeds=1, **more):
    for seed in range(seeds):
        models.add("vse0", seed=seed, history=(20, 30, 35 + seed))
        models.add("vsepp", seed=seed, history=(15, 25, 30 + seed), **more)


def add_sizes(models, seeds=1, **more):
    """Of a baseline and of two of three sizes."""
    for run, r1 in (("neg2", 30), ("neg512", 35), ("vse0", 31)):
        for seed in range(seeds):
            models.add(
                run, (r1 + seed, *I2T[1:]), protocol="1K", seed=seed, **(more if run == "neg2" else {})
            )


@pytest.mark.parametrize("spec, add", [(CURVES, add_curves), (NEGATIVE_SET, add_sizes)])
def test_the_same_numbers_give_the_same_files_and_others_do_not(models, context, tmp_path, spec, add):
    add(models, seeds=2)
    folders = [tmp_path / name for name in "abc"]
    records = models.records
    fewer = {run: seeds[:1] for run, seeds in records.items()}
    for folder, shown in zip(folders, (records, records, fewer), strict=True):
        write_figure(spec, context, shown, folder)
    for suffix in ("png", "svg", "pdf"):
        first, second, other = ((folder / f"{spec.id}.{suffix}").read_bytes() for folder in folders)
        assert first == second != other
    with Image.open(tmp_path / f"a/{spec.id}.png") as image:
        assert image.size[0] >= 1200
    assert ElementTree.parse(tmp_path / f"a/{spec.id}.svg").getroot().tag == f"{SVG}svg"
    assert (tmp_path / f"a/{spec.id}.pdf").read_bytes().startswith(b"%PDF")


def test_the_caption_names_seeds_missing_runs_and_whose_numbers_these_are(models, context, tmp_path):
    add_sizes(models, seeds=2)
    caption = write_figure(NEGATIVE_SET, context, models.records, tmp_path)
    assert "Mean over 2 seeds; bars and band of one sample standard deviation." in caption
    assert "Not run: neg8." in caption
    assert "scenes B in place of Flickr30K" in caption
    assert caption.endswith(context.data_note)


def test_the_papers_own_data_needs_no_note(models, own_data, tmp_path):
    add_curves(models)
    assert write_figure(CURVES, own_data, models.records, tmp_path) == "A caption. One seed."


@pytest.mark.parametrize("spec", [CURVES, NEGATIVE_SET])
def test_a_figure_without_any_run_says_so(context, tmp_path, spec):
    caption = write_figure(spec, context, {}, tmp_path)
    assert f"Not run: {'vse0 and vsepp' if spec is CURVES else 'neg2, neg8, neg512 and vse0'}." in caption
    assert "not run" in (tmp_path / f"{spec.id}.svg").read_text(encoding="utf-8")


def test_more_lines_than_colours_are_all_drawn(models, context, tmp_path):
    runs = tuple(f"run{k}" for k in range(6))
    for run in runs:
        models.add(run)
    assert "Not run" not in write_figure(
        replace(CURVES, runs=runs, labels=runs), context, models.records, tmp_path
    )
    svg = (tmp_path / "figure2a.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {run} -->" in svg for run in runs)


def test_only_lines_with_uncommitted_code_behind_them_are_marked(models, context, tmp_path):
    add_curves(models, trained=DIRTY)
    # What it was measured with is behind no curve.
    models.add("measured", git=DIRTY)
    spec = replace(CURVES, runs=("vse0", "vsepp", "measured"), labels=("VSE0", "VSE++", "Measured"))
    caption = write_figure(spec, context, models.records, tmp_path)
    assert "† vsepp: made in part with uncommitted changes of code or parameters (train)" in caption
    svg = (tmp_path / "figure2a.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {label} -->" in svg for label in ("VSE0", "VSE++†", "Measured"))
    plain = write_figure(replace(CURVES, runs=("vse0", "gone")), context, models.records, tmp_path)
    assert "†" not in plain


def test_a_point_of_uncommitted_code_marks_its_line_and_names_its_run(models, context, tmp_path):
    add_sizes(models, git=DIRTY)
    caption = write_figure(NEGATIVE_SET, context, models.records, tmp_path)
    assert "† neg2: made in part with" in caption
    svg = (tmp_path / "figure2b.svg").read_text(encoding="utf-8")
    assert "<!-- VSE++† -->" in svg and "<!-- VSE0 -->" in svg


def test_a_figure_in_a_page_takes_the_pages_colours_and_keeps_its_ids_apart(models, context, tmp_path):
    add_curves(models)
    write_figure(CURVES, context, models.records, tmp_path)
    svg = inline_svg(CURVES, tmp_path / "figure2a.svg")
    assert svg.startswith('<svg role="img" aria-label="Figure 2a"')
    assert "currentColor" in svg and "var(--rule)" in svg and "var(--series-1)" in svg
    assert "#24292f" not in svg and "#0072b2" not in svg
    ids = [part.partition('"')[0] for part in svg.split(' id="')[1:]]
    assert ids and all(one.startswith("figure2a-") for one in ids)
    assert all(part.partition(")")[0] in ids for part in svg.split("url(#")[1:])
