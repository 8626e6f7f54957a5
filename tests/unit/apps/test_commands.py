"""The command line: what it takes, what it prints, and clear errors."""

import argparse
import json
import shlex

import pytest
from plans import PARAMS, plan
from processes import python
from trained_models import WHOLE

from vsepp.apps.cli.commands import GROUPS, main, make_parser
from vsepp.apps.cli.show import add_plan_options, plan_of
from vsepp.base.manifest import write_manifest
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import from_dict


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
    output = capsys.readouterr().out
    for title, names in GROUPS.items():
        listed = output.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in listed.splitlines() if line[2] != " "] == list(names)


def test_the_help_of_every_command_ends_with_an_example_that_it_takes():
    parser, commands = make_parser()
    for name, command in commands.items():
        words = shlex.split(command.format_help().splitlines()[-1].partition("vsepp ")[2], comments=True)
        assert words[0] == name
        parser.parse_args(words)


@pytest.mark.parametrize("kind", ["corpus", "run", "figure_data"])
def test_the_help_of_a_kind_ends_with_an_artefact_of_the_plan(kind, capsys, monkeypatch):
    monkeypatch.chdir(PARAMS.parent)
    with pytest.raises(SystemExit, match="0"):
        main(["make", kind, "--help"])
    command = capsys.readouterr().out.splitlines()[-1].partition("vsepp ")[2]
    options = make_parser()[0].parse_args(shlex.split(command))
    assert (options.kind, options.name) in plan().table


OF_PARAMS = ["--params", str(PARAMS)]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["make", "run", "x", "--plan", "no.json", "--config", "label=x"], "--config"),
        (["make", "tokens", "x", *OF_PARAMS], "x: no tokens of preset mini"),
        (["evaluate", "--run", "r", "--corpus", "c"], "r: no config.json"),
        (["show", "coco-vsep-1c", *OF_PARAMS], "did you mean coco-vsepp-1c?"),
        (["runs", *OF_PARAMS, "--config", "only=flickr-vse-1c"], "did you mean flickr-vse0-1c?"),
        (["verify"], "params/config.yaml: "),
    ],
)  # fmt: skip
def test_bad_input_is_one_message_and_status_one(arguments, named, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("vsepp: error: ") and named in error and "Traceback" not in error


def test_a_command_that_does_not_exist_is_told_the_nearest(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["rusn"])
    assert "did you mean runs?" in capsys.readouterr().err


# Plans.


def planned(*arguments):
    parser = argparse.ArgumentParser()
    add_plan_options(parser)
    return plan_of(parser.parse_args([*OF_PARAMS, *arguments])).parameters


@pytest.mark.parametrize(
    ("arguments", "overrides"),
    [
        (["--preset", "paper", "--fidelity", "code"], {"preset": "paper", "fidelity": "code"}),
        (
            ["--config", "label=mine", "seeds=[0, 1]", "--config", "runs={default: {flip: true}}"],
            {"label": "mine", "seeds": [0, 1], "runs": {"default": {"flip": True}}},
        ),
    ],
)
def test_options_are_the_overrides_that_they_stand_for(arguments, overrides):
    assert planned(*arguments) == plan(**overrides).parameters


def test_show_prints_the_spec_that_train_reads_or_every_value_with_its_origin(capsys):
    spec = from_dict(RunSpec, json.loads(printed(capsys, "show", "flickr-vsepp-rc", "--json")))
    assert spec == plan().models["flickr-vsepp-rc"].spec
    shown = printed(capsys, "show", "coco-order0-10c-rv", "--preset", "paper", "--fidelity", "code")
    values = dict(line.split(maxsplit=1) for line in shown.splitlines()[1:-2])
    runs = f"{PARAMS}/papers/vsepp/runs.yaml: coco-order0-10c-rv"
    assert values["loss"].split(maxsplit=1) == ['"sum_of_hinges"', runs]
    assert values["loss.margin"].split(maxsplit=1) == ["0.05", runs]
    assert values["similarity.form"].split(maxsplit=1) == [
        '"root"', f"{PARAMS}/papers/vsepp/fidelity.yaml: components.similarity.order",
    ]  # fmt: skip
    assert values["flip"].split(maxsplit=1) == ["true", f"{PARAMS}/fidelity/code.yaml: default"]


def test_runs_lists_every_run_with_its_rows(capsys):
    lines = printed(capsys, "runs", "--preset", "paper").splitlines()
    listed = {line.split()[0]: line for line in lines[1:-3]}
    assert listed.keys() == plan(preset="paper").models.keys()
    assert "vsepp 1.9 (5x1K), vsepp 1.13 (5K)" in listed["coco-vsepp-rc-rv-ft"]


def test_runs_says_which_seeds_are_trained_with_the_present_parameters(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    artefact = plan().table["run", "coco-vsepp-1c/seed-0"]
    artefact.folder.mkdir(parents=True)
    write_manifest(artefact.folder, {**WHOLE, "spec_digest": artefact.spec_digest})
    listed = printed(capsys, "runs").splitlines()
    column = listed[0].index("trained seeds")
    trained = {line.split()[0]: line[column:].split()[0] for line in listed[1:-3]}
    assert {run for run, seeds in trained.items() if seeds != "–"} == {"coco-vsepp-1c"}
    assert trained["coco-vsepp-1c"] == "0"
    other = printed(capsys, "runs", "--config", "runs={coco-vsepp-1c: {loss: {margin: 0.3}}}", "label=mine")
    assert all("–" in line for line in other.splitlines()[1:-3])


def test_verify_tells_every_mismatch_with_the_command_that_mends_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = ["--config", "label=mine", "runs={default: {flip: true}}"]
    assert main(["verify", *OF_PARAMS, *changes]) == 1
    printed_text = capsys.readouterr()
    table = plan(label="mine", runs={"default": {"flip": True}}).table
    kept = sum(artefact.versioned for artefact in table.values())
    fix = "    fix: snakemake --cores all --config label=mine 'runs={default: {flip: true}}' -- re"
    assert printed_text.out.count(": missing\n") == printed_text.out.count(fix) == kept
    assert f"{kept} of {kept}" in printed_text.err
    assert main(["verify", *OF_PARAMS, *changes, "--phase", "models"]) == 1
    assert "'mine'" in capsys.readouterr().err, "dvc.yaml versions no such variant"
