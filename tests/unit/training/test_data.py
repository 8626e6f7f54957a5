"""What a run trains on: its pairs, and for each pair the right features or crops."""

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from rounding import assert_near

from vsepp.base.errors import VseppError
from vsepp.base.placement import Placing
from vsepp.base.spec import Component
from vsepp.data.captions import Tokens
from vsepp.data.tables import read_tables
from vsepp.features.frozen import extract_features
from vsepp.models.encoder import load_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.training.data import load_training_data


def test_pairs_are_all_captions_of_the_training_splits_with_their_images(corpus):
    images, captions = read_tables(corpus / "corpus")
    for restval, splits in ((False, {"train"}), (True, {"train", "restval"})):
        data = tiny.data_of(tiny.change(tiny.FROZEN, restval=restval), corpus)
        expected = [row for row in range(len(captions)) if captions["split"][row] in splits]
        assert data.pairs.tolist() == expected
        assert data.image_rows.tolist() == [captions["image_index"][row] for row in expected]
        assert set(images["split"][data.image_rows]) == splits


def test_1c_trains_on_the_cached_feature_of_each_pairs_image(corpus):
    data = tiny.data_of(tiny.FROZEN, corpus)
    features = np.load(corpus / "features-vgg" / "features.npy")[:, 0]
    pairs = np.array([5, 0, 30])
    for epoch in (0, 2):
        values = data.images.train(data.pairs[pairs], epoch).values.numpy()
        assert np.array_equal(values, features[data.image_rows[pairs]])
    assert data.images.dim == features.shape[1]


def test_an_encoder_in_the_model_gets_the_crops_that_the_tape_was_made_of(corpus):
    live, tape = tiny.data_of(tiny.FINETUNED, corpus), tiny.data_of(tiny.RC, corpus)
    pairs = np.arange(9)
    crops = live.images.train(live.pairs[pairs], 1).values
    assert crops.dtype == torch.uint8 and crops.shape == (9, tiny.CROP, tiny.CROP, 3)
    torch.manual_seed(0)
    encoder = tiny.build_encoder(tiny.ENCODERS["vgg"]).eval()
    with torch.no_grad():
        features = encoder(encoder.normalise(crops))
        evaluated = encoder(encoder.normalise(live.images.eval(live.validation.images).values))
    assert_near(tape.images.train(tape.pairs[pairs], 1).values, features, 1e-3)  # of 16 bits
    assert_near(evaluated, tape.images.eval(live.validation.images).values, 1e-5)


@pytest.mark.parametrize("by", ["vector", "image"])
def test_an_encoder_in_the_model_drops_the_cells_that_a_frozen_one_drops(corpus, by, tmp_path):
    drop = {"size_augmentation__drop_vectors": 0.6, "size_augmentation__drop_vectors_by": by}
    pooled = {"encoder": tiny.ENCODERS["resnet"], "model__image_pooling": Component("gpo"), **drop}
    frozen, live = tiny.change(tiny.RC, rc_features="inline", **pooled), tiny.change(tiny.FINETUNED, **pooled)
    data, pairs = tiny.data_of(live, corpus), np.arange(30)
    encoder = load_encoder(live.encoder, corpus / "encoder-resnet", grid=True)
    stored = np.load(corpus / "store/images.npy")
    extract_features(
        stored, encoder, tiny.FROZEN.crop, tmp_path / "grids", tmp_path / "state", device=tiny.CPU
    )
    torch.manual_seed(0)
    model = JointEmbedding(live.model, data.images.dim, len(data.vocabulary), encoder).eval()
    folders = tiny.artefacts(corpus, "resnet", features=tmp_path / "grids")
    sets = load_training_data(frozen, folders, Placing(tiny.CPU)).images.train(data.pairs[pairs], 1)
    assert 1 <= sets.lengths.min() < sets.lengths.max()
    with torch.no_grad():
        embeddings = model.embed_images(data.images.train(data.pairs[pairs], 1))
        model.encoder = None
        assert_near(embeddings, model.embed_images(sets), 1e-3)  # of 16 bits


def test_artefacts_of_another_corpus_are_refused(corpus, tmp_path):
    Tokens.from_lists([[1, 2]] * 4).save(tmp_path)
    (tmp_path / "vocabulary.json").write_bytes((corpus / "tokens" / "vocabulary.json").read_bytes())
    with pytest.raises(VseppError, match=r"\b4\b.*\b117\b"):
        load_training_data(tiny.FROZEN, tiny.artefacts(corpus, tokens=tmp_path), Placing(tiny.CPU))
    np.save(tmp_path / "features.npy", np.zeros((7, 1, 128), np.float32))
    with pytest.raises(VseppError, match=r"features\.npy.*\b7\b.*\b39\b"):
        load_training_data(tiny.FROZEN, tiny.artefacts(corpus, features=tmp_path), Placing(tiny.CPU))
