"""`vsepp plan`: what it says, on files, disks and rates that are there."""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vsepp.bench.measurement import rate_of
from vsepp.bench.records import read_results
from vsepp.cli import plan as command
from vsepp.config import make_plan
from vsepp.costs.calibration import wanted_measurements
from vsepp.costs.rates import NETWORKS, rates_of
from vsepp.costs.work import jobs_of
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"
MACHINE = "some processor, 4 cores"


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.add_steps(parser.add_subparsers(required=True))
    given = parser.parse_args(["plan", "--params", str(PARAMS), *map(str, arguments)])
    given.call(given)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, and no rates but those that a test writes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none").mkdir()
    return tmp_path


def report_of(capsys, *arguments):
    run(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def record(device="cpu", machine=MACHINE, date="2026-01-01", **entries):
    results = [
        {
            "name": f"{entry}/{rate}",
            "unit": "items",
            "per_second": {"median": value},
            "measures": {"entry": entry, "rate": rate},
        }
        for entry, rates in entries.items()
        for rate, value in rates.items()
    ]
    place = {"device": device, "machine": machine, "date": date, "cores": 4}
    return {**place, "command": "vsepp bench", "results": results}


def write(folder, *records):
    """A folder of results; nothing in it but these."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, values in enumerate(records):
        (folder / f"{number}.json").write_text(json.dumps(values))
    return folder


# Round numbers for everything that the run flickr-vsepp-rc of the preset `paper` needs.
NEEDED = {
    "decode@256": {"images_per_s_per_core": 100},
    "torchvision/vgg19@224": {"forward_images_per_s": 1_000, "train_pairs_per_s": 100},
    "head@4096/1024": {"pairs_per_s": 10_000, "captions_per_s": 50_000},
    "ranks@1024/dot": {"scores_per_s": 1e8},
}


def test_it_needs_no_data_no_torch_and_little_time(folder):
    program = (
        "import argparse, sys, time\n"
        "from vsepp.cli import plan\n"
        "parser = argparse.ArgumentParser()\n"
        "plan.add_steps(parser.add_subparsers())\n"
        f"given = parser.parse_args(['plan', '--params', {str(PARAMS)!r}, '--preset', 'paper'])\n"
        "given.call(given)\n"
        "print('torch' in sys.modules, time.process_time(), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder
    )
    torch, seconds = done.stderr.split()
    assert torch == "False"
    assert float(seconds) < 3
    assert "5. Totals" in done.stdout


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
@pytest.mark.parametrize("fidelity", ["paper", "code"])
def test_the_report_is_readable(folder, capsys, preset, fidelity):
    # Two columns of the longest entries there are: a GPU that was not measured, and a very slow CPU.
    slow = {"torchvision/vgg19@224": {"forward_images_per_s": 0.01}}
    write(folder / "slow", record(**slow))
    run("--preset", preset, "--fidelity", fidelity, "--rates", folder / "slow")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 110
    numbered = [line[:2] for line in lines if line[1:3] == ". "]
    assert numbered == ["1.", "2.", "3.", "4.", "5."]
    assert "not measured" in "".join(lines)


def test_the_papers_runs_as_they_are_printed(folder, capsys):
    run("--preset", "paper", "--rates", folder / "none")
    out = " ".join(capsys.readouterr().out.split())
    for line in (
        "coco-vsepp-1c 413,915 3,234 30 97,020 not measured 1C coco/vgg +5",
        "coco-vsepp-rc-rv 566,435 4,426 30 132,780 not measured tape coco/vgg +3",
        "coco-vsepp-rc-rv-ft 566,435 4,426 15 66,390 not measured from coco-vsepp-rc-rv",
        "flickr-vsepp-rc 145,000 1,133 30 33,990 not measured tape flickr/vgg +7",
        "tape coco/vgg 16,993,050 not measured read by coco-vse0-rc, coco-vsepp-rc, coco-vse0-rc-rv, coco-vsepp-rc-rv",
        "tapes 262.26 GB 4 in all",
        "at most 139.21 GB",
        "To get hours, measure for a minute or two on the machine that will train: `vsepp plan --preset paper "
        "--calibrate --save`",
    ):
        assert line in out


def test_hours_are_those_of_the_rates(folder, capsys):
    path = folder / "rates"
    write(path, record("a GPU", **NEEDED))
    found = report_of(capsys, "--preset", "paper", "--config", "only=flickr-vsepp-rc", "--rates", path)
    assert [device["title"] for device in found["devices"]] == ["GPU"]
    store, features, tape = 31_014 / 400, 31_014 / 1_000, 145_000 * 30 / 1_000
    validation = 5_000 * 30 / 50_000 + 1_000 * 5_000 * 30 / 1e8
    training = 145_000 * 30 / 10_000 + validation
    test = 5_000 / 50_000 + 1_000 * 5_000 / 1e8
    (line,) = found["runs"]
    assert line["forward"][0]["hours"] == 0
    assert line["training"][0]["hours"] == pytest.approx(training / 3600)
    hours = {shared["name"]: shared["hours"][0]["hours"] for shared in found["passes"]}
    assert hours == pytest.approx(
        {
            "store flickr/squash256": store / 3600,
            "1C flickr/vgg": features / 3600,
            "tape flickr/vgg": tape / 3600,
        }
    )
    (chain,) = found["totals"]["chains"]
    assert chain["chain"] == [
        "store flickr/squash256",
        "tape flickr/vgg",
        "training of flickr-vsepp-rc, seed 0",
        "evaluation of flickr-vsepp-rc, seed 0",
    ]
    assert chain["chain_hours"] == pytest.approx((store + tape + training + test) / 3600)
    # One GPU writes the tape and then extracts the features, or the other way round; the training waits for both.
    assert chain["wall_hours"] == pytest.approx((store + tape + features + training + test) / 3600)
    assert not any(entry["hours"][0]["missing"] for entry in found["totals"]["all_seeds"].values())


def test_seeds_are_trained_each_and_share_the_passes(folder, capsys):
    path = folder / "rates"
    write(path, record("a GPU", **NEEDED))
    chosen = ["--preset", "paper", "--rates", path, "--config", "only=flickr-vsepp-rc"]
    totals = report_of(capsys, *chosen, "seeds=[0,1,2]", "--gpus", "3")["totals"]

    def hours(key, phase):
        return totals[key][phase]["hours"][0]["hours"]

    assert hours("all_seeds", "training") == pytest.approx(3 * hours("one_seed", "training"))
    assert hours("all_seeds", "tapes") == hours("one_seed", "tapes") > 0
    # With a GPU a seed, and features beside the tape, three seeds take as long as the longest chain.
    (chain,) = totals["chains"]
    assert chain["wall_hours"] == pytest.approx(chain["chain_hours"])


def test_hours_that_lack_a_rate_are_not_shown_and_their_sum_is_a_bound(folder, capsys):
    path = folder / "rates"
    part = {name: NEEDED[name] for name in NEEDED if name != "head@4096/1024"}
    write(path, record("a GPU", **part))
    run("--preset", "paper", "--config", "only=flickr-vsepp-rc", "--rates", path)
    out = capsys.readouterr().out
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "not measured" in lines["flickr-vsepp-rc"]
    assert "≥ 1.24" in lines["in"]  # the store, the features, the tape and the ranks, in hours
    assert "GPU, not measured: captions_per_s of head@4096/1024; pairs_per_s of head@4096/1024." in out


def test_without_a_gpus_rates_only_the_cpu_has_hours(folder, capsys):
    path = folder / "rates"
    write(path, record(**NEEDED))
    found = report_of(capsys, "--preset", "paper", "--config", "only=flickr-vsepp-rc", "--rates", path)
    assert [device["title"] for device in found["devices"]] == ["GPU", "a CPU"]
    gpu, cpu = found["runs"][0]["training"]
    assert gpu["hours"] == 0 and gpu["missing"]
    assert cpu["hours"] > 0 and not cpu["missing"]


def test_where_each_file_is(folder, capsys):
    own = folder / "mine"
    (own / "flickr30k-images").mkdir(parents=True)
    (own / "train2014.zip").write_bytes(b"12345")
    downloads = folder / "resources" / "downloads"
    downloads.mkdir(parents=True)
    (downloads / "caption_datasets.zip").write_bytes(b"123")
    found = report_of(capsys, "--preset", "paper", "--config", f"archives={own}", "--rates", folder / "none")
    files = {
        file["name"]: (file["state"], file["host"], file["size"], file["kind"]) for file in found["files"]
    }
    assert files["train2014.zip"] == ("own folder", "images.cocodataset.org", 5, "file")
    assert files["flickr30k-images.zip"] == ("own folder", None, None, "folder")
    assert files["caption_datasets.zip"] == ("already there", "cs.stanford.edu", 3, "file")
    assert files["vgg19-dcbb9e9d.pth"] == ("to fetch", "download.pytorch.org", 574_673_361, "file")
    # What is there need not be written; what the user has lies on another disk.
    kinds = found["disk"]["kinds"]
    assert kinds["downloads"]["present"] == 3
    assert kinds["downloads"]["bytes"] == 6_645_013_297 + 252_872_794 + 36_745_453 + 574_673_361


def test_a_file_to_be_asked_for_says_how(folder, capsys):
    run("--preset", "paper", "--rates", folder / "none")
    out = capsys.readouterr().out
    assert "flickr30k-images.zip         size not known  by hand, see below" in out
    assert "fill in the form linked from" in out
    assert "to fetch: 21.02 GB and 1 of unknown size" in out
    assert "for want of a size: flickr30k-images.zip, resnet152-394f9c45.pth" in out


def test_sums_that_were_recorded_are_known(folder, capsys):
    shutil.copytree(PARAMS, folder / "params")
    entry = {"sha256": "0" * 64, "size": 5, "url": "http://x", "date": "2026-01-01"}
    (folder / "params" / "sources.lock.yaml").write_text(json.dumps({"Flickr8k_text.zip": entry}))
    found = report_of(capsys, "--params", folder / "params", "--preset", "flickr8k")
    assert {file["name"]: file["sha256"] for file in found["files"]} == {
        "Flickr8k_Dataset.zip": None,
        "Flickr8k_text.zip": "recorded before",
    }


def test_unknown_numbers_are_question_marks(folder, capsys):
    corpora = "corpora={coco: {dataset: coco_precomp}}"
    run(
        "--preset",
        "paper",
        "--rates",
        folder / "none",
        "--config",
        "label=x",
        corpora,
        "only=coco-vsepp-1c",
    )
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("  coco-vsepp-1c "))
    assert line.split()[1:6] == ["?", "?", "30", "?", "?"]
    assert "gives no number of images or captions" in out


def test_generated_pictures_are_not_fetched(folder, capsys):
    run("--rates", folder / "none")
    out = capsys.readouterr().out
    assert "none to fetch" in out
    assert "by hand" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--save"], "nothing to save"),
        (["--gpus", "0"], "expected at least 1"),
        (["--rates", "nowhere"], "nowhere: no such folder"),
        (["--rates", "broken"], "broken/0.json: not readable as JSON"),
        (["--rates", "none", "--device", "H200"], "'H200' was not measured; recorded are: none"),
        (["--preset", "huge"], "no such file"),
    ],
)
def test_mistakes_are_named(folder, arguments, message):
    (folder / "broken").mkdir()
    (folder / "broken" / "0.json").write_text("[{")
    with pytest.raises(VseppError) as error:
        run(*arguments)
    assert message in str(error.value)


def test_calibrating_measures_what_the_plan_needs_and_keeps_what_it_does_not(folder, capsys):
    path = write(
        folder / "rates",
        record("a GPU"),
        record(machine=command.machine_name(), **{"mini/old@40": {"forward_images_per_s": 7.0}}),
    )
    chosen = ["--rates", path, "--calibrate", "--seconds", "0.001", "--device", "cpu", "--config"]
    found = report_of(capsys, *chosen, "only=flickr-vsepp-1c", "--save")
    (new,) = set(path.glob("*.json")) - {path / "0.json", path / "1.json"}
    assert new.name.endswith("-cpu.json")
    (gpu, cpu) = rates_of(read_results(path))
    assert gpu.rates == {}
    measured = {(entry, rate) for entry, rates in cpu.rates.items() for rate in rates if "_per_s" in rate}
    assert measured == {
        ("mini/old@40", "forward_images_per_s"),
        ("mini/vgg_mini@40", "forward_images_per_s"),
        ("head@128/128", "pairs_per_s"),
        ("head@128/128", "captions_per_s"),
        ("decode@46", "images_per_s_per_core"),
        ("ranks@128/dot", "scores_per_s"),
    }
    assert cpu.rates["mini/vgg_mini@40"]["dim"] == 128
    assert cpu.rates["mini/vgg_mini@40"]["weights"] == 137_040
    titles = [device["title"] for device in found["devices"]].index("this CPU")
    assert found["runs"][0]["training"][titles]["hours"] > 0
    assert not found["runs"][0]["training"][titles]["missing"]


def test_all_that_a_plan_needs_is_measured_when_it_is_calibrated():
    half = {"label": "x", "runs": {"default": {"precision": "bf16"}}}
    for overrides in ({}, {"fidelity": "code"}, {"preset": "paper"}, {"preset": "flickr8k"}, half):
        plan = make_plan(PARAMS, overrides)
        measured = [rate_of(m) for m in wanted_measurements(plan, NETWORKS, "cpu")]
        needed = {(work.entry, work.rate) for job in jobs_of(plan).values() for work in job.work}
        assert set(measured) == needed and len(measured) == len(needed)


def test_the_recorded_rates_are_those_of_the_presets():
    records = rates_of(read_results(PARAMS.parent / "benchmarks" / "results"))
    measured = {(entry, rate) for each in records for entry, rates in each.rates.items() for rate in rates}
    for preset in ("mini", "flickr8k", "paper"):
        jobs = jobs_of(make_plan(PARAMS, {"preset": preset}))
        assert {(work.entry, work.rate) for job in jobs.values() for work in job.work} <= measured
