"""What runs say of claims: effects, intervals, what had to be left out, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import stdev
from typing import Any

import numpy as np

from vsepp.base.manifest import ancestors_of
from vsepp.evaluation import intervals
from vsepp.evaluation.metrics import AVERAGED
from vsepp.report import text
from vsepp.report.claims import CHANCE, COLLAPSED, NOT_RUN, BestValue, Difference, Verdict, rule_of
from vsepp.report.entries import Claim, ReportSpec
from vsepp.report.models import AT_CHANCE, Model, Models, in_trouble, pair
from vsepp.report.published import Published

_SHARED = {
    "features": "features",
    "published": "features",
    "precomputed": "features",  # as earlier manifests call it
    "tape": "random-crop features",
    "tokens": "word ids",
    "vectors": "caption vectors",
}
"""Step → name of its artefact, which runs of the same parameters share."""

Compared = Mapping[str, Sequence[Model]]
"""Run → its records of the seeds that are compared, in their order."""


def judge(
    claims: Iterable[tuple[str, Claim]], report: ReportSpec, records: Models, published: Published
) -> list[Verdict]:
    """Hold claims against runs, each about each of its metrics.

    Parameters
    ----------
    claims
        The paper's, and comparisons of one's own, by name.
    report
        Which data and encoders play the paper's roles, and which of them runs have.
    records
        Records of each model; a claim about a run without records is `not run`.
    published
        The paper's rows.

    Raises
    ------
    VseppError
        When a run was not evaluated under a claim's protocol, and when runs that are compared were measured on different
        test images.
    """
    asked = [
        (name, claim, metric)
        for name, claim in claims
        for metric in sorted(claim.published, key=AVERAGED.index)
    ]
    measured, verdicts = [], []
    for name, claim, metric in asked:
        roles = report.roles(claim.named)
        own = not report.context.data_note and not report.context.swaps(roles)
        verdict = Verdict(claim, metric, "", "", own, name=name, roles=roles)
        measured.append(_measured(verdict, records, published, len(asked)))
    corrected = iter(intervals.holm([verdict.p for verdict in measured if verdict.p is not None]))
    for verdict in measured:
        if verdict.p is not None:
            verdict = replace(verdict, p=next(corrected))
        if not verdict.word:
            word, reason = rule_of(verdict)
            why = "; ".join(filter(None, (verdict.why, reason)))
            verdict = replace(verdict, word=word, why=why)
        verdicts.append(verdict)
    return verdicts


class _Unmeasured(Exception):
    """The verdict on a claim without an effect, and its grounds."""


def _not_run(missing: Iterable[str], notes: Sequence[str] = ()) -> _Unmeasured:
    return _Unmeasured(NOT_RUN, "; ".join([f"not run: {text.listing(missing)}", *notes]))


def _failed(why: str) -> _Unmeasured:
    return _Unmeasured(CHANCE if why.endswith(AT_CHANCE) else COLLAPSED, why)


def _measured(verdict: Verdict, records: Models, published: Published, tests: int) -> Verdict:
    """With the effect that a claim is about, not judged yet; `tests`: number of tests that p will be corrected for."""
    claim, metric = verdict.spec, verdict.metric
    try:
        against = _others(claim, metric, published)
        if against is not None and not verdict.own:
            raise _not_run(["the published number belongs to the paper's own data and encoders"])
        if isinstance(claim, BestValue):
            runs, compared, notes = _best(claim, metric, records)
        else:
            runs = list(claim.runs)
            if missing := [run for run in runs if run not in records]:
                raise _not_run(missing)
            compared, notes = _compared(runs, claim.protocol, records)
        if claim.protocol is None:
            first, second = (
                [list(record.history(metric).values()) for record in compared[run]] for run in runs
            )
            shortest = min(map(len, [*first, *second]))
            if shortest < claim.epochs:
                raise _not_run([f"runs of {claim.epochs} epochs (these have {shortest})"])
            note, values = claim.measure(first, second)
            notes = [note, *notes]
        else:
            values = _on_test(metric, claim.protocol, runs, compared, against, tests)
    except _Unmeasured as unmeasured:
        word, why = unmeasured.args
        return replace(verdict, word=word, why=why)
    if verdict.published is None:
        values["paper_sd"] = None
    return replace(verdict, why="; ".join(notes), seeds=len(compared[runs[0]]), **values)


def _others(claim: Claim, metric: str, published: Published) -> float | None:
    """The number that others published, where a claim is about one run and a number."""
    row = claim.row if isinstance(claim, Difference) else None
    return float(published["", row][metric]) if row else None


def _compared(runs: Iterable[str], protocol: str | None, records: Models) -> tuple[Compared, list[str]]:
    """The records that are compared: of seeds that all runs have, each sound and all made from the same inputs; and notes on what
    was left out."""
    paired = pair({run: records[run] for run in dict.fromkeys(runs)}, protocol)
    for run, why in paired.trouble.items():
        raise _failed(f"{run} {why}")
    notes, seeds = list(paired.left_out), list(paired.seeds)
    of_seeds = dict(zip(seeds, zip(*paired.models.values(), strict=True), strict=True)) if seeds else {}
    mixed = {seed: kinds for seed, of_seed in of_seeds.items() if (kinds := _mixed(of_seed))}
    if mixed:
        inputs = text.listing(dict.fromkeys(kind for kinds in mixed.values() for kind in kinds))
        note = f"{text.seeds(mixed)}: its runs were made from different {inputs} with the same parameters"
        if len(mixed) < len(seeds):
            note += ", left out"
            seeds = [seed for seed in seeds if seed not in mixed]
        notes.append(note)
    if not seeds:
        raise _not_run(["a seed common to all its runs"], notes)
    compared = {run: [model for model in side if model.seed in seeds] for run, side in paired.models.items()}
    return compared, notes + _machines(compared)


def _mixed(records: Iterable[Model]) -> list[str]:
    """Kinds of inputs that differ between records although they were made with the same parameters."""
    digests: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for ancestor in ancestors_of(record.evaluated):
            if kind := _SHARED.get(ancestor["step"]):
                made_with = kind, str(ancestor.get("spec_digest"))
                digests.setdefault(made_with, set()).add(str(ancestor["digest"]))
    return list(dict.fromkeys(kind for (kind, _), different in digests.items() if len(different) > 1))


def _machines(compared: Compared) -> list[str]:
    """A note where not all runs were trained on the same processors."""
    processors = {
        run: {str(made.get("machine", {}).get("processor")) for record in seeds if (made := record.trained)}
        for run, seeds in compared.items()
    }
    every = set[str]().union(*processors.values())
    alike = all(names == every for names in processors.values())
    return [] if alike or len(every) < 2 else [f"trained on {text.listing(sorted(every))}"]


def _on_test(
    metric: str, protocol: str, runs: Sequence[str], compared: Compared, against: float | None, tests: int
) -> dict[str, Any]:
    """The difference a − b of test scores, (a − b) − (c − d), or a − the number that others published."""
    values = [np.array([record.values(protocol, metric) for record in compared[run]]) for run in runs]
    if against is not None:  # a number that has no interval of its own
        values.append(np.full_like(values[0], against))
    of, over = np.sum(values[0::3], axis=0), np.sum(values[1:3], axis=0)
    effect = intervals.effect(over, of, tests)
    measured: dict[str, Any] = {"value": effect.value, "images": effect.images, "p": effect.p}
    if len(runs) == 2 and metric == "i2t_r1":
        measured["mcnemar"] = tuple(intervals.mcnemar(*seed) for seed in zip(over, of, strict=True))
    if len(effect.by_seed) > 1:
        measured |= {"over_seeds": effect.seeds, "paper_sd": stdev(effect.by_seed) or None}
    return measured


def _best(claim: BestValue, metric: str, records: Models) -> tuple[list[str], Compared, list[str]]:
    """The best of the claimed sizes and the best of the others, chosen on validation; runs of all other sizes must be there."""
    low, high = claim.best
    sizes = {claim.runs[size]: size for size in sorted(claim.runs)}
    missing = [run for run in sizes if run not in records]
    if rivals := [run for run in missing if not claim.claims(sizes[run])]:
        raise _not_run(rivals)
    # A size with a failed training is no rival, and is named.
    trouble = {
        run: next(iter(in_trouble(records[run], claim.protocol)), "") for run in sizes if run in records
    }
    sound = [run for run, why in trouble.items() if not why]
    claimed = [run for run in sound if claim.claims(sizes[run])]
    others = [run for run in sound if run not in claimed]
    if not claimed or not others:
        failed = "; ".join(f"{run} {why}" for run, why in trouble.items() if why)
        raise _failed(failed) if failed else _not_run(missing)
    compared, notes = _compared(sound, claim.protocol, records)

    def level(run: str) -> float:
        return float(np.mean([_validated(record, metric) for record in compared[run]]))

    runs = [max(claimed, key=level), max(others, key=level)]
    note = f"best on validation of {low} to {high}: {sizes[runs[0]]}; of the others: {sizes[runs[1]]}"
    if left_out := sorted(size for run, size in sizes.items() if run not in sound):
        note += f"; left out: {text.listing(left_out)}"
    return runs, compared, [note, *notes]


def _validated(record: Model, metric: str) -> float:
    """A metric on validation of the snapshot that is evaluated, from the epoch with the highest rsum."""
    rsum = record.history("rsum")
    return record.history(metric)[max(rsum, key=rsum.__getitem__)]
