"""Read the YAML files of `params/` and collect all mistakes in them before reporting any."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from vsepp.errors import VseppError, did_you_mean

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Value:
    """A resolved value and where it was set."""

    value: Any
    origin: str


class Mistakes:
    """Gathers mistakes, so that a user sees all of them at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Note one mistake: the file (or `--config`) and key, and what is wrong with it."""
        self.found.append(f"{where}: {what}")

    def raise_if_any(self) -> None:
        """Raise what was noted, if anything.

        Raises
        ------
        VseppError
            With one line for each mistake.
        """
        if self.found:
            count = f"{len(self.found)} mistake{'s' if len(self.found) > 1 else ''} in the parameters"
            raise VseppError("\n  - ".join([f"{count}:", *self.found]))


class _UniqueKeyLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML in which a repeated key is an error: PyYAML silently keeps the last."""


def _unique_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        key, mark = loader.construct_object(key_node, deep=True), key_node.start_mark
        if key in seen:
            raise VseppError(
                f"{mark.name}: `{key}` is given twice, in lines {seen[key]} and {mark.line + 1}; keep one"
            )
        seen[key] = mark.line + 1
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def read_yaml(path: Path, mistakes: Mistakes) -> dict[str, Any]:
    """Read a YAML mapping; on a mistake note it and return nothing."""
    if not path.is_file():
        known = sorted(other.stem for other in path.parent.glob("*.yaml"))
        there = f"; there are {', '.join(known)}" if known else ""
        mistakes.add(str(path), f"no such file{there}{did_you_mean(path.stem, known)}")
        return {}
    try:
        with path.open(encoding="utf-8") as stream:
            content = yaml.load(stream, Loader=_UniqueKeyLoader)
    except VseppError as error:
        mistakes.found.append(str(error))
        return {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mistakes.add(str(path), f"not valid YAML: {error}")
        return {}
    if not isinstance(content, dict):
        mistakes.add(str(path), f"expected keys and values, got {type(content).__name__}")
        return {}
    return content


def validate(model: type[M], content: Mapping[str, Any], where: str, mistakes: Mistakes) -> M | None:
    """Validate `content` with a model; note each mistake with its key, value and what is accepted."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        for detail in error.errors():
            mistakes.add(f"{where}: {_dotted(detail['loc'])}", _explain(detail, model))
        return None


def read_model(model: type[M], path: Path, mistakes: Mistakes, inside: str | None = None) -> M | None:
    """A YAML file as a model, or its part below the key `inside`; `None` after a mistake."""
    content = read_yaml(path, mistakes)
    return validate(model, {inside: content} if inside else content, str(path), mistakes)


def _dotted(location: tuple[Any, ...]) -> str:
    parts = [str(part) for part in location if not str(part).startswith(("constrained-", "function-"))]
    return ".".join(parts) or "(the whole)"


def _explain(detail: Mapping[str, Any], model: type[BaseModel]) -> str:
    if detail["type"] == "extra_forbidden":
        known = _known_keys(model, detail["loc"])
        return f"unknown key; known here are {', '.join(known)}{did_you_mean(str(detail['loc'][-1]), known)}"
    if detail["type"] == "missing":
        return "missing"
    message = detail["msg"][0].lower() + detail["msg"][1:]
    return f"got {detail['input']!r}; {message}"


def _known_keys(model: Any, location: tuple[Any, ...]) -> list[str]:
    """Keys that the model around the last part of `location` accepts."""

    def fields_of(annotation: Any, rest: tuple[Any, ...]) -> list[str] | None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if len(rest) == 1:
                return sorted(annotation.model_fields)
            field = annotation.model_fields.get(str(rest[0]))
            return fields_of(field.annotation, rest[1:]) if field else None
        arguments = typing.get_args(annotation)
        if typing.get_origin(annotation) is dict:
            return fields_of(arguments[1], rest[1:])
        for argument in arguments:
            if (found := fields_of(argument, rest)) is not None:
                return found
        return None

    return fields_of(model, location) or []
