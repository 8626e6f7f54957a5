"""A model folder of which any value is another one: it is used, or refused in one sentence."""

import copy
import json
import shutil
from itertools import cycle, islice

import pytest
import specs
from safetensors.torch import save_file

import vsepp
from vsepp.apps.export import export_run
from vsepp.base.digests import path_digest
from vsepp.base.errors import VseppError
from vsepp.base.manifest import MANIFEST, read_manifest, recorded, write_manifest
from vsepp.base.spec import to_dict, to_json
from vsepp.data.captions import SPECIAL, Vocabulary
from vsepp.models.encoder import build_encoder, save_encoder
from vsepp.models.joint import JointEmbedding

FILES = ("manifest.json", "encoder/manifest.json", "config.json", "vocabulary.json", "vsepp.json")
ODD = (..., None, [], "x", -1, 10**30, {"a": 1}, "../x", "a\0b", float("nan"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with a frozen encoder, as it is exported; nothing is trained."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    encoder = build_encoder(specs.ENCODER)
    with recorded(folder / "encoder", "encoder", spec=to_dict(specs.ENCODER), inputs={}):
        save_encoder(encoder, folder / "encoder")
    words = Vocabulary((*SPECIAL, "dog"), {}, 1, ("train",), 1, "")
    shutil.move(folder / "encoder", folder.parent / "encoder")
    with recorded(folder, "run", spec=to_dict(specs.RUN), inputs={"encoder": folder.parent / "encoder"}):
        words.write(folder)
        (folder / "config.json").write_text(to_json(specs.RUN))
        save_file(
            JointEmbedding(specs.MODEL, encoder.dim, len(words)).state_dict(), folder / "model.safetensors"
        )
    shutil.move(folder.parent / "encoder", folder / "encoder")
    (folder / "vsepp.json").write_text(json.dumps({"layout": 1, "version": "1", "run": "tiny"}))
    return folder


def places(value, at=()):
    """The keys that lead to each value inside a JSON value."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


def changed(value, at, new):
    """A JSON value with another value at a place, or without it."""
    if not at:
        return new
    value = copy.deepcopy(value)
    part = value
    for key in at[:-1]:
        part = part[key]
    if new is ...:
        del part[at[-1]]
    else:
        part[at[-1]] = new
    return value


def use(folder):
    """Load and export a model, each a sentence or right."""
    for call in (vsepp.load, lambda folder: export_run(folder, folder.parent / "out")):
        try:
            call(folder)
        except VseppError as error:
            assert str(error)


@pytest.mark.parametrize("file", FILES)
def test_any_value_of_a_file_may_be_another_one(whole, tmp_path, file):
    vsepp.load(whole, device="cpu")
    content = json.loads((whole / file).read_text())
    odd = cycle(ODD)
    for at in places(content):
        for value in islice(odd, 1):
            if value is ... and not at:
                continue
            shutil.rmtree(tmp_path, ignore_errors=True)
            folder = shutil.copytree(whole, tmp_path / "run")
            other = changed(content, at, value)
            (folder / file).write_text(json.dumps(other))
            parent = (folder / file).parent
            if not file.endswith(MANIFEST):
                manifest = read_manifest(parent)
                outputs = {name: path_digest(parent / name) for name in manifest["outputs"]}
                write_manifest(parent, {**manifest, "outputs": outputs})
            elif isinstance(other, dict) and at != ("digest",):
                write_manifest(parent, {key: kept for key, kept in other.items() if key != "digest"})
            use(folder)
