"""Every step by hand, `vsepp make`, up to a trained run; its folder alone embeds captioned pictures of one's own."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import chdir, nullcontext
from dataclasses import replace

import numpy as np
import pytest
from plans import PARAMS, merged, plan
from processes import no_room, python, wait_until
from projects import TINY

from vsepp.apps.cli import main
from vsepp.base.manifest import artefact_digest, read_manifest
from vsepp.base.publish import RULE_SHELL
from vsepp.base.spec import VocabularySpec
from vsepp.data.captions import SPECIAL_PIECES, Tokens, Vocabulary
from vsepp.pipeline.making import make as make_artefact
from vsepp.pipeline.step import Artefact, Input
from vsepp.pipeline.steps import STEPS

RUN, OTHER = "coco-vsepp-1c", "flickr-vsepp-1c"
OVERRIDES = merged(TINY, {"only": [RUN, OTHER], "encoders": {"vgg": {"weights": "random"}}})


def make(artefact):
    """Call the step that makes an artefact, as the rule of the workflow does."""
    call("make", artefact.kind, artefact.name, plan=plan(**OVERRIDES).write())


def call(*command, status=0, **options):
    named = [str(part) for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    assert main([*command, *named]) == status, f"vsepp {command}"


def contents(artefact):
    """File → bytes."""
    return {name: (artefact.folder / name).read_bytes() for name in artefact.step.files(artefact.spec)}


def embeddings(folder):
    with np.load(folder / "embeddings.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with all that two runs on two corpora read; only the first one is trained and evaluated."""
    folder = tmp_path_factory.mktemp("made")
    with chdir(folder):
        for artefact in plan(**OVERRIDES).needed():
            if not artefact.name.startswith(OTHER):
                make(artefact)
    return folder


@pytest.fixture
def read(project, monkeypatch):
    """Role → folder of what embedding with the other run would read, but for its model and word ids."""
    monkeypatch.chdir(project)
    inputs = plan(**OVERRIDES).table["run", f"{OTHER}/seed-0"].inputs
    return {role: inputs[role].path for role in ("corpus", "features")}


def test_word_pieces_are_those_of_a_file_whose_digest_is_kept(project, monkeypatch, tmp_path):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(project)
    file, spec = tmp_path / "vocab.txt", VocabularySpec((), 1, kind="wordpieces", file="base/vocab.txt")
    file.write_text("\n".join([*SPECIAL_PIECES, "a", "the", "circle", "##s"]), encoding="utf-8")
    corpus = plan(**OVERRIDES).table["run", f"{RUN}/seed-0"].inputs["corpus"].path
    read = {"captions": Input(corpus / "captions.parquet"), "pieces": Input(file, raw=file.name)}
    make_artefact(Artefact(STEPS["tokens"], "pieces", tmp_path / "pieces", spec, read))
    assert read_manifest(tmp_path / "pieces")["inputs"]["pieces"] == artefact_digest(file)
    assert Vocabulary.read(tmp_path / "pieces").words[-2:] == ("circle", "##s")
    assert Tokens.load(tmp_path / "pieces").ids[0] == SPECIAL_PIECES.index("[CLS]")


def test_an_input_that_is_missing_is_named_with_the_command_that_makes_it(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["make", "evaluation", f"{RUN}/seed-0", "--params", str(PARAMS), "--config", f"only={RUN}"]
    assert main(command) == 1
    assert f"    fix: vsepp make run {RUN}/seed-0 --config " in capsys.readouterr().err


def test_an_evaluation_imports_no_torch(project, monkeypatch):
    monkeypatch.chdir(project)
    planned = plan(**OVERRIDES)
    row = planned.table["evaluation", f"{RUN}/seed-0"]
    before = contents(row)
    shutil.rmtree(row.folder)
    program = "import sys; sys.modules['torch'] = None; from vsepp.apps.cli import main; sys.exit(main(sys.argv[1:]))"
    python(program, "make", "evaluation", row.name, "--plan", planned.write())
    assert contents(row) == before


def test_ones_own_pictures_are_embedded_by_a_copied_run_and_scored(read, tmp_path, capsys):
    shutil.copytree(f"results/mini/tiny/runs/{RUN}/seed-0", tmp_path / "model")
    options = {"run": tmp_path / "model", "protocol": "1K", "fold_size": 10, "corpus": read["corpus"]}
    call("evaluate", **options, features=read["features"], output=tmp_path / "out")
    printed = capsys.readouterr().out
    assert "1K" in printed and "10 images" in printed
    vectors = embeddings(tmp_path / "out")
    assert vectors["image_embeddings"].shape == (20, 128)
    assert len(vectors["caption_embeddings"]) == len(vectors["caption_to_image"]) == 100
    call("evaluate", **options, features=read["features"])
    assert capsys.readouterr().out == printed, "the same, and nothing is kept"
    theirs = plan(**OVERRIDES).table["run", f"{RUN}/seed-0"].inputs["features"].path
    call("evaluate", status=1, **options, features=theirs)
    assert f"{theirs}: " in capsys.readouterr().err


def test_a_step_that_was_killed_finds_its_state_and_leaves_a_manifest_when_it_succeeds(tmp_path):
    """What is left of work on other inputs is not found."""
    resumed = []

    def run(spec, inputs, out, job):
        resumed.append((job.state / "half").exists())
        (job.state / "half").touch()
        if len(resumed) < 4:
            raise KeyboardInterrupt
        return {"words": 7}

    step = replace(STEPS["tokens"], run=run, resumes=True, seed=lambda spec: 3)
    captions, others = tmp_path / "captions", tmp_path / "others"
    captions.write_text("captions")
    others.write_text("others")
    spec, output = VocabularySpec(("train",), 1), tmp_path / "out"
    for path in (captions, captions, others, captions):
        assert not (output / "manifest.json").exists()
        with nullcontext() if len(resumed) == 3 else pytest.raises(KeyboardInterrupt):
            make_artefact(Artefact(step, "words", output, spec, {"captions": Input(path)}))
    assert resumed == [False, True, False, True]
    manifest = read_manifest(output)
    assert (manifest["seed"], manifest["facts"], manifest["step"]) == (3, {"words": 7}, "tokens")


def test_a_step_whose_rule_was_given_up_leaves_no_folder(project, monkeypatch, tmp_path, capsys):
    # Snakemake takes a folder that is there as made, an empty one too.
    ended = subprocess.Popen(["true"])
    ended.wait()
    monkeypatch.chdir(project)
    monkeypatch.setenv(RULE_SHELL, str(ended.pid))
    artefact = next(iter(plan(**OVERRIDES).of_kind("scenes").values()))
    file = plan(**OVERRIDES).write().absolute()
    monkeypatch.chdir(tmp_path)
    assert main(["make", "scenes", artefact.name, "--plan", str(file)]) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert not list(tmp_path.glob("resources/*"))


def test_a_step_that_cannot_write_ends_with_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["make", "figure_data", "vsepp/figure1", "--plan", str(plan().write().absolute())]
    with no_room():
        assert main(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "evaluations/figures/vsepp" in line and "File too large" in line


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_step_that_is_stopped_says_so_in_a_sentence(tmp_path, stop):
    """As by Ctrl-C: the signal reaches all of its processes."""
    (scenes,) = plan().of_kind("scenes").values()
    options = ["--params", str(PARAMS), "--threads", "2"]
    command = [sys.executable, "-m", "vsepp.apps.cli", "make", "scenes", scenes.name, *options]
    # A process that was started in the background may ignore interrupts, and so would what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    step = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=tmp_path)
    signal.signal(signal.SIGINT, before)
    wait_until(lambda: any(tmp_path.rglob("*.jpg")), step)
    os.killpg(step.pid, stop)
    _, log = step.communicate(timeout=60)
    assert step.returncode == 130
    assert log.splitlines()[-1].startswith("vsepp: error: stopped") and "Traceback" not in log
