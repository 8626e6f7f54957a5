"""Plans of the shipped parameters, each made once for all tests; and copies of the parameters, to be changed."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
import yaml

from vsepp.base.errors import VseppError
from vsepp.pipeline.planner import make_plan

PARAMS = Path(__file__).resolve().parents[2] / "params"


def plan(**overrides):
    """The plan under overrides of the command line; not to be changed."""
    return _plan(json.dumps(overrides))


@cache
def _plan(overrides):
    return make_plan(PARAMS, json.loads(overrides))


def copied(folder):
    """The parameters, in a folder of one's own."""
    return shutil.copytree(PARAMS, folder / "params")


def edit(path, changes):
    """Lay nested changes over the content of a YAML file."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(merged(content, changes), sort_keys=False), encoding="utf-8")


def merged(content, changes):
    """Nested mappings, the changes on top."""
    if not (isinstance(content, dict) and isinstance(changes, dict)):
        return changes
    return content | {key: merged(content.get(key), value) for key, value in changes.items()}


def nested(dotted, value):
    """`{"a": {"b": value}}` of `a.b`."""
    for part in reversed(dotted.split(".")):
        value = {part: value}
    return value


def refused(folder, **overrides):
    """What is said of parameters that make no plan."""
    with pytest.raises(VseppError) as caught:
        make_plan(folder, overrides)
    return str(caught.value)
