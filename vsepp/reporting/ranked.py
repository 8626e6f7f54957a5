"""How models that are compared rank one test set: read from evaluations or from embeddings, anyone's, seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsepp.data.arrays import read_arrays
from vsepp.errors import VseppError
from vsepp.evaluation import protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.ranks import Ranks, kept_ranks
from vsepp.foreign import json_of, text_of
from vsepp.provenance.manifest import MANIFEST, read_manifest, require_intact
from vsepp.provenance.records import Kept
from vsepp.reporting import filters
from vsepp.reporting.records import TEST_IMAGES, Corpus, corpus_of

_OF_TEST = ("caption_rows", "caption_images")
_RANKS = ("i2t", "t2i", "i2t_captions", *_OF_TEST)
_NEEDED = ("protocol", "folds", *TEST_IMAGES, "similarity", "rsum")
_TEST_NAMES = ("images of a fold", "test images", "test captions")

Source = Path | Kept
"""Where a model's ranks are: an evaluation's folder, a file of embeddings, or a record."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """One model of one seed, and how it ranks a test set under a protocol."""

    source: str
    """Folder or file."""
    seed: int | None
    """`None` where it is not known."""
    metrics: dict[str, Any]
    """A section of metrics.json."""
    ranks: Ranks
    caption_rows: np.ndarray
    caption_images: np.ndarray
    corpus: Corpus | None = None
    """What was embedded; `None` where it is not known."""


def read_two(
    first: Source | Sequence[Source],
    second: Source | Sequence[Source],
    protocol: str | None,
    fold_size: int | None,
) -> tuple[list[Ranked], list[Ranked]]:
    """Read two models, of the seeds that are compared; parameters and errors as in `vsepp.reporting.compare.compare`."""
    paths = [_seed_paths(side) for side in (first, second)]
    name = protocol or _common_protocol(paths)
    # Evaluations say how large a fold is, and embeddings are ranked alike.
    kept = [{path: _read(path, name) for path in side if not _is_file(path)} for side in paths]
    known = [one.metrics["fold_size"] for side in kept for one in side.values()]
    size = fold_size or next(iter(known), protocols.DEFAULT_FOLD_SIZE)
    if fold_size and name != "5K" and any(one != fold_size for one in known):
        raise VseppError(f"fold size: got {fold_size}, but an evaluation has folds of {known[0]} images")
    a, b = _paired(
        *(
            [found.get(path) or _rank(Path(str(path)), name, size) for path in side]
            for side, found in zip(paths, kept, strict=True)
        )
    )
    for one in (*a, *b):
        _require_same_test(a[0], one)
    return a, b


def _is_file(source: Source) -> bool:
    """Whether a source is a file of embeddings."""
    return isinstance(source, Path) and source.is_file()


def _seed_paths(given: Source | Sequence[Source]) -> list[Source]:
    """Where each seed of a model lies: a file of embeddings, the folder of an evaluation, or a record."""
    paths: list[Source] = []
    for path in [given] if isinstance(given, str | Path | Kept) else given:
        if isinstance(path, Kept):
            paths.append(path)
            continue
        path = Path(path)
        found = path.glob("seed-*") if path.is_dir() else ()
        seeds = sorted(found, key=lambda one: (len(one.name), one.name))
        paths += [one if one.is_file() else _evaluation(one) for one in seeds or [path]]
    if not paths:
        raise VseppError("expected two models to compare, got none")
    return paths


def _common_protocol(paths: Sequence[Sequence[Source]]) -> str:
    """The first protocol that all evaluations have."""
    listed = [list(_content(path)) for side in paths for path in side if not _is_file(path)]
    if not listed:
        return "5K"
    common = [name for name in listed[0] if all(name in names for names in listed)]
    if not common:
        have = " and ".join(", ".join(names) for names in dict.fromkeys(map(tuple, listed)))
        raise VseppError(f"no protocol in common: they were evaluated under {have}; evaluate both under one")
    return common[0]


def _content(source: Source) -> Mapping[str, dict[str, Any]]:
    """The metrics of an evaluation: protocol → metrics."""
    if isinstance(source, Kept):
        return source.metrics
    file = source / "metrics.json"
    content = json_of(text_of(file, "the metrics of an evaluation"), str(file))
    try:
        if all({*_NEEDED} <= set(found) for found in content.values()):
            return content
    except (TypeError, AttributeError):
        pass
    raise VseppError(
        f"{file}: expected protocol → metrics with {', '.join(_NEEDED)}, as `vsepp evaluate` writes it"
    )


def _read(source: Source, protocol: str) -> Ranked:
    """How a model that was evaluated ranks its test set."""
    content = _content(source)
    if protocol not in content:
        where = source.where if isinstance(source, Kept) else f"{source}/metrics.json"
        raise VseppError(f"{where}: no protocol {protocol}; it has {', '.join(content)}")
    if isinstance(source, Kept):
        rows, images = (source.arrays[f"{protocol}_{part}"] for part in _OF_TEST)
        ranks, corpus = kept_ranks(source.arrays, protocol), corpus_of(source.evaluated)
        return Ranked(source.where, _seed(Path(source.where)), content[protocol], ranks, rows, images, corpus)
    folder, file = source, source / "ranks.npz"
    if (folder / MANIFEST).is_file():
        require_intact(folder, "metrics.json", "ranks.npz")
    try:
        arrays = read_arrays(file, [f"{one}_{part}" for one in content for part in _RANKS], "ranks")
        ranks = kept_ranks(arrays, protocol)
        rows, images = (arrays[f"{protocol}_{part}"] for part in _OF_TEST)
    except KeyError as error:
        raise VseppError(f"{file}: has no {error.args[0]}; evaluate the model again") from error
    except VseppError as error:
        raise VseppError(f"{error}. Evaluate the model again") from error
    return Ranked(str(folder), _seed(folder), content[protocol], ranks, rows, images, _corpus(folder))


def _evaluation(path: Path) -> Path:
    """The evaluation that a path names: itself, or the one beside a run."""
    parts = path.absolute().parts
    if (path / "metrics.json").is_file() and (path / "ranks.npz").is_file():
        return path
    if "runs" in parts:
        place = len(parts) - 1 - parts[::-1].index("runs")
        beside = Path(*parts[:place], "evaluations", *parts[place + 1 :])
        if (beside / "metrics.json").is_file():
            return beside
        raise VseppError(
            f"{path}: its evaluation is not there; expected {beside}/metrics.json: evaluate the run first"
        )
    raise VseppError(
        f"{path}: expected a folder with metrics.json and ranks.npz, a trained run's folder or an .npz of embeddings"
    )


def _rank(path: Path, protocol: str, fold_size: int) -> Ranked:
    found = protocols.evaluate(Embeddings.load(path), protocol, fold_size)
    return Ranked(
        str(path),
        _seed(path),
        found.to_dict(),
        found.ranks,
        found.caption_rows,
        found.caption_images,
        _corpus(path.parent),
    )


def _seed(path: Path) -> int | None:
    """The seed that a path names."""
    named = [part.removeprefix("seed-") for part in path.absolute().parts if part.startswith("seed-")]
    return int(named[-1]) if named and named[-1].isdecimal() else None


def _corpus(folder: Path) -> Corpus | None:
    """The corpus behind an evaluation."""
    return corpus_of(read_manifest(folder)) if (folder / MANIFEST).is_file() else None


def _paired(first: Sequence[Ranked], second: Sequence[Ranked]) -> tuple[list[Ranked], list[Ranked]]:
    """Both models of the seeds that are compared."""
    sides = (first, second)
    if len(first) == len(second) == 1 or any(len(side) == 1 and side[0].seed is None for side in sides):
        pairs = max(map(len, sides))
        a, b = (list(side) * (pairs // len(side)) for side in sides)
        return a, b
    for side in sides:
        numbers = [one.seed for one in side]
        if twice := [number for number in numbers if number is not None and numbers.count(number) > 1]:
            raise VseppError(f"seed {twice[0]} is given twice, of {side[0].source} among others; keep one")
    by_seed = [{one.seed: one for one in side} for side in sides]
    common = sorted(seed for seed in by_seed[0] if seed is not None and seed in by_seed[1])
    if not common:
        seeds = [filters.listing(sorted(str(seed) for seed in side)) for side in by_seed]
        raise VseppError(
            f"no seed in common: A has {seeds[0]}, B has {seeds[1]}; name one seed's folder of each"
        )
    a, b = ([side[seed] for seed in common] for side in by_seed)
    return a, b


def _require_same_test(first: Ranked, other: Ranked) -> None:
    def refuse(what: str, one: Any, two: Any) -> None:
        raise VseppError(f"not the same test set: {first.source} has {one} {what}, {other.source} has {two}")

    if first.metrics["protocol"] != other.metrics["protocol"]:
        raise VseppError(
            f"not the same protocol: {first.source} was ranked under {first.metrics['protocol']}, "
            f"{other.source} under {other.metrics['protocol']}"
        )
    for key, name in zip(TEST_IMAGES, _TEST_NAMES, strict=True):
        if first.metrics[key] != other.metrics[key]:
            refuse(name, first.metrics[key], other.metrics[key])
    if first.corpus and other.corpus and not first.corpus.equals(other.corpus):
        raise VseppError(
            f"not the same test set: images and captions of {first.source} are those of {first.corpus}, of {other.source} those "
            f"of {other.corpus}; image by image they cannot be compared. Evaluate both on one test set"
        )
    for one, two in (
        (first.caption_images, other.caption_images),
        (first.caption_rows, other.caption_rows),
    ):
        differ = np.flatnonzero(one != two)
        if len(differ):
            row = differ[0]
            raise VseppError(
                f"not the same test set: the captions belong to other images; ranked caption {row} to image "
                f"{first.caption_images[row]} in {first.source}, to image {other.caption_images[row]} in {other.source}"
            )
