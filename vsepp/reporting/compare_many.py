"""Several models on the same test images: all pairs, and groups of those that no test tells apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError
from vsepp.evaluation.metric_list import RECALLS
from vsepp.reporting import filters
from vsepp.reporting.compare import columns, sources_of, test_of, test_text, warnings_of
from vsepp.reporting.groups import Standing, bounds, letters, standings
from vsepp.reporting.ranked import Source, read_models, seeds_of
from vsepp.reporting.records import AT_CHANCE, image_values
from vsepp.reporting.report_specs import DIRECTIONS


@dataclass(frozen=True, eq=False)
class Comparisons:
    """All that is said of several models."""

    sources: Mapping[str, tuple[str, ...]]
    """Model → its folders or files."""
    seeds: tuple[int | None, ...]
    """That were compared."""
    test: Mapping[str, Any]
    """`protocol`, `folds`, `fold_size`, `n_images`, `n_captions`, which all share."""
    standings: Mapping[str, Sequence[Standing]]
    """Metric → the models, the best first. Tables are in the order of the first metric."""
    warnings: Sequence[str] = ()

    def groups(self, metric: str) -> dict[str, str]:
        """Model → letters; two that share one are not told apart. None of a model that ranks like chance: it is in no comparison."""
        found = letters([model for model in self.standings[metric] if not model.trouble])
        return {model.label: found.get(model.label, "") for model in self.standings[metric]}

    def to_dict(self) -> dict[str, Any]:
        """Nothing rounded."""
        return {
            "models": {name: list(places) for name, places in self.sources.items()},
            "seeds": list(self.seeds),
            **self.test,
            "warnings": list(self.warnings),
            "metrics": {metric: self._metric_dict(metric) for metric in self.standings},
        }

    def _metric_dict(self, metric: str) -> dict[str, Any]:
        models, groups = self.standings[metric], self.groups(metric)
        levels = {
            model.label: {
                "level": model.level,
                "interval_images": bounds(model.images),
                "interval_seeds": bounds(model.seeds),
                "groups": groups[model.label],
            }
            for model in models
        }
        pairs = [
            {"first": model.label, "second": other, **told.to_dict(), "ahead": told.ahead}
            for model in models
            for other, told in model.above.items()
        ]
        return {"models": levels, "pairs": pairs}

    def __str__(self) -> str:
        first, *others = self.standings
        compared = sum(not model.trouble for model in self.standings[first])
        pairs, tests = compared * (compared - 1) // 2, len(self.standings)
        lines = [
            f"{len(self.sources)} models, {test_text(self.test, len(self.seeds))}",
            *(f"Note: {warning}." for warning in self.warnings),
            "",
            *self._levels(first),
            "",
            *([*self._others(others), ""] if others else []),
            "Models that share a letter are not told apart. Two differ if p, corrected after Holm for "
            f"{pairs} pair{'s' * (pairs != 1)} × {tests} metric{'s' * (tests != 1)}, is below .05 and zero lies outside the "
            "difference's intervals.",
        ]
        return "\n".join(lines)

    def _levels(self, metric: str) -> list[str]:
        """The first metric, with its intervals."""
        groups = self.groups(metric)
        letter, width = max(map(len, groups.values())), max(map(len, groups))
        rows = [("".ljust(width), _head(metric), "over images", "over seeds", "".ljust(letter))]
        for model in self.standings[metric]:
            seeds = filters.levels(model.seeds) or "one seed"
            level, images = f"{model.level:.1f}", filters.levels(model.images)
            rows.append((model.label.ljust(width), level, images, seeds, groups[model.label].ljust(letter)))
        return [line.rstrip() for line in columns(rows)]

    def _others(self, metrics: Sequence[str]) -> list[str]:
        """Levels and letters in the other metrics."""
        names = [model.label for model in next(iter(self.standings.values()))]
        table = [["", *names]]
        table[0] = [name.ljust(max(map(len, names))) for name in table[0]]
        for metric in metrics:
            groups, level = self.groups(metric), {one.label: one.level for one in self.standings[metric]}
            width = max(map(len, groups.values()))
            cells = [f"{level[name]:.1f} {groups[name].ljust(width)}" for name in names]
            table.append([_head(metric) + " " * (width + 1), *cells])
        return [line.rstrip() for line in columns(list(zip(*table, strict=True)))]

    def draw(self, file: Path) -> tuple[str, str]:
        """Draw the models beside each other in the first metric; give the figure's caption, and what it shows in words.

        Raises
        ------
        VseppError
            If the file's name does not end in .svg, .png or .pdf.
        """
        from vsepp.reporting.drawing import WIDTHS, draw_files
        from vsepp.reporting.figures.standings import draw_standings

        metric, models = next(iter(self.standings.items()))
        said = draw_files(
            [file], WIDTHS["page"], 3, lambda figure: draw_standings(figure, models, metric, (), {})
        )
        what = f"{filters.metric_title(metric)} of {len(models)} models, {test_text(self.test, len(self.seeds))}."
        metrics = f"p is corrected for {len(self.standings)} metrics too." if len(self.standings) > 1 else ""
        return " ".join(filter(None, [what, *said.caption, metrics])), " ".join([what, *said.alt])


def compare_many(
    models: Mapping[str, Source | Sequence[Source]],
    protocol: str | None = None,
    fold_size: int | None = None,
    metrics: Sequence[str] = ("rsum", *RECALLS),
) -> Comparisons:
    """Compare two or more models, each with each other.

    Parameters
    ----------
    models
        Name → where the model lies, or each seed of it; this, `protocol`, `fold_size`, `metrics` and errors as in
        `vsepp.reporting.compare.compare`. Seeds that all have are compared.
    """
    if len(models) < 2:
        raise VseppError(f"expected two or more models to compare, got {len(models)}")
    read, protocol = read_models(models, protocol, fold_size)
    values = {
        metric: {
            name: {seed: image_values(model, protocol, metric) for seed, model in enumerate(side)}
            for name, side in read.items()
        }
        for metric in dict.fromkeys(metrics)
    }
    trouble = {
        name: AT_CHANCE if any(protocol in model.at_chance for model in side) else ""
        for name, side in read.items()
    }
    return Comparisons(
        {name: sources_of(side) for name, side in read.items()},
        seeds_of(read),
        test_of(next(iter(read.values()))[0], protocol),
        standings(values, trouble),
        warnings_of(read, protocol),
    )


def _head(metric: str) -> str:
    """`caption R@1` of `i2t_r1`; `rsum`."""
    direction = DIRECTIONS.get(metric.partition("_")[0], "")
    return f"{direction.partition(' ')[0].lower()} {filters.metric_name(metric)}" if direction else metric
