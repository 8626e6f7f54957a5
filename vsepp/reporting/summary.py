"""The few numbers that say at a glance how the two compared systems came out, and what all numbers were made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vsepp.reporting import filters
from vsepp.reporting.records import Records, State
from vsepp.reporting.specs import DIRECTIONS, ContextSpec
from vsepp.reporting.tables import Row, Table


def best_pairs(tables: Iterable[Table], compare: Sequence[str]) -> list[tuple[Row, ...]]:
    """Per data set, two rows of the paper that differ in the compared systems only.

    Both were run, with the same encoder, fine-tuning, training set and protocol; of these pairs the one whose second
    system has our highest R@1 of caption retrieval. Means over five folds go before single folds, which vary more.
    """
    found: dict[str, dict[tuple[str, ...], dict[str, Row]]] = {}
    for table in tables:
        for row in table.rows:
            if row.status == "run" and not row.spec.own and row.facts["system"] in compare:
                setting = tuple(row.facts[key] for key in ("encoder", "finetuned", "trainset", "protocol"))
                rows = found.setdefault(row.facts["dataset"], {}).setdefault(setting, {})
                rows[row.facts["system"]] = row
    pairs = []
    for _, settings in sorted(found.items()):
        complete = [rows for rows in settings.values() if len(rows) == len(compare)]
        both = [tuple(rows[system] for system in compare) for rows in complete]
        averaged = [pair for pair in both if pair[-1].facts["protocol"] == "5x1K"]
        if candidates := averaged or both:
            pairs.append(max(candidates, key=lambda pair: pair[-1].cells["i2t_r1"].ours or 0))
    return pairs


def describe_setting(row: Row, context: ContextSpec) -> str:
    """Encoder, fine-tuning, training set and protocol, which the rows of a pair share."""
    tuned = ", fine-tuned" if row.facts["finetuned"] == "yes" else ""
    encoder = context.here(row.facts["encoder"])
    return f"{encoder}{tuned}, {row.facts['trainset']}, protocol {row.facts['protocol']}"


def headline(tables: Sequence[Table], context: ContextSpec, index: Path) -> str:
    """What the workflow prints when it has finished: where the page is, and R@1 both ways.

    Returns
    -------
    str
        Lines without a trailing newline, at most 100 characters wide for usual titles.
    """
    names = [filters.numbered(table.spec.id) or table.spec.title for table in tables] or ["Tables"]
    lines = [
        f"{filters.listing(names)}, figures and captions: {index}",
        f"preset {context.preset}, variant {context.variant}, fidelity {context.fidelity}",
    ]
    for pair in best_pairs(tables, context.paper.compare):
        dataset = context.here(pair[-1].facts["dataset"])
        lines += ["", f"R@1 (%) on {dataset}: {describe_setting(pair[-1], context)}"]
        for direction, name in DIRECTIONS.items():
            cells = [(row.facts["system"], row.cells[f"{direction}_r1"]) for row in pair]
            ours = [f"{system} {filters.measured(cell.ours, cell.sd):<12}" for system, cell in cells]
            lines.append(f"  {name:<18} {' '.join(ours)}".rstrip())
    rows = {row.spec.row: row for table in tables for row in table.rows}
    if missing := sum(row.status == "not run" for row in rows.values()):
        lines += ["", f"{missing} {'row says' if missing == 1 else 'rows say'} “not run”."]
    if dirty := sum(bool(row.dirty_mark) for row in rows.values()):
        marked = f"{dirty} {'row is' if dirty == 1 else 'rows are'} marked {filters.MARK}"
        lines += ["", f"{marked}: made in part with uncommitted changes."]
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
    runs = [(name, record) for name, seeds in records.items() for record in seeds if record.spec.trained]
    return [
        ("Preset", context.preset),
        ("Variant", context.variant),
        ("Fidelity", context.fidelity),
        ("Data and encoders", "; ".join(swaps + ([filters.listing(same)] if same else []))),
        ("Seeds" if len(context.seeds) != 1 else "Seed", filters.listing(context.seeds)),
        ("Test fold", f"{filters.count(context.fold_size)} images"),
        ("Trained by", _runs_by_commit((name, record.trained) for name, record in runs)),
        ("Evaluated by", _runs_by_commit((name, record.evaluated) for name, record in runs)),
        ("Page written by", filters.commit(git["commit"], git["dirty"])),
    ]


def _runs_by_commit(states: Iterable[tuple[str, State]]) -> str:
    """How many distinct runs each commit made."""
    runs: dict[State, set[str]] = {}
    for run, state in states:
        runs.setdefault(state, set()).add(run)
    counts = [
        f"{len(names)} {'run' if len(names) == 1 else 'runs'} at {filters.commit(*state)}"
        for state, names in sorted(runs.items())
    ]
    return "; ".join(counts) or "nothing was run"
