"""What is measured is known by name, works, and is compared with what it was measured beside."""

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import small
import torch

from vsepp.bench import catalogue
from vsepp.bench.cases import cast_weights, make_case, tape_job
from vsepp.bench.made_up import made_up_encoder
from vsepp.bench.measurement import precision_of, rate_of
from vsepp.bench.rounds import Rounds, measure_group, result, spread
from vsepp.cli.measuring import child
from vsepp.config import make_plan
from vsepp.costs.rates import NETWORKS
from vsepp.costs.work import jobs_of
from vsepp.errors import VseppError
from vsepp.models.precision import products_in

PARAMS = Path(__file__).resolve().parents[3] / "params"
CHILD = partial(child, "cpu", 1, 0.01)
MEASUREMENTS = {m.name: m for group in small.all_groups() for m in group}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_kind_of_measurement_does_its_work(name, tmp_path):
    with closing(make_case(MEASUREMENTS[name], tmp_path, small.CPU)) as case:
        case.call()
        case.call()
        assert case.items > 0
        if name.startswith("step"):
            assert case.items == small.BATCH


def test_measurements_change_the_weights_that_they_train(tmp_path):
    frozen = make_case(MEASUREMENTS["step-rc-inline/vgg_mini"], tmp_path / "a", small.CPU)
    tuned = make_case(MEASUREMENTS["step-finetuned/vgg_mini"], tmp_path / "b", small.CPU)
    assert tuned.facts["parameters"] - frozen.facts["parameters"] == 137_040


def test_a_tape_is_written_to_its_end_and_removed(tmp_path):
    case = make_case(MEASUREMENTS["tape/vgg_mini"], tmp_path, small.CPU)
    before = set(tmp_path.rglob("*"))
    case.call()
    assert set(tmp_path.rglob("*")) == before
    assert case.facts["data_on"]["image store"].startswith("mapped")
    # The writer takes up what lies in its state folder: a file of that name stops it.
    (tmp_path / "written-state").touch()
    with pytest.raises(FileExistsError):
        case.call()


@pytest.mark.parametrize(
    ("run", "device", "captions"),
    [(catalogue.VGG19, "cpu", 16), (catalogue.VGG19, "cuda", 8192), (catalogue.VGG_MINI, "cpu", 4096)],
)
def test_a_tape_is_as_long_as_its_device_is_fast(run, device, captions, tmp_path):
    job = tape_job(catalogue.random_crops(run), 7, 12, tmp_path, torch.device(device))
    assert job.shape == (captions, 12)
    assert set(job.image_rows) == set(range(min(7, -(-captions // 5))))
    assert list(job.image_rows[:6]) == [0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("base", [catalogue.VGG_MINI, catalogue.RESNET_MINI])
def test_weights_that_were_cast_before_give_what_autocast_gives(base):
    run = replace(base, encoder=replace(base.encoder, precision="bf16"))
    plain, cast = made_up_encoder(run).eval(), made_up_encoder(run).eval()
    cast_weights(cast)
    pixels = torch.randn(4, 3, 40, 40)
    with torch.inference_mode(), products_in("bf16", small.CPU):
        assert torch.equal(plain(pixels), cast(pixels))
    types = {value.dtype for name, value in cast.named_parameters() if value.dim() > 1}
    assert types == {torch.bfloat16}


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


def test_a_gpu_holds_one_way_of_an_encoder_of_full_size_at_a_time():
    groups = [g for g in catalogue.groups(False, "cuda") if g[0].kind in ("forward", "forward-backward")]
    full = [g for g in groups if g[0].run.encoder.input_size == 224]
    # Two encoders, frozen with five ways and trained with four.
    assert len(full) == 2 * (5 + 4)
    for group in full:
        assert len({m.run.encoder for m in group}) == 1
    assert [m.name for m in full[5]] == [
        "forward-backward/vgg19", "step-finetuned/vgg19", "reference-finetuned/vgg19",
    ]  # fmt: skip
    assert [m.name for m in full[6]] == ["forward-backward-bf16/vgg19", "step-finetuned-bf16/vgg19"]
    together = catalogue.finetuned(catalogue.random_crops(catalogue.VGG19), catalogue.WAYS["cuda"])
    assert {m.name for m in together} == {m.name for group in full[5:9] for m in group}


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


def in_bf16(rc_features):
    half = {"precision": "bf16"}
    runs = {"default": {**half, "rc_features": rc_features}}
    return {"label": "half", "runs": runs, "encoders": {"vgg": half, "resnet": half}}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("changes", [{}, in_bf16("tape"), in_bf16("inline")], ids=["fp32", "tape", "inline"])
def test_all_rates_of_the_paper_are_measured(device, changes):
    plan = make_plan(PARAMS, {"preset": "paper", **changes})
    needed = {(work.entry, work.rate) for job in jobs_of(plan, NETWORKS).values() for work in job.work}
    measured = [rate_of(m) for group in catalogue.groups(False, device) for m in group]
    assert needed <= set(measured)
    heads = {entry for entry, rate in needed if rate == "pairs_per_s"}
    assert heads and all(entry.endswith("/bf16") for entry in heads) is bool(changes)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_steps_are_measured_in_bf16_too(device):
    found = {m.name: m for group in catalogue.groups(False, device) for m in group}
    steps = ("step-1c", "step-10c", "step-order", "step-negatives-512")
    names = {f"{step}-bf16/{size}" for step in steps for size in ("4096", "2048")}
    names |= {f"step-rc-{kind}-bf16/{net}" for kind in ("tape", "inline") for net in ("vgg19", "resnet152")}
    assert {precision_of(found[name]) for name in names} == {"bf16"}
    for name in names:
        half, single = found[name].run, found[name.replace("-bf16", "")].run
        assert (half.precision, single.precision) == ("bf16", "fp32")
        assert replace(half, precision="fp32", encoder=single.encoder) == single
    inline = found["step-rc-inline-bf16/vgg19"]
    assert inline.run.encoder.precision == "bf16" and inline.limit == "forward-bf16/vgg19"
    quick = {m.name for group in catalogue.groups(True, device) for m in group if "bf16" in m.name}
    assert quick == {"step-1c-bf16/4096"}


def test_ranks_are_counted_on_a_gpu_where_there_is_one():
    (found,) = [g for g in catalogue.groups(True, "cuda") if g[0].name == "rank/5000"]
    assert [m.name for m in found] == ["rank/5000", "rank-device/5000", "argsort/5000"]
    # Runs are evaluated on the host, at whose rate a plan reckons.
    assert [rate_of(m) for m in found] == [("ranks@1024/dot", "scores_per_s"), None, None]
    assert "rank-device/5000" not in {m.name for group in catalogue.groups(True, "cpu") for m in group}


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
