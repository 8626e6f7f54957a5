"""Tables of pages with numbers from records: a row names a run, two runs whose difference it has, or the four runs of two differences.

Above such a table a page has the settings of its plan in a comment, `<!-- numbers from records: {preset: flickr8k} -->`. Cells below the
heads `seeds`, `caption R@1`, `image R@1` and `rsum` are written anew by the site's build, sphinx-build -W docs site; others stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from vsepp.evaluation import intervals
from vsepp.evaluation.intervals import Effect
from vsepp.pipeline.planner import make_plan
from vsepp.report import text
from vsepp.report.models import MeasuredModel
from vsepp.report.pairing import Paired, level, pair

METRICS = {"caption R@1": "i2t_r1", "image R@1": "t2i_r1", "rsum": "rsum"}
"""Head of a column → what its cells have."""
_TABLE = re.compile(r"(?<=<!-- numbers from records: )(\{.*\}) -->\n\n((?:\|.*\n)+)")


def filled(page: str, params: Path) -> str:
    """A page with the numbers of its records.

    Parameters
    ----------
    page
        Its Markdown.
    params
        The folder `params`, beside which `docs/results/` has the records.
    """
    return _TABLE.sub(lambda match: f"{match[1]} -->\n\n{_filled_table(match[2], match[1], params)}", page)


def _filled_table(table: str, settings: str, params: Path) -> str:
    """The lines of a table; p of all its differences is corrected together."""
    heads, rule, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
    ]
    plan = make_plan(params, yaml.safe_load(settings))
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(rule)}|"]
    sides = [_sides(row, plan) for row in rows]
    effects = iter(intervals.corrected(list(_effects(sides, heads))))
    for row, compared in zip(rows, sides, strict=True):
        cells = list(row)
        for column, head in enumerate(heads):
            if head == "seeds":
                cells[column] = str(len(compared.seeds))
            elif head in METRICS:
                cells[column] = (
                    _level_text(compared, METRICS[head])
                    if len(compared.models) == 1
                    else _difference_text(next(effects))
                )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _sides(row: Sequence[str], plan: Any) -> Paired:
    """The models of the runs that a row names, one side a run."""
    names = [name for cell in row for name in re.findall(r"`([^`]+)`", cell) if name in plan.models]
    models = {
        name: [plan.parameters.study.read(name, seed) for seed in sorted(plan.models[name].recorded)]
        for name in names
    }
    return pair(models, _protocol(models[names[0]]))


def _protocol(models: Sequence[MeasuredModel]) -> str:
    return next(iter(models[0].metrics))


def _effects(sides: Sequence[Paired], heads: Sequence[str]) -> Iterator[Effect]:
    """Differences of the rows with several runs, in the order of their cells."""
    for compared in sides:
        if len(compared.models) == 1:
            continue
        for metric in (METRICS[head] for head in heads if head in METRICS):
            model, baseline, *others = (
                compared.values(run, _protocol(models), metric) for run, models in compared.models.items()
            )
            if others:  # (a − b) − (c − d) = (a + d) − (b + c)
                model, baseline = model + others[1], baseline + others[0]
            yield intervals.effect(list(baseline), list(model))


def _level_text(compared: Paired, metric: str) -> str:
    """Mean and standard deviation over the seeds: `18.6 ± 1.1`."""
    (models,) = compared.models.values()
    of_seeds = level(models, _protocol(models), metric)
    return f"{text.number(of_seeds.mean)} {text.deviation(of_seeds.sd)}".strip()


def _difference_text(effect: Effect) -> str:
    """A difference with its intervals over images and over seeds, `+0.2 [−1.7, +2.1] [−1.5, +1.9]`; bold where it is significant."""
    bounds = [text.interval(bound).replace(" ", "\N{NO-BREAK SPACE}") for bound in effect.bounds]
    words = " ".join([text.signed(effect.value), *bounds])
    return f"**{words}**" if effect.sign else words
