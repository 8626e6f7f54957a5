"""`vsepp plan`: what it says, on files, disks and rates that are there."""

import json
import re
import shutil
import time

import pytest
from plans import PARAMS, plan

from vsepp.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder, and no rates except the rates that a test writes."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def said(folder, capsys):
    """Calls `vsepp plan`; what it prints, or its JSON."""

    def call(*arguments):
        assert main(["plan", "--params", str(PARAMS), *map(str, arguments)]) == 0
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in arguments else out

    return call


def rates(path, *measured, device="a GPU"):
    lines = ["date,device,machine,what,variant,precision,unit,median"]
    lines += [
        f'2026-01-01,{device},"m, 4 cores",{what},{variant},fp32,items/s,{rate}'
        for what, variant, rate in measured
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


# Round numbers for everything that the run flickr-vsepp-rc of the preset `paper` needs.
NEEDED = [("store", "256", 100), ("tape", "torchvision/vgg19@224", 1_000), ("step-1c", "4096/1024", 10_000)]
ONE = ("--preset", "paper", "--config", "only=flickr-vsepp-rc")


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
@pytest.mark.parametrize("fidelity", ["paper", "code"])
def test_the_report_is_readable(folder, said, preset, fidelity):
    slow = rates(folder / "slow.csv", ("tape", "torchvision/vgg19@224", 0.01), device="cpu")
    out = said("--preset", preset, "--fidelity", fidelity, "--rates", slow)
    assert max(map(len, out.splitlines())) <= 110
    assert [line[:2] for line in out.splitlines() if line[1:3] == ". "] == ["1.", "2.", "3."]
    text = " ".join(out.split())
    assert "measured on cpu, m, 4 cores;" in text and "They lack " in text
    assert ("none to fetch" in out) == (preset == "mini")


def test_papers_have_one_plan_together(said):
    out = said("--preset", "mini", "--config", "papers=[goal,objectives,relative_margins,vsepp]")
    assert "caption vectors coco captions tfidf" in " ".join(out.split())


def test_the_papers_plan_as_it_is_printed(folder, said):
    out = " ".join(said("--preset", "paper", "--rates", rates(folder / "a.csv", *NEEDED)).split())
    for line in (
        "random-crop features coco vgg RC 16,993,050 139.21 GB 4 h 43 min",
        "(262.26 GB in all) are deleted after their last reader (keep_tapes: false); only the largest are counted.",
        "flickr30k-images.zip size not known by hand at first download",
        "fill in the form linked from",
        "to fetch: 21.02 GB and 1 of unknown size",
        "They lack tape torchvision/resnet152@224 fp32; ",
    ):
        assert line in out


def test_hours_are_of_the_device_that_was_measured_for_most_of_it(folder, said):
    table = rates(folder / "a.csv", *NEEDED)
    more = rates(folder / "b.csv", *NEEDED[:2], device="a newer GPU").read_text().splitlines(keepends=True)
    table.write_text(table.read_text() + "".join(more[1:]))
    assert said(*ONE, "--rates", table, "--json")["device"] == "a GPU, m, 4 cores"
    assert said(*ONE, "--rates", table, "--device", "newer", "--json")["device"] == "a newer GPU, m, 4 cores"


def test_hours_are_amounts_over_rates(folder, said):
    measured = rates(folder / "a.csv", *NEEDED)
    found = said(*ONE, "seeds=[0,1,2]", "--rates", measured, "--json")
    assert found["device"] == "a GPU, m, 4 cores"
    store, features, tape, training = (
        31_014 / 100,
        31_014 / 1_000,
        145_000 * 30 / 1_000,
        145_000 * 30 / 10_000,
    )
    seconds = {made["kind"]: made["hours"]["hours"] * 3600 for made in found["artefacts"] if made["name"]}
    assert seconds == pytest.approx({"store": store, "features": features, "tape": tape})
    whole = store + features + tape + 3 * training
    assert found["hours"] == {"hours": pytest.approx(whole / 3600), "missing": []}


def test_hours_that_lack_a_rate_are_not_shown_and_their_sum_is_a_bound(folder, said):
    out = said(*ONE, "--rates", rates(folder / "a.csv", *NEEDED[:2]))
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "not measured" in lines["models"]
    assert "≥ 78 min" in lines["in"]  # the store, the features and the tape
    assert "They lack step-1c 4096/1024 fp32:" in " ".join(out.split())


def test_of_several_measured_devices_one_is_chosen(folder, said):
    both = rates(folder / "a.csv", *NEEDED)
    both.write_text(both.read_text() + '2026-01-02,cpu,"m, 4 cores",store,256,fp32,items/s,1\n')
    assert said(*ONE, "--rates", both, "--device", "gpu", "--json")["device"] == "a GPU, m, 4 cores"
    assert "cpu, m, 4 cores" in said(*ONE, "--rates", both, "--device", "gpu")


def test_where_each_file_is(folder, said):
    own = folder / "mine"
    (own / "flickr30k-images").mkdir(parents=True)
    (own / "train2014.zip").write_bytes(b"12345")
    downloads = folder / "resources" / "downloads"
    downloads.mkdir(parents=True)
    (downloads / "caption_datasets.zip").write_bytes(b"123")
    found = said("--preset", "paper", "--config", f"archives={own}", "--json")
    files = {file["name"]: (file["state"], file["size"]) for file in found["files"]}
    assert files["train2014.zip"] == (f"yours, {own}/train2014.zip", 5)
    assert files["flickr30k-images.zip"] == (f"yours, {own}/flickr30k-images", None)
    assert files["caption_datasets.zip"] == ("already there", 3)
    assert files["vgg19-dcbb9e9d.pth"] == ("to fetch from download.pytorch.org", 574_673_361)
    # What the user has lies on another disk.
    assert said("--preset", "paper", "--json")["disk"]["lasting"] - found["disk"]["lasting"] == 13_510_573_713


def test_what_is_on_disk_need_not_be_written(folder, said):
    before = said("--json")["disk"]["to_write"]
    place = folder / next(iter(plan().of_kind("pretrained").values())).folder
    place.mkdir(parents=True)
    (place / "encoder.safetensors").write_bytes(bytes(1000))
    assert before - said("--json")["disk"]["to_write"] == 1000


def test_kept_tapes_count_all_together(said):
    peaks = [
        said("--preset", "paper", "--config", f"resources={{keep_tapes: {keep}}}", "--json")["disk"]["peak"]
        for keep in ("true", "false")
    ]
    assert peaks[0] - peaks[1] == (566_435 * 2048 + 145_000 * (4096 + 2048)) * 30 * 2


def test_a_disk_that_is_too_small_is_said_with_the_way_out(said):
    huge = "scenes={images: {coco: {train: 1000000000}}}"
    out = " ".join(said("--config", "label=huge", huge).split())
    assert "IT DOES NOT FIT." in out and "DOES NOT FIT" not in said()
    # The way out is one: as it stands there it is accepted, and has no tapes.
    assert "--config label=inline runs='{default: {rc_features: inline}}'" in out
    inline = said(
        "--preset", "paper", "--config", "label=inline", "runs={default: {rc_features: inline}}", "--json"
    )
    assert inline["disk"]["tapes"] == 0


def test_sums_that_were_recorded_are_known(folder, said):
    shutil.copytree(PARAMS, folder / "params")
    entry = {"sha256": "0" * 64, "size": 5, "url": "http://x", "date": "2026-01-01"}
    (folder / "params" / "sources.lock.yaml").write_text(json.dumps({"Flickr8k_text.zip": entry}))
    found = said("--params", folder / "params", "--preset", "flickr8k", "--json")
    assert {file["name"]: file["sha256"] for file in found["files"]} == {
        "Flickr8k_Dataset.zip": None,
        "Flickr8k_text.zip": "recorded before",
    }


def test_what_other_numbers_of_pairs_would_take_is_counted_in_seconds(said):
    started = time.perf_counter()
    out = said("--preset", "paper", "--pairs", 10**6, 10**7, 10**8)
    assert time.perf_counter() - started < 10
    head, *lines = out.splitlines()
    assert (
        " ".join(head.split()) == "counted, never measured 1,000,000 pairs 10,000,000 pairs 100,000,000 pairs"
    )
    assert {line.split("  ")[0] for line in lines} >= {
        "files",
        "jobs",
        "steps of all trainings",
        "bytes of features",
    }
    columns = said("--preset", "paper", "--pairs", 10**6, 10**8, "--json")
    assert [column["pairs"] for column in columns] == [10**6, 10**8]
    assert f" {columns[0]['files']:,} " in lines[0] and lines[0].endswith(f" {columns[1]['files']:,}")
    assert columns[1]["files"] < 10**5 and columns[1]["jobs"] < 10**4


def test_the_table_of_the_docs_is_what_is_printed(said):
    page = (PARAMS.parent / "docs" / "scale.md").read_text(encoding="utf-8").partition("## Counted")[2]
    (command,) = (line.split() for line in page.splitlines() if line.startswith("    uv run vsepp plan"))
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    printed = [re.split(r"  +", line.strip()) for line in said(*command[4:]).splitlines()]
    assert printed == rows


@pytest.mark.parametrize("number", ["many", "1e6", ""])
def test_a_number_of_pairs_that_is_none_is_refused(folder, capsys, number):
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "--params", str(PARAMS), "--pairs", number])
    assert f"argument --pairs: invalid int value: {number!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pairs", "0"], "--pairs: expected numbers of at least 1, got 0"),
        (["--pairs", "1000", "-5"], "--pairs: expected numbers of at least 1, got -5"),
        (["--rates", "nowhere.csv"], "nowhere.csv: no such file"),
        (["--rates", "broken.csv"], "broken.csv, line 2: not a row of the benchmarks"),
        (["--rates", "none.csv", "--device", "H200"], "'H200' was not measured; recorded are: none"),
        (["--preset", "huge"], "no such file"),
    ],
)
def test_mistakes_are_named(folder, capsys, arguments, message):
    rates(folder / "none.csv")
    (folder / "broken.csv").write_text("date,what\n2026-01-01,x\n")
    assert main(["plan", "--params", str(PARAMS), *arguments]) == 1
    assert message in capsys.readouterr().err
