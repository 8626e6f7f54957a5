"""A job is a name: what is printed can be pasted, what is under way keeps its plan, and what is only looked at changes nothing."""

import hashlib
import io
import json
import re
import shlex
import zipfile

import pytest
from file_server import Served, serve
from plans import edit
from processes import wait_until
from projects import RUNS, copy_of_the_project
from raw_layouts import jpeg

from vsepp.base.manifest import MANIFEST, read_manifest

pytestmark = pytest.mark.workflow
VSE0, VSEPP, RC, FT = RUNS
PRESET = "params/presets/tiny.yaml"
LOGS = "results/tiny/logs/paper"


def bytes_of(folder):
    """File → digest of its bytes, without what holds times."""
    files = (
        path for path in folder.rglob("*") if path.is_file() and path.name not in (MANIFEST, "history.csv")
    )
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_printed_command_of_each_kind_can_be_pasted_and_makes_the_same_bytes(project):
    output = project.run("all_results", "--dry-run", "--printshellcmds", "--forceall")
    commands = {}
    for command, kind, name in re.findall(r"(vsepp make (\w+) (\S+) --plan .*)", output):
        commands.setdefault(kind, (command, name))
    assert set(commands) >= {"scenes", "corpus", "store", "tokens", "encoder", "pictures", "features", "tape"}
    assert set(commands) >= {"run", "evaluation", "figure_data", "report"}
    for kind, (command, name) in commands.items():
        assert len(command) < 300
        (written,) = [
            path.parent
            for path in project.folder.glob(f"[r]*/**/{name}/{MANIFEST}")
            if read_manifest(path.parent)["step"] == kind
        ]
        before = bytes_of(written)
        (written / MANIFEST).unlink()
        if kind == "corpus":
            project.output("bash", "-euo", "pipefail", "-c", command)
        else:  # the same, in a process that has loaded torch
            project.vsepp(*shlex.split(command.partition(" > ")[0])[1:])
        if kind != "report":  # a page names the commit that wrote it
            assert bytes_of(written) == before, kind
        assert read_manifest(written)["step"] == kind


def test_by_hand_and_by_rule_a_job_has_the_same_threads_and_gives_the_same_bytes(project):
    name = f"{VSE0}/seed-0"
    folder = project.model(VSE0)
    assert read_manifest(folder)["facts"]["threads"] == 1
    two = "resources={threads: 2}"
    project.vsepp("make", "run", name, "--config", two)
    by_hand = project.weights(VSE0)
    assert read_manifest(folder)["facts"]["threads"] == 2
    project.run(folder.relative_to(project.folder) / "model.safetensors", "--force", resources={"threads": 2})
    assert read_manifest(folder)["facts"]["threads"] == 2
    assert project.weights(VSE0) == by_hand


def test_parameters_that_are_edited_meanwhile_change_nothing_that_is_under_way(project):
    """Where each job is a call of Snakemake, which reads the workflow anew."""
    project.edit(PRESET, "\nruns:\n", f"\nruns:\n  {VSE0}: {{loss: {{margin: 0.1}}}}\n")
    cluster = ["--executor", "cluster-sync", "--cluster-sync-submit-cmd", "bash", "--jobs", "1"]
    cluster += ["--seconds-between-status-checks", "1"]
    metrics, log = project.evaluation() / "metrics.json", project.folder / f"{LOGS}/train/{VSE0}/seed-0.log"
    log.unlink()
    metrics.unlink()
    target = metrics.relative_to(project.folder)
    snakemake = project.start(*project.snakemake(target, "--cores", "1", *cluster, only=[VSE0]))
    wait_until(lambda: log.is_file() and "epoch 1/" in log.read_text(), snakemake, seconds=300)
    project.edit(PRESET, "margin: 0.1", "margin: 0.3")
    project.edit(PRESET, "\nruns:\n", "\nruns: [half-typed\n")
    output, _ = snakemake.communicate()
    assert snakemake.returncode == 0, output
    assert json.loads((project.model() / "config.json").read_text())["loss"]["margin"] == 0.1
    assert metrics.is_file()


def look(project):
    """Every file that a look must leave as it is → its time and bytes."""
    files = {}
    for path in project.folder.rglob("*"):
        own = {".snakemake", ".state", "__pycache__"} & set(path.relative_to(project.folder).parts)
        if path.is_file() and not own:
            files[path] = (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).digest())
    return files


def test_a_look_changes_no_file_and_survives_damaged_ones(project):
    manifests = [next(project.folder.glob(f"{folder}/**/{MANIFEST}")) for folder in ("results", "reports")]
    for number, manifest in enumerate(manifests):
        manifest.write_bytes(manifest.read_bytes()[: 9 * number])
    table = project.folder / "reports/tiny/paper/vsepp/tables/table2.csv"
    table.unlink()
    before = look(project)
    assert "Traceback" not in project.call(*project.snakemake("--lint"), check=False).stdout
    assert project.planned("reproduce_tables")["report"] == 1
    assert look(project) == before


def test_the_workflow_is_a_module_of_another_one(tmp_path):
    project = copy_of_the_project(tmp_path / "project")
    other = tmp_path / "other"
    other.mkdir()
    flickr = {split: 8 for split in ("train", "val", "test")}
    config = {"label": "mine", "only": [VSE0], "evaluation": {"fold_size": 1}}
    config["scenes"] = {"images": {"coco": {**flickr, "restval": 8}, "flickr": flickr}}
    config["corpora"] = {"flickr": None}
    config["runs"] = {"default": {"vocabulary_threshold": 1}}
    (other / "Snakefile").write_text(
        f"module vsepp:\n    snakefile: '../project/Snakefile'\n    config: {config!r}\n\n"
        "use rule * from vsepp as of_*\n\n"
        "rule mine:\n    input: rules.of_all_corpus.input\n    default_target: True\n"
    )
    project.output("snakemake", "--cores", "2", "--snakefile", other / "Snakefile", "--directory", other)
    assert list(other.glob("results/mini/tokens/*/tokens.npz")) and list(other.glob("resources/scenes-*"))
    assert not (project.folder / "results").exists()


def test_a_mistake_in_parameters_is_told_without_lines_of_the_workflow(project):
    output = project.refusal(*project.snakemake("--dry-run", preset="tny"))
    assert output.rstrip().endswith("did you mean tiny?")
    assert "Snakefile" not in output and ".smk" not in output


def photographs():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(12):
            archive.writestr(f"{number}.jpg", jpeg(number))
    rows = [
        f"{n}.jpg,a picture of {n},{split}" for n in range(12) for split in [("train", "val", "test")[n % 3]]
    ]
    return {
        "mine.zip": Served(out.getvalue()),
        "mine.csv": Served("\n".join(["image,caption,split", *rows]).encode()),
    }


def test_what_decides_no_byte_makes_nothing_again(tmp_path):
    """Other mirrors, another folder of raw files, an edit of the code that downloads, and settings of the machine."""
    project = copy_of_the_project(tmp_path / "project", {"label": "mine", "only": ["flickr-vse0-1c"]})
    params = project.folder / "params"
    with serve(photographs()) as server:

        def sources(*mirrors):
            files = {
                name: {"mirrors": [*mirrors, server.url(name)], "licence": "CC0"}
                for name in ("mine.zip", "mine.csv")
            }
            edit(params / "datasets.yaml", {"sources": files})

        sources()
        files = {"images": "mine.zip", "captions": "mine.csv"}
        data = {"title": "Mine", "reader": "captions_csv", "files": files}
        edit(params / "datasets.yaml", {"datasets": {"mine": data}})
        roles = {"flickr": {"dataset": "mine"}, "coco": None, "objectives": None}
        edit(params / "presets/mini.yaml", {"corpora": roles, "evaluation": {"fold_size": 4}})
        targets, runs = ("all_corpus", "all_stores"), {"default": {"vocabulary_threshold": 1}}
        project.run(*targets, runs=runs)
        asked = len(server.requests)
        sources("http://127.0.0.1:9/mine")
        project.edit("vsepp/data/download.py")
        project.edit("vsepp/data/transfer.py")
        resources = {"threads": 2, "memory_mb": 900, "data_on": "mapped", "runs_per_gpu": 5}
        assert project.planned(*targets, runs=runs, resources=resources) == {}
        assert len(server.requests) == asked
    (project.folder / "resources/downloads").rename(tmp_path / "own")
    assert project.planned(*targets, runs=runs, archives=str(tmp_path / "own")) == {}
