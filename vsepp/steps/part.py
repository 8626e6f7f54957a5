"""A range of an artefact's shards, which one of several jobs makes, for each kind whose rows are made independently."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vsepp.provenance.artefacts import Facts, Inputs, Job, Step
from vsepp.provenance.manifest import MANIFEST
from vsepp.spec import PartSpec, from_dict


def part_of(step: Step) -> Step:
    """The step that makes a part of what another step makes as a whole."""

    def whole(spec: PartSpec) -> Any:
        return from_dict(step.spec, spec.whole)

    def run(spec: PartSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
        return _make_shards(step, whole(spec), spec, inputs, out, job)

    def known_raw(spec: PartSpec, raw: Mapping[str, Path]) -> Mapping[str, Path]:
        return step.known_raw(whole(spec), raw) if step.known_raw else {}

    run.__doc__ = f"Make a range of the shards of {step.title}."
    return replace(
        step,
        kind=f"{step.kind}_part",
        spec=PartSpec,
        run=run,
        title=f"shards of {step.title}",
        components=lambda spec: step.components(whole(spec)),
        name=lambda spec, _inputs, label: f"{label}/part-{spec.part:03}",
        known_raw=known_raw if step.known_raw else None,
        files=(MANIFEST,),
        resumes=True,
        rows=None,
        # Counted with the whole artefact.
        size=lambda _spec, _corpus: 0,
        work=lambda _spec, _corpus: (),
        label=None,
    )


def _make_shards(step: Step, whole: Any, spec: PartSpec, inputs: Inputs, out: Path, job: Job) -> Facts:
    """Make shard by shard; shards that were finished before a kill are kept."""
    assert step.rows
    rows = step.rows(whole, inputs)
    shards = math.ceil(rows / spec.items)
    mine = range(spec.part * shards // spec.parts, (spec.part + 1) * shards // spec.parts)
    facts: Facts = {}
    for shard in mine:
        done, unfinished = job.state / f"{shard:05}", job.state / f"{shard:05}.unfinished"
        if done.is_dir():
            continue
        for folder in (unfinished, state := job.state / f"{shard:05}.state"):
            folder.mkdir(exist_ok=True)
        part = slice(shard * spec.items, min((shard + 1) * spec.items, rows))
        facts = step.run(whole, inputs, unfinished, replace(job, state=state, rows=part))
        unfinished.rename(done)
    for shard in mine:
        for file in (job.state / f"{shard:05}").iterdir():
            file.replace(out / f"{shard:05}.{file.name}")
    return facts
