"""Encoders with weights from elsewhere: published weights, or a file's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from vsepp.base import components
from vsepp.base.errors import VseppError
from vsepp.base.files import file_digest
from vsepp.base.spec import EncoderSpec
from vsepp.models import weights
from vsepp.models.encoder import ImageEncoder, build_encoder, family_of, load_state, save_encoder

# Torchvision names a file after the first digits of its SHA-256: vgg19-dcbb9e9d.pth.
_NAMED_AFTER_SUM = re.compile(r"-([0-9a-f]{8,64})\.pth$")


def make_encoder(spec: EncoderSpec, file: Path | None, out: Path) -> dict[str, Any]:
    """Write an encoder with imported weights; see `import_weights`."""
    encoder = import_weights(spec, file)
    save_encoder(encoder, out)
    return {"dim": encoder.dim}


def import_weights(spec: EncoderSpec, file: Path | None = None) -> ImageEncoder:
    """Make an encoder with the weights that `spec.weights` names.

    `torchvision/<entry>` and `pip` are published weights, `random` draws them under the caller's torch seed, and
    `file/<name>` is a file with the weights of the whole or the cut network. No pickle is executed.

    Parameters
    ----------
    spec
        The encoder.
    file
        Path of the file of `file/<name>` (.pth, .pt or .safetensors). It is not part of the spec, so that
        the same weights in another place give the same encoder.

    Raises
    ------
    VseppError
        If the source does not exist, cannot be read, holds another network's weights, or does not have the
        SHA-256 that its name promises.
    """
    source, _, name = spec.weights.partition("/")
    if source == "file" and name:
        return _from_file(spec, name, file)
    if spec.weights == "random":
        return build_encoder(spec)
    family, architecture = family_of(spec)
    if not hasattr(family, "published"):
        raise VseppError(
            f"encoder {spec.name!r}: cannot import weights {spec.weights!r} of {spec.architecture!r}; expected "
            "'file/<name>', 'random' or, if there are published ones, 'torchvision/<entry>' or 'pip'"
        )
    options = components.options("image encoder", spec.family)
    return ImageEncoder(spec, family.published(architecture, spec.weights, spec.input_size, options))


def _from_file(spec: EncoderSpec, name: str, file: Path | None) -> ImageEncoder:
    if file is None:
        raise VseppError(
            f"encoder {spec.name!r}: its weights are the file {name!r}, but no path was given; say where "
            "it lies"
        )
    state = weights.read(file)
    for promised in dict.fromkeys((Path(name).name, file.name)):
        check_sum(file, promised)
    encoder = build_encoder(spec)
    load_state(encoder, state, file)
    return encoder


def check_sum(file: Path, name: str) -> None:
    """Refuse a file whose SHA-256 does not start with the digits in `name`, `<network>-<8 digits or more>.pth`.

    Raises
    ------
    VseppError
        Naming both checksums. A file with another kind of name is accepted.
    """
    promised = _NAMED_AFTER_SUM.search(name)
    if promised is None:
        return
    digest = file_digest(file)
    if not digest.startswith(promised[1]):
        raise VseppError(
            f"{file}: its SHA-256 is {digest}, expected one that starts with {promised[1]}, as the name {name} "
            "says; it is damaged or a different file: fetch it again. If the digits are not a checksum, rename it"
        )
