"""Verdicts on claims: their words, what they rest on, and which runs are compared for them.

Kinds of claims are in `vsepp.report.claims`: each measures an `Effect` and judges it by its rule. `docs/reading.md` has a table of all
verdicts and when they are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from vsepp.base.manifest import ancestors_of
from vsepp.evaluation.intervals import Effect, Interval, corrected
from vsepp.evaluation.metrics import AT_CHANCE, AVERAGED
from vsepp.report import text
from vsepp.report.entries import Claim
from vsepp.report.models import MeasuredModel, Models
from vsepp.report.pairing import Material, Paired, in_trouble, of_curriculum, pair

REPRODUCED, SMALLER, SAME = "reproduced", "smaller", "same direction"
NO_DIFFERENCE, LARGER, OPPOSITE = "no difference", "larger", "opposite"
INCONCLUSIVE, ONE_SEED = "inconclusive", "inconclusive (one seed)"
COLLAPSED, CHANCE = "not reproduced: collapsed", "not reproduced: like chance"
NOT_RUN = "not run"
FAILED = (COLLAPSED, CHANCE)
SIGNS = {
    REPRODUCED: "✓", SMALLER: "<", SAME: "✓", NO_DIFFERENCE: "≈", LARGER: ">",
    INCONCLUSIVE: "?", ONE_SEED: "?", OPPOSITE: "✗", COLLAPSED: "∅", CHANCE: "∅", NOT_RUN: "–",
}  # fmt: skip
"""All verdicts, in the order of their counts, and the sign of each on a page."""
AS_CLAIMED, UNTOLD, NOT_AS_CLAIMED, NO_RESULT = "as claimed", "inconclusive", "not as claimed", "no result"
OUTCOMES = {
    AS_CLAIMED: (REPRODUCED, SAME),
    UNTOLD: (INCONCLUSIVE, ONE_SEED),
    NOT_AS_CLAIMED: (SMALLER, NO_DIFFERENCE, LARGER, OPPOSITE),
    NO_RESULT: (*FAILED, NOT_RUN),
}
"""The four counts that open a page → the verdicts in each; no difference is as claimed where the claim is that there is none."""
_SHARED = {
    "features": "features",
    "published": "features",
    "precomputed": "features",  # as earlier manifests call it
    "tape": "random-crop features",
    "tokens": "word ids",
    "vectors": "caption vectors",
}
"""Step → name of its artefact, which runs of the same parameters share."""

Ruling = tuple[str, str]
"""A verdict and its grounds, in a few words."""


@dataclass(frozen=True)
class Measured:
    """What runs say of a claim in one metric."""

    effect: Effect | None = None
    """`None` where nothing was measured, and of a crossing that some seed never makes."""
    seeds: int = 0
    """How many were compared."""
    notes: Sequence[str] = ()
    """Which runs stand for the claim, and what was left out."""
    unmeasured: Ruling | None = None
    """The verdict where there is nothing to judge."""
    mcnemar: tuple[float, ...] = ()
    """p of the exact McNemar test per seed, for differences of caption retrieval's R@1; not corrected."""
    beside: tuple[Interval | None, ...] = ()
    """Intervals over the seeds that the rule needs besides the effect's."""


def not_run(missing: Iterable[str], notes: Sequence[str] = ()) -> Measured:
    """Nothing was measured, since something is missing."""
    return Measured(unmeasured=(NOT_RUN, "; ".join([f"not run: {text.listing(missing)}", *notes])))


def failed(runs: Iterable[str], models: Models) -> Measured:
    """Nothing was measured, since runs collapsed or rank like chance: named with their seeds."""
    reasons = {run: in_trouble(models[run]) for run in runs}
    words = [f"{run} {text.troubles(seeds_of)}" for run, seeds_of in reasons.items()]
    like_chance = all(why == AT_CHANCE for seeds_of in reasons.values() for why in seeds_of)
    return Measured(unmeasured=(CHANCE if like_chance else COLLAPSED, "; ".join(words)))


@dataclass(frozen=True)
class Verdict:
    """One claim about one metric, the measured effect, and the verdict."""

    spec: Claim
    metric: str
    """`i2t_r1`, ..., `rsum`."""
    own: bool
    """Whether data and encoders are the paper's."""
    measured: Measured
    name: str = ""
    """Entry of `claims.yaml`."""
    roles: tuple[str, ...] = ()
    """Roles of the data and the encoders of its runs."""
    word: str = ""
    """One of `SIGNS`; empty until it is judged."""
    why: str = ""
    """Grounds of the verdict, in a few words."""

    @property
    def id(self) -> str:
        """Unique in the report: `<entry of claims.yaml>/<metric>`."""
        return f"{self.name}/{self.metric}"

    @property
    def anchor(self) -> str:
        """Its place on a page."""
        return f"claim-{self.id.replace('/', '-')}"

    @property
    def about(self) -> str:
        """Where the paper says so, and what is said beside it."""
        return ". ".join(filter(None, (self.spec.place, self.spec.note)))

    @property
    def effect(self) -> Effect | None:
        """Ours: points, or an epoch."""
        return self.measured.effect

    @property
    def published(self) -> float | None:
        """The paper's effect; `None` where it prints none."""
        return self.spec.published[self.metric]

    @property
    def paper_sd(self) -> float | None:
        """Standard deviation of the effect of one seed, by our seeds: how sure the paper's number may be."""
        if not (self.spec.in_points and self.effect) or self.published is None:
            return None
        return self.effect.sd or None

    @property
    def ratio(self) -> float | None:
        """Our effect over the paper's effect."""
        return (
            self.effect.value / self.published
            if self.spec.has_ratio and self.effect and self.published
            else None
        )

    @property
    def judged(self) -> bool:
        """Whether its runs were made."""
        return self.word != NOT_RUN

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        if self.word == NO_DIFFERENCE and self.spec.denies:
            return AS_CLAIMED
        return next(outcome for outcome, words in OUTCOMES.items() if self.word in words)

    @property
    def holds(self) -> str:
        """The verdict where the claim holds."""
        return REPRODUCED if self.own and self.spec.place else SAME


def of_the_paper(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], list[Verdict]]:
    """Verdicts on the paper's claims, and verdicts on comparisons of one's own."""
    verdicts = list(verdicts)
    return [v for v in verdicts if v.spec.place], [v for v in verdicts if not v.spec.place]


def counts(verdicts: Iterable[Verdict]) -> list[tuple[str, int]]:
    """How many claims got which verdict; verdicts that no claim got are left out."""
    numbers = Counter(verdict.word for verdict in verdicts)
    return [(word, numbers[word]) for word in SIGNS if numbers[word]]


def judge(claims: Iterable[tuple[str, Claim]], material: Material) -> list[Verdict]:
    """Hold claims against runs, each about each of its metrics.

    Parameters
    ----------
    claims
        The paper's, and comparisons of one's own, by name.
    material
        What they are held against; a claim about a run without models is `not run`.

    Raises
    ------
    VseppError
        When a run was not evaluated under a claim's protocol, and when runs that are compared were measured on different
        test images.
    """
    questions = [
        (name, claim, metric)
        for name, claim in claims
        for metric in sorted(claim.published, key=AVERAGED.index)
    ]
    measurements = [claim.measure(metric, material, len(questions)) for _, claim, metric in questions]
    effects = iter(corrected([measured.effect for measured in measurements if measured.effect]))
    verdicts = []
    for (name, claim, metric), uncorrected in zip(questions, measurements, strict=True):
        measured = replace(uncorrected, effect=next(effects)) if uncorrected.effect else uncorrected
        own, roles = material.report.is_own(claim.named), material.report.roles(claim.named)
        verdict = Verdict(claim, metric, own, measured, name, roles)
        word, why = measured.unmeasured or _ruled(verdict)
        verdicts.append(replace(verdict, word=word, why="; ".join(filter(None, (*measured.notes, why)))))
    return verdicts


def _ruled(verdict: Verdict) -> Ruling:
    """The verdict on what was measured, and its grounds beside the intervals: by the rule of the claim's kind, where several
    seeds give an interval."""
    measured, effect = verdict.measured, verdict.effect
    if measured.seeds == 1:
        if effect is None or effect.images is None:
            return ONE_SEED, "curves need several seeds"
        where = {1: "lies above zero", -1: "lies below zero", 0: "contains zero"}[effect.images.sign]
        return ONE_SEED, f"the interval over the images {where}"
    if None in measured.beside or (effect and effect.seeds is None):
        return INCONCLUSIVE, "the seeds have equal results, so they give no interval"
    return verdict.spec.rule(verdict)


# --- Which runs are compared ---------------------------------------------------------------------------------------


def comparable(runs: Iterable[str], protocol: str | None, models: Models) -> Paired | Measured:
    """The models of runs that are compared under a protocol, or on validation, all made from the same inputs; or why there are none."""
    sides = dict.fromkeys(runs)
    if missing := [run for run in sides if run not in models]:
        return not_run(missing)
    paired = pair({run: models[run] for run in sides}, protocol)
    if paired.trouble:
        return failed(paired.trouble, models)
    notes, seeds = list(paired.notes), list(paired.seeds)
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
        return not_run(["a seed common to all its runs"], notes)
    compared = {run: [model for model in side if model.seed in seeds] for run, side in paired.models.items()}
    if protocol:
        curricula = {run: text.curriculum_note(of_curriculum(side)) for run, side in compared.items()}
        notes += [f"{run} {note}" for run, note in curricula.items() if note]
    return replace(paired, models=compared, seeds=tuple(seeds), notes=(*notes, *_machines(compared)))


def _mixed(models: Iterable[MeasuredModel]) -> list[str]:
    """Kinds of inputs that differ between models although they were made with the same parameters."""
    digests: dict[tuple[str, str], set[str]] = {}
    for model in models:
        for ancestor in ancestors_of(model.evaluated):
            if kind := _SHARED.get(ancestor["step"]):
                made_with = kind, str(ancestor.get("spec_digest"))
                digests.setdefault(made_with, set()).add(str(ancestor["digest"]))
    return list(dict.fromkeys(kind for (kind, _), different in digests.items() if len(different) > 1))


def _machines(compared: Mapping[str, Sequence[MeasuredModel]]) -> list[str]:
    """A note where not all runs were trained on the same processors."""
    processors = {
        run: {str(model.trained.get("machine", {}).get("processor")) for model in seeds if model.trained}
        for run, seeds in compared.items()
    }
    kinds = set[str]().union(*processors.values())
    same_kinds = all(names == kinds for names in processors.values())
    return [] if same_kinds or len(kinds) < 2 else [f"trained on {text.listing(sorted(kinds))}"]
