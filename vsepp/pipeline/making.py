"""The frame of every step: its results are published together, with a manifest, once it has succeeded."""

from __future__ import annotations

import io
import tempfile
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.base import devices
from vsepp.base.files import is_there, output_folder
from vsepp.base.manifest import artefact_digest, read_manifest, recorded
from vsepp.base.publish import published, state_folder
from vsepp.base.spec import to_dict
from vsepp.pipeline.step import Artefact, Job

if TYPE_CHECKING:
    from vsepp.base.placement import Placing


def make(artefact: Artefact, **machine: Any) -> None:
    """Make an artefact.

    Among several processes that `torchrun` started, the first process locks, writes and records.

    Parameters
    ----------
    artefact
        A row of a plan, or one of one's own.
    machine
        Fields of `Job` that say what it may use.
    """
    step, spec, output = artefact.step, artefact.spec, artefact.folder
    inputs = artefact.paths
    with ExitStack() as held:
        if devices.process_rank() > 0:
            nothing = Path(held.enter_context(tempfile.TemporaryDirectory()))
            step.run(spec, inputs, nothing, Job(nothing, nothing, **machine))
            return
        # A new folder is made when it is filled: Snakemake takes an empty folder, left by a rule that was given up, as made.
        output_folder(output if is_there(output) else output.absolute().parent)
        read, state = step.recorded(spec, artefact.inputs), output
        digests = {role: artefact_digest(path) for role, path in read.items()}
        if step.resumes:
            identity = {"spec": to_dict(spec), "code": artefact.code, "inputs": digests}
            state = held.enter_context(state_folder(output, **identity))
        folder = held.enter_context(published(output))
        manifest = recorded(
            folder,
            step.kind,
            spec=to_dict(spec),
            inputs=read,
            digests=digests,
            code=artefact.code,
            seed=step.seed(spec),
        )
        facts = held.enter_context(manifest)
        printed = held.enter_context(redirect_stdout(io.StringIO()))
        facts.update(step.run(spec, inputs, folder, Job(output, state, **machine)))
    for name in step.sometimes:
        if name not in read_manifest(output)["outputs"]:
            (output / name).unlink(missing_ok=True)
    step.published(output)
    print(printed.getvalue(), end="")  # a terminal or a pipe that fails costs no results


def take_machine(job: Job, kind: str) -> tuple[Placing, dict[str, Any]]:
    """The device that a job was given and where it keeps data, and the facts for its manifest."""
    from vsepp.base.machine import use_machine
    from vsepp.base.placement import Placing

    device, facts = use_machine(
        job.device, share=job.device_share, threads=job.threads, job=f"{kind} {job.output}"
    )
    return Placing(device, job.data_on, job.device_share), facts
