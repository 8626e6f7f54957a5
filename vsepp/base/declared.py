"""What all declarations share: their ranges, how they refuse values, and the words for a mistake.

A run, an encoder, a corpus and all else that decides what is computed are frozen dataclasses of pydantic.
YAML of `params/`, the JSON of a plan and of manifests, and the docs are read through the same classes.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from vsepp.base.errors import did_you_mean
from vsepp.base.files import shortly

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)
"""Configuration of every declaration. A validator is built when it is first needed, since a
command needs few of them."""

Split = Literal["train", "restval", "val", "test"]
SPLITS: tuple[str, ...] = typing.get_args(Split)
if TYPE_CHECKING:
    SplitName = str  # text wherever it is not checked
else:
    SplitName = Split
FOLDS = {"1K": 1, "5x1K": 5}
"""Protocol → folds of the test set; any other protocol takes all images."""
PROTOCOLS = (*FOLDS, "5K")
"""Protocols of own captions, see `vsepp.evaluation.truth`."""
WORDS: Literal["words"] = "words"
PIECES: Literal["wordpieces"] = "wordpieces"
"""Kinds of tokens that a text encoder takes: words where it says nothing else."""
TASKS = {
    "i2t": "caption retrieval",
    "t2i": "image retrieval",
    "t2t": "caption → caption",
    "i2i": "image → image",
}
"""Task → its name; its letters say what asks and what is sought. A protocol has the first two
tasks, the directions."""
Count = Annotated[int, Field(ge=1)]
"""A whole number of at least one: sizes, counts, epochs."""
Side = Annotated[int, Field(ge=1, le=8192)]
"""Pixels of a side of a picture; a square of the largest has 200 MB."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
Crops = Literal["1C", "10C", "RC", "regions"]
Precision = Literal["fp32", "tf32", "bf16"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.+-]*$", max_length=100)]
"""Name of an entry of `params/`, which is part of names of files."""
Role = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""What a paper calls data or an encoder; presets say what plays it."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)
"""Reads and writes what a declaration declares; made once, since pydantic takes a
millisecond or more for it."""

# Parts of a place that are no keys.
_OF_PYDANTIC = ("constrained-", "function-", "[key]")


def mistakes_of(error: ValidationError, declaration: Any) -> Iterator[tuple[str, str]]:
    """Dotted key and explanation of each mistake that pydantic found in a declaration."""
    for detail in error.errors():
        path = list(_path(declaration, detail["loc"]))
        parts = [part for part, _ in path if not part.startswith(_OF_PYDANTIC)]
        if detail["type"].startswith("union_tag"):  # a kind that there is not, or none
            parts.append(detail["ctx"]["discriminator"].strip("'"))
        yield ".".join(parts), _explanation(detail, path[-1][1] if path else [])


def _explanation(detail: Mapping[str, Any], known: list[str]) -> str:
    if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        nearest = did_you_mean(str(detail["loc"][-1]), known)
        return f"unknown key; known here are {', '.join(known) or 'none'}{nearest}"
    if detail["type"] in ("missing", "missing_argument", "union_tag_not_found"):
        return "missing"
    if detail["type"] == "union_tag_invalid":
        return f"got {shortly(detail['ctx']['tag'])}; input should be {detail['ctx']['expected_tags']}"
    if detail["type"] == "value_error":  # a check of ours: its message says what it got
        return str(detail["ctx"]["error"])
    message = detail["msg"][0].lower() + detail["msg"][1:].replace("valid array", "valid list")
    return f"got {shortly(detail['input'])}; {message}"


def _path(annotation: Any, location: tuple[Any, ...]) -> Iterator[tuple[str, list[str]]]:
    """Each key of a place, and the keys that the declaration around it accepts; pydantic also counts the kind
    that was chosen of a union, which is no key."""
    for part in location:
        forms = list(_forms(annotation))
        chosen = next(
            (form for form in forms if part in typing.get_args((fields_of(form) or {}).get("kind"))), None
        )
        if chosen is not None:
            annotation = chosen
            continue
        fields = next((fields for form in forms if (fields := fields_of(form)) is not None), None)
        yield str(part), sorted(fields or ())
        if fields is not None:
            annotation = fields.get(str(part))
        else:
            of_all = next((form for form in forms if typing.get_args(form)), None)
            annotation = typing.get_args(of_all)[typing.get_origin(of_all) is dict] if of_all else None


def _forms(annotation: Any) -> Iterator[Any]:
    """Declarations and collections that an annotation allows."""
    if fields_of(annotation) is not None or typing.get_origin(annotation) in (dict, list, tuple):
        yield annotation
        return
    for form in (getattr(annotation, "declaration", None), *typing.get_args(annotation)):
        yield from _forms(form) if form is not None else ()


def fields_of(declaration: Any) -> dict[str, Any] | None:
    """Field → annotation of a declaration; `None` for anything else."""
    if isinstance(declaration, type) and issubclass(declaration, BaseModel):
        return {name: field.annotation for name, field in declaration.model_fields.items()}
    if isinstance(declaration, type) and dataclasses.is_dataclass(declaration):
        hints = typing.get_type_hints(declaration, include_extras=True)
        return {field.name: hints[field.name] for field in dataclasses.fields(declaration)}
    return None
