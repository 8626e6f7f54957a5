"""YAML that people write: plain values, each key once, of a depth and size that parameters have."""

from __future__ import annotations

from typing import Any

import yaml

from vsepp.errors import VseppError
from vsepp.foreign import shortly

_DEEPEST = 100
# Nodes of a document with each alias written out: the largest file of `params/` has some 2,000.
_MOST_NODES = 200_000


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain values; a repeated key is an error: PyYAML silently keeps the last."""


def _unique_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
        if key in seen:
            raise _Repeated(f"{shortly(key)} is given twice, in lines {seen[key]} and {line}; keep one")
        seen[key] = line
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


class _Repeated(Exception):
    """A key that is given twice."""


def _short_integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    # Decimals beyond 4300 digits are refused by Python; a hexadecimal or sexagesimal number has no such limit.
    number: int = loader.construct_yaml_int(node)
    if number.bit_length() > 64:
        raise yaml.MarkedYAMLError(
            problem="a whole number of more than 64 bits", problem_mark=node.start_mark
        )
    return number


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
    loader = None
    try:
        _require_shallow(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _nodes(node, {}) > _MOST_NODES:
            raise yaml.YAMLError(
                f"its aliases hold themselves, or stand for more than {_MOST_NODES:,} values"
            )
        return loader.construct_document(node)
    except _Repeated as error:
        raise VseppError(f"{where}: {error}") from error
    except yaml.YAMLError as error:
        raise VseppError(f"{where}: not valid YAML: {_said(error)}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        # What the library raises on `2020-13-45`, on a list for a key and on tags of another type than their value.
        raise VseppError(f"{where}: not valid YAML: a date, number, key or tag without a meaning") from error
    finally:
        if loader is not None:
            loader.dispose()


def _require_shallow(text: str) -> None:
    """Refuse deep nesting by the parser's events: what makes nodes of them in C overflows its stack and ends the process."""
    depth = 0
    too_deep = yaml.YAMLError(f"nested more than {_DEEPEST} levels deep")
    try:
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise too_deep
    except yaml.MarkedYAMLError as error:
        # libyaml 0.2.6 has a limit of its own, of a thousand levels, and reads ahead.
        if "nesting depth" in str(error.problem):
            raise too_deep from error
        raise


def _nodes(node: yaml.Node, known: dict[int, float]) -> float:
    """Nodes below a node with each alias written out; infinite if one holds itself."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = float("inf")  # while its parts are counted
        pairs = isinstance(node, yaml.MappingNode)
        parts = [part for pair in node.value for part in pair] if pairs else node.value
        known[id(node)] = 1 + sum(_nodes(part, known) for part in parts)
    return known[id(node)]


def _said(error: yaml.YAMLError) -> str:
    """What an error of the library says, in one line."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "context", None)
    if mark is not None:
        return f"{said} in line {mark.line + 1}, column {mark.column + 1}"
    return str(said or error).partition("\n")[0]
