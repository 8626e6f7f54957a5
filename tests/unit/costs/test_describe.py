"""What the report says of disks."""

from pathlib import Path

import pytest

from vsepp.config import make_plan
from vsepp.costs.describe import describe
from vsepp.costs.devices import choose_columns
from vsepp.costs.rates import NETWORKS
from vsepp.costs.render import render

PARAMS = Path(__file__).resolve().parents[3] / "params"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _columns():
    return choose_columns([], None, None, "some processor, 4 cores", 1)


def text_with(plan, free):
    return " ".join(render(describe(plan, NETWORKS, _columns(), {}, free)).split())


def test_a_disk_that_is_too_small_is_said_with_the_way_out(folder):
    paper = make_plan(PARAMS, {"preset": "paper"})
    small, large = text_with(paper, 200 * 10**9), text_with(paper, 400 * 10**9)
    assert "Free in" in large and "DOES NOT FIT" not in large
    assert "IT DOES NOT FIT." in small
    assert "--config label=inline runs='{default: {rc_features: inline}}'" in small
    # The way out is one: as it stands there it is accepted, and has no tapes.
    inline = make_plan(
        PARAMS, {"preset": "paper", "label": "inline", "runs": {"default": {"rc_features": "inline"}}}
    )
    assert "tapes" not in describe(inline, NETWORKS, _columns(), {}, 10**12)["disk"]["kinds"]


def test_kept_tapes_count_all_together(folder):
    kept = make_plan(PARAMS, {"preset": "paper", "resources": {"keep_tapes": True}})
    gone = make_plan(PARAMS, {"preset": "paper"})
    peaks = [describe(p, NETWORKS, _columns(), {}, 0)["disk"]["peak"] for p in (kept, gone)]
    others = (566_435 * 2048 + 145_000 * (4096 + 2048)) * 30 * 2
    assert peaks[0] - peaks[1] == others


def test_what_is_on_disk_need_not_be_written(folder):
    mini = make_plan(PARAMS, {})
    before = describe(mini, NETWORKS, _columns(), {}, 0)["disk"]
    encoder = next(iter(mini.encoders))
    place = folder / "results" / "mini" / "encoders" / encoder
    place.mkdir(parents=True)
    (place / "encoder.safetensors").write_bytes(bytes(1000))
    after = describe(mini, NETWORKS, _columns(), {}, 0)["disk"]
    assert before["to_write"] - after["to_write"] == after["present"] == 1000
