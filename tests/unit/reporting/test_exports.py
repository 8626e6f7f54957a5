import json
from pathlib import Path
from statistics import stdev

import pytest

from vsepp.reporting.exports import write_exports
from vsepp.reporting.specs import TrainedSpec

I2T, T2I = (40.0, 70.0, 80.0, 2, 3.5), (30.0, 60.0, 75.0, 3, 4.5)


@pytest.fixture
def model(write_metrics, write_history):
    """Make a model with the recalls `I2T` plus its seed."""

    def make(name, seed=0, trained=True):
        metrics = write_metrics(name, tuple(value + seed for value in I2T), T2I, "1K", seed=seed)
        history = write_history(name, [1.0, 2.0], seed=seed)
        folders = str(Path(metrics).parent), str(Path(history).parent)
        return TrainedSpec(
            model=name,
            seed=seed,
            run=folders[1],
            metrics=folders[0],
            made_by={},
            trained=trained,
        )

    return make


def test_recalls_are_means_over_the_seeds_with_the_spread_of_their_sum(model, tmp_path):
    write_exports([model("vse0", 0), model("vse0", 2)], tmp_path / "out")
    found = json.loads((tmp_path / "out/metrics/vse0.json").read_text())["1K"]
    sums = [355.0, 361.0]
    assert found == {
        "i2t_r1": 41.0, "i2t_r10": 81.0, "t2i_r1": 30.0, "t2i_r10": 75.0, "rsum": 358.0, "rsum_sd": stdev(sums),
    }  # fmt: skip


def test_each_seed_of_a_trained_model_has_its_curve(model, tmp_path):
    write_exports([model("a", 0), model("a", 1), model("released", trained=False)], tmp_path / "out")
    assert {path.name for path in (tmp_path / "out/curves").iterdir()} == {"a-seed-0.csv", "a-seed-1.csv"}
    assert (tmp_path / "out/curves/a-seed-1.csv").read_text() == (
        tmp_path / "runs/a/seed-1/history.csv"
    ).read_text()


def test_models_of_an_earlier_plan_leave_nothing_behind(model, tmp_path):
    write_exports([model("a", 0), model("a", 1), model("b")], tmp_path / "out")
    write_exports([model("a", 0)], tmp_path / "out")
    left = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert left == {"metrics/a.json", "curves/a-seed-0.csv"}
