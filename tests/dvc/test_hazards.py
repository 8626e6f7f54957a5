"""What can go wrong between git, DVC and Snakemake, each shown without its safeguard and with it."""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from dag import ROOT, cpu_seconds_of_children

from vsepp.cli.reports import report_spec
from vsepp.config import make_plan
from vsepp.config.artefacts import features_folder
from vsepp.provenance.manifest import dirty_parts, read_manifest
from vsepp.spec import to_json

pytestmark = pytest.mark.dvc
RUN = "coco-vse0-1c"


def weights(repository, run=RUN):
    return (repository.run_folder(run) / "model.safetensors").read_bytes()


def change_fold_size(repository):
    """Another protocol: every run is evaluated again and nothing is trained."""
    repository.edit("params/presets/tiny.yaml", "fold_size: 10", "fold_size: 5")


def change_a_run(repository):
    """Another margin of one run."""
    path = "params/presets/tiny.yaml"
    assert RUN not in (repository.folder / path).read_text()
    repository.edit(path, "\nruns:\n", f"\nruns:\n  {RUN}: {{margin: 0.1}}\n")


def rewritten(repository, before):
    """Folders of artefacts that were made again."""
    after = repository.manifests()
    assert after.keys() >= before.keys(), "something was deleted"
    return {path.rsplit("/", 1)[0] for path, written in after.items() if before.get(path) != written}


def commands(repository, plan):
    """The steps that read a trained run, as the workflow calls them, with what the present parameters ask for."""
    run = plan.runs[RUN]
    folders = {
        "corpus": plan.results / "corpora" / run.corpus,
        "tokens": plan.tokens[run.tokens].folder,
        "features": features_folder(plan, run.eval_features),
        "run": repository.run_folder().relative_to(repository.folder),
    }
    options = [part for name, folder in folders.items() for part in (f"--{name}", folder)]
    embeddings = plan.variant_results / f"embeddings/{RUN}/seed-0/embeddings.npz"
    return {
        "encode": ["vsepp", "encode", "--spec", to_json(run.spec), *options, "--output", "out"],
        "evaluate": [
            "vsepp", "evaluate", embeddings, "--run", folders["run"] / "model.safetensors", "--fold-size", "10",
        ],
        "report": ["vsepp", "report", "--spec", to_json(report_spec(plan)), "--output", "out"],
    }  # fmt: skip


def refusal(repository, *command):
    """What a command says that must fail, and without a traceback."""
    done = repository.call(*command, check=False)
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout


def mend_of(output, folder):
    """The command that `vsepp verify` gives for a folder."""
    lines = output.splitlines()
    (k,) = (k for k, line in enumerate(lines) if line.startswith(f"{folder}:"))
    return shlex.split(lines[k + 1].split("mend: ")[1].split("  (")[0])


# A cache of links.


def test_a_cache_of_links_gives_results_new_times_and_the_pinned_one_does_not(repository):
    """DVC unprotects the outs of a phase before it runs: a stale model would look newer than what changed before it."""
    model = repository.run_folder() / "model.safetensors"

    def times_around_a_forced_phase():
        before = model.stat().st_mtime_ns
        output = repository.repro("--force", "--single-item", "models", check=False)
        return before, model.stat().st_mtime_ns, output

    before, after, _ = times_around_a_forced_phase()
    assert before == after, "with the cache that .dvc/config pins"
    repository.call("dvc", "config", "--local", "cache.type", "hardlink")
    repository.call("dvc", "checkout", "--relink")
    assert model.stat().st_nlink == 2
    before, after, output = times_around_a_forced_phase()
    assert after > before, "without the pin"
    assert "cache.type is hardlink, expected only reflink and copy" in output
    assert "failed to reproduce 'models'" in output


@pytest.mark.parametrize("kind", ["hardlink", "symlink", "reflink,hardlink,copy"])
def test_a_cache_of_links_is_refused_with_the_command_that_mends_it(repository, kind):
    repository.call("dvc", "config", "--local", "cache.type", kind)
    for command in (["verify", "--phase", "corpus"], ["sync"]):
        output = refusal(repository, "vsepp", *command)
        assert ".dvc/config.local: cache.type is " in output
    mend = output.split("Mend it: ")[1].strip()
    repository.call("bash", "-c", mend)
    repository.call("vsepp", "verify", "--phase", "corpus")


def test_the_project_pins_its_cache(repository):
    assert repository.call("dvc", "config", "cache.type").stdout.strip() == "reflink,copy"
    assert (ROOT / ".dvc/config").read_text() == (repository.folder / ".dvc/config").read_text()


# Results of another commit.


def test_results_of_another_commit_are_refused_where_times_would_let_them_pass(repository):
    change_a_run(repository)
    repository.commit("Another margin; its results are not checked out")
    unprotected = repository.call(
        "snakemake", "--cores", "1", "--dry-run", "--rerun-triggers", "mtime", "--", "all_results"
    )
    assert "Nothing to be done" in unprotected.stdout, "by times alone, another version's model is fine"
    plan = make_plan(repository.folder / "params", {})
    steps = commands(repository, plan)
    assert "trained with other values of loss than the spec asks for" in refusal(repository, *steps["encode"])
    report = refusal(repository, *steps["report"])
    assert "the model behind it was trained with other parameters than the present ones" in report
    assert f"--forcerun results/tiny/paper/runs/{RUN}/seed-0/model.safetensors" in report
    output = refusal(repository, "vsepp", "verify")
    assert "its loss.margin is 0.2, expected 0.1 by params/" in output
    assert f"results/tiny/paper/runs/{RUN}/seed-0" in output


_REPORT = """
from pathlib import Path
from vsepp.cli.reports import report_spec
from vsepp.config import make_plan
from vsepp.spec import to_json
print(to_json(report_spec(make_plan(Path("params"), {}))))
"""


@pytest.mark.parametrize(
    "path, old, new, said",
    [
        (
            "params/presets/tiny.yaml",
            "fold_size: 10",
            "fold_size: 5",
            "it was measured with other parameters",
        ),
        ("vsepp/evaluation/protocols.py", "", "MINE = 1\n", "it was measured with other code"),
        (
            "vsepp/losses/sum_of_hinges.py",
            "",
            "MINE = 1\n",
            "the model behind it was trained with other code",
        ),
    ],
)
def test_recalls_that_would_come_out_otherwise_now_are_refused_by_the_report(
    repository, path, old, new, said
):
    spec = repository.call(sys.executable, "-c", _REPORT).stdout
    repository.call("vsepp", "report", "--spec", spec, "--output", "out")
    file = repository.folder / path
    file.write_text(file.read_text().replace(old, new) if old else file.read_text() + new)
    spec = repository.call(sys.executable, "-c", _REPORT).stdout
    output = refusal(repository, "vsepp", "report", "--spec", spec, "--output", "out")
    assert f"metrics/{RUN}/seed-0: {said} than the present ones" in output
    made = (
        f"runs/{RUN}/seed-0/model.safetensors" if "trained" in said else f"metrics/{RUN}/seed-0/metrics.json"
    )
    assert f"--forcerun results/tiny/paper/{made} -- " in output


def test_a_model_of_another_version_is_refused_by_evaluation(repository):
    run, other = repository.run_folder(), repository.run_folder("coco-vsepp-1c")
    for file in other.iterdir():
        shutil.copy2(file, run / file.name)
    steps = commands(repository, make_plan(repository.folder / "params", {}))
    assert "made from another run" in refusal(repository, *steps["evaluate"])
    assert "made from another run" in refusal(repository, *steps["report"])
    assert f"embeddings/{RUN}/seed-0: made from another run" in refusal(repository, "vsepp", "verify")


# Times after a pull.


def test_times_of_a_checkout_mean_nothing_until_sync_has_verified_and_touched(repository):
    for name in ("results", "resources", ".snakemake", "reports/tiny"):
        shutil.rmtree(repository.folder / name)
    repository.call("dvc", "checkout")
    files = sorted(path for path in repository.folder.glob("results/**/*") if path.is_file())
    moments = list(range(len(files)))
    random.Random(0).shuffle(moments)
    for file, moment in zip(files, moments, strict=True):
        os.utime(file, (1.7e9 + moment, 1.7e9 + moment))
    assert not repository.is_done(), "without the touch"
    repository.call("vsepp", "sync")
    assert repository.is_done()
    assert "Data and pipelines are up to date" in repository.call("dvc", "status").stdout


# Snakemake first, or DVC first.


def test_what_snakemake_made_is_versioned_by_dvc_without_being_made_again(repository):
    before = repository.manifests()
    change_a_run(repository)
    repository.call("snakemake", "--cores", "all")
    made = rewritten(repository, before)
    variant = "results/tiny/paper"
    parts = {f"{variant}/{part}/{RUN}/seed-0" for part in ("runs", "embeddings", "metrics")}
    assert made == {*parts, "reports/tiny/paper"}
    before = repository.manifests()
    assert "Running stage 'models'" in repository.repro()
    assert rewritten(repository, before) == set()
    assert "Data and pipelines are up to date" in repository.call("dvc", "status").stdout


def test_a_second_reproduction_takes_seconds(repository):
    before = cpu_seconds_of_children()
    output = repository.repro()
    assert cpu_seconds_of_children() - before < 15
    assert "Data and pipelines are up to date" in output
    assert "Running stage" not in output


def test_what_dvc_made_is_done_for_snakemake(repository):
    before = repository.manifests()
    change_fold_size(repository)
    repository.repro()
    assert {folder.split("/")[3] for folder in rewritten(repository, before) if "results" in folder} == {
        "metrics"
    }
    before = repository.manifests()
    assert repository.is_done()
    assert "Nothing to be done" in repository.call("snakemake", "--cores", "all").stdout
    assert rewritten(repository, before) == set()


def test_two_at_once_do_not_spoil_results(repository):
    change_fold_size(repository)
    processes = [repository.start("dvc", "repro") for _ in range(2)]
    outputs = [process.communicate()[0] for process in processes]
    assert 0 in [process.returncode for process in processes], outputs
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0 or "lock" in output.lower(), output
    repository.call("vsepp", "verify")
    assert "Data and pipelines are up to date" in repository.call("dvc", "status").stdout


# Changes by hand.


def test_a_deleted_run_is_named_and_comes_back_bit_for_bit(repository):
    before, old = repository.manifests(), weights(repository)
    shutil.rmtree(repository.run_folder())
    folder = f"results/tiny/paper/runs/{RUN}/seed-0"
    output = refusal(repository, "vsepp", "verify")
    assert f"{folder}: missing" in output
    repository.call(*mend_of(output, folder))
    assert weights(repository) == old
    repository.repro()
    assert rewritten(repository, before) <= {folder, "reports/tiny/paper"}, (
        "equal weights: nothing else is made again"
    )
    repository.call("vsepp", "verify", "--full")
    assert "Data and pipelines are up to date" in repository.call("dvc", "status").stdout


def test_a_deleted_run_can_be_had_back_from_its_version(repository):
    manifest = (repository.run_folder() / "manifest.json").read_bytes()
    shutil.rmtree(repository.run_folder())
    repository.call("vsepp", "sync")
    assert (repository.run_folder() / "manifest.json").read_bytes() == manifest
    assert repository.is_done()
    assert "Data and pipelines are up to date" in repository.call("dvc", "status").stdout


def edit_manifest(folder):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["git"] = {"commit": "0" * 40, "dirty": False}
    path.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def test_a_manifest_edited_by_hand_is_refused_by_all_that_read_it(repository):
    edit_manifest(repository.run_folder())
    refused = "is not as its step wrote it (edited by hand"
    assert refused in refusal(repository, "vsepp", "verify")
    for name, step in commands(repository, make_plan(repository.folder / "params", {})).items():
        assert refused in refusal(repository, *step), name


def test_changed_weights_with_an_intact_manifest_are_refused(repository):
    model = repository.run_folder() / "model.safetensors"
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(content)
    assert "model.safetensors is not what its step wrote" in refusal(repository, "vsepp", "verify")
    steps = commands(repository, make_plan(repository.folder / "params", {}))
    for name in ("encode", "evaluate"):
        assert "is not what its step wrote" in refusal(repository, *steps[name]), name


def test_changed_metrics_with_an_intact_manifest_are_refused(repository):
    metrics = repository.folder / f"results/tiny/paper/metrics/{RUN}/seed-0/metrics.json"
    metrics.write_text(metrics.read_text().replace('"r1"', '"r1" '))
    steps = commands(repository, make_plan(repository.folder / "params", {}))
    assert "metrics.json: is not what its step wrote" in refusal(repository, *steps["report"])
    assert "metrics.json is not what its step wrote" in refusal(repository, "vsepp", "verify")


def test_what_deleted_stores_were_made_by_is_not_forgotten(repository):
    """After a clone there are no stores, and Snakemake has no record of them: a change of what makes them must not pass."""
    for name in ("results/tiny/stores", "results/tiny/tapes", "resources", ".snakemake"):
        shutil.rmtree(repository.folder / name, ignore_errors=True)
    repository.call("vsepp", "sync")
    store = repository.folder / "vsepp/data/store.py"
    store.write_text(store.read_text() + "\nCHANGED = True\n")
    output = refusal(repository, "vsepp", "verify", "--phase", "features")
    assert "made from a store of other code" in output


# Where code is not committed.


def test_what_uncommitted_code_made_says_so_and_so_does_all_that_is_made_from_it(repository):
    protocols = repository.folder / "vsepp/evaluation/protocols.py"
    protocols.write_text(protocols.read_text() + "\nMINE = True\n")
    repository.repro()
    repository.commit("No longer mine alone")
    metrics = read_manifest(repository.folder / f"results/tiny/paper/metrics/{RUN}/seed-0")
    assert dirty_parts(metrics) == ["itself"]
    assert metrics["ancestors"]["run"]["dirty"] is False
    templates = repository.folder / "reports/templates/index.html.j2"
    templates.write_text(templates.read_text() + "\n")
    repository.commit("Another page")
    repository.call("snakemake", "--cores", "all")
    report = read_manifest(repository.folder / "reports/tiny/paper")
    assert "itself" not in dirty_parts(report)
    assert f"metrics/{RUN}/seed-0" in dirty_parts(report)


# Where it is killed.


def test_a_killed_reproduction_goes_on(repository):
    """`kill -9` of `dvc repro` and all below it; then `snakemake --unlock`, and `dvc repro` again."""
    old = {run: weights(repository, run) for run in (RUN, "coco-vsepp-1c")}
    for name in ("results/tiny/paper", "reports/tiny"):
        shutil.rmtree(repository.folder / name)
    repro = repository.start("dvc", "repro", output=subprocess.DEVNULL)
    started = repository.folder / f"results/tiny/logs/paper/train-{RUN}-seed-0.log"
    begun = time.time()
    while repro.poll() is None and not (started.is_file() and started.stat().st_mtime > begun):
        time.sleep(0.05)
    assert repro.poll() is None, "it was over before it could be killed"
    _kill_all(repro.pid)
    assert any((repository.folder / ".snakemake/locks").iterdir())
    assert "with the --unlock argument" in refusal(repository, "dvc", "repro")
    repository.call("snakemake", "--unlock")
    repository.repro()
    repository.call("vsepp", "verify", "--full")
    assert {run: weights(repository, run) for run in old} == old
    assert "Data and pipelines are up to date" in repository.call("dvc", "status").stdout


def _kill_all(session):
    """SIGKILL every process of a session, until none is left: Snakemake's jobs have process groups of their own."""
    command = ["ps", "-o", "pid=,stat=", "-s", str(session)]
    while True:
        listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        alive = [int(pid) for pid, state in map(str.split, listed) if not state.startswith("Z")]
        if not alive:
            break
        for pid in alive:
            with suppress(ProcessLookupError):  # it ended by itself
                os.kill(pid, signal.SIGKILL)
    os.waitpid(session, 0)
