"""A trained run as a single folder to take elsewhere: weights, encoder, vocabulary, configuration and a model card."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vsepp import __version__, components
from vsepp.data.vocabulary import Vocabulary
from vsepp.errors import VseppError
from vsepp.provenance.fitting import spec_of
from vsepp.provenance.manifest import MANIFEST, dirty_parts, read_manifest, require_intact
from vsepp.provenance.places import beside_with, evaluation_of
from vsepp.retrieval import ENCODER_FOLDER, LAYOUT, LAYOUT_FILE, encoder_of, load, require_files
from vsepp.runtime.files import write_text
from vsepp.spec import RunSpec

CARD = "README.md"


def export_run(
    folder: Path,
    out: Path,
    *,
    encoder: Path | None = None,
    onnx: bool = False,
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
    onnx
        Also write the image and the caption encoder as ONNX, see `vsepp.export_onnx`.
    licences
        Name of a data set → licences of its files, for the card.

    Raises
    ------
    VseppError
        If `out` exists, and as in `vsepp.load` and `export_onnx`.
    """
    run = spec_of(folder)
    require_files(folder)
    if out.exists():
        raise VseppError(f"{out}: already exists; name a new folder")
    network = encoder_of(run, folder, encoder)
    card = model_card(run, folder, licences or {})
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}-") as partial:
        whole = Path(partial) / out.name
        _copy(folder, whole)
        if network is not None:
            _copy(network, whole / ENCODER_FOLDER)
        said = {"layout": LAYOUT, "version": __version__, "run": run.id}
        write_text(whole / LAYOUT_FILE, json.dumps(said, indent=1) + "\n")
        write_text(whole / CARD, card)
        if onnx:
            from vsepp.export_onnx import export_onnx

            export_onnx(load(whole, device="cpu"), whole)
        whole.rename(out)


def _copy(artefact: Path, target: Path) -> None:
    """Copy an artefact's manifest and the files that it lists."""
    target.mkdir(parents=True)
    for name in (*read_manifest(artefact)["outputs"], MANIFEST):
        shutil.copy2(artefact / name, target / name)


def model_card(run: RunSpec, folder: Path, licences: Mapping[str, Sequence[str]]) -> str:
    """Text of a run's model card: metadata that model hubs read, then Markdown."""
    manifest = read_manifest(folder)
    dataset, corpus = corpus_of(run, folder, manifest)
    scores = _evaluations(folder)
    commit = manifest["git"]["commit"][:12]
    changed = " (with uncommitted changes)" if dirty_parts(manifest) else ""
    schedule, encoder = run.schedule, run.encoder
    weights = "fine-tuned with the model" if run.finetuned else "frozen"
    sources = [run.model.similarity, run.model.text, run.loss, encoder.family]
    kinds = ("similarity", "text encoder", "loss", "image encoder")
    citations = dict.fromkeys(
        components.describe(kind, source.name).citation for kind, source in zip(kinds, sources, strict=True)
    )
    terms = list(dict.fromkeys(licences.get(dataset, ()))) or [
        "not recorded here; ask the authors of the data"
    ]
    return "\n".join(
        [
            "---",
            "library_name: vsepp",
            "license: other",
            "license_name: data-licence",
            "language: en",
            "tags: [image-text-retrieval, visual-semantic-embedding, vse++]",
            f"datasets: [{dataset}]",
            "---",
            "",
            f"# {run.id}, seed {manifest['seed']}",
            "",
            f"{run.system}: a joint embedding of images and English captions. Trained by "
            "`vsepp`, a reproduction of VSE++ (Faghri et al., 2018).",
            "",
            "## Use",
            "",
            "```python",
            "import vsepp",
            "",
            "model = vsepp.load(FOLDER)  # this folder",
            'images = model.embed_images(["a.jpg", "b.jpg"])',
            'captions = model.embed_captions(["two dogs on grass"])',
            "model.scores(images, captions)  # scores[image, caption]",
            "```",
            "",
            "## What it is",
            "",
            "| | |",
            "|---|---|",
            f"| image encoder | {encoder.architecture}, weights `{encoder.weights}`, {weights} |",
            f"| text encoder | {_shown(run.model.text)}, {len(Vocabulary.read(folder))} words |",
            f"| joint space | {run.model.joint_dim} dimensions, similarity {_shown(run.model.similarity)} |",
            f"| loss | {_shown(run.loss)} |",
            f"| training | {' + '.join(run.train_splits)} of `{dataset}` (images: {corpus}), crops {run.trainset}, "
            f"{schedule.epochs} epochs of batches of {schedule.batch_size}, rate {schedule.learning_rate:g} |",
            f"| snapshot | epoch {manifest['facts'].get('best_epoch', 'unknown')}, the best rsum on validation |",
            "",
            "## Retrieval on the test split",
            "",
            *(scores or ["Not evaluated where it was exported."]),
            "",
            "R@K is in percent. Protocols: `1K` is the first fold, `5x1K` the mean over five folds, `5K` all images; the table "
            "gives the size of a fold. Numbers under different protocols are not comparable.",
            "",
            "## Where it comes from",
            "",
            f"Commit `{commit}`{changed}, vsepp {manifest['versions'].get('vsepp', 'unknown')}, torch "
            f"{manifest['versions'].get('torch', 'unknown')}, seed {manifest['seed']}, on "
            f"{manifest['facts'].get('device', 'unknown')} ({manifest['machine']['processor']}). `{MANIFEST}` has the "
            "digests of data, code and parameters; `config.json` every value of the run.",
            "",
            "## Licence",
            "",
            "The weights were learnt from data under these terms:",
            "",
            *(f"- {term}" for term in terms),
            "",
            "## Cite",
            "",
            *(f"- {citation}" for citation in citations if citation),
            "",
        ]
    )


def corpus_of(run: RunSpec, folder: Path, manifest: Mapping[str, Any]) -> tuple[str, str]:
    """Name of the data set that a run was trained on, and its sizes, where the corpus lies beside the run."""
    place = beside_with(folder, "corpora/*", manifest["inputs"].get("corpus"))
    if place is None:
        return run.dataset, "sizes not recorded"
    made = read_manifest(place)
    images = made["facts"].get("images", {})
    return made["spec"]["name"], ", ".join(f"{split} {count:,}" for split, count in images.items())


def _evaluations(folder: Path) -> list[str]:
    """A table of the recalls of a run's evaluated seeds."""
    rows = []
    for trained in sorted(folder.absolute().parent.glob("seed-*")):
        evaluated = evaluation_of(trained)
        if evaluated is None:
            continue
        manifest = require_intact(evaluated, "metrics.json")
        for name, found in json.loads((evaluated / "metrics.json").read_text(encoding="utf-8")).items():
            recalls = [f"{found[way][key]:.1f}" for way in ("i2t", "t2i") for key in ("r1", "r5", "r10")]
            fold = f"{name}, {found['folds']} × {found['fold_size']:,}"
            rows.append(f"| {manifest['seed']} | {fold} | {' | '.join(recalls)} | {found['rsum']:.1f} |")
    head = [
        "| seed | protocol, folds × images | caption R@1 | R@5 | R@10 | image R@1 | R@5 | R@10 | rsum |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return [*head, *rows] if rows else []


def _shown(component: Any) -> str:
    options = ", ".join(f"{key} {value}" for key, value in component.options.items())
    return f"`{component.name}`" + (f" ({options})" if options else "")
