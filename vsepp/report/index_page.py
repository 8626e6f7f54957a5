"""What a report's page shows, by the names that its template has for it: what stands first, its sections, where its numbers come from.

A report on real data leads with its verdicts. On generated scenes, which answer no claim of a paper, it leads with the scores that are
held and with how to look at a run; its claims are folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vsepp.base.declared import FOLDS
from vsepp.report import text
from vsepp.report.entries import ALL_GAPS, ContextSpec, ReportSpec
from vsepp.report.expected import ABOVE, EQUAL, NOT_HELD, OUTSIDE, WITHIN, State, count_by_word
from vsepp.report.models import MadeBy, MeasuredModel, Models, on_scenes
from vsepp.report.pairing import in_trouble
from vsepp.report.plots import Drawn
from vsepp.report.tables import FilledTable
from vsepp.report.verdicts import AS_CLAIMED, NOT_AS_CLAIMED, OUTCOMES, Verdict, counts, of_the_paper

_HELD_TO = {
    EQUAL: "as on a machine of this kind",
    WITHIN: "of the mean over the seeds",
    ABOVE: "of runs that vary much over their seeds",
    NOT_HELD: "of runs that may collapse",
    OUTSIDE: "`vsepp verify --scores` names them",
}
"""How a score compares with its expected value → in which way."""


@dataclass(frozen=True)
class Tile:
    """One of the counts that open a page."""

    number: int
    words: str
    """What is counted."""
    more: str
    """`2 no difference and 1 opposite`."""
    attributes: Mapping[str, str]
    """Of its link."""


def index_page(
    spec: ReportSpec,
    tables: Sequence[FilledTable],
    figures: Sequence[Drawn],
    verdicts: Sequence[Verdict],
    models: Models,
    scores: Sequence[State],
) -> dict[str, Any]:
    """What the page shows; `provenance` apart.

    Parameters
    ----------
    spec
        The report.
    tables, figures, verdicts, models
        What was made of it.
    scores
        Scores that are held against expected values.
    """
    claims, comparisons = of_the_paper(verdicts)
    is_tested = any(verdict.judged for verdict in verdicts)
    gaps = [figure for figure in figures if figure.id == ALL_GAPS and is_tested]
    others = [figure for figure in figures if figure not in gaps]
    on_generated = on_scenes(models)
    if on_generated:
        lead = lead_on_scenes(models, scores)
    else:
        lead = lead_of_verdicts(claims, comparisons, spec.context) if is_tested else {}
    theirs = " The numbers in the columns “Paper” and the quoted rows are theirs."
    has_theirs = claims or any(table.published for table in tables)
    return {
        "contents": _contents(tables, others, verdicts, spec),
        "lead": lead,
        "troubles": _about_troubles(models),
        "gaps": gaps,
        "folded": _summary(claims, comparisons) if on_generated else "",
        "untested": answer(claims, spec.context) if not any(claim.judged for claim in claims) else "",
        "choices": _choices(verdicts),
        "figures": others,
        "sources": spec.sources,
        "footer": f"{spec.context.paper.citation}.{theirs if has_theirs else ''}",
    }


def _contents(
    tables: Sequence[FilledTable], figures: Sequence[Drawn], verdicts: Sequence[Verdict], spec: ReportSpec
) -> list[tuple[str, str]]:
    """Anchor and words of each section, in their order."""
    contents = [(f"section-{table.id}", table.short) for table in tables]
    contents += [(f"section-{figure.id}", figure.number or figure.title) for figure in figures]
    contents += [("claims", "Claims")] if verdicts else []
    contents += [("runs", "Runs"), ("provenance", "Provenance")]
    return [*contents, ("sources", "Sources")] if spec.sources else contents


# --- What stands first -------------------------------------------------------------------------------------------


def lead_of_verdicts(
    claims: Sequence[Verdict], comparisons: Sequence[Verdict], context: ContextSpec
) -> dict[str, Any]:
    """The verdicts counted, on the paper's claims where any was tested."""
    claims_tested = any(verdict.judged for verdict in claims)
    return {
        "heading": "Did it reproduce?" if claims_tested else "What our comparisons say",
        "tiles": tiles(claims if claims_tested else comparisons),
        "answer": answer(claims, context),
        "compared": about_comparisons(comparisons),
        "best": None,
    }


def lead_on_scenes(models: Models, scores: Iterable[State]) -> dict[str, Any]:
    """The scores that are held, and which model to look at; nothing where nothing was run."""
    counted = []
    for word, number in count_by_word(scores).items():
        link = {"class": text.slug(NOT_AS_CLAIMED if word == OUTSIDE else AS_CLAIMED), "href": "#provenance"}
        counted.append(Tile(number, f"{'score' if number == 1 else 'scores'} {word}", _HELD_TO[word], link))
    best = best_to_search(models)
    if not (counted or best or troubles(models)):
        return {}
    held = "Scores are held against values that were measured before, on machines that were tried."
    return {
        "heading": "What this run shows",
        "tiles": counted,
        "answer": held if counted else "",
        "compared": "",
        "best": best,
    }


def best_to_search(models: Models) -> MeasuredModel | None:
    """The sound model with the highest rsum, among trained models with pictures of their test images."""
    searchable = [
        model
        for seeds in models.values()
        for model in seeds
        if model.history_csv and model.run and model.pictures and not model.trouble
    ]
    return max(
        searchable, key=lambda model: next(iter(model.metrics.values())).get("rsum", 0.0), default=None
    )


def _summary(claims: Sequence[Verdict], comparisons: Sequence[Verdict]) -> str:
    """What the folded list of claims is called; nothing without claims."""
    counted = [text.plural(len(claims), "claim")] * bool(claims)
    counted += [text.plural(len(comparisons), "comparison") + " of our own"] * bool(comparisons)
    return f"{text.listing(counted)}, which generated scenes cannot answer" if counted else ""


def tiles(verdicts: Sequence[Verdict]) -> list[Tile]:
    """How many verdicts have each outcome."""
    counted = []
    for outcome in OUTCOMES:
        of_outcome = [verdict for verdict in verdicts if verdict.outcome == outcome]
        name = text.slug(outcome)
        link = {"class": name, "href": "#claims", "data-verdict": name}
        counted.append(Tile(len(of_outcome), outcome, _counted(of_outcome), link))
    return counted


def _counted(verdicts: Iterable[Verdict]) -> str:
    return text.listing(f"{number} {word}" for word, number in counts(verdicts))


def _choices(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Value and words of what the list of verdicts can be narrowed to."""
    words = dict.fromkeys(verdict.word for verdict in verdicts)
    choices = [("", "all verdicts")]
    for outcome, of_outcome in OUTCOMES.items():
        choices.append((text.slug(outcome), outcome))
        choices += [
            (text.slug(word), f"– {word}") for word in words if word in of_outcome and word != outcome
        ]
    return choices


def answer(claims: Sequence[Verdict], context: ContextSpec) -> str:
    """On which data and encoders the paper's claims were tested, and the limits of that; empty without claims."""
    if not claims:
        return ""
    judged = [verdict for verdict in claims if verdict.judged]
    if not judged:
        return f"{text.plural(len(claims), 'claim')}, none tested: the runs behind them were not made."
    if all(verdict.own for verdict in judged):
        where = "the paper’s data and encoders"
    else:
        roles = dict.fromkeys(role for verdict in judged for role in verdict.roles)
        where = text.listing(dict.fromkeys(context.here(role) for role in roles))
        if not context.data_note:  # else the page says it above
            where += ", not on the paper’s data and encoders"
    tested = (
        f"Tested on {where}: {len(judged)} of {text.plural(len(claims), 'claim')}, each about one metric."
    )
    return tested + " One seed settles nothing." * (max(verdict.measured.seeds for verdict in judged) == 1)


def about_comparisons(comparisons: Sequence[Verdict]) -> str:
    """The verdicts on comparisons of one's own, counted; empty where none was judged."""
    if not any(verdict.judged for verdict in comparisons):
        return ""
    return f"{text.plural(len(comparisons), 'comparison')} of our own: {_counted(comparisons)}."


def troubles(models: Models) -> list[str]:
    """Which models collapsed or rank like chance: `run collapsed (seeds 0 and 2)`."""
    return [f"{name} {text.troubles(bad)}" for name, seeds in models.items() if (bad := in_trouble(seeds))]


def _about_troubles(models: Models) -> str:
    if not (names := troubles(models)):
        return ""
    return (
        f"{'; '.join(names)}. These seeds are left out of all numbers, figures and verdicts; where no "
        "seed of a run is sound, its numbers stand, marked, and no verdict rests on them."
    )


# --- Where the numbers come from ---------------------------------------------------------------------------------


def provenance(
    context: ContextSpec,
    models: Models,
    scores: str,
    git: Mapping[str, Any],
) -> list[tuple[str, str]]:
    """What the page says about where its numbers come from: term → description.

    Parameters
    ----------
    context
        Data and encoders, variant and seeds of the report.
    models
        Models of each run.
    scores
        How many scores are as expected, in words.
    git
        `commit` of the code that writes the page, and whether it is `dirty`.
    """
    roles = [role for role in context.paper_titles if role in context.titles]
    same = [context.here(role) for role in roles if context.here(role) == context.in_paper(role)]
    swaps = context.swaps(roles)
    every = [model for seeds in models.values() for model in seeds]
    trained = [model for model in every if model.history_csv]
    others = [maker for model in every for maker in model.other_code]
    folds = any(protocol in FOLDS for model in every for protocol in model.metrics)
    facts = [
        ("Preset", context.preset),
        ("Variant", context.variant),
        ("Fidelity", context.fidelity),
        ("Data and encoders", "; ".join(swaps + ([text.listing(same)] if same else []))),
        ("Seeds" if len(context.seeds) != 1 else "Seed", text.listing(sorted(context.seeds))),
        ("Fold of 1K and 5×1K", text.plural(context.fold_size, "image") if folds else ""),
        ("Trained by", _by_commit(model.trained_by for model in trained)),
        ("Evaluated by", _by_commit(model.evaluated_by for model in trained)),
        ("Made by other code", _by_commit(others) if others else ""),
        ("Scores", scores),
        ("Page written by", text.commit(git["commit"], git["dirty"])),
    ]
    return [(term, words) for term, words in facts if words]  # no data to name where no paper has these roles


def _by_commit(makers: Iterable[MadeBy]) -> str:
    """How many models each commit made; every seed of a run is a model."""
    counted = sorted(Counter(makers).items())
    parts = [f"{text.plural(number, 'model')} at {text.commit(*maker)}" for maker, number in counted]
    return "; ".join(parts) or "nothing was run"
