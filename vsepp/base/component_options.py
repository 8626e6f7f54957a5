"""A component's options: mistakes in them, all options with their values, and the options that a spec names."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError

from vsepp.base.components import describe, options_adapter, read_options
from vsepp.base.declared import mistakes_of
from vsepp.base.errors import VseppError
from vsepp.base.spec import Component


def mistakes_in(kind: str, component: Component) -> list[tuple[str, str]]:
    """Mistakes in a component of one of `vsepp.base.components.KINDS`: option and explanation; no option if there is no such component."""
    try:
        read_options(kind, component)
    except VseppError as error:
        return [("", str(error))]
    except ValidationError as error:
        mistakes = []
        for option, what in mistakes_of(error, describe(kind, component.name).options):
            # A component that refuses a value itself begins its message with the option.
            option = option or what.partition(":")[0]
            message = f"option {option} of {kind} {component.name}: {what.removeprefix(f'{option}: ')}"
            mistakes.append((option, message))
        return mistakes
    return []


def all_options(kind: str, component: Component) -> dict[str, Any]:
    """Option → value as JSON has it, options at their default included, of a component without mistakes."""
    return options_adapter(kind, component.name).dump_python(read_options(kind, component), mode="json")


def resolved(kind: str, component: Component) -> Component:
    """A component without mistakes as a spec names it: without options that equal their default."""
    options = read_options(kind, component)
    changed = options_adapter(kind, component.name).dump_python(options, mode="json", exclude_defaults=True)
    return Component(component.name, changed)


def component_of(kind: str) -> Any:
    """Type of a key that names a component of a kind with its options, which are checked where the key is read."""

    def checked(component: Component) -> Component:
        if mistakes := mistakes_in(kind, component):
            raise ValueError("; ".join(what for _, what in mistakes))
        return component

    return Annotated[Component, AfterValidator(checked)]
