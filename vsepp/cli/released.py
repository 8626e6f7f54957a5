"""The authors' released checkpoints → runs that `encode` embeds images and captions with."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_output, add_spec, add_step
from vsepp.provenance import code
from vsepp.provenance.manifest import recorded
from vsepp.spec import RunSpec, from_json, to_dict


def add_steps(steps: Any) -> None:
    """Add `released`."""
    parser = add_step(
        steps,
        "released",
        released,
        "turn a released checkpoint and its vocabulary into a run, executing neither",
    )
    add_spec(parser, "RunSpec")
    parser.add_argument(
        "--checkpoint", type=Path, required=True, help="model_best.pth.tar of the released code"
    )
    parser.add_argument(
        "--vocabulary", type=Path, required=True, help="the pickled vocabulary it was trained with"
    )
    add_output(parser)


def released(given: argparse.Namespace) -> None:
    """Import a released model as the run that it stands for."""
    from vsepp.released.convert import import_released

    run = from_json(RunSpec, given.spec)
    inputs = {"checkpoint": given.checkpoint, "vocabulary": given.vocabulary}
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(
        given.output, "released", spec=to_dict(run), inputs=inputs, code=code.released_code(run)
    ) as facts:
        facts.update(import_released(given.checkpoint, given.vocabulary, run, given.output))
