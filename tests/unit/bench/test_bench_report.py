"""The command writes results, and the report shows the newest of each machine or says which file is bad."""

import argparse
import json
import os
import subprocess
import sys

import pytest

from vsepp.bench.report import digits, newest, read_results, render
from vsepp.cli import bench
from vsepp.errors import VseppError


def given(*arguments):
    parser = argparse.ArgumentParser()
    bench.add_steps(parser.add_subparsers())
    return parser.parse_args(["bench", *arguments])


def entry(name, median, **more):
    rate = {"median": median, "min": median / 2, "max": 2 * median, "q1": median, "q3": median}
    return {"name": name, "unit": "pairs", "per_second": {**rate, "repetitions": 4}, **more}


def record(folder, name, **values):
    folder.mkdir(exist_ok=True)
    default = {
        "device": "cpu",
        "machine": "A, 2 cores",
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
    bench.bench(given("--report", str(tmp_path)))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("###")] == ["### H (A, 2 cores)", "### A, 2 cores"]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| step")]
    assert rows[1:] == [
        ["step/a", "0.5 pairs", "0.5–0.5", "0.25–1", "4", "1.06 (1.04–1.20) of forward", "–", "3 MiB", "–", "2026-02-01"],
        ["step/b", "12,300 pairs", "12,300–12,300", "6,170–24,700", "4", "–", "–", "–", "–", "2026-01-02"],
    ]  # fmt: skip
    assert "Measured with `vsepp bench --quick`, `vsepp bench`." in lines
    assert "vsepp plan --preset paper --device 'H'" in lines[-1]
    assert newest(read_results(tmp_path))["A, 2 cores", "cpu"]["step/b"]["command"] == "vsepp bench"


def test_without_a_gpu_no_hours_are_claimed(tmp_path):
    record(tmp_path, "a.json", results=[entry("step/a", 1.0)])
    assert "No GPU was measured" in render(read_results(tmp_path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not readable as JSON"),
        ("[1]", "expected a record of `vsepp bench`, got a list"),
        ('{"device": "cpu", "machine": "A", "date": "2026-01-01"}', "it lacks command, results"),
        (
            '{"device": "cpu", "machine": "A", "date": "2026-01-01", "command": "c", "results": [{"name": "n"}]}',
            "result 1 has no name, unit and median above 0",
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
