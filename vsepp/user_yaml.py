"""YAML that people write: plain values, each key once, of a depth and size that parameters have."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import Composer

from vsepp.errors import VseppError
from vsepp.user_files import reading, shortly

_DEEPEST = 100
# Values of a document with each alias written out: the largest file of `params/` has some 2,000.
_MOST_VALUES = 200_000


class _Loader(Composer, yaml.CSafeLoader):
    """Plain values. Syntax is parsed by libyaml and composed here, since its own composer has no bound of depth or aliases."""

    def __init__(self, text: str) -> None:
        Composer.__init__(self)
        yaml.CSafeLoader.__init__(self, text)
        self._depth = self._values = 0
        self._sizes: dict[yaml.Node, int] = {}
        """Values in each node that is complete, its aliases written out."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Compose a node, and count how deep it lies and how many values it stands for."""
        is_alias, before = self.check_event(yaml.AliasEvent), self._values
        self._depth += 1
        if self._depth > _DEEPEST:
            raise VseppError(f"nested more than {_DEEPEST} levels deep")
        node: yaml.Node = super().compose_node(parent, index)  # type: ignore[assignment]  # never None
        self._depth -= 1
        # An alias of a node that is not yet complete stands inside it.
        self._values += self._sizes.get(node, _MOST_VALUES) if is_alias else 1
        if self._values > _MOST_VALUES:
            raise VseppError(f"its aliases hold themselves, or stand for more than {_MOST_VALUES:,} values")
        self._sizes[node] = self._values - before
        return node


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


def _short_integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    # Decimals beyond 4300 digits are refused by Python; a hexadecimal or sexagesimal number has no such limit.
    number: int = loader.construct_yaml_int(node)
    if number.bit_length() > 64:
        raise VseppError(f"a whole number of more than 64 bits in line {node.start_mark.line + 1}")
    return number


# 1e-4 is a number, as in YAML 1.2; PyYAML's own numbers need a point and a sign.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)
_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _short_integer)


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
        If it is not YAML, gives a key twice, nests too deeply or repeats itself by aliases beyond any size.
    """
    with reading(where, "valid YAML, whose dates, numbers, keys and tags have a meaning"):
        try:
            return yaml.load(text, _Loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise VseppError(f"not valid YAML: {error.problem or error.context}{place}") from error
