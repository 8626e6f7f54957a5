"""The command writes results, and the report shows the newest of each machine or says which file is bad."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vsepp.bench.records import newest, read_results
from vsepp.bench.report import digits, render
from vsepp.cli import bench
from vsepp.config import make_plan
from vsepp.costs.work import jobs_of
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"


def given(*arguments):
    parser = argparse.ArgumentParser()
    bench.add_steps(parser.add_subparsers())
    return parser.parse_args(["bench", *arguments])


def entry(name, median, **more):
    rate = {"median": median, "min": median / 2, "max": 2 * median, "q1": median, "q3": median}
    return {
        "name": name,
        "unit": "pairs",
        "date": "2026-01-02",
        "per_second": {**rate, "repetitions": 4},
        **more,
    }


def record(folder, name, **values):
    folder.mkdir(exist_ok=True)
    default = {
        "device": "cpu",
        "machine": "A, 2 cores",
        "cores": 2,
        "date": "2026-01-02T03:04:05+00:00",
        "command": "vsepp bench",
    }
    (folder / name).write_text(json.dumps({**default, "results": [], **values}), encoding="utf-8")


def test_the_command_measures_and_the_report_shows_it(tmp_path):
    code = (
        "import sys, argparse; from vsepp.cli import bench; p = argparse.ArgumentParser();"
        "bench.add_steps(p.add_subparsers()); g = p.parse_args(sys.argv[1:]); g.call(g)"
    )
    command = [sys.executable, "-c", code, "bench", "--quick", "--device", "cpu", "--threads", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--only", "encode", "--output", str(tmp_path)],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    (path,) = tmp_path.glob("*-cpu.json")
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["threads"] == 1 and written["quick"] and written["command"].endswith(str(tmp_path))
    assert {"commit", "dirty"} <= set(written["git"]) and "torch" in written["versions"]
    (found,) = written["results"]
    assert found["name"] == "encode/mini" and found["facts"]["images"] == 160
    table = render(read_results(tmp_path))
    assert table in done.stdout
    assert f"| encode/mini | {digits(found['per_second']['median'])} captions |" in table


def test_the_newest_result_of_each_machine_and_name_is_shown(tmp_path, capsys):
    ratio = {"of": "forward/net", "median": 1.0567, "min": 1.04, "max": 1.2}
    record(tmp_path, "b.json", results=[entry("step/a", 100.0), entry("step/b", 12345.0)])
    record(
        tmp_path, "a.json", date="2026-02-01T00:00:00+00:00", command="vsepp bench --quick",
        results=[entry("step/a", 0.5, times_limit=ratio, peak_host_bytes=3 * 2**20)],
    )  # fmt: skip
    record(tmp_path, "c.json", device="H", results=[entry("step/a", 7.0)], date="2025-01-01T00:00:00+00:00")
    bench.bench(given("--report", str(tmp_path), "--params", str(PARAMS)))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("###")] == [
        "### H (A, 2 cores)",
        "### A, 2 cores",
        "### Hours of the whole preset `paper`: 32 runs, 1 seed",
    ]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| step")]
    assert [row for row in rows[1:] if len(row) == 9] == [
        ["step/a", "0.5 pairs", "0.25–1", "4", "1.06 (1.04–1.20) of forward", "–", "3 MiB", "–", "2026-02-01"],
        ["step/b", "12,300 pairs", "6,170–24,700", "4", "–", "–", "–", "–", "2026-01-02"],
    ]  # fmt: skip
    assert "measured with `vsepp bench`, `vsepp bench --quick`." in lines
    assert newest(read_results(tmp_path))["A, 2 cores", "cpu"]["step/b"]["command"] == "vsepp bench"


def rows_of_targets(*entries, device="cpu"):
    records = [
        {
            "device": device,
            "machine": "A",
            "cores": 2,
            "date": "2026-01-01",
            "command": "c",
            "results": list(entries),
        }
    ]
    lines = render(records).partition("| target |")[2].splitlines()[2:]
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in lines if line]


def test_targets_stand_beside_figures():
    def compared(name, key, of, median, value=100.0):
        return entry(name, value, **{key: {"of": of, "median": median, "min": median, "max": median}})

    measured = (
        compared("step-1c/4096", "times_reference", "reference-1c/4096", 1.2, 30_000.0),
        compared("step-1c-bf16/4096", "times_reference", "reference-1c/4096", 2.0),
        compared("tape/net", "times_limit", "forward/net", 1.11),
        compared("tape/other", "times_limit", "forward/other", 1.10),
    )
    assert rows_of_targets(*measured) == [
        ("1C at full size, × speed of the reference step", "≥ 2", "2 (step-1c-bf16/4096)", "reached"),
        ("ranks of 5,000 images, × speed of an argsort a query", "≥ 20", "–", "not measured"),
        ("tape/net, × time of forward", "≤ 1.10", "1.11", "not reached"),
        ("tape/other, × time of forward", "≤ 1.10", "1.10", "reached"),
    ]
    taped = entry("step-rc-tape/vgg19", 24_000.0), entry("step-rc-tape/vgg_mini", 90_000.0)
    first, second, *_ = rows_of_targets(*measured, *taped, device="a GPU")
    assert first == ("1C at full size, pairs a second", "≥ 25,000", "30,000 (step-1c/4096)", "reached")
    of_tape = ("RC from a tape at full size, pairs a second", "≥ 25,000")
    assert second == (*of_tape, "24,000 (step-rc-tape/vgg19)", "not reached")
    assert {row[3] for row in rows_of_targets(entry("store/mini", 1.0))} == {"not measured"}


def test_a_gpus_hours_are_those_of_its_own_rates(tmp_path, capsys):
    plan = make_plan(PARAMS, {"preset": "paper"})
    needed = {(work.entry, work.rate) for job in jobs_of(plan).values() for work in job.work}

    def measured(rate, **more):
        return entry("/".join(rate), 1e6, measures=dict(zip(("entry", "rate"), rate, strict=True)), **more)

    missing = ("torchvision/vgg19@224", "train_pairs_per_s")
    record(tmp_path, "cpu.json", results=[measured(rate) for rate in needed])
    record(tmp_path, "gpu.json", device="H", results=[measured(rate) for rate in needed - {missing}])
    bench.bench(given("--report", str(tmp_path), "--params", str(PARAMS)))
    out = capsys.readouterr().out.partition("### Hours")[2]
    rows = {line.split("|")[1].strip(): line for line in out.splitlines() if line.startswith("| ")}
    (cpu,) = [line for name, line in rows.items() if name.startswith("A, 2 cores")]
    (gpu,) = [line for name, line in rows.items() if name.startswith("H, on A, 2 cores")]
    assert "≥" not in cpu and gpu.count("≥") == 3  # training, in all, first job to last
    assert "not measured are train_pairs_per_s of torchvision/vgg19@224" in out
    assert "--calibrate --save" in out and "GPU-hours: not known" not in out


def test_without_a_gpu_no_hours_are_claimed(tmp_path, capsys):
    record(tmp_path, "a.json", results=[entry("step/a", 1.0)])
    bench.bench(given("--report", str(tmp_path), "--params", str(PARAMS)))
    assert "GPU-hours: not known, since no GPU was measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not readable as JSON"),
        ("[1]", "expected a record of `vsepp bench`, got a list"),
        ('{"device": "cpu", "machine": "A", "date": "2026-01-01"}', "it lacks cores, command, results"),
        (
            '{"device": "cpu", "machine": "A", "cores": 1, "date": "2026-01-01", "command": "c", "results": [{"name": "n"}]}',
            "result 1 has no name, unit and finite median above 0",
        ),
    ],
)
def test_a_bad_result_file_is_named(tmp_path, content, said):
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(VseppError) as raised:
        bench.bench(given("--report", str(tmp_path)))
    assert str(path) in str(raised.value) and said in str(raised.value)


def test_a_folder_without_results_says_how_to_make_some(tmp_path):
    with pytest.raises(VseppError, match=r"holds no results; measure with `vsepp bench"):
        bench.bench(given("--report", str(tmp_path)))
