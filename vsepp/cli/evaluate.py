"""Trained models → embeddings → ranks and recalls."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from vsepp.cli.common import add_folders, add_machine, add_output, add_spec, add_step, use_machine
from vsepp.errors import VseppError
from vsepp.provenance import code
from vsepp.provenance.manifest import MANIFEST, read_manifest, recorded, require_input
from vsepp.spec import RunSpec, from_json, to_dict

ENCODE_FOLDERS = {
    "corpus": "folder of the corpus",
    "tokens": "folder of the word ids",
    "features": "optional: folder of the features under the test crop, for a frozen encoder",
    "eval_store": "optional: folder of the image store, for an encoder that is part of the model",
    "encoder": "optional: folder of the encoder's weights before training",
}


def add_steps(steps: Any) -> None:
    """Add `encode` and `evaluate`."""
    parser = add_step(
        steps, "encode", encode, "embed the test images and captions with a trained run, each once"
    )
    add_spec(parser, "RunSpec")
    add_folders(parser, run="folder of the trained run", **ENCODE_FOLDERS)
    parser.add_argument("--split", default="test", help="train, restval, val or test")
    add_output(parser)
    add_machine(parser)

    parser = add_step(
        steps, "evaluate", evaluate, "rank and score anyone's embeddings under the paper's protocols"
    )
    parser.add_argument(
        "embeddings", type=Path, help=".npz with image_embeddings, caption_embeddings, caption_to_image"
    )
    parser.add_argument(
        "--protocol", nargs="+", default=["5K"], help="1K, 5x1K, 5K (all images); several are fine"
    )
    parser.add_argument("--fold-size", type=int, default=1000, help="images of a fold, the 1K of 1K and 5x1K")
    parser.add_argument("--run", type=Path, help="model that the embeddings must have been made with")
    parser.add_argument("--output", type=Path, help="folder for metrics.json and ranks.npz; none prints only")


def encode(given: argparse.Namespace) -> None:
    """Embed a split."""
    from vsepp.evaluation.encode import encode_run

    run = from_json(RunSpec, given.spec)
    folders = {name: getattr(given, name) for name in ENCODE_FOLDERS if getattr(given, name) is not None}
    _require_same_spec(run, given.run)
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(
        given.output,
        "encode",
        spec={**to_dict(run), "split": given.split},
        inputs={"run": given.run, **folders},
        code=code.encode_code(run),
        seed=run.init_seed,
    ) as facts:
        device = use_machine(given, facts)
        embeddings = encode_run(run, run_folder=given.run, split=given.split, device=device, **folders)
        embeddings.save(given.output / "embeddings.npz")


def evaluate(given: argparse.Namespace) -> None:
    """Score embeddings under each protocol; print, and publish where asked to."""
    from vsepp.evaluation import protocols
    from vsepp.evaluation.embeddings import Embeddings

    if given.run is not None:
        require_input(given.embeddings.parent, "run", given.run.parent)
    embeddings = Embeddings.load(given.embeddings)
    found = [protocols.evaluate(embeddings, protocol, given.fold_size) for protocol in given.protocol]
    for evaluation in found:
        print(protocols.format_summary(evaluation))
    if given.output is None:
        return
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(
        given.output,
        "evaluate",
        spec={"protocols": given.protocol, "fold_size": given.fold_size},
        inputs={"embeddings": given.embeddings, **({"run": given.run.parent} if given.run else {})},
        code=code.evaluate_code(),
    ) as facts:
        protocols.save(found, given.output)
        facts["protocols"] = given.protocol


def _require_same_spec(run: RunSpec, folder: Path) -> None:
    """Refuse a model that was trained under another spec, as a checkout of another commit can leave it."""
    if not (folder / MANIFEST).is_file():
        raise VseppError(f"{folder}: no {MANIFEST}; expected the folder of a trained run")
    trained = read_manifest(folder)["spec"]
    wanted = json.loads(json.dumps(to_dict(run)))
    differing = sorted(key for key in wanted if trained.get(key) != wanted[key])
    if differing:
        raise VseppError(
            f"{folder}: trained with other values of {', '.join(differing)} than the spec asks for; train {run.id} again"
        )
