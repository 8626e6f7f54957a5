"""The frame of every step: its results are published together, with a manifest, once it has succeeded."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vsepp.base import devices
from vsepp.base.files import is_there, output_folder
from vsepp.base.manifest import artefact_digest, recorded
from vsepp.base.publish import published, state_folder
from vsepp.base.spec import to_dict
from vsepp.pipeline.step import Job, Step


def make(
    step: Step,
    spec: Any,
    inputs: Mapping[str, Path],
    output: Path,
    *,
    raw: Mapping[str, Path] | None = None,
    **options: Any,
) -> None:
    """Make an artefact.

    Among several processes that `torchrun` started, the first process locks, writes and records.

    Parameters
    ----------
    step
        Its step.
    spec
        All that decides what is computed, besides code and inputs.
    inputs
        Role → file or folder.
    output
        Folder of the results.
    raw
        Role → raw file or folder.
    options
        Fields of `Job` that the step takes.
    """
    code, raw = step.code(spec), raw or {}
    known_raw = step.known_raw(spec, raw) if step.known_raw else {}
    read = {**inputs, **step.named_inputs(spec), **known_raw}
    with ExitStack() as held:
        if devices.process_rank() > 0:
            nothing = Path(held.enter_context(tempfile.TemporaryDirectory()))
            step.run(spec, inputs, nothing, Job(output, nothing, raw, **options))
            return
        # A new folder is made when it is filled: Snakemake takes an empty folder, left by a rule that was given up, as made.
        output_folder(output if is_there(output) else output.absolute().parent)
        state, digests = output, None
        if step.resumes:
            digests = {role: artefact_digest(path) for role, path in read.items()}
            state = held.enter_context(state_folder(output, spec=to_dict(spec), code=code, inputs=digests))
        folder = held.enter_context(published(output))
        manifest = recorded(
            folder,
            step.kind,
            spec=to_dict(spec),
            inputs=read,
            digests=digests,
            code=code,
            seed=step.seed(spec),
        )
        facts = held.enter_context(manifest)
        facts.update(step.run(spec, inputs, folder, Job(output, state, raw, **options)))
    step.published(output)


def take_machine(job: Job, kind: str) -> tuple[Any, dict[str, Any]]:
    """The device that a job was given, a `torch.device`, and the facts for its manifest."""
    from vsepp.base.machine import use_machine

    name = f"{kind} {job.output}"
    return use_machine(job.device, share=job.device_share, threads=job.threads, job=name)
