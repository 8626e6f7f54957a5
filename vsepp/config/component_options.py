"""Which component a run has and with which options, from its entries and the layers above, checked against the component."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from vsepp.components import describe
from vsepp.config.files import Mistakes, Value
from vsepp.declared import mistakes_of
from vsepp.errors import VseppError
from vsepp.spec import Component


def check_entry(
    kind: str, name: str, options: Mapping[str, Any], where: str, key: str, mistakes: Mistakes
) -> dict[str, Value] | None:
    """A component that one entry names, with all its options; see `check_component`."""
    given = {option: Value(value, where) for option, value in options.items()}
    return check_component(kind, Value(name, where), given, key, mistakes)


def resolved(kind: str, component: Component) -> Component:
    """A component that was checked, with its options as JSON has them, those that equal their default left out."""
    found = check_entry(kind, component.name, component.options, "", "", Mistakes())
    assert found
    return Component(component.name, json.loads(json.dumps(found[""].value.options)))


def check_component(
    kind: str, named: Value, given: Mapping[str, Value], key: str, mistakes: Mistakes
) -> dict[str, Value] | None:
    """Hold options against what a component takes.

    Parameters
    ----------
    kind
        Of `vsepp.components.KINDS`.
    named, given
        Its name, and option → value.
    key
        Of the run or entry, for mistakes.

    Returns
    -------
    dict or None
        Empty key → the `Component`, and option → its value, all with their origin; `None` after a mistake.
    """
    name, origin = named.value, named.origin
    try:
        described = describe(kind, name)
    except VseppError as error:
        mistakes.add(f"{origin}: {key}", str(error))
        return None
    values = {option: value.value for option, value in given.items()}
    try:
        options = _adapter(kind, name).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        for option, what in mistakes_of(error, described.options):
            # A component that refuses a value itself begins with the option.
            option = option or what.partition(":")[0]
            where = given[option].origin if option in given else origin
            message = what.removeprefix(f"{option}: ")
            mistakes.add(f"{where}: {key}", f"option {option} of {kind} {name}: {message}")
        return None
    default = described.options()
    names = [f.name for f in dataclasses.fields(described.options)]
    changed = {f: getattr(options, f) for f in names if getattr(options, f) != getattr(default, f)}
    shown = {
        f: Value(getattr(options, f), given[f].origin if f in given else f"default of {described.module}")
        for f in names
    }
    return {"": Value(Component(name, changed), origin), **shown}


@cache
def _adapter(kind: str, name: str) -> TypeAdapter[Any]:
    options = describe(kind, name).options
    options.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
    return TypeAdapter(options)


def options_schema(kind: str, name: str) -> dict[str, Any]:
    """JSON schema of a component's options, with what it says of each."""
    schema = _adapter(kind, name).json_schema()
    described = describe(kind, name)
    for option, values in schema.get("properties", {}).items():
        values["description"] = described.documented.get(option, "")
    return {**schema, "description": described.citation}
