"""Which modules a step computes with: its own, and the components that its spec names.

Modules that a step imports are found by following imports. Components are looked up by name at run time, so they are added
here.
"""

from __future__ import annotations

from typing import Any

from vsepp.components import module_name
from vsepp.provenance.digests import code_digest
from vsepp.spec import EncoderSpec, RunSpec

_MODULES: dict[str, tuple[str, ...]] = {
    "scenes": ("vsepp.scenes.layouts",),
    "corpus": ("vsepp.data.corpora",),
    "tokens": ("vsepp.data.captions",),
    "vectors": ("vsepp.data.vectors",),
    "store": ("vsepp.data.store",),
    "pictures": ("vsepp.data.pictures",),
    "pretrain": ("vsepp.scenes.pretrain",),
    "encoder": ("vsepp.models.pretrained",),
    "features": ("vsepp.features.extract",),
    "precomputed": ("vsepp.features.precomputed",),
    "tape": ("vsepp.features.tape_writer",),
    "train": ("vsepp.training.loop",),
    "released": ("vsepp.released.convert",),
    "evaluate": ("vsepp.evaluation.run",),
    "figure-data": ("vsepp.evaluation.figure_data",),
    "score": ("vsepp.evaluation.protocols",),
    "report": ("vsepp.reporting.pages",),
}
"""Step, named as its subcommand → the modules that it starts from."""


def step_code(step: str, spec: Any = None) -> str:
    """Digest of the code that a step computes with, including the components that its spec names.

    Parameters
    ----------
    step
        Name of the subcommand.
    spec
        All that decides what it computes.
    """
    return code_digest(*_MODULES[step], *_components(step, spec))


def _components(step: str, spec: Any) -> list[str]:
    if step == "score":
        return [module_name("similarity", spec.name)]
    if step == "figure-data":
        return [module_name("loss", loss.name) for loss in spec.losses]
    if step == "corpus":
        return [module_name("reader", spec.reader.name)]
    if step in ("pretrain", "features", "tape"):
        return [_family(spec.encoder)]
    if step == "encoder":
        return [_family(spec)]
    if step == "train":
        family = [_family(spec.encoder)] if spec.reads in ("inline", "live") else []
        return [*_model(spec), module_name("loss", spec.loss.name), *family]
    if step in ("released", "evaluate"):
        run = spec if step == "released" else spec.run
        return [*_model(run), *([_family(run.encoder)] if run.live_encoder else [])]
    return []


def _family(spec: EncoderSpec) -> str:
    return module_name("image encoder", spec.family.name)


def _model(run: RunSpec) -> list[str]:
    model = run.model
    return [module_name("similarity", model.similarity.name), module_name("text encoder", model.text.name)]
