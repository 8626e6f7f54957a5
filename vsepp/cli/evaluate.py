"""Trained models → embeddings → ranks and recalls."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsepp.cli.common import add_folders, add_machine, add_output, add_step, use_machine
from vsepp.cli.fitting import CONFIG, require_fitting, spec_of
from vsepp.provenance import code
from vsepp.provenance.digests import value_digest
from vsepp.provenance.manifest import MANIFEST, recorded, require_input, require_intact
from vsepp.spec import RunSpec, from_json, to_dict

if TYPE_CHECKING:
    from vsepp.data.tokens import Tokens

log = logging.getLogger("vsepp")
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
    parser.add_argument(
        "--spec",
        help=f"JSON of a RunSpec, or a file that holds it; the run's own {CONFIG} where it is left out",
    )
    folders = {
        **ENCODE_FOLDERS,
        "tokens": "optional: folder of the word ids; made from the corpus with the run's vocabulary where it is left out",
        "encoder": "optional: folder of the encoder, where the run's weights do not hold it",
    }
    add_folders(
        parser, run="folder of the trained run, which may be all there is of its repository", **folders
    )
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
    parser.add_argument(
        "--run", type=Path, help="folder of the model that the embeddings must have been made with"
    )
    parser.add_argument("--output", type=Path, help="folder for metrics.json and ranks.npz; none prints only")


def encode(given: argparse.Namespace) -> None:
    """Embed a split."""
    from vsepp.evaluation.encode import encode_run

    run = from_json(RunSpec, given.spec) if given.spec else spec_of(given.run)
    folders = {name: getattr(given, name) for name in ENCODE_FOLDERS if getattr(given, name) is not None}
    require_fitting(run, given.run, folders)
    digest = code.encode_code(run)
    if given.tokens is None:
        digest = value_digest([digest, code.tokens_code()])
    given.output.mkdir(parents=True, exist_ok=True)
    with recorded(
        given.output,
        "encode",
        spec={**to_dict(run), "split": given.split},
        inputs={"run": given.run, **folders},
        code=digest,
        seed=run.init_seed,
    ) as facts:
        device = use_machine(given, facts)
        read = {**folders, "tokens": given.tokens or _tokens(given.corpus, given.run)}
        embeddings = encode_run(run, run_folder=given.run, split=given.split, device=device, **read)
        embeddings.save(given.output / "embeddings.npz")


def _tokens(corpus: Path, run: Path) -> Tokens:
    """Word ids of a corpus' captions under the vocabulary that lies beside a run's weights."""
    from vsepp.data.captions import TOKENIZER, encode_captions
    from vsepp.data.tables import read_tables
    from vsepp.data.vocabulary import FILE, Vocabulary

    vocabulary = Vocabulary.read(run)
    if vocabulary.tokenizer != TOKENIZER:
        log.warning(
            "%s: its words were split by %r, captions are split by %r here",
            run / FILE,
            vocabulary.tokenizer,
            TOKENIZER,
        )
    return encode_captions(read_tables(corpus)[1], vocabulary)


def evaluate(given: argparse.Namespace) -> None:
    """Score embeddings under each protocol; print, and publish where asked to."""
    from vsepp.evaluation import protocols
    from vsepp.evaluation.embeddings import Embeddings

    if (given.embeddings.parent / MANIFEST).is_file():
        require_intact(given.embeddings.parent)
    run = given.run if given.run is None or given.run.is_dir() else given.run.parent
    if run is not None:
        require_intact(run)
        require_input(given.embeddings.parent, "run", run)
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
        inputs={"embeddings": given.embeddings, **({"run": run} if run else {})},
        code=code.evaluate_code(),
    ) as facts:
        protocols.save(found, given.output)
        facts["protocols"] = given.protocol
