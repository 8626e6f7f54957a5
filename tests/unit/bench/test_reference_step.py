"""The reference step is the authors' way of computing what the package computes."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import small
import torch

from vsepp.bench import reference
from vsepp.bench.cases import embeddings
from vsepp.bench.catalogue import Measurement
from vsepp.bench.made_up import made_up_encoder, write_photographs
from vsepp.bench.variants import OverPadding
from vsepp.data.tokens import END, START
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.losses import max_of_hinges
from vsepp.models.joint import JointEmbedding
from vsepp.training.step import EmbeddingInBf16

PAIRS, DIM, WORDS = 12, 16, 40


@pytest.fixture
def captions():
    generator = np.random.default_rng(1)
    return [
        np.array([START, *generator.integers(4, WORDS, generator.integers(1, 9)), END]) for _ in range(PAIRS)
    ]


def ours(model, images, batch):
    _, ids, lengths = batch
    scores = model.scores(model.embed_images(images), model.embed_captions(ids, torch.tensor(lengths)))
    loss = max_of_hinges.loss(scores)
    loss.backward()
    return loss


def theirs(model, batch):
    loss = reference.max_of_hinges(model(*batch), max_of_hinges.Options().margin)
    loss.backward()
    return loss


def assert_equal_gradients(own, other):
    pairs = [
        (own.text.words.weight, other.words.weight),
        (own.image_map.weight, other.image_map.weight),
        (own.image_map.bias, other.image_map.bias),
        *zip(own.text.gru.parameters(), other.gru.parameters(), strict=True),
    ]
    for one, two in pairs:
        assert one.grad.abs().max() > 1e-2
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-5)


def test_loss_and_gradients_are_the_packages_on_the_same_features(captions):
    torch.manual_seed(0)
    model = JointEmbedding(small.RUN.model, DIM, WORDS)
    other = reference.ReferenceModel(model)
    features = np.random.default_rng(0).standard_normal((PAIRS, DIM), np.float32)
    rows = reference.FeaturePairs(features, captions, range(PAIRS))
    batch = reference.collate([rows[row] for row in range(PAIRS)])
    loss = theirs(other, batch)
    assert loss > 0
    torch.testing.assert_close(ours(model, batch[0], batch), loss, rtol=1e-5, atol=1e-6)
    assert_equal_gradients(model, other)


def test_loss_and_gradients_are_the_packages_with_the_encoder_in_the_step(captions):
    encoder = made_up_encoder(small.RUN).requires_grad_(True).eval()
    torch.manual_seed(0)
    model = JointEmbedding(small.RUN.model, encoder.dim, WORDS, encoder)
    other = reference.ReferenceModel(model, copy.deepcopy(encoder))
    crops = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (PAIRS, 24, 24, 3), np.uint8))
    pixels = encoder.normalise(crops).contiguous()
    batch = reference.collate([(pixels[row], torch.tensor(caption)) for row, caption in enumerate(captions)])
    by_length = sorted(range(PAIRS), key=lambda row: len(captions[row]), reverse=True)
    loss = theirs(other, batch)
    torch.testing.assert_close(ours(model, crops[by_length], batch), loss, rtol=1e-4, atol=1e-5)
    assert_equal_gradients(model, other)
    for own, his in zip(encoder.network.parameters(), other.network.parameters(), strict=True):
        torch.testing.assert_close(own.grad, his.grad, rtol=1e-3, atol=1e-4 * float(own.grad.abs().max()))


def test_a_step_lowers_the_loss_of_its_batch(captions):
    torch.manual_seed(0)
    model = reference.ReferenceModel(JointEmbedding(small.RUN.model, DIM, WORDS))
    features = np.random.default_rng(0).standard_normal((PAIRS, DIM), np.float32)
    rows = reference.FeaturePairs(features, captions, range(PAIRS))
    batch = reference.collate([rows[row] for row in range(PAIRS)])
    optimiser = reference.make_optimiser(model, 0.01)
    losses = [reference.reference_step(model, optimiser, batch, small.RUN) for _ in range(20)]
    assert losses[-1] < 0.7 * losses[0]


def test_workers_give_sorted_padded_batches_of_every_pair_once(captions):
    features = np.arange(PAIRS, dtype=np.float32)[:, None]
    rows = reference.FeaturePairs(features, captions, range(PAIRS))
    batches = list(reference.make_loader(rows, 5, 2, small.CPU))
    assert [len(lengths) for _, _, lengths in batches] == [5, 5, 2]
    assert sorted(int(image) for images, _, _ in batches for image in images) == list(range(PAIRS))
    for images, ids, lengths in batches:
        assert lengths == sorted(lengths, reverse=True) and ids.shape[1] == lengths[0]
        for image, row, length in zip(images, ids, lengths, strict=True):
            np.testing.assert_array_equal(row[:length], captions[int(image)])
            assert not row[length:].any()


def test_photographs_become_normalised_random_crops(captions, tmp_path):
    measurement = Measurement("one", "reference", small.RUN, images=1, photograph=(40, 32))
    (name,) = write_photographs(measurement, tmp_path / "photographs")
    files = [tmp_path / "photographs" / name]
    encoder = replace(small.RUN.encoder, mean=(0.5,) * 3, std=(0.5,) * 3)
    rows = reference.PhotographPairs(files, captions[:1], [0], replace(small.RUN, encoder=encoder))
    torch.manual_seed(0)
    seen = [rows[0][0] for _ in range(8)]
    assert {tuple(pixels.shape) for pixels in seen} == {(3, 24, 24)}
    assert all(-1 <= pixels.min() < -0.1 and 0.1 < pixels.max() <= 1 for pixels in seen)
    assert any(not torch.equal(seen[0], pixels) for pixels in seen[1:])


def test_sorting_gives_the_ranks_that_counting_gives():
    measurement = Measurement("ranks", "rank", small.RUN, images=20)
    images, captions, owner = embeddings(measurement)
    to_text, to_image = reference.argsort_ranks(images, captions, owner, range(20), range(100))
    counted = retrieval_ranks(images, captions, owner, "dot")
    assert to_text.max() > 0
    np.testing.assert_array_equal(to_text, counted.image_to_text)
    np.testing.assert_array_equal(to_image, counted.text_to_image)


def test_variants_embed_what_the_model_embeds(captions):
    torch.manual_seed(0)
    model = JointEmbedding(small.RUN.model, DIM, WORDS)
    ids, lengths = reference.collate([(torch.zeros(1), torch.tensor(caption)) for caption in captions])[1:]
    images, lengths = torch.randn(PAIRS, DIM), torch.tensor(lengths)
    expected = model.embed_captions(ids, lengths)
    half = EmbeddingInBf16(model, small.CPU)
    rounded = half.embed_captions(ids, lengths)
    assert rounded.dtype == half.embed_images(images).dtype == torch.float32
    assert not torch.equal(rounded, expected)
    torch.testing.assert_close(rounded, expected, rtol=0, atol=0.02)
    torch.testing.assert_close(half.embed_images(images), model.embed_images(images), rtol=0, atol=0.02)
    model.text = OverPadding(model.text)
    torch.testing.assert_close(model.embed_captions(ids, lengths), expected, rtol=1e-5, atol=1e-6)
