"""Two models on the same test images: which one is ahead, in what, and how sure that is.

A model is an evaluation's folder (`metrics.json` and `ranks.npz`), several of them that are its seeds, or a file of
embeddings, of anyone's model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from vsepp.errors import VseppError
from vsepp.evaluation import intervals, protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.evaluation.intervals import METRICS, Effect
from vsepp.evaluation.ranks import Ranks
from vsepp.provenance.manifest import MANIFEST, require_intact
from vsepp.reporting import filters
from vsepp.reporting.records import AT_CHANCE, ranks_like_chance
from vsepp.reporting.specs import DIRECTIONS


@dataclass(frozen=True, eq=False)
class _Ranked:
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
    corpus: str | None = None
    """Digest of the corpus that was embedded; `None` where it is not known."""


@dataclass(frozen=True)
class Difference:
    """One metric of both models."""

    metric: str
    first: float
    """Mean over the seeds."""
    second: float
    effect: Effect
    """How much larger the first one is."""
    p: float
    """Of the permutation test, corrected after Holm for the metrics that are compared."""
    mcnemar: tuple[float, ...] = ()
    """Per seed: the exact McNemar test of caption retrieval's R@1."""

    @property
    def ahead(self) -> int:
        """1 where the first model is ahead, -1 where the second is, 0 where no difference can be told."""
        return self.effect.sign if self.p < intervals.ALPHA else 0

    @property
    def said(self) -> str:
        """The verdict in words; the interval is the wider one."""
        if not self.ahead:
            return sentences([self])[0]
        seeds = self.effect.seeds
        ends = max(filter(None, (self.effect.images, seeds)), key=lambda found: found.high - found.low)
        low, high = sorted((abs(ends.low), abs(ends.high)))
        name = "A" if self.ahead > 0 else "B"
        value = f"{abs(self.effect.value):.1f} [{low:.1f}, {high:.1f}]"
        return f"{name} is ahead by {value} in {metric_text(self.metric)}."


@dataclass(frozen=True)
class Comparison:
    """All that is said of two models A and B."""

    sources: tuple[tuple[str, ...], tuple[str, ...]]
    """Folders or files of A and of B."""
    seeds: tuple[int | None, ...]
    """That were compared."""
    test: dict[str, Any]
    """`protocol`, `folds`, `fold_size`, `n_images`, `n_captions`, which both share."""
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded."""
        return {
            "a": list(self.sources[0]),
            "b": list(self.sources[1]),
            "seeds": list(self.seeds),
            **self.test,
            "warnings": list(self.warnings),
            "metrics": {found.metric: _as_dict(found) for found in self.differences},
        }

    def __str__(self) -> str:
        test, seeds = self.test, len(self.seeds)
        folds = test["folds"]
        lines = [f"{name}  {filters.listing(side)}" for name, side in zip("AB", self.sources, strict=True)]
        lines += [
            f"protocol {test['protocol']}: {folds} fold{'s' * (folds > 1)} of {test['fold_size']:,} images, "
            f"{test['n_captions']:,} captions in all; {seeds} {'seed' if seeds == 1 else 'seeds'}",
            *(f"Note: {warning}." for warning in self.warnings),
            "",
            *_table(self.differences),
            "",
        ]
        return "\n".join([*lines, *sentences(self.differences)])


def compare(
    first: Path | Sequence[Path],
    second: Path | Sequence[Path],
    protocol: str | None = None,
    fold_size: int | None = None,
) -> Comparison:
    """Compare two models A and B.

    Parameters
    ----------
    first, second
        Where A and B lie, or each seed of them: a folder with `metrics.json` and `ranks.npz`, the folder of a trained run
        whose evaluation lies beside it, a folder of `seed-*` folders, or an `.npz` of embeddings, which are ranked here.
        Seeds that both have are compared; a single model without a seed is held against each seed of the other one.
    protocol
        By default the first that both were evaluated under; of embeddings `5K`, all images at once.
    fold_size
        Images of a fold of `1K` and `5x1K`, for embeddings: by default that of the other model, or 1,000.

    Raises
    ------
    VseppError
        Where a model cannot be read, where they were not measured on the same test images under the same protocol, and
        where they have no seed in common.
    """
    paths = [_seed_paths(side) for side in (first, second)]
    name = protocol or _common_protocol(paths)
    # Folders say how large a fold is, and embeddings are ranked alike.
    kept = [{path: _read(path, name) for path in side if not path.is_file()} for side in paths]
    known = [one.metrics["fold_size"] for side in kept for one in side.values()]
    size = fold_size or next(iter(known), protocols.DEFAULT_FOLD_SIZE)
    if fold_size and name != "5K" and any(one != fold_size for one in known):
        raise VseppError(f"fold size: got {fold_size}, but an evaluation has folds of {known[0]} images")
    a, b, seeds = _paired(
        *(
            [found.get(path) or _rank(path, name, size) for path in side]
            for side, found in zip(paths, kept, strict=True)
        )
    )
    for one in (*a, *b):
        _require_same_test(a[0], one)
    return Comparison(
        sources=(_sources(a), _sources(b)),
        seeds=seeds,
        test={key: a[0].metrics[key] for key in ("protocol", "folds", *_TEST)},
        differences=_differences(a, b),
        warnings=tuple(_warnings(a, b)),
    )


def _differences(a: Sequence[_Ranked], b: Sequence[_Ranked]) -> tuple[Difference, ...]:
    found = []
    for metric in METRICS:
        of, over = ([_values(one, metric) for one in side] for side in (a, b))
        exact = (
            [intervals.mcnemar(*pair) for pair in zip(of, over, strict=True)] if metric == "i2t_r1" else []
        )
        effect = intervals.effect(over, of)
        found.append(Difference(metric, float(np.mean(of)), float(np.mean(over)), effect, 1.0, tuple(exact)))
    corrected = intervals.holm([one.effect.p for one in found])
    return tuple(replace(one, p=p) for one, p in zip(found, corrected, strict=True))


def _seed_paths(given: Path | Sequence[Path]) -> list[Path]:
    """Where each seed of a model lies: a file of embeddings or the folder of an evaluation."""
    paths = []
    for path in [given] if isinstance(given, (str, Path)) else given:
        path = Path(path)
        found = path.glob("seed-*") if path.is_dir() else ()
        seeds = sorted(found, key=lambda one: (len(one.name), one.name))
        paths += [one if one.is_file() else _evaluation(one) for one in seeds or [path]]
    if not paths:
        raise VseppError("expected two models to compare, got none")
    return paths


def _common_protocol(paths: Sequence[Sequence[Path]]) -> str:
    """The first protocol that all evaluations have."""
    listed = [list(_content(path)) for side in paths for path in side if not path.is_file()]
    if not listed:
        return "5K"
    common = [name for name in listed[0] if all(name in names for names in listed)]
    if not common:
        have = " and ".join(", ".join(names) for names in dict.fromkeys(map(tuple, listed)))
        raise VseppError(f"no protocol in common: they were evaluated under {have}; evaluate both under one")
    return common[0]


def _content(folder: Path) -> dict[str, dict[str, Any]]:
    """The metrics of an evaluation: protocol → metrics."""
    file = folder / "metrics.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if all({*_NEEDED} <= set(found) for found in content.values()):
            return content
    except (ValueError, TypeError, AttributeError):
        pass
    raise VseppError(
        f"{file}: expected protocol → metrics with {', '.join(_NEEDED)}, as `vsepp evaluate --output` writes it"
    )


def _read(folder: Path, protocol: str) -> _Ranked:
    """How a model that was evaluated ranks its test set."""
    if (folder / MANIFEST).is_file():
        require_intact(folder, "metrics.json", "ranks.npz")
    content, file = _content(folder), folder / "ranks.npz"
    if protocol not in content:
        raise VseppError(f"{folder}/metrics.json: no protocol {protocol}; it has {', '.join(content)}")
    try:
        with np.load(file, allow_pickle=False) as archive:
            i2t, t2i, rows, images = (archive[f"{protocol}_{part}"] for part in _RANKS)
    except (KeyError, ValueError, OSError, BadZipFile):
        raise VseppError(
            f"{file}: cannot be read, or lacks {protocol}_{' or '.join(_RANKS)}; evaluate the model again"
        ) from None
    return _Ranked(
        str(folder), _seed(folder), content[protocol], Ranks(i2t, t2i), rows, images, _corpus(folder)
    )


def metric_text(*metrics: str) -> str:
    """Metrics in words, those of one direction together.

    >>> metric_text("i2t_r1", "i2t_r5", "rsum")
    'R@1 and R@5 of caption retrieval and rsum'
    """
    parts = []
    for direction, group in groupby(metrics, lambda metric: metric.partition("_")[0]):
        names = filters.listing(filters.metric_name(metric) for metric in group if direction in DIRECTIONS)
        parts.append(f"{names} of {DIRECTIONS[direction].lower()}" if names else direction)
    return filters.listing(parts)


def sentences(differences: Sequence[Difference]) -> list[str]:
    """What is said of the metrics; those in which no difference can be told share a sentence."""
    told = [found.said for found in differences if found.ahead]
    level = [found for found in differences if not found.ahead]
    torn = [found for found in level if found.effect.images.sign and not found.effect.sign]
    if torn:
        text = metric_text(*(found.metric for found in torn))
        told.append(f"No difference can be told in {text}: the seeds differ too much.")
    if calm := [found.metric for found in level if found not in torn]:
        told.append(f"No difference can be told in {metric_text(*calm)}.")
    return told


_RANKS = ("i2t", "t2i", "caption_rows", "caption_images")
_TEST = ("fold_size", "n_images", "n_captions")
_NEEDED = ("protocol", "folds", *_TEST, "similarity", "rsum")
_TEST_NAMES = ("images of a fold", "test images", "test captions")


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


def _rank(path: Path, protocol: str, fold_size: int) -> _Ranked:
    found = protocols.evaluate(Embeddings.load(path), protocol, fold_size)
    return _Ranked(
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


def _corpus(folder: Path) -> str | None:
    """Digest of the corpus behind an evaluation."""
    if not (folder / MANIFEST).is_file():
        return None
    found = json.loads((folder / MANIFEST).read_text(encoding="utf-8")).get("inputs", {}).get("corpus")
    return None if found is None else str(found)


def _paired(
    first: Sequence[_Ranked], second: Sequence[_Ranked]
) -> tuple[list[_Ranked], list[_Ranked], tuple[int | None, ...]]:
    """Both models of the seeds that are compared."""
    alone = len(first) == len(second) == 1
    if alone or any(len(side) == 1 and side[0].seed is None for side in (first, second)):
        pairs = max(len(first), len(second))
        a, b = (list(side) * (pairs // len(side)) for side in (first, second))
        longer = a if len(first) >= len(second) else b
        return a, b, (None,) if alone else tuple(one.seed for one in longer)
    by_seed = [{one.seed: one for one in side} for side in (first, second)]
    common = sorted(seed for seed in by_seed[0] if seed is not None and seed in by_seed[1])
    if not common:
        seeds = [filters.listing(sorted(str(seed) for seed in side)) for side in by_seed]
        raise VseppError(
            f"no seed in common: A has {seeds[0]}, B has {seeds[1]}; name one seed's folder of each"
        )
    a, b = ([side[seed] for seed in common] for side in by_seed)
    return a, b, tuple(common)


def _require_same_test(first: _Ranked, other: _Ranked) -> None:
    def refuse(what: str, one: Any, two: Any) -> None:
        raise VseppError(f"not the same test set: {first.source} has {one} {what}, {other.source} has {two}")

    if first.metrics["protocol"] != other.metrics["protocol"]:
        raise VseppError(
            f"not the same protocol: {first.source} was ranked under {first.metrics['protocol']}, "
            f"{other.source} under {other.metrics['protocol']}"
        )
    for key, name in zip(_TEST, _TEST_NAMES, strict=True):
        if first.metrics[key] != other.metrics[key]:
            refuse(name, first.metrics[key], other.metrics[key])
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


def _warnings(a: Sequence[_Ranked], b: Sequence[_Ranked]) -> list[str]:
    found = []
    similarities = [
        filters.listing(dict.fromkeys(one.metrics["similarity"] for one in side)) for side in (a, b)
    ]
    if similarities[0] != similarities[1]:
        found.append(f"A ranks by {similarities[0]} similarity, B by {similarities[1]}")
    corpora = {one.corpus for one in (*a, *b) if one.corpus is not None}
    if len(corpora) > 1:
        found.append("the test sets have equal sizes, but come from different corpora")
    for name, side in zip("AB", (a, b), strict=True):
        if any(ranks_like_chance(one.metrics) for one in side):
            found.append(f"{name} {AT_CHANCE}, so a difference says nothing of its method")
    return found


def _sources(side: Sequence[_Ranked]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.source for one in side))


def _values(one: _Ranked, metric: str) -> np.ndarray:
    return intervals.per_image(one.ranks, one.caption_images, metric, one.metrics["fold_size"])


def _as_dict(found: Difference) -> dict[str, Any]:
    effect = found.effect
    return {
        "a": found.first,
        "b": found.second,
        "difference": effect.value,
        "by_seed": list(effect.by_seed),
        "interval_images": [effect.images.low, effect.images.high],
        "interval_seeds": None if effect.seeds is None else [effect.seeds.low, effect.seeds.high],
        "p": effect.p,
        "p_holm": found.p,
        "mcnemar": list(found.mcnemar),
        "verdict": found.said,
    }


def _table(differences: Sequence[Difference]) -> list[str]:
    rows = [("", "A", "B", "A−B", "over images", "over seeds", "p", "p, Holm")]
    for direction, group in groupby(differences, lambda found: found.metric.partition("_")[0]):
        for place, found in enumerate(group):
            name = f"{DIRECTIONS[direction]}, " if direction in DIRECTIONS and not place else ""
            metric = filters.metric_name(found.metric) if direction in DIRECTIONS else found.metric
            effect = found.effect
            ends = [
                f"[{one.low:+.1f}, {one.high:+.1f}]" if one else "one seed"
                for one in (effect.images, effect.seeds)
            ]
            values = (f"{found.first:.1f}", f"{found.second:.1f}", f"{effect.value:+.1f}")
            rows.append((name + metric, *values, *ends, *(f"{p:.4f}" for p in (effect.p, found.p))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    exact = [p for found in differences for p in found.mcnemar]
    told = f"exact McNemar, R@1 of caption retrieval: p {filters.listing(f'{p:.4f}' for p in exact)}"
    return [*lines, told + (", seed by seed" if len(exact) > 1 else "")]
