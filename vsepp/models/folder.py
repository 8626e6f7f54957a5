"""The folder of a trained model, a run's or one that `vsepp export` wrote: its layout, its files, and the encoder that it was trained with."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsepp.base.digests import file_digest, value_digest
from vsepp.base.errors import VseppError
from vsepp.base.files import is_there, read_json, reading
from vsepp.base.manifest import MANIFEST, artefact_digest, manifest_if_intact, read_manifest, require_intact
from vsepp.base.publish import MODEL_FILES, beside
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import to_dict
from vsepp.models.encoder import WEIGHTS, ImageEncoder, import_weights, load_encoder, save_encoder

LAYOUT_FILE = "vsepp.json"
LAYOUT = 1
"""Version of the layout of exported folders; raised when an older `load` could no longer read what is written."""
ENCODER_FOLDER = "encoder"
INSTALLED_ENCODER = "installed_encoder"
"""Entry of `LAYOUT_FILE`: SHA-256 of the encoder's weights, where a package has them instead of the folder."""


def layout_of(folder: Path) -> dict[str, Any]:
    """Content of `vsepp.json` in an exported folder; empty for a run of the workflow.

    Raises
    ------
    VseppError
        If it is damaged or of a newer version.
    """
    path = folder / LAYOUT_FILE
    if not (is_there(path) or path.is_symlink()):
        return {}
    expected = "the description of an exported run; export it again"
    description: dict[str, Any] = read_json(path, expected)
    with reading(path, expected):
        layout, version = int(description["layout"]), description["version"]
    if layout > LAYOUT:
        raise VseppError(
            f"{folder}: exported by vsepp {version} in layout {layout}; this version reads layouts up to {LAYOUT}: install "
            "a newer vsepp"
        )
    return description


def require_files(folder: Path) -> None:
    """Refuse a run's folder that is not as it was written."""
    if not (folder / MANIFEST).is_file():
        raise VseppError(f"{folder}: no {MANIFEST}; expected the complete folder of a trained run")
    listed = read_manifest(folder)["outputs"]
    if missing := [name for name in MODEL_FILES if name not in listed]:
        raise VseppError(
            f"{folder / MANIFEST}: outputs: no {', '.join(missing)}; expected the complete folder of a trained run"
        )
    require_intact(folder, *MODEL_FILES)


def encoder_of(run: RunSpec, folder: Path, encoder: Path | None = None) -> Path | None:
    """Folder of the image encoder that a run was trained with; `None` if it needs none.

    A model on published features has no encoder; a fine-tuned model has it among its own weights; a model that was exported
    without it takes the weights of an installed package. A released model names its encoder by the spec, any other run by the
    digest of the weights.

    Raises
    ------
    VseppError
        If the encoder is not found, was changed, or is not the one that was given.
    """
    if run.image_features != "computed" or run.live_encoder:
        return None
    wanted = read_manifest(folder)["inputs"].get("encoder")
    for place in [encoder] if encoder else [folder / ENCODER_FOLDER, *beside(folder, "encoders/*")]:
        if (manifest := manifest_if_intact(place)) and _is_encoder_of(run, place, manifest, wanted):
            require_intact(place)
            return place
    if encoder is None and INSTALLED_ENCODER in layout_of(folder):
        return None
    if encoder:
        raise VseppError(
            f"{encoder}: not the encoder that {folder} was trained with ({run.encoder.architecture})"
        )
    raise VseppError(
        f"{folder}: the image encoder that it was trained with ({run.encoder.architecture}, weights {run.encoder.weights}) was "
        f"not found; expected it in {folder / ENCODER_FOLDER} or below results/<preset>/encoders. Give its folder: "
        "load(folder, encoder=...)"
    )


def _is_encoder_of(run: RunSpec, place: Path, manifest: Mapping[str, Any], wanted: str | None) -> bool:
    if wanted is not None:
        return artefact_digest(place) == wanted
    spec = manifest["spec"]
    return value_digest(spec.get("encoder", spec)) == value_digest(to_dict(run.encoder))


def frozen_encoder(run: RunSpec, folder: Path, encoder: Path | None = None) -> ImageEncoder | None:
    """The image encoder of a run that does not hold one in its model, from its folder or from a package; errors as in `encoder_of`."""
    place = encoder_of(run, folder, encoder)
    if place is not None:
        return load_encoder(run.encoder, place, grid=run.grid)
    sha256 = layout_of(folder).get(INSTALLED_ENCODER)
    return None if sha256 is None else _installed_encoder(run, sha256)


def _installed_encoder(run: RunSpec, sha256: str) -> ImageEncoder:
    """The encoder with the weights of a package, which must be the weights that the model was trained with."""
    network = import_weights(run.encoder)
    with tempfile.TemporaryDirectory() as written:
        save_encoder(network, Path(written))
        installed = file_digest(Path(written) / WEIGHTS)
    if installed != sha256:
        raise VseppError(
            f"{run.encoder.architecture}: the installed weights have SHA-256 {installed[:12]}, but {run.id} was trained with "
            f"{sha256[:12]}; install another version of their package"
        )
    return network
