"""Components: losses, similarities, text encoders, image heads, poolings, matchers, optimisers, ..., found by
name. `KINDS` has all of them.

A component is a module. Ours lie in the package of their kind, under their name; an installed package can add
others by entry points in a group that has the name of that package: `[project.entry-points."vsepp.losses"]`.
There is no registry: a module that lists all losses would tie every run to all of them, and an edit of one
loss would retrain all runs.

What a component declares is read from its source without running it, so that parameters can be
checked without torch:

- `class Options`: a frozen dataclass, each field with a default and a docstring below it. It may use
  the builtins for numbers, text and tuples, `Literal`, and the ranges of `vsepp.base.declared`,
  such as `PositiveFloat`;
- `CITATION`: its source, as pages and model cards print it;
- constants in capitals, such as `READS` and `TRAINS_TEMPERATURE` of a loss.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import json
import pkgutil
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from vsepp.base.errors import VseppError, did_you_mean

# pydantic is imported where options are checked: digests of code find a component's file on
# any Python, without it.
if TYPE_CHECKING:
    from vsepp.base.spec import Component


class Kind(NamedTuple):
    """What components of a kind have in common."""

    package: str
    """Our package of such components; also the name of the group of entry points for others."""
    required: str
    """What a module must define to be one; modules without it are helpers."""


KINDS = {
    "loss": Kind("vsepp.losses", "loss"),
    "similarity": Kind("vsepp.models.similarity", "score"),
    "text encoder": Kind("vsepp.models.text", "TextEncoder"),
    "image head": Kind("vsepp.models.heads", "ImageHead"),
    "pooling": Kind("vsepp.models.poolings", "Pooling"),
    "matcher": Kind("vsepp.models.matchers", "Matcher"),
    "optimiser": Kind("vsepp.training.optimisers", "Optimiser"),
    "image encoder": Kind("vsepp.models.image", "build"),
    "reader": Kind("vsepp.data.readers", "read"),
    "figure": Kind("vsepp.report.figures", "Figure"),
    "truth": Kind("vsepp.evaluation.truths", "read"),
}


@dataclass(frozen=True)
class Declaration:
    """What a component declares."""

    options: type
    """Its `Options`, a frozen dataclass; without fields if it has none."""
    constants: dict[str, Any]
    """Its constants in capitals."""

    @property
    def citation(self) -> str:
        """Its source; empty if it names none."""
        return self.constants.get("CITATION", "")


def load(kind: str, name: str) -> ModuleType:
    """Import a component.

    Parameters
    ----------
    kind
        One of `KINDS`.
    name
        Such as `max_of_hinges`.

    Raises
    ------
    VseppError
        If there is no such component, listing the components there are, or if several packages
        offer one of that name.
    """
    return importlib.import_module(module_name(kind, name))


def options(kind: str, component: Component) -> Any:
    """A component's `Options`, of its own class, as a spec sets them; errors as in `load` and `checked`."""
    module, read = load(kind, component.name), checked(kind, component)
    return getattr(module, "Options", type(read))(**vars(read))


def make(kind: str, component: Component, *arguments: Any) -> Any:
    """Make an object of a component's class, such as `Pooling`, from these arguments and its options;
    errors as in `options`."""
    return getattr(load(kind, component.name), KINDS[kind].required)(*arguments, options(kind, component))


def checked(kind: str, component: Component) -> Any:
    """A component's options as its source declares them, checked without importing it.

    Raises
    ------
    VseppError
        On options that it refuses, and as in `load`.
    """
    if refused := refused_options(kind, component):
        raise VseppError("; ".join(refused.values()))
    return _read_options(kind, component)


def refused_options(kind: str, component: Component) -> dict[str, str]:
    """Option that a component refuses → why, found without importing it; errors as in `load`."""
    from pydantic import ValidationError

    from vsepp.base.declared import mistakes_of

    refused = {}
    try:
        _read_options(kind, component)
    except ValidationError as error:
        for option, what in mistakes_of(error, describe(kind, component.name).options):
            # A component that refuses a value itself begins its message with the option.
            option = option or what.partition(":")[0]
            refused[option] = (
                f"option {option} of {kind} {component.name}: {what.removeprefix(f'{option}: ')}"
            )
    return refused


def _read_options(kind: str, component: Component) -> Any:
    from vsepp.base.declared import adapter

    text = json.dumps(component.options, default=str)
    return adapter(describe(kind, component.name).options).validate_json(text, strict=True)


def resolved(kind: str, component: Component) -> Component:
    """A component as a spec names it: without options that equal their default; errors as in `checked`."""
    from vsepp.base.spec import Component, to_dict

    return Component(component.name, to_dict(checked(kind, component)))


def component_of(kind: str) -> Any:
    """Type of a key that names a component of a kind with its options, which are checked
    where the key is read."""
    from pydantic import AfterValidator

    from vsepp.base.spec import Component

    return Annotated[Component, AfterValidator(partial(require_known, kind))]


def require_known(kind: str, component: Component) -> Component:
    """A component, where a declaration checks its values.

    Raises
    ------
    ValueError
        What `checked` would raise.
    """
    try:
        checked(kind, component)
    except VseppError as error:
        raise ValueError(str(error)) from error
    return component


@cache
def module_name(kind: str, name: str) -> str:
    """Dotted name of a component's module, found without importing it; errors as in `load`."""
    package = KINDS[kind].package
    offers = {(point.dist.name, point.value) for point in _entry_points().select(group=package, name=name)}
    if name in _ours(kind):
        offers.add(("vsepp", f"{package}.{name}"))
    if len(offers) > 1:
        packages = ", ".join(f"{distribution} ({module})" for distribution, module in sorted(offers))
        raise VseppError(f"{kind} {name!r} is offered by several packages: {packages}; uninstall all but one")
    if not offers:
        raise VseppError(
            f"no {kind} is named {name!r}; there are "
            f"{', '.join(known(kind))}{did_you_mean(name, known(kind))}"
        )
    ((_, module),) = offers
    return module


def known(kind: str) -> list[str]:
    """Names of all components of a kind, our components and the components of other packages."""
    return sorted({*_ours(kind), *_entry_points().select(group=KINDS[kind].package).names})


@cache
def _entry_points() -> Any:
    # Looking through all installed packages takes a twentieth of a second, and a plan asks a dozen times.
    from importlib.metadata import entry_points  # not at start-up: it imports sockets and mail

    return entry_points()


@cache
def _ours(kind: str) -> frozenset[str]:
    package, required = KINDS[kind]
    folder = source_file(package).parent
    names = (module.name for module in pkgutil.iter_modules([str(folder)]))
    return frozenset(name for name in names if required in _defined(f"{package}.{name}"))


@dataclass(frozen=True)
class _NoOptions:
    """Of a component that declares none."""


@cache
def describe(kind: str, name: str) -> Declaration:
    """What a component declares, read from its source; errors as in `load`."""
    from vsepp.base import declared

    module = module_name(kind, name)
    constants: dict[str, Any] = {}
    for statement in parsed(module).body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and target.id.isupper():
                with suppress(ValueError):
                    constants[target.id] = ast.literal_eval(statement.value)
    # Only this class is run, not the module, which may import what is not installed here.
    body = [node for node in parsed(module).body if isinstance(node, ast.ClassDef) and node.name == "Options"]
    names = {name: value for name, value in vars(declared).items() if not name.startswith("_")}
    names |= {"dataclass": dataclass, "Literal": Literal, "__name__": module, "Options": _NoOptions}
    try:
        exec(compile(ast.Module([*body], []), str(source_file(module)), "exec", dont_inherit=True), names)
        options = names["Options"]
        options.__pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}
        dataclasses.fields(options())
    except (NameError, TypeError, ValueError, SyntaxError) as error:
        raise VseppError(
            f"{source_file(module)}: class Options: {error}; expected a frozen dataclass of numbers, text "
            "and Literals, each with a default"
        ) from error
    return Declaration(options, constants)


def _defined(module: str) -> set[str]:
    """Names that a module defines or imports at its top level."""
    names = set()
    for statement in parsed(module).body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            names.add(statement.name)
        elif isinstance(statement, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return names


@cache
def parsed(module: str) -> ast.Module:
    """Syntax tree of a module, found without importing it; not to be changed."""
    file = source_file(module)
    try:
        return ast.parse(file.read_text(encoding="utf-8"), str(file))
    except SyntaxError as error:
        raise VseppError(f"{file}, line {error.lineno}: {error.msg}") from error


@cache
def source_file(module: str) -> Path:
    """File of a module or of a package's `__init__`, found without importing it.

    Raises
    ------
    ModuleNotFoundError
        If there is none.
    """
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{module}: no package {top} is installed")
    path = Path(spec.origin)
    if rest:
        path = path.parent.joinpath(*rest)
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():
        raise ModuleNotFoundError(f"{module}: no module at {path}")
    return path
