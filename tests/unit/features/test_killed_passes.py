"""A pass of a frozen encoder that is killed goes on after its last whole chunk, to the same bits."""

import numpy as np
import pytest
import tiny_corpus as tiny
import torch

from vsepp.base.spec import CropSpec
from vsepp.data.captions import Tokens
from vsepp.data.store import open_store
from vsepp.features import captions, frozen
from vsepp.features.captions import write_caption_states
from vsepp.features.crops import CaptionCrops
from vsepp.models.encoder import load_encoder
from vsepp.models.text.bert import Options, TextEncoder

pytestmark = [pytest.mark.tape, pytest.mark.resume]
CHUNK, EPOCHS = 16, 16


def write_features(corpus, out, state):
    encoder = load_encoder(tiny.ENCODERS["vgg"], corpus / "encoder-vgg")
    images = open_store(corpus / "store")
    frozen.extract_features(images, encoder, CropSpec("1C", tiny.CROP), out, state, device=tiny.CPU)


def write_tape(corpus, out, state):
    encoder = load_encoder(tiny.ENCODERS["vgg"], corpus / "encoder-vgg")
    rows = np.arange(90)
    crops = CaptionCrops(tiny.RC.crop, rows // 3, 100 + 7 * rows, 4)
    frozen.write_tape(open_store(corpus / "store"), encoder, crops, rows, 1, out, state, device=tiny.CPU)


def write_states(corpus, out, state):
    torch.manual_seed(0)
    sizes = {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 16, "positions": 16, "dim": 6}
    encoder = TextEncoder(30, Options(weights="file/bert.pt", frozen=True, **sizes)).eval()
    out.mkdir(exist_ok=True)
    write_caption_states(encoder, 8, Tokens.load(corpus / "tokens"), out, state, device=tiny.CPU)


# What writes a file, and the file.
PASSES = {
    "features": (write_features, frozen.FILE),
    "tape": (write_tape, "epoch-000.npy"),
    "states of captions": (write_states, captions.FILE),
}


@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize("name", PASSES)
def test_a_file_cut_by_a_kill_goes_on_to_the_same_bits(corpus, tmp_path, monkeypatch, name, share):
    for module, size in ((frozen, "CHUNK_IMAGES"), (frozen, "CHUNK_CAPTIONS"), (captions, "CHUNK")):
        monkeypatch.setattr(module, size, CHUNK)
    write, file = PASSES[name]
    write(corpus, tmp_path / "whole", tmp_path / "state")
    whole = (tmp_path / "whole" / file).read_bytes()
    left = bytearray(whole[: int(share * len(whole)) + 3])
    # A number of the first chunk that no encoder gives shows whether it is computed again.
    first = len(whole) - np.load(tmp_path / "whole" / file).nbytes
    mark = b"\x00\x47" * 2
    left[first : first + 4] = mark
    state = tmp_path / "cut"
    state.mkdir()
    (state / file).write_bytes(left)
    write(corpus, tmp_path / "out", state)
    resumed = bytearray((tmp_path / "out" / file).read_bytes())
    assert (resumed[first : first + 4] == mark) == (share == 0.9)
    resumed[first : first + 4] = whole[first : first + 4]
    assert resumed == whole
