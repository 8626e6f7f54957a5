"""`vsepp plan`: what it says, on files, disks and rates that are there."""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vsepp.cli import plan as command
from vsepp.config import make_plan
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.add_steps(parser.add_subparsers(required=True))
    given = parser.parse_args(["plan", "--params", str(PARAMS), *map(str, arguments)])
    given.call(given)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, and no rates but those that a test writes."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "none.csv")
    return tmp_path


def report_of(capsys, *arguments):
    run(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def write(path, *rates, device="a GPU"):
    lines = ["date,device,machine,what,variant,precision,unit,median"]
    lines += [
        f'2026-01-01,{device},"m, 4 cores",{what},{variant},fp32,items/s,{rate}'
        for what, variant, rate in rates
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


# Round numbers for everything that the run flickr-vsepp-rc of the preset `paper` needs.
NEEDED = [
    ("store", "256", 100),
    ("tape", "torchvision/vgg19@224", 1_000),
    ("step-1c", "4096/1024", 10_000),
    ("encode", "4096/1024", 50_000),
    ("rank-dot", "1024", 100_000_000),
]
ONE = ("--preset", "paper", "--config", "only=flickr-vsepp-rc")


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
    assert "4. Runs" in done.stdout


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
@pytest.mark.parametrize("fidelity", ["paper", "code"])
def test_the_report_is_readable(folder, capsys, preset, fidelity):
    slow = write(folder / "slow.csv", ("tape", "torchvision/vgg19@224", 0.01), device="cpu")
    run("--preset", preset, "--fidelity", fidelity, "--rates", slow)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 110
    assert [line[:2] for line in out.splitlines() if line[1:3] == ". "] == ["1.", "2.", "3.", "4."]
    assert "GPU-hours: not measured" in out and "[1] lacks " in out


def test_the_papers_plan_as_it_is_printed(folder, capsys):
    run("--preset", "paper", "--rates", write(folder / "a.csv", *NEEDED))
    out = " ".join(capsys.readouterr().out.split())
    for line in (
        "coco-vsepp-1c 413,915 3,234 30 97,020 0.36 coco vgg 1C",
        "coco-vsepp-rc-rv 566,435 4,426 30 132,780 0.49 coco vgg RC",
        "coco-vsepp-rc-rv-ft 566,435 4,426 15 66,390 not measured from coco-vsepp-rc-rv",
        "random-crop features coco vgg RC 16,993,050 139.21 GB 4.72",
        "262.26 GB, go after their last reader (keep_tapes: false): counted are the largest, 139.21 GB.",
        "flickr30k-images.zip size not known by hand, see below",
        "fill in the form linked from",
        "to fetch: 21.02 GB and 1 of unknown size",
        "for want of a size: flickr30k-images.zip, resnet152-394f9c45.pth",
        "[1] lacks tape torchvision/resnet152@224 fp32; ",
    ):
        assert line in out
    assert "GPU-hours" not in out


def test_hours_are_those_of_the_rates(folder, capsys):
    found = report_of(capsys, *ONE, "seeds=[0,1,2]", "--rates", write(folder / "a.csv", *NEEDED))
    assert found["devices"] == ["a GPU, m, 4 cores"]
    store, features, tape = 31_014 / 100, 31_014 / 1_000, 145_000 * 30 / 1_000
    validation = 5_000 * 30 / 50_000 + 1_000 * 5_000 * 30 / 1e8
    training, test = 145_000 * 30 / 10_000 + validation, 5_000 / 50_000 + 1_000 * 5_000 / 1e8
    (line,) = found["runs"]
    assert line["hours"][0]["hours"] == pytest.approx(training / 3600)
    seconds = {made["kind"]: made["hours"][0]["hours"] * 3600 for made in found["artefacts"] if made["name"]}
    expected = {"decoded images": store, "features": features, "random-crop features": tape}
    assert seconds == pytest.approx(expected)
    whole = store + features + tape + 3 * (training + test)
    assert found["hours"] == [{"hours": pytest.approx(whole / 3600), "missing": []}]


def test_hours_that_lack_a_rate_are_not_shown_and_their_sum_is_a_bound(folder, capsys):
    run(*ONE, "--rates", write(folder / "a.csv", *(rate for rate in NEEDED if rate[1] != "4096/1024")))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert "not measured" in lines["flickr-vsepp-rc"]
    assert "≥ 1.30" in lines["in"]  # the store, the features, the tape and the ranks, in hours
    assert "[1] lacks step-1c 4096/1024 fp32; encode 4096/1024 fp32; " in lines["[1]"]


def test_where_each_file_is(folder, capsys):
    own = folder / "mine"
    (own / "flickr30k-images").mkdir(parents=True)
    (own / "train2014.zip").write_bytes(b"12345")
    downloads = folder / "resources" / "downloads"
    downloads.mkdir(parents=True)
    (downloads / "caption_datasets.zip").write_bytes(b"123")
    found = report_of(capsys, "--preset", "paper", "--config", f"archives={own}")
    files = {
        file["name"]: (file["state"], file["host"], file["size"], file["kind"]) for file in found["files"]
    }
    assert files["train2014.zip"] == ("own folder", "images.cocodataset.org", 5, "file")
    assert files["flickr30k-images.zip"] == ("own folder", None, None, "folder")
    assert files["caption_datasets.zip"] == ("already there", "cs.stanford.edu", 3, "file")
    assert files["vgg19-dcbb9e9d.pth"] == ("to fetch", "download.pytorch.org", 574_673_361, "file")
    # What the user has lies on another disk.
    (downloads,) = [made for made in found["artefacts"] if made["kind"] == "downloads"]
    assert downloads["bytes"] == 6_645_013_297 + 252_872_794 + 36_745_453 + 574_673_361
    assert found["disk"]["present"] == 3


def test_what_is_on_disk_need_not_be_written(folder, capsys):
    before = report_of(capsys)["disk"]
    place = folder / next(iter(make_plan(PARAMS, {}).of_kind("pretrained").values())).folder
    place.mkdir(parents=True)
    (place / "encoder.safetensors").write_bytes(bytes(1000))
    after = report_of(capsys)["disk"]
    assert before["to_write"] - after["to_write"] == after["present"] == 1000


def test_kept_tapes_count_all_together(folder, capsys):
    peaks = [
        report_of(capsys, "--preset", "paper", "--config", f"resources={{keep_tapes: {keep}}}")["disk"][
            "peak"
        ]
        for keep in ("true", "false")
    ]
    assert peaks[0] - peaks[1] == (566_435 * 2048 + 145_000 * (4096 + 2048)) * 30 * 2


def test_a_disk_that_is_too_small_is_said_with_the_way_out(folder):
    paper = make_plan(PARAMS, {"preset": "paper"})
    small, large = (
        " ".join(" ".join(command.render(command.report(paper, {}, {}, free))).split())
        for free in (2e11, 4e11)
    )
    assert "DOES NOT FIT" not in large
    assert "IT DOES NOT FIT." in small
    # The way out is one: as it stands there it is accepted, and has no tapes.
    way = {"preset": "paper", "label": "inline", "runs": {"default": {"rc_features": "inline"}}}
    assert "--config label=inline runs='{default: {rc_features: inline}}'" in small
    assert command.report(make_plan(PARAMS, way), {}, {}, 0)["disk"]["tapes_together"] == 0


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
    corpora = "corpora={flickr: {dataset: f30k_precomp}}"
    run(
        "--preset",
        "paper",
        "--rates",
        folder / "none.csv",
        "--config",
        "label=x",
        corpora,
        "only=flickr-vsepp-1c",
    )
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("  flickr-vsepp-1c "))
    assert line.split()[1:5] == ["?", "?", "30", "?"]
    assert "gives no number of images or captions" in out


def test_generated_pictures_are_not_fetched(folder, capsys):
    run()
    out = capsys.readouterr().out
    assert "none to fetch" in out
    assert "by hand" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rates", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--rates", "broken.csv"], "broken.csv, line 2: not a row of the benchmarks"),
        (["--rates", "none.csv", "--device", "H200"], "'H200' was not measured; recorded are: none"),
        (["--preset", "huge"], "no such file"),
    ],
)
def test_mistakes_are_named(folder, arguments, message):
    (folder / "broken.csv").write_text("date,what\n2026-01-01,x\n")
    with pytest.raises(VseppError) as error:
        run(*arguments)
    assert message in str(error.value)
