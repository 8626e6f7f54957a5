"""The first light of a new machine: what it finds right and wrong, that it goes on where it was, and what it advises."""

import csv
import json
import subprocess
import sys
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
from processes import python, wait_until
from raw_layouts import jpeg

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import checks  # noqa: E402
import first_light  # noqa: E402
import jobs  # noqa: E402
import measure  # noqa: E402
import tuning  # noqa: E402

from vsepp.errors import VseppError  # noqa: E402
from vsepp.provenance.studies import Study  # noqa: E402

CPU = torch.device("cpu")
RUN = measure.base_run("mini/vgg_mini", 24, 28, 6, 8, 8)
SHORT = [
    "correct/ranks/*",
    "correct/validation",
    "correct/features/*",
    "measured/forward/*",
    "measured/tape/*",
]


def call(out, *more):
    return first_light.main(["--device", "cpu", "--tiny", "--out", str(out), *more])


def kept(out):
    return json.loads((out / "first-light.json").read_text())


def context(out, device=CPU):
    out.mkdir(exist_ok=True)
    return first_light.Context(device, True, out, None, None, float("inf"), {"device": device.type})


def test_what_is_done_is_kept_and_not_done_again(tmp_path, capsys):
    assert call(tmp_path / "out", "--only", *SHORT, "--minutes", "0") == 3
    assert "12 pieces are left; the same command goes on" in capsys.readouterr().out
    assert call(tmp_path / "out", "--only", *SHORT) == 0
    found = kept(tmp_path / "out")
    assert {made["state"] for made in found["pieces"].values()} == {"done"} and len(found["pieces"]) == 12
    with (
        (tmp_path / "out/first-light.csv").open() as stream,
        (ROOT / "benchmarks/results.csv").open() as table,
    ):
        rows = list(csv.DictReader(stream))
        assert list(rows[0]) == next(csv.reader(table))
    assert [row["what"] for row in rows] == ["forward", "tape"] * 3
    said = capsys.readouterr().out
    assert "<role of mini/vgg_mini@24>: {precision: " in said and "× the time of forward" in said
    assert call(tmp_path / "out", "--only", *SHORT) == 0
    assert kept(tmp_path / "out") == found
    assert call(tmp_path / "out", "--only", *SHORT, "--again", "measured/tape/*/bf16") == 0
    again = kept(tmp_path / "out")
    assert len(again["rows"]) == 6 and again["rows"] != found["rows"]
    assert again["pieces"]["correct/validation"] == found["pieces"]["correct/validation"]


def test_what_is_wrong_is_said_and_remembered(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(checks.BOUNDS, "bf16", 1e-9)
    assert call(tmp_path / "out", "--only", "correct/features/*/bf16") == 1
    (made,) = kept(tmp_path / "out")["pieces"].values()
    assert made["state"] == "WRONG" and "bound 1.0e-09" in made["said"]
    assert call(tmp_path / "out", "--only", "correct/features/*/bf16") == 1
    assert "WRONG: correct/features/mini/vgg_mini@24/bf16: relative error" in capsys.readouterr().out


def raising(error):
    def call(context):
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (
            torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
            "skipped",
            "Tried to allocate",
        ),
        (ModuleNotFoundError("no", name="torchvision"), "skipped", "torchvision is not installed"),
        (RuntimeError("vgg19 could not be compiled on cuda: no compiler"), "skipped", "no compiler"),
        (ValueError("broken\nlines"), "failed", "ValueError: broken"),
    ],
)
def test_a_piece_that_cannot_be_done_costs_only_itself(tmp_path, error, state, said):
    where = context(tmp_path / "out")
    piece = first_light.Piece("measured/x", raising(error), 1)
    first_light._do(piece, where)
    made = kept(tmp_path / "out")["pieces"]["measured/x"]
    assert made["state"] == state and said in made["said"] and "\n" not in made["said"]
    assert first_light._has_ended(piece, where) == (state == "skipped")
    first_light._do(piece, where)  # what failed is tried once more
    assert first_light._has_ended(piece, where)


def test_a_piece_that_ends_the_process_is_begun_twice_and_no_more(tmp_path):
    where = context(tmp_path / "out")
    piece = first_light.Piece("measured/x", raising(KeyboardInterrupt()), 1)
    for ended in (False, True):
        with pytest.raises(KeyboardInterrupt):
            first_light._do(piece, where)
        where.pieces = kept(tmp_path / "out")["pieces"]
        assert where.pieces["measured/x"]["said"] == "ended the process"
        assert first_light._has_ended(piece, where) == ended


def test_a_step_that_was_stopped_for_lack_of_time_goes_on(tmp_path):
    where = context(tmp_path / "out")
    piece = first_light.Piece("used/x", lambda _: None, 1)
    for _ in range(3):
        first_light._do(piece, where)
        assert kept(tmp_path / "out")["pieces"]["used/x"]["state"] == "stopped"
        assert not first_light._has_ended(piece, where)


def test_bad_input_is_told_in_a_sentence(tmp_path, capsys):
    for given, said in (
        (["--device", "tpu"], "--device: got 'tpu'; expected cpu or cuda"),
        (["--data", str(tmp_path)], "expected a folder with Flickr8k_Dataset.zip and Flickr8k_text.zip"),
        (
            ["--prepare", str(tmp_path / "new"), "--data", str(tmp_path)],
            "expected a folder with Flickr8k_Dataset",
        ),
        (["--prepared", str(tmp_path / "none")], "none/jobs.json: no such file"),
    ):
        assert call(tmp_path / "out", *given) == 2
        assert said in capsys.readouterr().err
    for name in jobs.ARCHIVES:
        (tmp_path / name).touch()
    assert call(tmp_path / "out", "--data", str(tmp_path)) == 2
    assert "--data needs --prepared" in capsys.readouterr().err
    assert call(tmp_path / "out", "--only", "correct/ranks/dot") == 0
    assert first_light.main(["--device", "cpu", "--out", str(tmp_path / "out")]) == 2
    assert "name another folder as --out" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert call(tmp_path / "other", "--device", "cuda") == 2
        assert "with --device cpu --tiny" in capsys.readouterr().err


def test_a_gpus_pieces_are_all_named_once_and_the_first_fit_into_half_an_hour(tmp_path):
    where = context(tmp_path / "out", torch.device("cuda", 0))
    where.tiny = False
    found = first_light.pieces(where)
    names = [piece.name for piece in found]
    assert len(set(names)) == len(names)
    for pattern in (*first_light.MEASURED_FIRST, *first_light.MEASURED_LAST):
        assert any(fnmatchcase(name, f"measured/{pattern}") for name in names), pattern
    last = next(place for place, name in enumerate(names) if "compile-" in name)
    assert sum(piece.seconds for piece in found[:last]) < 30 * 60
    assert {name.rpartition("/")[2] for name in names if name.startswith("correct/features")} == {
        "fp32",
        "tf32",
        "bf16",
    }


def test_the_script_needs_nothing_of_the_workflow():
    missing = "; ".join(f"sys.modules[{name!r}] = None" for name in ("snakemake", "dvc", "nltk"))
    code = f"import sys; sys.path.insert(0, 'benchmarks'); {missing}; import first_light; first_light.main"
    given = "(['--list', '--device', 'cpu', '--tiny'])"
    assert "correct/steps/Order++/bf16" in python(code + given, cwd=ROOT).splitlines()


def test_a_step_that_the_script_calls_ends_with_it(tmp_path):
    """By SIGKILL, too: an orphan would keep the card."""
    note = tmp_path / "child"
    child = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import sys; sys.path.insert(0, 'benchmarks'); import checks; checks.call([sys.executable, '-c', {child!r}], 50)"
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT)
    wait_until(lambda: note.is_file() and note.read_text(), process)
    process.kill()
    process.wait()
    wait_until(lambda: not Path(f"/proc/{note.read_text()}").exists(), seconds=20)


def test_a_failed_step_tells_its_last_lines_and_finds_what_the_caller_finds(tmp_path, monkeypatch):
    (tmp_path / "carried.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    checks.call([sys.executable, "-c", "import carried, vsepp"], 60)
    with pytest.raises(VseppError, match=r"(?s)status 1: .*\n.*division by zero"):
        checks.call([sys.executable, "-c", "1 / 0"], 60)


def test_without_archives_hours_and_roles_are_prepared_alone(tmp_path):
    assert first_light.main(["--prepare", str(tmp_path / "new")]) == 0
    found = jobs.prepared_in(tmp_path / "new")
    assert found["jobs"] == [] and found["roles"]["torchvision/vgg19@224"] == "vgg"
    assert {work[0] for work in found["paper"]} >= {"tape", "step-1c", "step-finetuned"}
    assert call(tmp_path / "out", "--prepared", str(tmp_path / "new"), "--only", "correct/ranks/dot") == 0


# --- What the checks notice ----------------------------------------------------------------------------------------


def test_an_error_is_relative_and_of_the_worst_row():
    right = torch.tensor([[3.0, 4.0], [0.0, 10.0]])
    assert checks.error(torch.tensor([[3.0, 4.5], [0.0, 10.1]]), right) == pytest.approx(0.1)
    assert checks.error(torch.tensor([[float("nan"), 4.0], [0.0, 10.0]]), right) == float("inf")


def test_features_of_another_image_are_noticed_where_all_are_alike():
    right = torch.tensor([[1.0, 0.0], [1.0, 0.01], [1.0, -0.02]], dtype=torch.float64)
    assert checks._close(right + 1e-4, right, 0.05).right
    found = checks._close(right[[1, 0, 2]], right, 0.05)
    assert found.figures["error"] < 0.05 and not found.right


@pytest.mark.parametrize("system", checks.SYSTEMS)
def test_steps_are_those_of_the_equations_in_float64(tmp_path, system):
    from dataclasses import replace

    changed = checks.SYSTEMS[system]
    run = replace(RUN, loss=changed["loss"], model=replace(RUN.model, **changed.get("model", {})))
    found = checks.steps(run, 12, CPU, tmp_path, 16)
    assert found.right and found.figures["largest gradient"] < 1e-5, found.said
    assert "50 steps" in found.said


def test_steps_of_another_margin_are_noticed(tmp_path, monkeypatch):
    of = checks.RunLoss.of.__func__

    def another_on_the_cpu(cls, run, folders, device):
        made = of(cls, run, folders, device)
        return (
            made
            if device != CPU or not monkeypatched.pop()
            else cls(made.function, type(made.options)(margin=0.3))
        )

    # The second loss that a check asks for is that of the reference.
    monkeypatched = [True, False]
    monkeypatch.setattr(checks.RunLoss, "of", classmethod(another_on_the_cpu))
    assert not checks.steps(RUN, 12, CPU, tmp_path, 16).right


# --- What follows from the measurements ------------------------------------------------------------------------------


def row(what, variant, precision, median):
    return {"what": what, "variant": variant, "precision": precision, "median": median}


ROWS = [
    row("forward", "net/a@224", "bf16", 1000),
    row("tape", "net/a@224", "fp32", 300),
    row("tape", "net/a@224", "bf16", 800),
    row("tape", "net/a@224 compile-default", "bf16", 990),
    row("tape", "net/a@224 contiguous", "bf16", 1200),
    row("step-1c", "4096/1024", "fp32", 100),
    row("sharing-1", "4096/1024", "fp32", 100),
    row("sharing-2", "4096/1024", "fp32", 150),
]


def test_the_fastest_way_that_is_right_is_advised():
    right = ["net/a@224/bf16", "net/a@224/fp32", "net/a@224 compile-default/bf16"]
    lines = tuning.advice(ROWS, right, {"roles": {"net/a@224": "vgg"}, "paper": []})
    assert lines[:2] == [
        "encoders:",
        "  vgg: {precision: bf16, compile: default}    # 990 images/s into random-crop features",
    ]
    assert lines[2].startswith("# bf16 for the paper's preset only where recalls")
    assert lines[3] == "resources: {runs_per_gpu: 2}    # 150 pairs/s together"
    assert "tape net/a@224 bf16: 800/s; 1.25 × the time of forward, ABOVE 1.10" in lines
    assert tuning.advice(ROWS, [], None)[0] == lines[3]


def test_hours_are_those_of_the_rates_and_what_they_lack_is_named():
    work = [
        ["tape", "net/a@224", "fp32", 3_600_000],
        ["step-1c", "4096/1024", "fp32", 720_000],
        ["x", "y", "fp32", 1],
    ]
    rows = [*ROWS, row("step-1c", "4096/1024", "bf16", 200)]
    found = tuning.advice(rows, ["net/a@224/bf16"], {"roles": {}, "paper": work})
    hours = [line.partition("one seed, ")[2] for line in found if "hours" in line]
    assert hours == [
        "as it is set, one training at a time: 5.3 hours of one GPU (aim: 6), lacking x y fp32",
        "with these encoders: 3.2 hours of one GPU (aim: 6), lacking x y fp32",
        "and steps in bf16, trainings on features sharing the card: 1.9 hours of one GPU (aim: 6), lacking x y fp32",
    ]


def test_hours_of_fine_tuning_are_those_of_the_encoder_as_advised():
    rows = [
        row("tape", "net/a@224 compile-default", "bf16", 1200),
        row("step-finetuned", "net/a@224", "fp32", 10),
    ]
    work = {"roles": {}, "paper": [["step-finetuned", "net/a@224", "fp32", 36_000]]}
    found = tuning.advice(rows, ["net/a@224 compile-default/bf16"], work)
    assert "one training at a time: 1.0 hours of one GPU (aim: 6)" in found[-3]
    assert found[-2].endswith("lacking step-finetuned net/a@224 compile-default fp32")


def test_bf16_is_held_against_the_spread_of_three_seeds(tmp_path):
    listed = {}

    def write(name, *found):
        for seed, (caption, image, rsum) in enumerate(found):
            folder = tmp_path / f"{name}-{seed}"
            folder.mkdir(exist_ok=True)
            scores = {"i2t": {"r1": caption}, "t2i": {"r1": image}, "rsum": rsum}
            (folder / "metrics.json").write_text(json.dumps({"1K": scores}))
            listed[f"{name}/seed-{seed}"] = folder.name
        every = [{"record": record, "folder": folder} for record, folder in listed.items()]
        (tmp_path / jobs.LIST).write_text(json.dumps({"jobs": every}))

    write("f8k-vse0-1c-whole-fp32", (10, 5, 200), (12, 6, 210), (11, 7, 205))
    write("f8k-vse0-1c-whole", (11, 6, 204), (12, 6, 206))
    write("f8k-vsepp-1c-whole-fp32", (10, 5, 200))
    assert jobs.gate(tmp_path) == []
    write("f8k-vse0-1c-whole", (11, 6, 204), (12, 6, 206), (10, 9, 208))
    assert jobs.gate(tmp_path) == [
        "f8k-vse0-1c-whole-fp32, caption R@1: 11.0 ± 1.0 in fp32, 11.0 ± 1.0 in bf16, within the spread of 3 seeds",
        "f8k-vse0-1c-whole-fp32, image R@1: 6.0 ± 1.0 in fp32, 7.0 ± 1.7 in bf16, within the spread of 3 seeds",
        "f8k-vse0-1c-whole-fp32, rsum: 205.0 ± 5.0 in fp32, 206.0 ± 2.0 in bf16, within the spread of 3 seeds",
    ]
    write("f8k-vse0-1c-whole", (11, 6, 204), (12, 6, 206), (10, 12, 208))
    assert "8.0 ± 3.5 in bf16, NOT within the spread" in jobs.gate(tmp_path)[1]


# --- All of it -----------------------------------------------------------------------------------------------------


def archives(folder):
    """Flickr8k's two archives with as many photographs as it has, each a small one."""
    folder.mkdir()
    sizes = {"train": 6000, "dev": 1000, "test": 1000}
    names = {split: [f"{split}{number}.jpg" for number in range(count)] for split, count in sizes.items()}
    photographs = [jpeg(seed, (40, 30)) for seed in range(8)]
    with zipfile.ZipFile(folder / "Flickr8k_Dataset.zip", "w") as archive:
        for place, name in enumerate(name for some in names.values() for name in some):
            archive.writestr(f"Flicker8k_Dataset/{name}", photographs[place % 8])
    words = ["a dog runs on grass", "two dogs play", "a man climbs", "a child in red", "people by the water"]
    with zipfile.ZipFile(folder / "Flickr8k_text.zip", "w") as archive:
        lines = [
            f"{name}#{k}\t{words[k]} {name[0]}" for some in names.values() for name in some for k in range(5)
        ]
        archive.writestr("Flickr8k.token.txt", "\n".join(lines) + "\n")
        for split, some in names.items():
            archive.writestr(f"Flickr_8k.{split}Images.txt", "\n".join(some) + "\n")
    return folder


@pytest.mark.whole
def test_all_of_it_in_small_with_the_runs_that_wait_for_a_gpu(tmp_path, capsys):
    data, prepared, out = archives(tmp_path / "data"), tmp_path / "prepared", tmp_path / "out"
    assert first_light.main(["--prepare", str(prepared), "--data", str(data), "--tiny"]) == 0
    given = ["--data", str(data), "--prepared", str(prepared), "--minutes", "20"]
    assert call(out, *given) == 0, capsys.readouterr().out
    found = kept(out)["pieces"]
    assert {made["state"] for made in found.values()} == {"done"}
    assert {name.partition("/")[0] for name in found} == {"correct", "measured", "used"}
    assert "killed 1 time" in found["correct/resume"]["said"]
    assert "rsum" in found["used/evaluation f8k-vse0-rc-ft/seed-0"]["said"]
    assert {run for run, _ in Study(out / "records").read_all()} == {
        "f8k-vse0-1c-whole-fp32",
        "f8k-vse0-1c-whole",
        "f8k-vse0-rc",
        "f8k-vse0-rc-ft",
    }
    assert "as it is set, one training at a time: 0.0 hours" in capsys.readouterr().out
    assert first_light.main(["--prepare", str(prepared), "--data", str(data), "--tiny"]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.whole
def test_pydantic_is_brought_from_wheels_where_it_is_missing(tmp_path):
    wheels, bare = tmp_path / "wheels", tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", bare], check=True)
    fetched = ["-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", wheels, "pydantic"]
    if subprocess.run([bare / "bin/python", *fetched], check=False).returncode:
        pytest.skip("needs a package registry")
    code = "import sys; sys.path.insert(0, 'benchmarks'); import carried, pathlib; carried.bring_pydantic(pathlib.Path(sys.argv[1]))"
    child = "import subprocess; subprocess.run([sys.executable, '-c', 'import pydantic; print(pydantic.BaseModel)'], check=True)"

    def call(folder):
        command = [bare / "bin/python", "-c", f"{code}; {child}", folder]
        return subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, check=False)

    assert "BaseModel" in call(wheels).stdout
    assert "no wheels of it are in" in call(tmp_path / "none").stderr
    (tmp_path / "empty").mkdir()
    assert "these wheels are not for this Python" in call(tmp_path / "empty").stderr
