"""Files of weights as large as VSE∞'s, made up with the names and shapes of the published ones.

    pytest -m rehearsal tests/rehearsal/test_published_weights.py -n 0

Takes half a minute on two cores, 3 GB of memory and 1 GB of disk below pytest's folder (`--basetemp`).
"""

import pytest
import torch
from made_weights import write_weights
from plans import plan
from specs import change

from vsepp.models.encoder import import_weights, load_encoder, save_encoder
from vsepp.models.text.bert import Options, TextEncoder

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(600)]


def test_resnext_as_wsl_published_it(tmp_path):
    """The state of torchvision's own network, classifier included, gives the grid that the network has."""
    from torchvision.models import get_model
    from torchvision.models.feature_extraction import create_feature_extractor

    path = write_weights(tmp_path, "resnext101_32x8d")
    spec = next(
        artefact.spec
        for artefact in plan(preset="paper", papers=["vse_infinity"]).of_kind("encoder").values()
        if artefact.spec.architecture == "torchvision/resnext101_32x8d"
    )
    spec = change(spec, weights=f"file/{path.name}")
    save_encoder(import_weights(spec, path), tmp_path / "encoder")
    encoder = load_encoder(spec, tmp_path / "encoder", grid=True).eval()
    theirs = get_model("resnext101_32x8d", weights=None).eval()
    theirs.load_state_dict(torch.load(path, weights_only=True))
    pixels = torch.randn(1, 3, spec.input_size, spec.input_size)
    with torch.inference_mode():
        expected = create_feature_extractor(theirs, ["layer4"])(pixels)["layer4"]
        torch.testing.assert_close(encoder(pixels), expected.flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-5)


def test_bert_base_as_google_published_it(tmp_path):
    """What stands on BERT is left out, and the oldest names of a normalisation's weights are read."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    theirs = transformers.BertForPreTraining(transformers.BertConfig()).eval()
    path = tmp_path / "pytorch_model.bin"
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    state = dict(theirs.state_dict())
    for new, before in old.items():
        state = {key.replace(new, before): value for key, value in state.items()}
    torch.save(state, path)
    assert path.stat().st_size > 4 * 110_000_000
    weights = "file/bert-base-uncased/pytorch_model.bin"
    encoder = TextEncoder(30_522, Options(weights=weights, dim=1024)).eval()
    encoder.start(path)
    ids, lengths = torch.randint(1, 30_522, (2, 9)), torch.tensor([9, 5])
    inside = torch.arange(9) < lengths[:, None]
    with torch.inference_mode():
        expected = theirs.bert(input_ids=ids, attention_mask=inside.long()).last_hidden_state
        found = encoder.states(ids, lengths)
    torch.testing.assert_close(found[inside], expected[inside], rtol=0, atol=1e-4)
