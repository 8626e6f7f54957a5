"""What is measured is known by name, works, and is compared with what it was measured beside."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import small

from vsepp.bench import catalogue
from vsepp.bench.cases import make_case
from vsepp.bench.measurement import rate_of
from vsepp.bench.rounds import Rounds, measure_group, result, spread
from vsepp.cli.measuring import child
from vsepp.config import make_plan
from vsepp.costs.rates import NETWORKS
from vsepp.costs.work import jobs_of
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"
CHILD = partial(child, "cpu", 1, 0.01)
MEASUREMENTS = {m.name: m for group in small.all_groups() for m in group}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_kind_of_measurement_does_its_work(name, tmp_path):
    case = make_case(MEASUREMENTS[name], tmp_path, small.CPU)
    case.call()
    case.call()
    assert case.items > 0
    if name.startswith("step"):
        assert case.items == small.BATCH


def test_measurements_change_the_weights_that_they_train(tmp_path):
    frozen = make_case(MEASUREMENTS["step-rc-inline/vgg_mini"], tmp_path / "a", small.CPU)
    tuned = make_case(MEASUREMENTS["step-finetuned/vgg_mini"], tmp_path / "b", small.CPU)
    assert tuned.facts["parameters"] - frozen.facts["parameters"] == 137_040


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_comparisons_stay_within_a_group_and_names_are_unique(quick, device):
    groups = catalogue.groups(quick, device)
    names = [m.name for group in groups for m in group]
    assert len(names) == len(set(names))
    for group in groups:
        within = {m.name: m for m in group}
        for measurement in group:
            for other in filter(None, (measurement.limit, measurement.reference)):
                assert other in within
            if measurement.limit:
                limit = within[measurement.limit].run
                assert limit.schedule == measurement.run.schedule
                assert (
                    limit.encoder == measurement.run.encoder
                )  # its precision, memory format and compilation
                assert limit.precision == measurement.run.precision


def test_networks_of_full_size_are_left_to_the_long_measurement():
    def networks(quick):
        of_images = ("forward", "forward-backward", "tape")
        groups = catalogue.groups(quick, "cpu")
        return {m.run.encoder.architecture for g in groups for m in g if m.kind in of_images}

    assert networks(True) == {"mini/vgg_mini", "mini/resnet_mini"}
    assert networks(False) - networks(True) == {"torchvision/vgg19", "torchvision/resnet152"}


def test_what_is_asked_for_comes_with_what_it_is_compared_with():
    groups = catalogue.chosen(catalogue.groups(True, "cpu"), ["step-finetuned/vgg_mini", "rank"])
    assert [[m.name for m in group] for group in groups] == [
        ["forward-backward/vgg_mini", "step-finetuned/vgg_mini", "reference-finetuned/vgg_mini"],
        ["rank/5000", "argsort/5000"],
    ]
    (encode,) = catalogue.chosen(catalogue.groups(True, "cpu"), ["enc*"])
    assert [m.name for m in encode] == ["encode/mini"]
    with pytest.raises(VseppError, match=r"--only: got 'step-2c'; .*step-1c/4096"):
        catalogue.chosen(catalogue.groups(True, "cpu"), ["step-2c"])


def test_results_compare_rounds():
    measurement = replace(MEASUREMENTS["step-rc-inline/vgg_mini"], limit="f", reference="r")
    items = {measurement.name: 10, "f": 20, "r": 10}
    # The second round met a machine half as fast: the ratios do not.
    seconds = {measurement.name: [2.0, 4.0], "f": [2.0, 4.0], "r": [6.0, 12.0]}
    found = result(measurement, items, seconds)
    assert found["per_second"] == {
        "median": 3.75, "min": 2.5, "max": 5.0, "q1": 3.125, "q3": 4.375, "repetitions": 2,
    }  # fmt: skip
    assert found["times_limit"] == {"of": "f", "median": 2.0, "min": 2.0, "max": 2.0}
    assert found["times_reference"] == pytest.approx({"of": "r", "median": 3.0, "min": 3.0, "max": 3.0})
    assert spread([4.0])["q1"] == 4.0


def test_a_group_is_measured_in_processes_of_their_own():
    limit, step, _ = catalogue.finetuned(small.RUN, **small.SIZES)
    group = (limit, replace(step, reference=None))
    found = measure_group(group, CHILD, Rounds(0.0, 2, 2, 0.01))
    assert [(entry["name"], entry["unit"]) for entry in found] == [
        ("forward-backward/vgg_mini", "images"),
        ("step-finetuned/vgg_mini", "pairs"),
    ]
    for entry in found:
        assert entry["per_second"]["repetitions"] == 2
        assert 0 < entry["per_second"]["min"] <= entry["per_second"]["median"] <= entry["per_second"]["max"]
        assert entry["per_cpu_second"] > 0
        assert entry["peak_host_bytes"] >= entry["host_bytes_before"] > 2**26
        assert entry["facts"]["threads"] == 1 and entry["facts"]["device"] == "cpu"
    # The step does all that its limit does.
    assert found[1]["measures"] == {"entry": "mini/vgg_mini@24", "rate": "train_pairs_per_s"}
    assert found[1]["times_limit"]["of"] == "forward-backward/vgg_mini"
    assert found[1]["times_limit"]["max"] > 1


def test_a_process_that_fails_is_named_with_what_it_said():
    one = MEASUREMENTS["forward/vgg_mini"]
    wrong = replace(one, run=replace(one.run, encoder=replace(one.run.encoder, architecture="mini/vgg_maxi")))
    with pytest.raises(VseppError, match=r"forward/vgg_mini: .*mini has no 'vgg_maxi'"):
        measure_group((wrong,), CHILD, Rounds(0.0, 1, 1, 0.01))
    with pytest.raises(VseppError, match=r"ended with status 3\. .*--only"):
        measure_group((one,), small.fail, Rounds(0.0, 1, 1, 0.01))


def test_trainings_that_share_a_device_are_counted_together():
    group = catalogue.sharing(small.RUN, "small", (1, 2), **small.SIZES)
    alone, both = measure_group(group, CHILD, Rounds(0.0, 2, 2, 0.001))
    assert [entry["facts"]["processes"] for entry in (alone, both)] == [1, 2]
    assert both["times_reference"]["of"] == "sharing-1/small"
    # Two processes hold the memory of two, and their seconds are counted, not those of the one that asks them.
    assert both["peak_host_bytes"] > 1.5 * alone["peak_host_bytes"]
    assert 0 < alone["per_cpu_second"] < 1e5


def test_what_makes_an_encoder_faster_is_measured_where_the_device_can():
    names = {
        device: {m.name for group in catalogue.groups(False, device) for m in group}
        for device in ("cpu", "cuda")
    }
    ends = {"cpu": ["", "-bf16"], "cuda": ["", "-bf16", "-bf16-compiled", "-bf16-graphs"]}
    for device, wanted in ends.items():
        for what in ("forward", "tape", "forward-backward", "step-finetuned"):
            for net in ("vgg19", "resnet152"):
                assert {f"{what}{end}/{net}" for end in wanted} <= names[device]
    assert "tape-contiguous/vgg19" in names["cpu"]
    assert not any("graphs" in name for name in names["cpu"])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_all_rates_of_the_paper_are_measured(device):
    needed = {
        (work.entry, work.rate)
        for job in jobs_of(make_plan(PARAMS, {"preset": "paper"}), NETWORKS).values()
        for work in job.work
    }
    measured = [rate_of(m) for group in catalogue.groups(False, device) for m in group]
    assert needed <= set(measured)


def test_a_rate_is_named_after_what_it_is_of():
    names = {m.name: rate_of(m) for group in catalogue.groups(False, "cpu") for m in group}
    assert names["tape/vgg19"] == ("torchvision/vgg19@224", "forward_images_per_s")
    assert names["tape-bf16/vgg19"] == ("torchvision/vgg19@224/bf16", "forward_images_per_s")
    assert names["tape-contiguous/vgg19"] == ("torchvision/vgg19@224/contiguous", "forward_images_per_s")
    assert names["step-finetuned-bf16/vgg19"] == ("torchvision/vgg19@224/bf16", "train_pairs_per_s")
    assert names["step-1c-bf16/4096"] == ("head@4096/1024/bf16", "pairs_per_s")
    assert names["step-order/4096"] == ("head@4096/1024/order", "pairs_per_s")
    for other in ("step-negatives-512/4096", "step-1c-padded/4096", "step-rc-tape/vgg19", "sharing-2/4096"):
        assert names[other] is None
