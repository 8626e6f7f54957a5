"""Read the YAML files of `params/` and collect all mistakes in them before reporting any."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from vsepp.base.declared import mistakes_of
from vsepp.base.errors import VseppError, cut, did_you_mean
from vsepp.base.files import text_of, yaml_of

M = TypeVar("M", bound=BaseModel)
_LARGEST = 4 << 20


class Mistakes:
    """Gathers mistakes, so that a user sees all of them at once."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Note one mistake: the file (or `--config`) and key, and what is wrong with it."""
        self.messages.append(f"{where}: {what}")

    def raise_if_any(self) -> None:
        """Raise an error that lists the mistakes, if there are any.

        Raises
        ------
        VseppError
            With one line for each mistake.
        """
        if self.messages:
            count = f"{len(self.messages)} mistake{'s' if len(self.messages) > 1 else ''} in the parameters"
            raise VseppError("\n  - ".join([f"{count}:", *map(cut, self.messages)]))


def read_yaml(path: Path, mistakes: Mistakes) -> dict[str, Any] | None:
    """Read a YAML mapping; `None` after a mistake, which is noted."""
    if not path.is_file():
        known = sorted(other.stem for other in path.parent.glob("*.yaml"))
        listed = f"; there are {', '.join(known)}" if known else ""
        mistakes.add(str(path), f"no such file{listed}{did_you_mean(path.stem, known)}")
        return None
    try:
        content = yaml_of(text_of(path, "a YAML file of parameters", _LARGEST), str(path))
    except VseppError as error:
        mistakes.messages.append(str(error))
        return None
    if not isinstance(content, dict):
        mistakes.add(str(path), f"expected keys and values, got {type(content).__name__}")
        return None
    return content


def _dates(value: Any, key: str = "") -> Iterator[tuple[str, date]]:
    """Dotted key of each date: YAML takes text of that form for one, and nothing here is a date."""
    match value:
        case date():
            yield key, value
        case Mapping():
            for name, item in value.items():
                yield from _dates(item, f"{key}.{name}".lstrip("."))
        case list():
            for number, item in enumerate(value):
                yield from _dates(item, f"{key}.{number}".lstrip("."))


def validate(model: type[M], content: Mapping[str, Any], where: str, mistakes: Mistakes) -> M | None:
    """Validate `content` with a model; note each mistake with its key, value and what is accepted."""
    if dates := list(_dates(content)):
        for key, value in dates:
            mistakes.add(f"{where}: {key}", f"got a date; write '{value}', in quotes")
        return None
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
    if content is None:
        return None
    return validate(model, {inside: content} if inside else content, str(path), mistakes)


def settings_of(items: Iterable[str]) -> dict[str, Any]:
    """What KEY=VALUE on a command line means, as in Snakemake's `--config`.

    Raises
    ------
    VseppError
        On an item of another form, a key that is given twice, and a value that is a comment.
    """
    settings: dict[str, Any] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals:
            raise VseppError(f"--config: got {item!r}; expected KEY=VALUE")
        if key in settings:
            raise VseppError(f"--config: {key} is given twice, as {settings[key]!r} and {text!r}; keep one")
        settings[key] = with_types(_as_snakemake_reads(key, text.strip("'\"")))
    return settings


def _as_snakemake_reads(key: str, text: str) -> Any:
    """A number, `True` or `False`, else YAML whose leaves are text, else the text: what `snakemake.cli.parse_config` makes of it."""
    if text == "":
        return None
    leaves_as_text = partial(yaml.load, Loader=yaml.loader.BaseLoader)
    for read in (int, float, {"True": True, "False": False}.__getitem__, leaves_as_text):
        with suppress(ValueError, KeyError, yaml.YAMLError, RecursionError):
            value = read(text)
            if value is None:
                raise VseppError(f"--config: {key}: got {text!r}, which is no value")
            return value
    return text


_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)|[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_CONSTANTS = {
    form: value
    for word, value in {"true": True, "false": False, "null": None, "~": None}.items()
    for form in (word, word.capitalize(), word.upper())
}


def with_types(value: Any) -> Any:
    """A value of Snakemake's `--config`, in whose lists and mappings all is text: text that is a number, a truth value or null in
    YAML 1.2 has its type."""
    if isinstance(value, Mapping):
        return {key: with_types(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_types(item) for item in value]
    if not isinstance(value, str):
        return value
    if number := _NUMBER.fullmatch(value):
        with suppress(ValueError):  # more digits than Python reads
            return int(value) if number[1] else float(value)
    return _CONSTANTS.get(value, value)
