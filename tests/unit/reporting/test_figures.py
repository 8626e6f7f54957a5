from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from PIL import Image

from vsepp.errors import VseppError
from vsepp.reporting.figures import write_figure
from vsepp.reporting.specs import FigureSpec, SeriesSpec

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def curves(write_history):
    def make(seeds=1):
        def files(run, start):
            return tuple(write_history(run, [start, start + 10, start + 15 + s], s) for s in range(seeds))

        series = (
            SeriesSpec("vse0", "VSE0", files("vse0", 20)),
            SeriesSpec("vsepp", "VSE++", files("vsepp", 15)),
        )
        return FigureSpec(
            "figure2a", "curves", "Curves", "A caption.", "flickr", ("i2t_r1", "t2i_r1"), series
        )

    return make


@pytest.fixture
def negative_set(write_metrics):
    def series(size, r1, seeds=1):
        run = f"neg{size}"
        files = tuple(
            write_metrics(run, [r1 + s, 60, 70, 2, 5], [20, 50, 60, 3, 9], "1K", s) for s in range(seeds)
        )
        return SeriesSpec(run, "VSE++", files, size)

    def make(seeds=1):
        return FigureSpec(
            "figure2b",
            "negative_set",
            "Negative set",
            "A caption.",
            "flickr",
            ("i2t_r1",),
            (series(2, 30, seeds), SeriesSpec("neg8", "VSE++", (), 8), series(512, 35, seeds)),
            baseline=replace(series(1, 31, seeds), run="vse0", label="VSE0"),
            protocol="1K",
        )

    return make


def test_the_same_numbers_give_the_same_bytes(negative_set, context, tmp_path):
    first = write_figure(negative_set(seeds=2), context, tmp_path / "a").files
    second = write_figure(negative_set(seeds=2), context, tmp_path / "b").files
    assert [file.suffix for file in first] == [".png", ".svg", ".pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_files_are_what_their_names_say(curves, context, tmp_path):
    png, svg, pdf = write_figure(curves(), context, tmp_path).files
    with Image.open(png) as image:
        assert image.size[0] >= 1200
    assert ElementTree.parse(svg).getroot().tag == f"{SVG}svg"
    assert pdf.read_bytes().startswith(b"%PDF")


def test_other_numbers_give_another_picture(curves, context, tmp_path):
    one = write_figure(curves(), context, tmp_path / "a").files[0].read_bytes()
    other = write_figure(curves(seeds=3), context, tmp_path / "b").files[0].read_bytes()
    assert one != other


def test_the_caption_names_seeds_missing_runs_and_whose_numbers_these_are(negative_set, context, tmp_path):
    figure = write_figure(negative_set(seeds=2), context, tmp_path)
    assert figure.drawn == 3
    assert "2 seeds" in figure.caption
    assert "Not run: neg8." in figure.caption
    assert "scenes B in place of Flickr30K" in figure.caption
    assert figure.caption.endswith(context.data_note)


def test_the_papers_own_data_needs_no_note(curves, context, tmp_path):
    own = replace(context, titles=context.paper_titles, data_note="")
    assert write_figure(curves(), own, tmp_path).caption == "A caption. One seed."


def test_a_figure_without_any_run_says_so(curves, context, tmp_path):
    spec = curves()
    empty = replace(spec, series=tuple(replace(series, files=()) for series in spec.series))
    figure = write_figure(empty, context, tmp_path / "empty")
    assert figure.drawn == 0
    assert "Not run: vse0 and vsepp." in figure.caption
    assert "not run" in figure.files[1].read_text(encoding="utf-8")
    assert "not run" not in write_figure(spec, context, tmp_path / "full").files[1].read_text(
        encoding="utf-8"
    )


def test_a_series_without_a_size_is_refused(negative_set, context, tmp_path):
    spec = negative_set()
    unsized = replace(spec, series=(replace(spec.series[0], size=None),))
    with pytest.raises(VseppError, match="figure2b, run neg2"):
        write_figure(unsized, context, tmp_path)


def test_only_series_with_uncommitted_code_behind_them_are_marked(curves, write_history, context, tmp_path):
    clean, dirty = {"commit": "abc", "dirty": False}, {"commit": "abc", "dirty": True}
    files = [(write_history(run, [1, 2], git=git),) for run, git in (("vse0", clean), ("vsepp", dirty))]
    spec = curves()
    both = tuple(replace(one, files=file) for one, file in zip(spec.series, files, strict=True))
    marked = write_figure(replace(spec, series=both), context, tmp_path)
    assert "† vsepp: made in part with uncommitted changes of code or parameters (train)" in marked.caption
    assert {run: origin.dirty for run, origin in marked.origins} == {"vse0": (), "vsepp": ("train",)}
    plain = write_figure(
        replace(spec, series=(both[0], replace(both[1], files=()))), context, tmp_path / "plain"
    )
    assert "†" not in plain.caption
    svgs = [figure.files[1].read_text(encoding="utf-8") for figure in (marked, plain)]
    assert ["<!-- VSE++† -->" in svg for svg in svgs] == [True, False]
    assert ["<!-- VSE0 -->" in svg for svg in svgs] == [True, True]


def test_a_point_of_uncommitted_code_marks_its_line_and_names_its_run(
    negative_set, write_metrics, context, tmp_path
):
    git = {"commit": "abc", "dirty": True}
    spec = negative_set(seeds=1)
    file = write_metrics(
        spec.series[0].run, [30, 60, 70, 2, 5], [20, 50, 60, 3, 9], "1K", git=git, trained=git
    )
    series = (replace(spec.series[0], files=(file,)), *spec.series[1:])
    figure = write_figure(replace(spec, series=series), context, tmp_path)
    assert f"† {spec.series[0].run}: made in part with" in figure.caption
    assert "<!-- VSE++† -->" in figure.files[1].read_text(encoding="utf-8")
