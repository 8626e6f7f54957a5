"""YAML that people write: plain values, each key once."""

from __future__ import annotations

import re
from typing import Any

import yaml

from vsepp.base.errors import VseppError
from vsepp.base.files import reading, shortly


class _Loader(yaml.CSafeLoader):
    """Plain values; libyaml parses them."""


def _unique_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    """A mapping whose keys differ: PyYAML silently keeps the last of equal keys."""
    lines: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
        if key in lines:
            raise VseppError(f"{shortly(key)} is given twice, in lines {lines[key]} and {line}; keep one")
        lines[key] = line
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


# 1e-4 is a number, as in YAML 1.2; PyYAML's own numbers need a point and a sign.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def yaml_of(text: str, where: str) -> Any:
    """The value of a YAML text; `None` if it holds none.

    Parameters
    ----------
    text
        The text.
    where
        What messages call it.

    Raises
    ------
    VseppError
        If it is not YAML, or gives a key twice.
    """
    with reading(where, "valid YAML, whose dates, numbers, keys and tags have a meaning"):
        try:
            return yaml.load(text, _Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise VseppError(f"not valid YAML: {error.problem or error.context}{place}") from error
