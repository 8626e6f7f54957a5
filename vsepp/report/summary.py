"""Summary of a report: the counts of verdicts, on the page and for the terminal, and what the numbers were made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from vsepp.base.errors import as_started
from vsepp.report import text
from vsepp.report.claims import OUTCOMES, Verdict, counts, of_the_paper
from vsepp.report.entries import ContextSpec
from vsepp.report.models import MadeBy, Models, by_other_code, in_trouble
from vsepp.report.tables import Table


@dataclass(frozen=True)
class Tile:
    """One of the counts that open a page."""

    outcome: str
    number: int
    verdicts: str
    """`2 no difference and 1 opposite`."""


def tiles(verdicts: Sequence[Verdict]) -> list[Tile]:
    """How many verdicts have each outcome."""
    by_outcome = {outcome: [v for v in verdicts if v.outcome == outcome] for outcome in OUTCOMES}
    return [Tile(outcome, len(some), _counted(some)) for outcome, some in by_outcome.items()]


def _counted(verdicts: Iterable[Verdict]) -> str:
    return text.listing(f"{number} {word}" for word, number in counts(verdicts))


def answer(claims: Sequence[Verdict], context: ContextSpec) -> str:
    """A sentence on the data and encoders that the paper's claims were tested on, and the limits of that; empty without claims."""
    if not claims:
        return ""
    judged = [verdict for verdict in claims if verdict.judged]
    if not judged:
        return f"None of {len(claims)} claims was tested: the runs that they are about were not run."
    what = f"{len(judged)} of {len(claims)} claims, each about one metric, were tested on"
    if all(verdict.own for verdict in judged):
        said = f"{what} the paper’s data and encoders"
    else:
        roles = dict.fromkeys(role for verdict in judged for role in verdict.roles)
        here = text.listing(dict.fromkeys(context.here(role) for role in roles))
        said = f"{what} {here}"
        if not context.data_note:  # else the page says it above
            said += ", not on the paper’s data and encoders"
    return said + ("; one seed supports no claim." if max(verdict.seeds for verdict in judged) == 1 else ".")


def compared(comparisons: Sequence[Verdict]) -> str:
    """The verdicts on comparisons of one's own, counted; empty where there are none."""
    judged = [verdict for verdict in comparisons if verdict.judged]
    if not judged:
        return ""
    left = len(comparisons) - len(judged)
    return f"{len(judged)} comparisons of our own: {_counted(judged)}{f'; {left} more were not run' if left else ''}."


def troubles(records: Models) -> list[str]:
    """Which models collapsed or rank like chance: `run (collapsed: seeds 0 and 2)`."""
    return [
        f"{model} ({why}: {text.seeds(seeds)})"
        for model, of_model in records.items()
        for why, seeds in in_trouble(of_model).items()
    ]


def headline(
    tables: Sequence[Table],
    verdicts: Sequence[Verdict],
    records: Models,
    scores: str,
    context: ContextSpec,
    page: Path,
) -> str:
    """What the workflow prints when it has finished: scores, verdicts, what collapsed, the page to open, what to do next.

    Returns
    -------
    str
        Lines without a trailing newline.
    """
    lines = [
        context.title,
        f"preset {context.preset}, variant {context.variant}, fidelity {context.fidelity}, {text.seeds(context.seeds)}",
    ]
    for what, some in zip(("claims", "comparisons of our own"), of_the_paper(verdicts), strict=True):
        if some:
            lines += ["", f"{len(some)} {what}, each about one metric:"]
            lines += [f"  {number:>3}  {word}" for word, number in counts(some)]
    if bad := troubles(records):
        lines += ["", "collapsed or like chance:", *(f"  {line}" for line in bad)]
    rows = {row.id: row for table in tables for row in table.rows}.values()
    if missing := sum(row.status == "not run" for row in rows):
        lines += [
            "",
            f"{missing} {'row' if missing == 1 else 'rows'} of the tables {'was' if missing == 1 else 'were'} not run.",
        ]
    if marked := sum(bool(row.sign) for row in rows):
        count = f"{marked} {'row is' if marked == 1 else 'rows are'}"
        lines += ["", f"{count} marked {text.MARK}: made in part with uncommitted changes."]
    if context.data_note:
        lines += ["", context.data_note]
    lines += ["", *([scores] if scores else []), f"open    {page}"]
    if run := _to_search(records):
        lines.append(f"next    {as_started()}vsepp serve {quote(run)}")
    return "\n".join(lines)


def _to_search(records: Models) -> str:
    """Folder of the sound model with the highest rsum, among trained models with pictures of their test images, or nothing."""
    there = [
        one
        for seeds in records.values()
        for one in seeds
        if one.history_csv and one.pictures and not one.trouble()
    ]
    best = max(there, key=lambda one: next(iter(one.metrics.values()))["rsum"], default=None)
    return best.run if best else ""


def provenance(
    context: ContextSpec,
    records: Models,
    scores: str,
    git: Mapping[str, Any],
    other_code: Mapping[str, MadeBy],
) -> list[tuple[str, str]]:
    """What the page says about where its numbers come from: term → description.

    Parameters
    ----------
    context
        Data and encoders, variant and seeds of the report.
    records
        Records of each model.
    scores
        How many scores are as expected, in words.
    git
        `commit` of the code that writes the page, and whether it is `dirty`.
    other_code
        Folder of a training or an evaluation that other code than the present one made → who made it.
    """
    roles = [role for role in context.paper_titles if role in context.titles]
    same = [context.here(role) for role in roles if context.here(role) == context.in_paper(role)]
    swaps = context.swaps(roles)
    trained = [record for seeds in records.values() for record in seeds if record.history_csv]
    others = [
        maker for seeds in records.values() for one in seeds for maker in by_other_code(one, other_code)
    ]
    facts = [
        ("Preset", context.preset),
        ("Variant", context.variant),
        ("Fidelity", context.fidelity),
        ("Data and encoders", "; ".join(swaps + ([text.listing(same)] if same else []))),
        ("Seeds" if len(context.seeds) != 1 else "Seed", text.listing(context.seeds)),
        ("Fold of 1K and 5×1K", f"{text.count(context.fold_size)} images"),
        ("Trained by", _by_commit(record.trained_by for record in trained)),
        ("Evaluated by", _by_commit(record.evaluated_by for record in trained)),
        ("Made by other code", _by_commit(others) if others else ""),
        ("Scores", scores),
        ("Page written by", text.commit(git["commit"], git["dirty"])),
    ]
    return [(term, words) for term, words in facts if words]  # no data to name where no paper has these roles


def _by_commit(makers: Iterable[MadeBy]) -> str:
    """How many models each commit made; every seed of a run is a model."""
    parts = [
        f"{number} {'model' if number == 1 else 'models'} at {text.commit(*maker)}"
        for maker, number in sorted(Counter(makers).items())
    ]
    return "; ".join(parts) or "nothing was run"
