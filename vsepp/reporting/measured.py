"""What runs say of claims: effects, intervals, what had to be left out, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import stdev
from typing import Any

import numpy as np

from vsepp.base.manifest import ancestors_of
from vsepp.evaluation import intervals
from vsepp.reporting import filters
from vsepp.reporting.claims import CHANCE, COLLAPSED, NOT_RUN, Verdict, rule_of
from vsepp.reporting.records import (
    AT_CHANCE,
    TEST_IMAGES,
    Record,
    Records,
    image_values,
    named_seeds,
    read_history,
    scores,
    seeds_in_trouble,
    shared_seeds,
    trouble_of,
)
from vsepp.reporting.report_specs import ClaimSpec, ContextSpec

_SHARED = {
    "features": "features",
    "published": "features",
    "precomputed": "features",  # as earlier manifests call it
    "tape": "random-crop features",
    "tokens": "word ids",
    "vectors": "caption vectors",
}
"""Step → name of its artefact, which runs of the same parameters share."""
_ROUNDED = 12**-0.5
"""Standard deviation of an epoch by rounding to whole epochs alone."""

Compared = Mapping[str, Sequence[Record]]
"""Run → its records of the seeds that are compared, in their order."""


def judge(claims: Iterable[ClaimSpec], context: ContextSpec, records: Records) -> list[Verdict]:
    """Hold claims against runs.

    Parameters
    ----------
    claims
        The paper's, and comparisons of one's own.
    context
        Which data and encoders play the paper's roles.
    records
        Records of each model; a claim about a run without records is `not run`.

    Raises
    ------
    VseppError
        When a run was not evaluated under a claim's protocol, and when runs that are compared were measured on different
        test images.
    """
    claims, verdicts = list(claims), []
    measured = [_measured(claim, context, records, len(claims)) for claim in claims]
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
    return _Unmeasured(NOT_RUN, "; ".join([f"not run: {filters.listing(missing)}", *notes]))


def _failed(why: str) -> _Unmeasured:
    return _Unmeasured(CHANCE if why.endswith(AT_CHANCE) else COLLAPSED, why)


def _measured(claim: ClaimSpec, context: ContextSpec, records: Records, tests: int) -> Verdict:
    """The effect that a claim is about, not judged yet; `tests`: number of tests that p will be corrected for."""
    own = not context.data_note and not context.swaps(claim.roles)
    try:
        if claim.against is not None and not own:
            raise _not_run(["the published number belongs to the paper's own data and encoders"])
        if claim.kind == "best_value":
            runs, compared, notes = _best(claim, records)
        else:
            runs = list(claim.runs)
            if missing := [run for run in runs if run not in records]:
                raise _not_run(missing)
            compared, notes = _compared(runs, claim.protocol, records)
        if claim.protocol is None:
            note, values = _on_curves(claim, compared)
            notes = [note, *notes]
        else:
            values = _on_test(claim, claim.protocol, runs, compared, tests)
    except _Unmeasured as unmeasured:
        word, why = unmeasured.args
        return Verdict(claim, word, why, own)
    if claim.published is None:
        values["paper_sd"] = None
    return Verdict(claim, "", "; ".join(notes), own, seeds=len(compared[runs[0]]), **values)


def _compared(runs: Iterable[str], protocol: str | None, records: Records) -> tuple[Compared, list[str]]:
    """The records that are compared: of seeds that all runs have, each sound and all made from the same inputs; and notes on what
    was left out."""
    sound: dict[str, dict[int, Record]] = {}
    notes = []
    for run in dict.fromkeys(runs):
        sound[run] = {record.spec.seed: record for record in records[run] if not record.trouble(protocol)}
        in_trouble = seeds_in_trouble(records[run], protocol)
        if not sound[run]:
            raise _failed(f"{run} {filters.listing(in_trouble)}")
        notes += [f"{run}: {named_seeds(seeds)} {why}, left out" for why, seeds in in_trouble.items()]
    seeds = shared_seeds(of_run.values() for of_run in sound.values())
    mixed = {seed: kinds for seed in seeds if (kinds := _mixed(of_run[seed] for of_run in sound.values()))}
    if mixed:
        inputs = filters.listing(dict.fromkeys(kind for kinds in mixed.values() for kind in kinds))
        note = (
            f"{named_seeds(list(mixed))}: its runs were made from different {inputs} with the same parameters"
        )
        if len(mixed) < len(seeds):
            note += ", left out"
            seeds = [seed for seed in seeds if seed not in mixed]
        notes.append(note)
    if not seeds:
        raise _not_run(["a seed common to all its runs"], notes)
    compared = {run: [of_run[seed] for seed in seeds] for run, of_run in sound.items()}
    return compared, notes + _machines(compared)


def _mixed(records: Iterable[Record]) -> list[str]:
    """Kinds of inputs that differ between records although they were made with the same parameters."""
    digests: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for ancestor in ancestors_of(record.kept.evaluated):
            if kind := _SHARED.get(ancestor["step"]):
                made_with = kind, str(ancestor.get("spec_digest"))
                digests.setdefault(made_with, set()).add(str(ancestor["digest"]))
    return list(dict.fromkeys(kind for (kind, _), different in digests.items() if len(different) > 1))


def _machines(compared: Compared) -> list[str]:
    """A note where not all runs were trained on the same processors."""
    processors = {
        run: {
            str(made.get("machine", {}).get("processor")) for record in seeds if (made := record.kept.trained)
        }
        for run, seeds in compared.items()
    }
    every = set[str]().union(*processors.values())
    alike = all(names == every for names in processors.values())
    return [] if alike or len(every) < 2 else [f"trained on {filters.listing(sorted(every))}"]


def _on_test(
    claim: ClaimSpec, protocol: str, runs: Sequence[str], compared: Compared, tests: int
) -> dict[str, Any]:
    """The difference a − b of test scores, (a − b) − (c − d), or a − the number that others published."""
    scores([record for run in runs for record in compared[run]], protocol, same=TEST_IMAGES)
    values = [
        np.array([image_values(record, protocol, claim.metric) for record in compared[run]]) for run in runs
    ]
    if claim.against is not None:  # a number that has no interval of its own
        values.append(np.full_like(values[0], claim.against))
    of, over = np.sum(values[0::3], axis=0), np.sum(values[1:3], axis=0)
    effect = intervals.effect(over, of, tests)
    measured: dict[str, Any] = {"value": effect.value, "images": effect.images, "p": effect.p}
    if len(runs) == 2 and claim.metric == "i2t_r1":
        measured["mcnemar"] = tuple(intervals.mcnemar(*seed) for seed in zip(over, of, strict=True))
    if len(effect.by_seed) > 1:
        measured |= {"over_seeds": effect.seeds, "paper_sd": stdev(effect.by_seed) or None}
    return measured


def _best(claim: ClaimSpec, records: Records) -> tuple[list[str], Compared, list[str]]:
    """The best of the claimed sizes and the best of the others, chosen on validation; runs of all other sizes must be there."""
    assert claim.best
    low, high = claim.best
    sizes = dict(zip(claim.runs, claim.sizes, strict=True))
    missing = [run for run in sizes if run not in records]
    if rivals := [run for run in missing if not low <= sizes[run] <= high]:
        raise _not_run(rivals)
    # A size with a failed training is no rival, and is named.
    trouble = {run: trouble_of(records[run], claim.protocol) for run in sizes if run in records}
    sound = [run for run, why in trouble.items() if not why]
    claimed = [run for run in sound if low <= sizes[run] <= high]
    others = [run for run in sound if run not in claimed]
    if not claimed or not others:
        failed = "; ".join(f"{run} {why}" for run, why in trouble.items() if why)
        raise _failed(failed) if failed else _not_run(missing)
    compared, notes = _compared(sound, claim.protocol, records)

    def level(run: str) -> float:
        return float(np.mean([_validated(record, claim.metric) for record in compared[run]]))

    runs = [max(claimed, key=level), max(others, key=level)]
    note = f"best on validation of {low} to {high}: {sizes[runs[0]]}; of the others: {sizes[runs[1]]}"
    if left_out := sorted(size for run, size in sizes.items() if run not in sound):
        note += f"; left out: {filters.listing(left_out)}"
    return runs, compared, [note, *notes]


def _validated(record: Record, metric: str) -> float:
    """A metric on validation of the snapshot that is evaluated, from the epoch with the highest rsum."""
    rsum = read_history(record, "rsum")
    return read_history(record, metric)[max(rsum, key=rsum.__getitem__)]


def _on_curves(claim: ClaimSpec, compared: Compared) -> tuple[str, dict[str, Any]]:
    """Where the first of two validation curves passes the second, how it starts beside it, or how much further it falls;
    in words, and as fields of the verdict."""
    first, second = (
        [list(read_history(record, claim.metric).values()) for record in compared[run]] for run in claim.runs
    )
    shortest = min(map(len, [*first, *second]))
    if shortest < claim.epochs:
        raise _not_run([f"runs of {claim.epochs} epochs (these have {shortest})"])
    if claim.kind == "overfitting":
        falls = np.array([[max(curve) - curve[-1] for curve in curves] for curves in (first, second)])
        means = [f"{run} falls by {np.mean(fall):.1f}" for run, fall in zip(claim.runs, falls, strict=True)]
        note = f"from its best epoch to the last {', '.join(means)} points on average"
        return note, _over_seeds(falls[0] - falls[1])
    gaps = np.array([np.subtract(a[:shortest], b[:shortest]) for a, b in zip(first, second, strict=True)])
    if claim.kind == "start":
        return "after the first epoch", _over_seeds(gaps[:, 0])
    epochs = [_passes(gap) for gap in gaps]
    note = ", ".join(f"passes in epoch {epoch}" if epoch else "never passes" for epoch in epochs)
    ends = (intervals.seed_interval(gaps[:, 0]), intervals.seed_interval(gaps[:, -1]))
    if None in epochs:
        return note, {"ends": ends}
    passed = np.array(epochs, float)
    over_seeds = intervals.seed_interval(passed, least_sd=_ROUNDED)
    return note, {"value": float(np.mean(passed)), "over_seeds": over_seeds, "ends": ends}


def _over_seeds(values: np.ndarray) -> dict[str, Any]:
    return {
        "value": float(np.mean(values)),
        "over_seeds": intervals.seed_interval(values),
        "paper_sd": stdev(values) or None if len(values) > 1 else None,
    }


def _passes(gap: np.ndarray) -> int | None:
    """The epoch, from 1, from which a gap stays above zero; `None` where it does not end above zero."""
    below = np.flatnonzero(gap <= 0)
    last = int(below[-1]) + 1 if len(below) else 0
    return last + 1 if last < len(gap) else None
