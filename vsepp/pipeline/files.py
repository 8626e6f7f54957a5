"""Read the YAML files of `params/` and collect all mistakes in them before reporting any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vsepp.base.declared import mistakes_of
from vsepp.base.errors import VseppError, cut, did_you_mean
from vsepp.base.files import text_of
from vsepp.base.yaml import yaml_of

M = TypeVar("M", bound=BaseModel)
_LARGEST = 4 << 20


class Mistakes:
    """Gathers mistakes, so that a user sees all of them at once."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Note one mistake: the file (or `--config`) and key, and what is wrong with it."""
        self.found.append(f"{where}: {what}")

    def raise_if_any(self) -> None:
        """Raise an error that lists the mistakes, if there are any.

        Raises
        ------
        VseppError
            With one line for each mistake.
        """
        if self.found:
            count = f"{len(self.found)} mistake{'s' if len(self.found) > 1 else ''} in the parameters"
            raise VseppError("\n  - ".join([f"{count}:", *map(cut, self.found)]))


def read_yaml(path: Path, mistakes: Mistakes) -> dict[str, Any]:
    """Read a YAML mapping; on a mistake note it and return nothing."""
    if not path.is_file():
        known = sorted(other.stem for other in path.parent.glob("*.yaml"))
        there = f"; there are {', '.join(known)}" if known else ""
        mistakes.add(str(path), f"no such file{there}{did_you_mean(path.stem, known)}")
        return {}
    try:
        content = yaml_of(text_of(path, "a YAML file of parameters", _LARGEST), str(path))
    except VseppError as error:
        mistakes.found.append(str(error))
        return {}
    if not isinstance(content, dict):
        mistakes.add(str(path), f"expected keys and values, got {type(content).__name__}")
        return {}
    return content


def validate(model: type[M], content: Mapping[str, Any], where: str, mistakes: Mistakes) -> M | None:
    """Validate `content` with a model; note each mistake with its key, value and what is accepted."""
    try:
        # As JSON, since in Python pydantic's strict types take no lists for tuples: no text is a number, and true is none.
        return model.model_validate_json(json.dumps(content, default=str), strict=True)
    except ValidationError as error:
        for key, what in mistakes_of(error, model):
            mistakes.add(f"{where}: {key or '(the whole)'}", what)
        return None


def read_model(model: type[M], path: Path, mistakes: Mistakes, inside: str | None = None) -> M | None:
    """A YAML file as a model, or its part below the key `inside`; `None` after a mistake."""
    content = read_yaml(path, mistakes)
    return validate(model, {inside: content} if inside else content, str(path), mistakes)


def with_types(value: Any) -> Any:
    """A value of Snakemake's `--config`, which gives numbers, `true` and `null` inside lists and mappings as text."""
    if isinstance(value, Mapping):
        return {key: with_types(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_types(item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        typed = yaml_of(value, "--config")
    except VseppError:  # `*-1c`, which YAML takes for an alias
        return value
    is_null = typed is None and value != ""
    return typed if is_null or isinstance(typed, bool | int | float) else value
