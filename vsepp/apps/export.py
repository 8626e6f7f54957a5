"""A trained run as a single folder to take elsewhere: weights, encoder, vocabulary, configuration and a model card."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Template

from vsepp import __version__
from vsepp.base import components
from vsepp.base.digests import file_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import output_folder, reading, require_file, write_text
from vsepp.base.manifest import (
    MANIFEST,
    read_manifest,
    require_intact,
    uncommitted_steps,
    write_manifest,
)
from vsepp.base.publish import EMBEDDINGS, MODEL_FILE, beside_with, evaluation_of, spec_of
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import Component
from vsepp.data.captions import Vocabulary
from vsepp.evaluation.intervals import Interval, image_intervals
from vsepp.models import weights
from vsepp.models.encoder import WEIGHTS as ENCODER_WEIGHTS
from vsepp.models.folder import (
    ENCODER_FOLDER,
    INSTALLED_ENCODER,
    LAYOUT,
    LAYOUT_FILE,
    encoder_of,
    layout_of,
    require_files,
)
from vsepp.report.entries import HISTORY_FILE
from vsepp.report.models import MeasuredModel, seed_folders
from vsepp.report.pairing import known_metrics
from vsepp.report.records import read_results

CARD = "README.md"
_CARD = Path(__file__).with_name("model_card.md.j2")
_WITH_INTERVAL = ("i2t_r1", "t2i_r1", "rsum")


def export_run(
    folder: Path,
    out: Path,
    *,
    encoder: Path | None = None,
    light: bool = False,
    licences: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write a trained run into one folder that `vsepp.load` reads on a machine without data or workflow.

    Parameters
    ----------
    folder
        A trained run, as the workflow leaves it.
    out
        A new folder. It gets the run's own files, `encoder/` if the image encoder is frozen, `vsepp.json` (version of this layout)
        and `README.md`, the model card.
    encoder
        As for `vsepp.load`.
    light
        Write weights in 16 bits, and leave out an encoder whose weights a package installs.
    licences
        Name of a data set → licences of its files, for the card.

    Raises
    ------
    VseppError
        If `out` exists, and as in `vsepp.load`.
    """
    run = spec_of(folder)
    require_files(folder)
    output_folder(out.absolute().parent)
    if out.is_symlink() or out.exists():
        raise VseppError(f"{out}: already exists; name a new folder")
    network = encoder_of(run, folder, encoder)
    description = {**layout_of(folder), "layout": LAYOUT, "version": __version__, "run": run.id}
    if light and network is not None and run.encoder.weights == "pip":
        description[INSTALLED_ENCODER] = require_intact(network, ENCODER_WEIGHTS)["outputs"][ENCODER_WEIGHTS]
        network = None
    card = model_card(run, folder, licences or {}, title=out.name, light=light)
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".export-") as partial:
        whole = Path(partial) / out.name
        _copy(folder, whole)
        if network is not None:
            _copy(network, whole / ENCODER_FOLDER)
        if light:
            _halve(whole)
        write_text(whole / LAYOUT_FILE, json.dumps(description, indent=1) + "\n")
        write_text(whole / CARD, card)
        whole.rename(out)


def _copy(artefact: Path, target: Path) -> None:
    """Copy an artefact's manifest and the files that it lists, but for test embeddings."""
    target.mkdir(parents=True)
    for name in {*read_manifest(artefact)["outputs"], MANIFEST} - {EMBEDDINGS}:
        require_file(artefact / name, "what its step wrote")
        shutil.copy2(artefact / name, target / name)


def _halve(folder: Path) -> None:
    """Round a copied model's weights to 16 bits; its manifest then has the digests of the weights before and after."""
    from safetensors.torch import save_file

    path, manifest = folder / MODEL_FILE, read_manifest(folder)
    # Halves reach 65,504 and keep eleven bits: trained weights lie far within.
    state = {
        name: values.half() if values.is_floating_point() else values
        for name, values in weights.read(path).items()
    }
    save_file(state, path)
    outputs = {**manifest["outputs"], MODEL_FILE: file_digest(path)}
    facts = {**manifest["facts"], "rounded_from": manifest["outputs"][MODEL_FILE]}
    write_manifest(folder, {**manifest, "outputs": outputs, "facts": facts})


def model_card(
    run: RunSpec, folder: Path, licences: Mapping[str, Sequence[str]], *, title: str, light: bool = False
) -> str:
    """Text of a run's model card: metadata that model hubs read, then Markdown."""
    manifest = read_manifest(folder)
    dataset, corpus, reader = corpus_of(run, folder, manifest)
    sources = [*([("reader", reader.name)] if reader else []), *run.components, run.encoder.component]
    citations = [components.describe(kind, name).citation for kind, name in sources]
    text = Template(_CARD.read_text(encoding="utf-8"), keep_trailing_newline=True, trim_blocks=True)
    return text.render(
        run=run,
        title=title,
        light=light,
        manifest=manifest,
        changed=bool(uncommitted_steps(manifest)),
        dataset=dataset,
        corpus=corpus,
        words=len(Vocabulary.read(folder)),
        evaluations=list(evaluations_of(folder)),
        licences=list(dict.fromkeys(licences.get(dataset, ()))),
        citations=list(dict.fromkeys(filter(None, citations))),
    )


def corpus_of(run: RunSpec, folder: Path, manifest: Mapping[str, Any]) -> tuple[str, str, Component | None]:
    """Name of the data set that a run was trained on, its sizes and reader, where the corpus lies beside the run."""
    place = beside_with(folder, "corpora/*", manifest["inputs"].get("corpus"))
    if place is None:
        return run.dataset, "sizes not recorded", None
    corpus = read_manifest(place)
    with reading(place / MANIFEST, "the manifest of a corpus; make it again"):
        images = corpus["facts"].get("images", {})
        sizes = ", ".join(f"{split} {count:,}" for split, count in images.items())
        return corpus["spec"]["name"], sizes, Component(corpus["spec"]["reader"]["name"])


def evaluations_of(folder: Path) -> Iterator[tuple[MeasuredModel, str, dict[str, Interval]]]:
    """Each evaluated seed of a run, each protocol, and intervals over the images."""
    for trained in seed_folders(folder.absolute().parent):
        if (evaluated := evaluation_of(trained)) is not None:
            model = read_results(evaluated, trained, trained=(trained / HISTORY_FILE).is_file())
            for protocol in model.metrics:
                known = known_metrics([model], protocol, _WITH_INTERVAL)
                values = np.array([model.values(protocol, name) for name in known])
                yield model, protocol, dict(zip(known, image_intervals(values), strict=True))
