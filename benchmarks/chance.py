"""What a page of claims says by chance, and what it misses: verdicts on made-up differences of two
runs, whose truth is known.

    uv run python benchmarks/chance.py

A difference has, seed by seed, its truth, an error of the test images that all seeds share, and an error of
the two trainings. The interval and p over the images are those of a normal error; the interval over the
seeds, Holm's correction and the rule are the project's. Claims are independent here; those of a real page
share runs and test images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

from vsepp.evaluation.intervals import Effect, Interval, corrected, seed_interval
from vsepp.report.claims import Difference
from vsepp.report.records import Study
from vsepp.report.verdicts import OPPOSITE, SAME, Measured, Verdict

CLAIMS, PAGES = 40, 1000
CLAIM = Difference(
    kind="difference", claim="A gains.", runs=("a", "b"), protocol="1K", published={"i2t_r1": None}
)


@dataclass(frozen=True)
class Noise:
    """Standard deviations in points."""

    seeds: float
    """Over the seeds of a run."""
    shared: float
    """Of a difference, over the test images, where these tell the runs apart with every seed."""
    own: float
    """The same, where each seed has other images that do so; part of `seeds`."""


METRICS = {"caption R@1": ("i2t_r1", 1.5), "image R@1": ("t2i_r1", 0.5)}
"""Name → metric, and the standard deviation over the seeds that is assumed, in points; the study's own
is printed beside it."""
STUDY, RUNS = Path("docs/results/flickr8k"), ("f8k-vse0-1c-whole", "f8k-vsepp-1c-whole")
"""Records of five seeds of VSE0 and VSE++, which give the errors over the test images."""


def measured(metric: str) -> Noise:
    """The noise of the study's runs: errors over the images by the covariance of the
    differences of two seeds."""
    models = Study(STUDY).read_all()
    seeds = sorted(seed for run, seed in models if run == RUNS[0])
    baseline, model = (np.array([models[run, seed].values("1K", metric) for seed in seeds]) for run in RUNS)
    errors = np.cov(model - baseline) / model.shape[1]
    shared = float(errors[~np.eye(len(seeds), dtype=bool)].mean())
    of_runs = [values.mean(axis=1).var(ddof=1) for values in (baseline, model)]
    return Noise(
        float(np.mean(of_runs)) ** 0.5, shared**0.5, (float(np.trace(errors)) / len(seeds) - shared) ** 0.5
    )


def effect(by_seed: np.ndarray, noise: Noise) -> Effect:
    """A difference as it is measured; p is not corrected."""
    mean, error = float(by_seed.mean()), (noise.shared**2 + noise.own**2 / len(by_seed)) ** 0.5
    half, p = stats.norm.ppf(0.975) * error, float(2 * stats.norm.sf(abs(mean) / error))
    return Effect(mean, tuple(by_seed), Interval(mean - half, mean + half), seed_interval(by_seed), p, p)


def sign(measured: Effect) -> int:
    """1 where the verdict tells a gain, -1 where it tells a loss, else 0."""
    word, _ = CLAIM.rule(Verdict(CLAIM, "i2t_r1", False, Measured(measured, len(measured.by_seed))))
    return {SAME: 1, OPPOSITE: -1}.get(word, 0)


def shares(seeds: int, noise: Noise, gains: tuple[float, ...]) -> dict[str, float]:
    """Shares of pages and of verdicts, by what they are of."""
    rng = np.random.default_rng(0)
    errors = rng.normal(0, noise.shared, (PAGES, CLAIMS, 1)) + rng.normal(
        0, noise.seeds * 2**0.5, (PAGES, CLAIMS, seeds)
    )
    pages = [[effect(by_seed, noise) for by_seed in page] for page in errors]
    alone = np.array([[sign(claim) for claim in page] for page in pages])
    together = np.array([[sign(claim) for claim in corrected(page)] for page in pages])
    by_kind = {
        "false, a claim alone": np.mean(alone != 0),
        "false, on the page": np.mean(together != 0),
        "pages with one or more": np.mean(np.any(together != 0, axis=1)),
    }
    for gain in gains:
        true = [effect(page[0] + gain, noise) for page in errors]
        by_kind[f"{gain:g} points told, alone"] = np.mean([sign(claim) == 1 for claim in true])
        beside = [corrected([claim, *page[1:]])[0] for claim, page in zip(true, pages, strict=True)]
        by_kind[f"{gain:g} points told, on the page"] = np.mean([sign(claim) == 1 for claim in beside])
    return {name: float(share) for name, share in by_kind.items()}


def main() -> None:
    """Print the noise in points and the shares in percent."""
    for name, (metric, over_seeds) in METRICS.items():
        study = measured(metric)
        print(f"{name}, the study's runs: {study}; assumed over the seeds: {over_seeds}")
        for seeds in (3, 5):
            print(f"{name}, {seeds} seeds, pages of {CLAIMS} claims")
            for what, share in shares(seeds, replace(study, seeds=over_seeds), (2.0, 5.0)).items():
                print(f"  {what:<28}{100 * share:5.1f} %")


if __name__ == "__main__":
    main()
