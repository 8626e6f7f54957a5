"""What is to be measured so that a plan's hours are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vsepp.bench.catalogue import in_batches_for, random_crops
from vsepp.bench.measurement import Measurement, rate_of
from vsepp.config.plan import Plan
from vsepp.costs.rates import Network
from vsepp.costs.work import jobs_of
from vsepp.spec import RunSpec

PHOTOGRAPH = (640, 480)
"""Width and height of most photographs of COCO, pixels."""


def wanted_measurements(plan: Plan, known: Mapping[str, Network], device: str) -> list[Measurement]:
    """Measurements of all rates that the plan's jobs need, each once.

    Parameters
    ----------
    plan
        The plan.
    known
        Sizes of its encoders.
    device
        `cpu` or `cuda`.
    """
    needed = {(work.entry, work.rate) for job in jobs_of(plan, known).values() for work in job.work}
    found: dict[tuple[str, str], Measurement] = {}
    for measurement in _candidates(plan, known, device):
        rate = rate_of(measurement)
        if rate in needed and rate not in found:
            found[rate] = replace(measurement, name=f"{measurement.name}/{rate[0]}")
    return list(found.values())


def _candidates(plan: Plan, known: Mapping[str, Network], device: str) -> Iterator[Measurement]:
    pictures = (plan.scenes.side, plan.scenes.side) if plan.scenes else PHOTOGRAPH
    specs = [run.spec for run in plan.models.values()]
    for spec in specs:
        dim = known[spec.encoder.architecture].dim
        plain = _on_features(spec)
        yield from _passes(plain, spec.precision, dim)
        if spec.finetuned:
            tuned = in_batches_for(replace(spec, encoder_mode="eval"), device)
            yield Measurement("step-finetuned", "step", tuned, dim, images=160)
        yield Measurement("step-1c", "step", plain, dim)
        yield Measurement("encode", "encode", plain, dim)
        ranked = 2000 if spec.model.similarity == "dot" else 300
        yield Measurement("rank", "rank", plain, images=ranked)
    for store in plan.stores.values():
        run = replace(specs[0], train_store=store.spec)
        yield Measurement("store", "store", run, images=48, photograph=pictures)


def _passes(run: RunSpec, precision: str, dim: int) -> Iterator[Measurement]:
    """The encoder's pass with its own precision, and with those that it has in a model."""
    for wanted in dict.fromkeys((run.encoder.precision, precision, "fp32")):
        other = replace(random_crops(run), encoder=replace(run.encoder, precision=wanted))
        yield Measurement("tape", "tape", other, dim, images=160)


def _on_features(spec: RunSpec) -> RunSpec:
    """The run as it would be on features of centre crops: what it does apart from its encoder."""
    return replace(
        spec,
        trainset="1C",
        crop=replace(spec.crop, kind="1C"),
        finetune_from=None,
        encoder_mode="eval",
        loss=replace(spec.loss, negative_set=None),
    )
