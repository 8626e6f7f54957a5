"""What reruns after a change, and what does not."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from dag import TINY, Workflow, finish

pytestmark = pytest.mark.workflow


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_nothing_reruns_without_a_change(tiny):
    assert tiny.planned() == {}


def test_another_place_for_data_reruns_nothing(tiny):
    assert tiny.planned(resources={"data_on": "pinned"}) == {}


def test_a_change_of_one_run_reruns_it_and_what_depends_on_it(tiny):
    runs = {**TINY["runs"], "flickr-vsepp-rc": {"margin": 0.1}}
    # The fine-tuned run inherits from the frozen one and starts from its snapshot.
    assert tiny.trained(runs=runs) == {"flickr-vsepp-rc", "flickr-vsepp-rc-ft"}
    runs = {**TINY["runs"], "flickr-vsepp-rc-ft": {"margin": 0.1}}
    assert tiny.planned(runs=runs) == {"train": 1, "encode": 1, "evaluate": 1, "report": 1}


def test_a_comment_reruns_nothing(tiny):
    for module in ("losses/max_of_hinges.py", "training/loop.py", "data/store.py", "features/tape.py"):
        path = tiny.source / "vsepp" / module
        path.write_text("# A comment.\n" + path.read_text() + "\n# Another.\n")
    assert tiny.planned() == {}


def test_an_edit_of_mh_retrains_what_uses_mh_and_nothing_else(tiny):
    path = tiny.source / "vsepp" / "losses" / "max_of_hinges.py"
    path.write_text(path.read_text() + "\nCHANGED = True\n")
    assert tiny.trained() == {"flickr-vsepp-rc", "flickr-vsepp-rc-ft", "coco-orderpp-10c-rv"}


def test_an_edit_of_sh_retrains_vse0_alone(tiny):
    path = tiny.source / "vsepp" / "losses" / "sum_of_hinges.py"
    path.write_text(path.read_text() + "\nCHANGED = True\n")
    assert tiny.trained() == {"flickr-vse0-rc"}


def test_an_edit_of_the_order_similarity_retrains_order_runs_alone(tiny):
    path = tiny.source / "vsepp" / "similarity" / "order.py"
    path.write_text(path.read_text() + "\nCHANGED = True\n")
    assert tiny.trained() == {"coco-orderpp-10c-rv"}


def test_a_new_seed_trains_that_seed_alone_and_tables_show_the_spread(tiny):
    only = ["flickr-vse0-rc"]
    assert tiny.planned(only=only, seeds=[0, 1]) == {"train": 1, "encode": 1, "evaluate": 1, "report": 1}
    tiny.run(only=only, seeds=[0, 1])
    table = (tiny.folder / "reports/mini/tiny/tables/table3.html").read_text()
    assert "±" in table


def test_wrong_parameters_stop_everything_with_one_clear_message(tiny):
    done = tiny.run("--dry-run", check=False, runs={"default": {"epoch": 3}})
    assert done.returncode != 0
    assert "--config: runs.default.epoch: unknown key" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_model_of_another_training_is_refused_by_evaluation(tiny):
    runs = tiny.folder / "results/mini/tiny/runs"
    for file in (runs / "flickr-vse0-rc/seed-0").iterdir():
        shutil.copy2(file, runs / "flickr-vsepp-rc/seed-0" / file.name)
    done = tiny.run("--forcerun", "evaluate", check=False, only=["flickr-vsepp-rc"])
    assert done.returncode != 0
    assert "made from another run" in done.stdout or "trained with other values" in done.stdout


@pytest.mark.resume
@pytest.mark.parametrize("victim", ["trainer", "snakemake and all below it"])
def test_a_killed_training_goes_on_and_ends_with_the_same_weights(tiny, victim):
    runs = {**TINY["runs"], "default": {**TINY["runs"]["default"], "epochs": 12}}
    resources = {"checkpoint_seconds": 0}
    config = {"only": ["flickr-vse0-rc"], "runs": runs, "label": "whole", "resources": resources}
    whole = Workflow(tiny.folder, tiny.source, {**tiny.config, **config})
    whole.run("all_models")
    broken = Workflow(tiny.folder, tiny.source, {**whole.config, "label": "broken"})
    killed = _run_and_kill(broken, everything=victim != "trainer")
    assert killed, "the training was over before it could be killed"
    state = list((tiny.folder / "results/mini/broken").rglob(".state/*/*"))
    assert state, "nothing was kept for a resume"
    if victim != "trainer":
        broken.run("--unlock")
    broken.run("all_models")
    log = (tiny.folder / "results/mini/logs/broken/train-flickr-vse0-rc-seed-0.log").read_text()
    assert "goes on after epoch" in log
    one, other = (
        tiny.folder / f"results/mini/{label}/runs/flickr-vse0-rc/seed-0/model.safetensors"
        for label in ("whole", "broken")
    )
    assert one.read_bytes() == other.read_bytes()


def _run_and_kill(workflow, everything):
    """Start Snakemake, wait for some finished epochs, and kill the trainer, or everything, with SIGKILL."""
    snakemake = workflow.start("all_models", "--cores", "1")
    log = workflow.folder / f"results/mini/logs/{workflow.config['label']}/train-flickr-vse0-rc-seed-0.log"
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and snakemake.poll() is None:
            if log.is_file() and "epoch 2/" in log.read_text():
                if everything:
                    snakemake.kill()
                return _kill(f"{workflow.config['label']}/runs/flickr-vse0-rc/seed-0")
            time.sleep(0.05)
        return False
    finally:
        finish(snakemake, check=False)


def _kill(output):
    """SIGKILL every `vsepp train` that writes to this folder; whether there was one."""
    killed = False
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().decode().split("\0")
        except OSError:
            continue
        if "train" in command and any(part.endswith(output) for part in command):
            os.kill(int(entry.parent.name), signal.SIGKILL)
            killed = True
    return killed


def test_two_trainings_with_one_seed_give_the_same_weights(tiny):
    config = {**tiny.config, "only": ["flickr-vsepp-rc"]}
    for label in ("first", "second"):
        Workflow(tiny.folder, tiny.source, {**config, "label": label}).run("all_models")
    first, second = (
        (tiny.folder / f"results/mini/{label}/runs/flickr-vsepp-rc/seed-0/model.safetensors").read_bytes()
        for label in ("first", "second")
    )
    assert first == second


@pytest.mark.tape
def test_inline_random_crop_features_train_the_same_weights_as_the_tape(tiny):
    runs = {**TINY["runs"], "default": {**TINY["runs"]["default"], "rc_features": "inline"}}
    Workflow(
        tiny.folder,
        tiny.source,
        {**tiny.config, "only": ["flickr-vsepp-rc"], "label": "inline", "runs": runs},
    ).run("all_models")
    tape, inline = (
        (tiny.folder / f"results/mini/{label}/runs/flickr-vsepp-rc/seed-0/model.safetensors").read_bytes()
        for label in ("tiny", "inline")
    )
    assert tape == inline


def test_another_fidelity_runs_the_whole_way(tiny):
    only = ["flickr-vsepp-rc", "flickr-vsepp-rc-ft", "coco-orderpp-10c-rv"]
    tiny.run(fidelity="code", label="tiny-code", only=only)
    page = (tiny.folder / "reports/mini/tiny-code/index.html").read_text()
    assert "code" in page


def test_embeddings_of_a_run_can_be_scored_by_hand(tiny):
    embeddings = tiny.folder / "results/mini/tiny/embeddings/coco-orderpp-10c-rv/seed-0/embeddings.npz"
    command = [
        sys.executable,
        "-m",
        "vsepp.cli",
        "evaluate",
        str(embeddings),
        "--protocol",
        "5x1K",
        "--fold-size",
        "10",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tiny.source)
    assert "caption retrieval" in done.stdout
    assert np.load(embeddings)["similarity"] == "order"
