"""Whether artefacts fit a trained run: its vocabulary, its encoder, its crop, one corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsepp.errors import VseppError
from vsepp.provenance.digests import differing, value_digest
from vsepp.provenance.manifest import MANIFEST, artefact_digest, read_manifest, require_input, require_intact
from vsepp.provenance.verify import shown
from vsepp.spec import RunSpec, from_json, to_dict

CONFIG = "config.json"
VOCABULARY = "vocabulary.json"


def spec_of(folder: Path) -> RunSpec:
    """The spec that a run was trained under, read from its folder.

    Raises
    ------
    VseppError
        If it is not the folder of a run.
    """
    if not (folder / CONFIG).is_file():
        raise VseppError(f"{folder}: no {CONFIG}; expected the folder of a trained run")
    return from_json(RunSpec, str(folder / CONFIG))


def require_trained(run: RunSpec, folder: Path) -> dict[str, Any]:
    """Manifest of a model that must have been trained under this spec; after a checkout of another commit it may not be.

    Raises
    ------
    VseppError
        If the folder holds no run, a file in it was changed, or it was trained under another spec.
    """
    if not (folder / MANIFEST).is_file():
        raise VseppError(f"{folder}: no {MANIFEST}; expected the folder of a trained run")
    manifest = require_intact(folder)
    if keys := [key for key, *_ in differing(to_dict(run), manifest["spec"])]:
        raise VseppError(
            f"{folder}: trained with other values of {', '.join(keys)} than the spec asks for; train {run.id} again"
        )
    return manifest


def require_fitting(run: RunSpec, folder: Path, artefacts: Mapping[str, Path]) -> None:
    """Refuse artefacts from which a trained run would make meaningless embeddings.

    Parameters
    ----------
    run
        The run's spec.
    folder
        The trained run.
    artefacts
        Role → folder: `corpus` and, where given, `tokens`, `features`, `eval_store` and `encoder`.

    Raises
    ------
    VseppError
        Naming the artefact and the run, what was expected and what to give instead.
    """
    made = require_trained(run, folder)
    corpus = artefacts["corpus"]
    if tokens := artefacts.get("tokens"):
        require_intact(tokens)
        require_input(tokens, "captions", corpus / "captions.parquet")
        _require_vocabulary(tokens, folder)
    if run.live_encoder:
        if store := artefacts.get("eval_store"):
            _require_store(run, folder, store, corpus)
        if encoder := artefacts.get("encoder"):
            _require_encoder(made, folder, encoder, artefact_digest(encoder))
    elif features := artefacts.get("features"):
        _require_features(run, made, folder, features, corpus)


def _require_vocabulary(tokens: Path, folder: Path) -> None:
    found, wanted = artefact_digest(tokens / VOCABULARY), artefact_digest(folder / VOCABULARY)
    if found != wanted:
        raise VseppError(
            f"{tokens}: its word ids belong to another vocabulary than {folder}: expected digest {wanted[:12]} of "
            f"{VOCABULARY}, got {found[:12]}. Leave out tokens, and they are made with the run's vocabulary"
        )


def _require_features(
    run: RunSpec, made: Mapping[str, Any], folder: Path, features: Path, corpus: Path
) -> None:
    manifest = require_intact(features)
    computed = manifest["step"] == "features"
    if computed != (run.image_features == "computed"):
        kind = {True: "computed here by an encoder", False: "published with the captions"}
        raise VseppError(
            f"{features}: these features were {kind[computed]}, but {folder} was trained on features that were "
            f"{kind[not computed]}; give it features of that kind"
        )
    if computed:
        for key, wanted in (("encoder", to_dict(run.encoder)), ("crop", to_dict(run.eval_crop))):
            if (found := manifest["spec"][key]) != wanted:
                raise VseppError(
                    f"{features}: made with another {key} than {folder} was trained for: {_difference(wanted, found)}. "
                    f"Make them again (vsepp make features) with the {key} in {folder / CONFIG}"
                )
        _require_encoder(made, folder, features, manifest["inputs"]["encoder"])
        store = manifest["ancestors"].get("store", {})
        if store.get("spec_digest") != value_digest(to_dict(run.eval_store)):
            raise VseppError(
                f"{features}: made from images resized in another way than those of {folder}. Make them again (vsepp "
                f"make features) from a store with the eval_store in {folder / CONFIG}"
            )
    _require_corpus(manifest, "store.images" if computed else "images", features, corpus)


def _require_encoder(made: Mapping[str, Any], folder: Path, artefact: Path, found: str) -> None:
    """Refuse another encoder's weights; a released model names its encoder by the spec only."""
    wanted = made["inputs"].get("encoder")
    if wanted is not None and found != wanted:
        raise VseppError(
            f"{artefact}: belongs to another encoder than {folder} was trained with: expected weights with digest "
            f"{wanted[:12]}, got {found[:12]}. Get the run's own encoder and make the features with it"
        )


def _require_store(run: RunSpec, folder: Path, store: Path, corpus: Path) -> None:
    manifest = read_manifest(store)
    if manifest["spec"] != to_dict(run.eval_store):
        raise VseppError(
            f"{store}: its images were not resized like those of {folder}: "
            f"{_difference(to_dict(run.eval_store), manifest['spec'])}. Make it again (vsepp make store) with the eval_store in "
            f"{folder / CONFIG}"
        )
    _require_corpus(manifest, "images", store, corpus)


def _require_corpus(manifest: Mapping[str, Any], role: str, artefact: Path, corpus: Path) -> None:
    wanted = artefact_digest(corpus / "images.parquet")
    found = manifest["ancestors"].get(role, {}).get("digest")
    if found != wanted:
        raise VseppError(
            f"{artefact}: made from the images of another corpus than {corpus}: expected digest {wanted[:12]} of "
            f"images.parquet, got {str(found)[:12]}. Make it again from this corpus, or give the corpus that it was made from"
        )


def _difference(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    return "; ".join(
        f"expected {key} {shown(here)}, got {shown(there)}" for key, here, there in differing(wanted, found)
    )
