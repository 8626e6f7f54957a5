"""A trained run of the spec that is wanted, and artefacts that fit it: vocabulary, encoder, crop, corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vsepp.base.digests import value_digest
from vsepp.base.errors import VseppError
from vsepp.base.manifest import (
    MANIFEST,
    ancestors_of,
    artefact_digest,
    differences,
    differing,
    parent_of,
    read_manifest,
    require_input,
    require_intact,
)
from vsepp.base.publish import CONFIG, MODEL_FILES, VOCABULARY
from vsepp.base.run_spec import RunSpec
from vsepp.base.spec import to_dict


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
    manifest = require_run(run, folder, *MODEL_FILES)
    corpus = artefacts["corpus"]
    if tokens := artefacts.get("tokens"):
        require_intact(tokens)
        require_input(tokens, "captions", corpus / "captions.parquet")
        words = artefact_digest(folder / VOCABULARY), artefact_digest(tokens / VOCABULARY)
        _require(tokens, folder, "vocabulary", *words)
    if not run.live_encoder:
        if features := artefacts.get("features"):
            _require_features(run, manifest, folder, features, corpus)
        return
    if store := artefacts.get("eval_store"):
        store_manifest = read_manifest(store)
        _require(store, folder, "eval_store", to_dict(run.eval_store), store_manifest["spec"])
        _require_corpus(store, corpus, {store_manifest["inputs"].get("corpus")})
    if encoder := artefacts.get("encoder"):
        _require_encoder(manifest, folder, encoder, artefact_digest(encoder))


def require_run(run: RunSpec, folder: Path, *names: str) -> dict[str, Any]:
    """Manifest of a trained run whose named files, or all, are as they were written; refuses one of another spec, which may lie there
    after a checkout of another commit."""
    if not (folder / MANIFEST).is_file():
        raise VseppError(f"{folder}: no {MANIFEST}; expected the folder of a trained run")
    manifest = require_intact(folder, *names)
    if keys := [key for key, *_ in differences(manifest, spec=to_dict(run)).spec]:
        raise VseppError(
            f"{folder}: trained with other values of {', '.join(keys)} than the spec asks for; train {run.id} again"
        )
    return manifest


def _require_features(
    run: RunSpec, run_manifest: Mapping[str, Any], folder: Path, features: Path, corpus: Path
) -> None:
    manifest = require_intact(features)
    kind = "computed" if manifest["step"] == "features" else "precomputed"
    _require(features, folder, "kind of features", run.image_features, kind)
    if kind == "precomputed":
        _require_corpus(features, corpus, {manifest["inputs"].get("corpus")})
        return
    for key, wanted in (("encoder", run.encoder), ("crop", run.eval_crop)):
        _require(features, folder, key, to_dict(wanted), manifest["spec"].get(key, {}))
    _require_encoder(run_manifest, folder, features, manifest["inputs"].get("encoder", "none"))
    # The store itself may be deleted.
    store = parent_of(manifest, "store").get("spec_digest")
    if store is None:
        raise VseppError(
            f"{features}: its manifest does not say from which store it was made (two calls at once?): delete {features} and run "
            "the same command again"
        )
    _require(features, folder, "eval_store", value_digest(to_dict(run.eval_store)), store)
    _require_corpus(features, corpus, {ancestor["digest"] for ancestor in ancestors_of(manifest)})


def _require_encoder(run_manifest: Mapping[str, Any], folder: Path, artefact: Path, digest: str) -> None:
    """Refuse another encoder's weights; a released model names its encoder by the spec only."""
    _require(artefact, folder, "encoder", run_manifest["inputs"].get("encoder", digest), digest)


def _require_corpus(artefact: Path, corpus: Path, made_from: set[str]) -> None:
    images = artefact_digest(corpus / "images.parquet")
    if images not in made_from:
        raise VseppError(
            f"{artefact}: made from the images of another corpus than {corpus}, whose images.parquet has the digest "
            f"{images[:12]}. Make it again from this corpus, or give the corpus that it was made from"
        )


def _require(artefact: Path, folder: Path, what: str, wanted: Any, got: Any) -> None:
    """Refuse an artefact with another digest or spec than the run has."""
    parts = [
        f"expected {key} {value_text(wanted_value)}, got {value_text(value)}"
        if key
        else f"expected {wanted_value[:12]}, got {str(value)[:12]}"
        for key, wanted_value, value in differing(wanted, got)
    ]
    if parts:
        raise VseppError(
            f"{artefact}: has another {what} than {folder} was trained with: {'; '.join(parts)}. Give one that was made with "
            f"the {what} of the run, as {folder / CONFIG} has it"
        )


def value_text(value: Any) -> str:
    """A value of a spec, for a message; defaults are left out of specs."""
    return "its default" if value is None else repr(value)
