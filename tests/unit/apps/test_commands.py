"""The command line: what it takes, what it prints, and clear errors."""

import argparse
import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from plans import PARAMS, plan
from processes import python
from reported import WHOLE

from vsepp.apps.cli import GROUPS, main, make_parser
from vsepp.apps.cli.show import add_plan_options, plan_of
from vsepp.base.errors import VseppError
from vsepp.base.manifest import read_manifest, write_manifest
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import VocabularySpec, from_dict
from vsepp.pipeline.making import make
from vsepp.pipeline.step import Artefact, Input
from vsepp.pipeline.steps import STEPS


def printed(capsys, command, *arguments):
    """What a command that looks at the parameters prints."""
    assert main([command, "--params", str(PARAMS), *arguments]) == 0
    return capsys.readouterr().out


def test_help_is_given_without_importing_torch():
    probe = "import sys\nfrom vsepp.apps.cli import main\ntry: main(['--help'])\nexcept SystemExit: print('torch' in sys.modules)"
    assert python(probe).endswith("False\n")


def test_help_lists_every_command_once_in_its_group(capsys):
    _, commands = make_parser()
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(commands)
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    said = capsys.readouterr().out
    for title, names in GROUPS.items():
        listed = said.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in listed.splitlines() if line[2] != " "] == list(names)


def test_the_help_of_every_command_ends_with_an_example_that_it_takes():
    parser, commands = make_parser()
    for name, command in commands.items():
        program, *words = shlex.split(command.format_help().splitlines()[-1])
        assert (program, words[0]) == ("vsepp", name)
        parser.parse_args(words)


OF_PARAMS = ["--params", str(PARAMS)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["make", "run", "x", "--plan", "no.json"], "no.json: no such file"),
        (["make", "run", "x", "--plan", "no.json", "--config", "label=x"], "--config: a plan was given"),
        (["evaluate", "nowhere.npz"], "nowhere.npz"),
        (["evaluate"], "expected either a file of embeddings, or --run"),
        (["evaluate", "--run", "r"], "a run needs --corpus"),
        (["evaluate", "x.npz", "--corpus", "c", "--split", "val"], "evaluate: --split, --corpus: only for a trained run"),
        (["make", "tokens", "x", *OF_PARAMS], "x: no tokens of preset mini; there are coco-"),
        (["evaluate", "--run", "r", "--corpus", "c"], "r: no config.json; expected the folder of a trained run"),
        (["show", "coco-vsep-1c", *OF_PARAMS], "coco-vsep-1c: no run of preset mini; did you mean coco-vsepp-1c?"),
        (["show", "nobody", *OF_PARAMS], "nobody: no run of preset mini; `vsepp runs` lists them"),
        (["runs", *OF_PARAMS, "--preset", "huge"], "huge.yaml: no such file"),
        (["runs", *OF_PARAMS, "--preset", "flikr8k"], "there are flickr8k, mini, own, paper; did you mean flickr8k?"),
        (["runs", *OF_PARAMS, "--config", "only=flickr-vse-1c"], "; did you mean flickr-vse0-1c?"),
        (["runs", "--params", "elsewhere"], "elsewhere/config.yaml: no such file; go to the project's folder"),
    ],
)  # fmt: skip
def test_bad_input_is_one_message_and_status_one(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["runs", "show x", "verify"])
def test_outside_the_projects_folder_one_sentence_says_where_to_go(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "vsepp: error: params/config.yaml: no such file; go to the project's folder, which holds Snakefile and params/, or "
        "name its parameters with --params FOLDER"
    ]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("rusn", "vsepp: error: no command rusn; did you mean runs?"),
        ("xyz", "vsepp: error: no command xyz; `vsepp -h` lists them"),
    ],
)
def test_a_command_that_does_not_exist_is_told_the_nearest(typed, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([typed])
    assert capsys.readouterr().err.endswith(f"{said}\n")


# --- Plans -----------------------------------------------------------------------------------------------------


def planned(*arguments):
    parser = argparse.ArgumentParser()
    add_plan_options(parser)
    return plan_of(parser.parse_args([*OF_PARAMS, *arguments])).parameters


@pytest.mark.parametrize(
    ("arguments", "overrides"),
    [
        ([], {}),
        (["--preset", "paper", "--fidelity", "code"], {"preset": "paper", "fidelity": "code"}),
        (["--config", "preset=paper", "fidelity=code"], {"preset": "paper", "fidelity": "code"}),
        (
            ["--config", "label=mine", "seeds=[0, 1]", "--config", "runs={default: {flip: true}}"],
            {"label": "mine", "seeds": [0, 1], "runs": {"default": {"flip": True}}},
        ),
        (["--config", "only=*-vse0-1c"], {"only": "*-vse0-1c"}),  # which YAML would take for an alias
    ],
)
def test_options_are_the_overrides_that_they_stand_for(arguments, overrides):
    assert planned(*arguments) == plan(**overrides).parameters


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "paper", "--config", "preset=mini"], "preset is given twice, as 'paper' and 'mini'"),
        (["--config", "label=a", "--config", "label=b"], "label is given twice, as 'a' and 'b'"),
        (["--config", "fidelity"], "got 'fidelity'; expected KEY=VALUE"),
    ],
)
def test_options_that_make_no_plan_are_refused(arguments, said):
    with pytest.raises(VseppError, match=said):
        planned(*arguments)


def test_show_prints_the_spec_that_train_reads_or_every_value_with_its_origin(capsys):
    spec = from_dict(RunSpec, json.loads(printed(capsys, "show", "flickr-vsepp-rc", "--json")))
    assert spec == plan().models["flickr-vsepp-rc"].spec
    shown = printed(capsys, "show", "coco-order0-10c-rv", "--preset", "paper", "--fidelity", "code")
    heads, *lines, _, note = shown.splitlines()
    assert heads.split() == ["key", "value", "set", "by"]
    assert note == "Preset paper. Protocols: 5x1K is the mean over 5 folds of 1,000 test images."
    values = {key: rest for key, rest in (line.split(maxsplit=1) for line in lines)}
    keys = list(values)
    assert keys.index("system") < keys.index("loss") == keys.index("loss.margin") - 1
    runs = f"{PARAMS}/papers/vsepp/runs.yaml: coco-order0-10c-rv"
    assert values["loss"].split(maxsplit=1) == ['"sum_of_hinges"', runs]
    assert values["loss.margin"].split(maxsplit=1) == ["0.05", runs]
    assert values["similarity.form"].split(maxsplit=1) == [
        '"root"', f"{PARAMS}/papers/vsepp/fidelity.yaml: components.similarity.order",
    ]  # fmt: skip
    assert values["flip"].split(maxsplit=1) == ["true", f"{PARAMS}/fidelity/code.yaml: default"]


def test_runs_lists_every_run_with_its_rows(capsys):
    heads, *rows, empty, data, protocols = printed(capsys, "runs", "--preset", "paper").splitlines()
    assert heads.split("  ")[0] == "run" and heads.endswith("fills row (protocol)")
    assert len(rows) == 33 and empty == ""
    assert any("coco-vsepp-rc-rv-ft" in line and "vsepp 1.9 (5x1K), vsepp 1.13 (5K)" in line for line in rows)
    assert "5x1K is the mean over 5 folds of 1,000 test images" in protocols
    _, *rows, _, data, protocols = printed(capsys, "runs", "--preset", "flickr8k").splitlines()
    assert rows and all(line.startswith("flickr-") for line in rows)
    assert data == "Preset flickr8k; data: flickr is flickr8k."
    assert protocols == "Protocols: 1K is the first 1,000 test images."


def test_runs_says_which_seeds_are_trained_with_the_present_parameters(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = plan().table["run", "coco-vsepp-1c/seed-0"]
    made.folder.mkdir(parents=True)
    write_manifest(made.folder, {**WHOLE, "spec_digest": made.spec_digest})
    listed = printed(capsys, "runs").splitlines()
    column = listed[0].index("trained seeds")
    trained = {line.split()[0]: line[column:].split()[0] for line in listed[1:-3]}
    assert {run for run, seeds in trained.items() if seeds != "–"} == {"coco-vsepp-1c"}
    assert trained["coco-vsepp-1c"] == "0"
    other = printed(capsys, "runs", "--config", "runs={coco-vsepp-1c: {loss: {margin: 0.3}}}", "label=mine")
    assert other.splitlines()[1:] and not [line for line in other.splitlines()[1:-3] if "–" not in line]


def test_verify_tells_every_mismatch_with_the_command_that_mends_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = ["--config", "label=mine", "runs={default: {flip: true}}"]
    assert main(["verify", *OF_PARAMS, *changes]) == 1
    told = capsys.readouterr()
    table = plan(label="mine", runs={"default": {"flip": True}}).table
    kept = sum(artefact.versioned for artefact in table.values())
    assert told.out.count(": missing\n") == kept
    fix = "    fix: snakemake --cores all --config label=mine 'runs={default: {flip: true}}' -- re"
    assert told.out.count(fix) == kept
    assert f"preset mini, variant mine: {kept} of {kept} artefacts do not verify" in told.err
    assert main(["verify", *OF_PARAMS, *changes, "--phase", "models"]) == 1
    assert "label is 'mine', but dvc.yaml versions" in capsys.readouterr().err


# --- Steps -----------------------------------------------------------------------------------------------------


def test_a_step_that_was_killed_finds_its_state_and_leaves_a_manifest_when_it_succeeds(tmp_path):
    halves, ends = [], []

    def run(spec, inputs, out, job):
        halves.append((job.state / "half").exists())
        (job.state / "half").touch()
        ends.append(job.state)
        if len(halves) < 4:
            raise KeyboardInterrupt
        return {"words": 7}

    step = replace(STEPS["tokens"], run=run, resumes=True, seed=lambda spec: 3)
    spec, output = VocabularySpec(("train",), 1), tmp_path / "out"
    captions, others = tmp_path / "captions", tmp_path / "others"
    captions.write_text("captions")
    others.write_text("others")
    for path in (captions, captions, others):
        with pytest.raises(KeyboardInterrupt):
            make(Artefact(step, "words", output, spec, {"captions": Input(path)}))
        assert not (output / "manifest.json").exists()
    make(Artefact(step, "words", output, spec, {"captions": Input(captions)}))
    assert halves == [False, True, False, True], "of work on these inputs"
    manifest = read_manifest(output)
    assert (manifest["seed"], manifest["facts"], manifest["step"]) == (3, {"words": 7}, "tokens")
    assert not ends[-1].exists()


@pytest.fixture
def embeddings(tmp_path):
    images = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    path = tmp_path / "mine" / "embeddings.npz"
    path.parent.mkdir()
    captions = {"caption_embeddings": images.repeat(2, axis=0), "caption_to_image": np.arange(50).repeat(2)}
    np.savez(path, image_embeddings=images, **captions)
    return path


def test_anyones_embeddings_are_scored_and_published_where_asked(embeddings, tmp_path, capsys):
    assert main(["evaluate", str(embeddings), "--protocol", "5x1K", "5K", "--fold-size", "10"]) == 0
    said = capsys.readouterr().out
    assert "5 folds of 10 images" in said
    assert said.count("rsum 600.0") == 2
    out = tmp_path / "out"
    options = ["--protocol", "1K", "--fold-size", "20", "--output", str(out)]
    assert main(["evaluate", str(embeddings), *options]) == 0
    metrics = json.loads((out / "metrics.json").read_text())
    assert (metrics["1K"]["i2t"]["r1"], metrics["1K"]["n_images"]) == (100.0, 20)
    assert np.load(out / "ranks.npz")["1K_t2i"].tolist() == [0.0] * 40
    manifest = read_manifest(out)
    assert set(manifest["outputs"]) == {"metrics.json", "ranks.npz"}
    assert (manifest["step"], set(manifest["inputs"])) == ("evaluation", {"embeddings"})
