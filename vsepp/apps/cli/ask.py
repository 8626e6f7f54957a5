"""Use a trained model: as a folder to take elsewhere, and for questions on the command line and in a browser."""

from __future__ import annotations

import argparse
import json
import logging
import unicodedata
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vsepp.apps.cli.common import AFTER, a_path, add_params, add_step
from vsepp.base.errors import VseppError
from vsepp.base.files import require_file, require_folder
from vsepp.base.words import table
from vsepp.shipped.folders import model_folder

if TYPE_CHECKING:
    from vsepp.apps.query import Index

log = logging.getLogger("vsepp")
_MODEL = "flickr8k, which comes with vsepp, or the folder of a trained run or an exported model"


def add_steps(steps: Any) -> None:
    """Add `export`, `query` and `serve`."""
    what = "write a run, its encoder and a model card into one folder, which vsepp.load reads anywhere"
    parser = add_step(
        steps,
        "export",
        export,
        what,
        f"vsepp export results/mini/paper/runs/coco-vsepp-rc/seed-0 vsepp-on-scenes{AFTER}",
    )
    parser.add_argument("run", metavar="MODEL", help=_MODEL)
    parser.add_argument("folder", type=a_path, metavar="FOLDER", help="new folder to write")
    parser.add_argument(
        "--encoder",
        type=a_path,
        metavar="FOLDER",
        help="folder of its image encoder, if it is not below results/<preset>/encoders",
    )
    parser.add_argument(
        "--light",
        action="store_true",
        help="weights in 16 bits, and no encoder where a package installs its weights",
    )
    add_params(parser)

    what = "find the pictures nearest to a sentence, or the captions nearest to a picture"
    example = 'vsepp query flickr8k --text "two dogs on the grass" --pictures docs/photographs'
    parser = add_step(steps, "query", query, what, example)
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument("--text", help='a sentence, such as "two dogs on grass"')
    question.add_argument("--image", type=a_path, help="a picture's file")
    _add_shared(parser, answers=10)
    parser.add_argument("--json", action="store_true", help="print JSON")

    what = "open a local search page for one or two models"
    parser = add_step(steps, "serve", serve, what, "vsepp serve flickr8k --pictures docs/photographs")
    parser.add_argument("models", nargs="+", metavar="MODEL", help=f"{_MODEL}; two are shown side by side")
    _add_shared(parser, answers=12)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="name or IPv4 address to listen on; by default only this machine reaches it",
    )
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one")


def export(options: argparse.Namespace) -> None:
    """Export a run and say where it is."""
    folder = model_folder(options.run)
    from vsepp.apps.export import export_run

    licences = {}
    if options.params.is_dir():
        from vsepp.pipeline.parameters import data_licences

        licences = data_licences(options.params)
    export_run(folder, options.folder, encoder=options.encoder, light=options.light, licences=licences)
    print(f'{options.folder}: load it with vsepp.load("{options.folder}")')


def _add_shared(parser: argparse.ArgumentParser, answers: int) -> None:
    parser.add_argument("-k", type=int, default=answers, help=f"how many answers; {answers} by default")
    parser.add_argument("--pictures", type=a_path, metavar="FOLDER", help="pictures to search for a sentence")
    parser.add_argument(
        "--captions",
        type=a_path,
        metavar="FILE",
        help="captions to search for a picture: a text file with one caption per line",
    )
    parser.add_argument(
        "--no-cache",
        action="store_true",
        help="embed all pictures anew, and keep nothing in the user's cache",
    )
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:N, or auto")


def _require_inputs(options: argparse.Namespace, *models: str) -> None:
    """Refuse missing models, folders and files before torch is imported, which takes seconds."""
    if options.k < 1:
        raise VseppError(f"-k: expected at least 1 answer, got {options.k}")
    for model in models:
        model_folder(model)
    if options.pictures is not None:
        require_folder(options.pictures, "a folder of pictures (one picture: --image)")
    if options.captions is not None:
        require_file(options.captions, "a text file with a caption a line")


def _opened(options: argparse.Namespace, model: str) -> Index:
    """The model with its index: the given pictures and captions, else its own test images and captions."""
    from vsepp.apps.query import index_pictures, open_index

    if options.pictures is None and options.captions is None:
        return open_index(model, device=options.device)
    return index_pictures(
        model, options.pictures, options.captions, device=options.device, keep=not options.no_cache
    )


def _keep_what_answers(options: argparse.Namespace) -> None:
    """Drop the pictures where captions are looked for, and the reverse, so that they are not embedded."""
    if options.pictures is None and options.captions is None:
        return  # the model's own test images and captions
    if options.text is None:
        options.pictures, sought, rule = None, options.captions, "a picture finds captions: --captions FILE"
    else:
        options.captions, sought, rule = (
            None,
            options.pictures,
            "a sentence finds pictures: --pictures FOLDER",
        )
    if sought is None:
        raise VseppError(f"{rule} says where to look for them")


def query(options: argparse.Namespace) -> None:
    """Answer one question."""
    _require_inputs(options, options.model)
    _keep_what_answers(options)
    if options.image is not None:
        from vsepp.data.pictures import read_picture

        read_picture(options.image, str(options.image), upright=True)
    else:
        from vsepp.apps.query import require_sentence

        require_sentence(options.text)
    index = _opened(options, options.model)
    searched = (index.image_ids, "images") if options.text is not None else (index.captions, "captions")
    log.info("among %s %s of %s", f"{len(searched[0]):,}", searched[1], index.source)
    if options.text is not None:
        hits, unknown = index.images_for(options.text, options.k), index.unknown_words(options.text)
    else:
        hits, unknown = index.captions_for(options.image, options.k), []
    if unknown:
        log.warning("words that the model does not know: %s", _one_line(", ".join(unknown)))
    if options.json:
        question = {"text": options.text} if options.text is not None else {"image": str(options.image)}
        answers = [{key: value for key, value in asdict(hit).items() if key != "row"} for hit in hits]
        document = {"run": options.model, **question, "unknown_words": unknown, "answers": answers}
        print(json.dumps(document, indent=1))
        return
    columns = {
        "rank": [str(hit.rank) for hit in hits],
        "score": [f"{hit.score:.3f}" for hit in hits],
        "image id": [hit.image_id if hit.image_id != hit.file_name else "" for hit in hits],
        "file": [hit.file_name for hit in hits],
        "caption": [hit.caption for hit in hits],
    }
    filled = [(title, *cells) for title, cells in columns.items() if any(cells)]
    rows = [tuple(map(_one_line, row)) for row in zip(*filled, strict=True)]
    print("\n".join(table(rows, "rr" + "l" * (len(filled) - 2))))


def _one_line(text: str) -> str:
    """Text that neither breaks a table nor steers a terminal."""
    return " ".join("".join(" " if unicodedata.category(c) == "Cc" else c for c in text).split())


def serve(options: argparse.Namespace) -> None:
    """Serve the page until it is stopped."""
    if len(options.models) > 2:
        raise VseppError(
            f"serve: got {len(options.models)} models; expected one, or two to stand side by side"
        )
    _require_inputs(options, *options.models)
    from vsepp.apps.serve import require_address, serve

    require_address(options.host, options.port)
    serve([_opened(options, model) for model in options.models], options.host, options.port, options.k)
