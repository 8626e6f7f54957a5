"""Commands that look at the plan: one set of options, and what they print."""

import argparse
import json
from pathlib import Path

import pytest

from vsepp.cli import main
from vsepp.cli.parameters import add_plan_options, plan_of
from vsepp.config import make_plan
from vsepp.config.describe import fidelity_document, json_schema
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"


def plan(*arguments):
    parser = argparse.ArgumentParser()
    add_plan_options(parser)
    return plan_of(parser.parse_args(["--params", str(PARAMS), *arguments]))


def test_shortcuts_are_the_overrides_that_they_are_short_for():
    short = plan("--preset", "paper", "--fidelity", "code")
    assert (short.preset, short.variant) == ("paper", "code")
    assert short == plan("--config", "preset=paper", "fidelity=code")
    assert short == make_plan(PARAMS, {"preset": "paper", "fidelity": "code"})


def test_without_options_the_plan_is_that_of_the_settings():
    assert plan() == make_plan(PARAMS)


def test_overrides_are_yaml_and_may_come_in_parts():
    found = plan("--config", "label=mine", "seeds=[0, 1]", "--config", "runs={default: {flip: true}}")
    assert found.variant == "mine"
    assert found.seeds == [0, 1]
    assert found.runs["flickr-vsepp-rc"].spec.crop.flip is True
    # A pattern that YAML would take for an alias.
    assert set(plan("--config", "only=*-vse0-1c").runs) == {"coco-vse0-1c", "flickr-vse0-1c"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "paper", "--config", "preset=mini"], "preset is given twice, as 'paper' and 'mini'"),
        (["--config", "label=a", "--config", "label=b"], "label is given twice, as 'a' and 'b'"),
        (["--config", "fidelity"], "got 'fidelity'; expected KEY=VALUE"),
        (["--fidelity", "both"], "fidelity: got 'both'"),
        (["--preset", "huge"], "huge.yaml: no such file; there are"),
        (["--config", "colour=red"], "colour: unknown key"),
    ],
)
def test_options_that_make_no_plan_are_refused(arguments, said):
    with pytest.raises(VseppError, match=said):
        plan(*arguments)


def test_runs_and_show_take_the_shortcuts(capsys):
    assert main(["runs", "--params", str(PARAMS), "--preset", "flickr8k"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.startswith("flickr-") for line in lines)
    assert main(["show", "flickr-vsepp-rc", "--params", str(PARAMS), "--fidelity", "code"]) == 0
    values = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "true" in values["flip"] and "fidelity/code.yaml" in values["flip"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fidelity", "--params", str(PARAMS)], fidelity_document(PARAMS)),
        (["schema"], json.dumps(json_schema(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"),
    ],
    ids=["fidelity", "schema"],
)
def test_documents_are_printed_or_written(tmp_path, capsys, arguments, expected):
    assert main(arguments) == 0
    assert capsys.readouterr().out == expected
    written = tmp_path / "document"
    assert main([*arguments, "--output", str(written)]) == 0
    assert capsys.readouterr().out == ""
    assert written.read_text(encoding="utf-8") == expected


def test_a_folder_without_parameters_is_one_message(tmp_path, capsys):
    assert main(["fidelity", "--params", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "fidelity/paper.yaml: no such file" in error and "Traceback" not in error
