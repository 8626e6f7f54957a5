"""What all of it says: the counts of verdicts, in a sentence and for the terminal, and what the numbers were made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vsepp.reporting import filters
from vsepp.reporting.claims import Verdict, counts, of_the_paper
from vsepp.reporting.records import Records, State, named_seeds, seeds_in_trouble
from vsepp.reporting.report_specs import ContextSpec
from vsepp.reporting.tables import Table


def answer(verdicts: Sequence[Verdict], context: ContextSpec) -> str:
    """Whether the paper was reproduced, in two or three sentences; empty where it claims nothing and nothing is compared."""
    claims, comparisons = of_the_paper(verdicts)
    return " ".join(
        filter(None, (_answer_on(claims, True, context), _answer_on(comparisons, False, context)))
    )


def _answer_on(verdicts: Sequence[Verdict], theirs: bool, context: ContextSpec) -> str:
    """What the verdicts on the paper's claims, or those on comparisons of one's own, say together."""
    what = "claims" if theirs else "comparisons of our own"
    if not verdicts:
        return ""
    judged = [verdict for verdict in verdicts if verdict.judged]
    if not judged:
        return f"None of {len(verdicts)} {what} was tested: the runs that they are about were not run."
    counted = f"{filters.listing(f'{number} {word}' for word, number in counts(judged))}."
    if len(judged) < len(verdicts):
        counted += f" {len(verdicts) - len(judged)} more were not run."
    if not theirs:
        return f"{len(judged)} {what}: {counted}"
    if max((verdict.seeds for verdict in judged), default=0) == 1:
        counted += " One seed: below stands what it showed; it supports no claim."
    if all(verdict.own for verdict in judged):
        return f"Of the {len(judged)} claims that were tested, each about one metric: {counted}"
    roles = dict.fromkeys(role for verdict in judged for role in verdict.spec.roles)
    here = filters.listing(dict.fromkeys(context.here(role) for role in roles))
    return (
        f"{len(judged)} claims, each about one metric, were tested on other data or encoders than the paper’s ({here}): "
        f"{counted} This says how these systems compare on these data, not whether the paper’s numbers hold."
    )


def troubles(records: Records) -> list[str]:
    """Which models collapsed or rank like chance: `run (collapsed: seeds 0 and 2)`."""
    return [
        f"{model} ({why}: {named_seeds(seeds)})"
        for model, of_model in records.items()
        for why, seeds in seeds_in_trouble(of_model).items()
    ]


def headline(
    tables: Sequence[Table],
    verdicts: Sequence[Verdict],
    records: Records,
    context: ContextSpec,
    folder: Path,
) -> str:
    """What the workflow prints when it has finished: the counts of verdicts, what collapsed, and where page and PDF are.

    Returns
    -------
    str
        Lines without a trailing newline.
    """
    lines = [
        context.title,
        f"preset {context.preset}, variant {context.variant}, fidelity {context.fidelity}, {named_seeds(context.seeds)}",
        "",
        f"page     {folder / 'index.html'}",
        f"paper    {folder / 'paper.pdf'}, or paper.tex where no TeX is installed",
    ]
    for what, some in zip(("claims", "comparisons of our own"), of_the_paper(verdicts), strict=True):
        if some:
            lines += ["", f"{len(some)} {what}, each about one metric:"]
            lines += [f"  {number:>3}  {word}" for word, number in counts(some)]
    if bad := troubles(records):
        lines += ["", "trained in vain:", *(f"  {line}" for line in bad)]
    rows = {row.spec.row: row for table in tables for row in table.rows}.values()
    if missing := sum(row.status == "not run" for row in rows):
        lines += [
            "",
            f"{missing} {'row' if missing == 1 else 'rows'} of the tables {'was' if missing == 1 else 'were'} not run.",
        ]
    for sign, what in (
        (filters.MARK, "with uncommitted changes"),
        (filters.ACCEPTED, "by other code, which was accepted"),
    ):
        if marked := sum(sign in row.signs for row in rows):
            count = f"{marked} {'row is' if marked == 1 else 'rows are'}"
            lines += ["", f"{count} marked {sign}: made in part {what}."]
    if context.data_note:
        lines += ["", context.data_note]
    return "\n".join(lines)


def provenance(context: ContextSpec, records: Records, git: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the page says about where its numbers come from: term → description.

    Parameters
    ----------
    context
        Whose data, which variant, which seeds.
    records
        Of each model.
    git
        `commit` of the code that writes the page, and whether it is `dirty`.
    """
    roles = [role for role in context.paper_titles if role in context.titles]
    same = [context.here(role) for role in roles if context.here(role) == context.in_paper(role)]
    swaps = context.swaps(roles)
    trained = [record for seeds in records.values() for record in seeds if record.spec.trained]
    facts = [
        ("Preset", context.preset),
        ("Variant", context.variant),
        ("Fidelity", context.fidelity),
        ("Data and encoders", "; ".join(swaps + ([filters.listing(same)] if same else []))),
        ("Seeds" if len(context.seeds) != 1 else "Seed", filters.listing(context.seeds)),
        ("Fold of 1K and 5×1K", f"{filters.count(context.fold_size)} images"),
        ("Trained by", _by_commit(record.trained for record in trained)),
        ("Evaluated by", _by_commit(record.evaluated for record in trained)),
        ("Page written by", filters.commit(git["commit"], git["dirty"])),
    ]
    return [(term, text) for term, text in facts if text]  # no data to name where no paper has these roles


def _by_commit(states: Iterable[State]) -> str:
    """How many models each commit made; every seed of a run is one."""
    parts = [
        f"{number} {'model' if number == 1 else 'models'} at {filters.commit(*state)}"
        for state, number in sorted(Counter(states).items())
    ]
    return "; ".join(parts) or "nothing was run"
