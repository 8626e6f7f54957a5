"""The few numbers that say at a glance how VSE0 and VSE++ came out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vsepp.reporting import filters
from vsepp.reporting.origins import MARK, Origin, State, commits
from vsepp.reporting.specs import DIRECTIONS, ContextSpec
from vsepp.reporting.tables import Row, Table


@dataclass(frozen=True)
class Pair:
    """Two rows that differ in VSE0 against VSE++ only."""

    dataset: str
    vse0: Row
    vsepp: Row


def best_pairs(tables: Iterable[Table]) -> list[Pair]:
    """Per dataset, the pair of rows whose VSE++ has our highest R@1 of caption retrieval.

    Only pairs of which both were run, with the same encoder, fine-tuning, training set and protocol. Means
    over five folds go before single folds, which vary more.
    """
    rows: dict[tuple[str, str], dict[tuple[object, ...], Row]] = {}
    for table in tables:
        for row in table.rows:
            if row.status == "run" and row.system in ("VSE0", "VSE++"):
                setting = (row.encoder, row.finetuned, row.trainset, row.protocol)
                rows.setdefault((row.dataset, row.system), {})[setting] = row
    pairs = []
    for dataset in sorted({dataset for dataset, _ in rows}):
        vse0, vsepp = rows.get((dataset, "VSE0"), {}), rows.get((dataset, "VSE++"), {})
        both = [setting for setting in vsepp if setting in vse0]
        averaged = [setting for setting in both if setting[-1] == "5x1K"]
        if candidates := averaged or both:
            best = max(candidates, key=lambda setting: vsepp[setting].cells["i2t_r1"].ours or 0)
            pairs.append(Pair(dataset, vse0[best], vsepp[best]))
    return pairs


def describe_setting(pair: Pair, context: ContextSpec) -> str:
    """Encoder, fine-tuning, training set and protocol that the two rows of a pair share."""
    row = pair.vsepp
    tuned = ", fine-tuned" if row.finetuned else ""
    return f"{context.here(row.encoder)}{tuned}, {row.trainset}, protocol {row.protocol}"


def headline(tables: Iterable[Table], index: Path) -> str:
    """What the workflow prints when it has finished: where the page is, and R@1 both ways.

    Returns
    -------
    str
        Lines without a trailing newline, at most 100 characters wide for usual titles.
    """
    tables = list(tables)
    lines = [f"{filters.listing([table.name for table in tables])}, figures and captions: {index}"]
    if not tables:
        return lines[0]
    context = tables[0].context
    lines.append(f"preset {context.preset}, variant {context.variant}, fidelity {context.fidelity}")
    for pair in best_pairs(tables):
        lines += ["", f"R@1 (%) on {context.here(pair.dataset)}: {describe_setting(pair, context)}"]
        for direction, name in DIRECTIONS.items():
            cells = [row.cells[f"{direction}_r1"] for row in (pair.vse0, pair.vsepp)]
            ours = [filters.measured(cell.ours, cell.sd) for cell in cells]
            lines.append(f"  {name:<18} VSE0 {ours[0]:<12} VSE++ {ours[1]}")
    if missing := len({row.number for table in tables for row in table.rows if row.status == "not run"}):
        lines += ["", f"{missing} {'row says' if missing == 1 else 'rows say'} “not run”."]
    if dirty := len({row.number for table in tables for row in table.rows if row.dirty_mark}):
        marked = f"{dirty} {'row is' if dirty == 1 else 'rows are'} marked {MARK}"
        lines += ["", f"{marked}: made in part with uncommitted changes."]
    if context.data_note:
        lines += ["", context.data_note]
    return "\n".join(lines)


def provenance(
    tables: Iterable[Table], context: ContextSpec, drawn: Iterable[tuple[str, Origin]] = ()
) -> list[tuple[str, str]]:
    """What the page says about where its numbers come from: term → description.

    Parameters
    ----------
    tables
        Of the report.
    context
        Whose data, which variant, which seeds.
    drawn
        (run, origin) of what its figures show.
    """
    origins = [
        (row.run or row.number, origin) for table in tables for row in table.rows for origin in row.origins
    ] + list(drawn)
    roles = [role for role in context.paper_titles if role in context.titles]
    swaps = [
        f"{context.here(role)} in place of {context.in_paper(role)}"
        for role in roles
        if context.here(role) != context.in_paper(role)
    ]
    same = [context.here(role) for role in roles if context.here(role) == context.in_paper(role)]
    seeds = filters.listing(context.seeds)
    return [
        ("Preset", context.preset),
        ("Variant", context.variant),
        ("Fidelity", context.fidelity),
        ("Data and encoders", "; ".join(swaps + ([filters.listing(same)] if same else []))),
        ("Seeds" if len(context.seeds) != 1 else "Seed", seeds),
        ("Test fold", f"{filters.count(context.fold_size)} images"),
        ("Trained by", _by(commits(origins, "trained"), bool(origins))),
        ("Evaluated by", _by(commits(origins, "evaluated"), bool(origins))),
        ("Page written by", filters.commit(context.commit, context.dirty)),
    ]


def _by(states: dict[State, int], any_run: bool) -> str:
    runs = [
        f"{count} {'run' if count == 1 else 'runs'} at {filters.commit(*state)}"
        for state, count in states.items()
    ]
    return "; ".join(runs) or ("not known" if any_run else "nothing was run")
