"""A trained run as a folder to take elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_step


def add_steps(steps: Any) -> None:
    """Add `export`."""
    parser = add_step(
        steps,
        "export",
        export,
        "write a run, its encoder and a model card into one folder, which vsepp.load reads anywhere",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of the trained run")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new folder to write")
    parser.add_argument(
        "--encoder",
        type=Path,
        metavar="FOLDER",
        help="folder of its image encoder, if it is not below results/<preset>/encoders",
    )
    parser.add_argument(
        "--onnx", action="store_true", help="also write the image and the caption encoder as ONNX"
    )
    parser.add_argument(
        "--params",
        type=Path,
        default=Path("params"),
        metavar="FOLDER",
        help="folder of the parameters, which name the data's licence; by default params",
    )


def export(given: argparse.Namespace) -> None:
    """Export a run and say where it is."""
    from vsepp.export import export_run

    licences = {}
    if given.params.is_dir():
        from vsepp.config.describe import data_licences

        licences = data_licences(given.params)
    export_run(given.run, given.folder, encoder=given.encoder, onnx=given.onnx, licences=licences)
    print(f'{given.folder}: load it with vsepp.load("{given.folder}")')
