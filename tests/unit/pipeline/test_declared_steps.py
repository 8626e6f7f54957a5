"""What steps declare, beside the rules that call them and the command that takes their options."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from plans import plan

from vsepp.apps.cli.common import _MACHINE
from vsepp.base.components import module_name
from vsepp.base.places import PHASES
from vsepp.base.spec import VocabularySpec
from vsepp.pipeline.code import code_digest
from vsepp.pipeline.step import Job
from vsepp.pipeline.steps import STEPS

OPTIONS = {field.name for field in fields(Job)} - {"output", "state", "raw", "identity"}
"""What a command line may set."""
RULES = Path(__file__).resolve().parents[3] / "workflow/rules"


def test_every_kind_has_a_rule_and_every_rule_a_kind():
    text = "".join(file.read_text() for file in RULES.glob("*.smk"))
    called = re.findall(r"vsepp make (\w+) ", text)
    assert sorted(called) == sorted(STEPS)


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_is_declared_whole(kind):
    step = STEPS[kind]
    assert step.kind == kind and step.phase in PHASES and step.run.__doc__
    assert set(step.takes) <= OPTIONS == set(_MACHINE)
    assert "{name}" in step.folder


@pytest.mark.parametrize("preset", ["mini", "flickr8k", "paper"])
def test_what_an_artefact_reads_is_what_its_step_declares(preset):
    for artefact in plan(preset=preset).table.values():
        step = artefact.step
        named = set(step.named_inputs(artefact.spec))
        roles = set(artefact.inputs) - named
        needed = {role for role, read in step.reads.items() if not read.optional}
        assert needed <= roles <= set(step.reads), artefact.name
        for role in roles:
            file = step.reads[role].file
            assert not file or artefact.inputs[role].name == file
        assert not artefact.raw or step.known_raw, artefact.name


def test_an_encoder_and_word_ids_follow_the_code_that_makes_them_only():
    scenes = next(iter(plan().of_kind("encoder").values()))
    imported = replace(scenes.spec, pretraining=None)
    assert scenes.code == code_digest("vsepp.scenes.pretrain", module_name(*scenes.spec.encoder.component))
    assert scenes.step.code(imported) == code_digest(
        "vsepp.models.pretrained", module_name(*scenes.spec.encoder.component)
    )
    counted = STEPS["tokens"].code(VocabularySpec(("train",), 4))
    assert counted == code_digest("vsepp.data.captions")
    released = STEPS["tokens"].code(VocabularySpec((), 1, file="vocab.pkl"))
    assert released == code_digest("vsepp.data.captions", "vsepp.released.convert")
