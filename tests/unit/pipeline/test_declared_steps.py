"""What steps declare, beside the rules that call them and the command that takes their options."""

import ast
import inspect
import re
from pathlib import Path

import pytest
from plans import plan

from vsepp.base.components import module_name
from vsepp.base.errors import PHASES
from vsepp.base.spec import VocabularySpec
from vsepp.pipeline.code import NOT_COMPUTATION, code_digest, modules_of
from vsepp.pipeline.steps import STEPS

RULES = Path(__file__).resolve().parents[3] / "workflow/rules"


def test_every_kind_has_a_rule_and_every_rule_a_kind():
    text = "".join(file.read_text() for file in RULES.glob("*.smk"))
    called = re.findall(r"vsepp make (\w+) ", text)
    assert sorted(called) == sorted(STEPS)


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_is_declared_whole(kind):
    step = STEPS[kind]
    assert step.kind == kind and step.phase in PHASES and step.run.__doc__
    assert "{name}" in step.folder


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_what_an_artefact_reads_of_others_is_what_its_step_declares(preset):
    for artefact in plan(preset=preset).table.values():
        if artefact.kind == "report":
            continue
        for role, read in artefact.inputs.items():
            if not read.raw:
                file = artefact.step.reads[role]
                assert not file or read.path.name == file, (artefact.name, role)


CHOSEN = {
    ("tokens", "vsepp.models.released"),
    ("evaluation", "vsepp.evaluation.encode"),
    ("evaluation", "vsepp.evaluation.rerank"),
}
"""Modules that the digest of code has where the spec chooses them."""


@pytest.mark.parametrize(
    "overrides", [{}, {"preset": "flickr8k"}, {"preset": "paper", "fidelity": "code"}], ids=str
)
def test_the_digest_of_code_holds_all_that_a_step_calls(overrides):
    for artefact in plan(**overrides).table.values():
        step = artefact.step
        closure = modules_of(step.run.__module__, *step.modules(artefact.spec))
        for module in imported_in(inspect.getsource(inspect.getmodule(step.run))):
            if (step.kind, module) in CHOSEN:
                continue
            assert module in closure or f"{module}.".startswith(NOT_COMPUTATION), (step.kind, module)


def imported_in(source):
    """Modules of vsepp that a module or a function in it imports."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module.startswith("vsepp.")
            and node.module != "vsepp.base"
        ):
            yield node.module


def test_an_encoder_and_word_ids_follow_the_code_that_makes_them_only():
    encoder = next(iter(plan().of_kind("encoder").values()))
    family = module_name(*encoder.spec.encoder.component)
    assert encoder.code == code_digest(encoder.step.run.__module__, "vsepp.models.encoder", family)
    step = STEPS["tokens"]
    counted = step.code(VocabularySpec(("train",), 4))
    assert counted == code_digest(step.run.__module__, "vsepp.data.captions")
    released = step.code(VocabularySpec((), 1, file="vocab.pkl"))
    assert released == code_digest(step.run.__module__, "vsepp.data.captions", "vsepp.models.released")
