"""Specs as JSON: what equals its default is left out, and nothing else is lost."""

import json

import pytest
import specs
from plans import plan

from vsepp.base.errors import VseppError
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import from_dict, to_dict, to_json


def test_json_is_canonical_and_leaves_out_what_equals_its_default():
    values = to_dict(specs.RUN)
    assert values["loss"] == {"name": "max_of_hinges"}
    assert values["model"]["text"] == {"name": "gru", "word_dim": 4, "dim": 6}
    assert not {"image_features", "precision"} & values.keys()
    assert not {"precision", "options"} & values["encoder"].keys()
    assert "negative_set" not in values["schedule"]
    assert values["finetune_from"] is None, "it has no default, so that a run says that it keeps its encoder"
    changed = to_dict(specs.change(specs.RUN, precision="bf16", schedule__negative_set=8, loss__margin=0.3))
    assert (changed["precision"], changed["schedule"]["negative_set"]) == ("bf16", 8)
    assert changed["loss"] == {"name": "max_of_hinges", "margin": 0.3}
    again = specs.change(specs.RUN, precision="bf16", loss__margin=0.3, schedule__negative_set=8)
    assert to_json(again) == json.dumps(changed, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("overrides", [{}, {"preset": "flickr8k"}, {"preset": "paper", "fidelity": "code"}])
def test_every_spec_of_a_plan_survives_its_json_and_equals_what_a_manifest_holds(overrides):
    for artefact in plan(**overrides).table.values():
        assert from_dict(type(artefact.spec), to_dict(artefact.spec)) == artefact.spec
        assert json.loads(to_json(artefact.spec)) == to_dict(artefact.spec)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[1]", r"^RunSpec: got \[1\]"),
        ('{"colour": 1}', r"^RunSpec\.colour: unknown key.*; RunSpec\.system: missing"),
        (to_json(specs.RUN).replace('"joint_dim":', '"colour":'), r"^RunSpec\.model\.colour: unknown key"),
        (to_json(specs.RUN).replace('"init_seed":0', '"init_seed":true'), r"^RunSpec\.init_seed: got True"),
    ],
)
def test_what_is_no_spec_is_refused(text, named):
    with pytest.raises(VseppError, match=named):
        from_dict(RunSpec, json.loads(text))
