"""Fits in closed form against numpy, and runs that are fitted instead of trained, by the step that makes them."""

import dataclasses

import numpy as np
import pytest
import tiny_corpus as tiny
import torch
from safetensors.torch import save_file
from tiny_corpus import change, history, weights

from vsepp.data.tables import read_tables
from vsepp.data.tokens import Tokens
from vsepp.data.vocabulary import Vocabulary
from vsepp.errors import VseppError
from vsepp.evaluation.metrics import retrieval_metrics
from vsepp.evaluation.ranks import retrieval_ranks
from vsepp.evaluation.run import encode_run
from vsepp.features.caption_states import CaptionStates, write_caption_states
from vsepp.models.text.bert import Options, TextEncoder
from vsepp.provenance.artefacts import Job
from vsepp.spec import Component
from vsepp.steps.run import STEP
from vsepp.training.fits import cca, ridge

N, D, E = 60, 5, 4
SIZES = {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 8, "positions": 16}
BERT = {"weights": "file/bert.safetensors", "dim": 8, "frozen": True, **SIZES}
MODEL = change(tiny.MODEL, text=Component("bert", BERT), joint_dim=8, caption_pooling=Component("mean"))
RIDGE = dataclasses.replace(
    tiny.FROZEN, id="tiny-ridge", model=MODEL, fit=Component("ridge", {"alphas": [0.01, 1.0]})
)
CCA = change(
    RIDGE, id="tiny-cca", fit=Component("cca", {"alphas": [0.1]}), model__joint_dim=3, model__text__dim=3
)


@pytest.fixture
def pairs():
    """Features and states that depend on each other, away from zero."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((N, D)) * [3, 1, 1, 0.3, 0.1] + 2
    captions = images @ rng.standard_normal((D, E)) + rng.standard_normal((N, E)) - 1
    return images, captions


def moments(images, captions):
    both = np.concatenate([images, captions], axis=1)
    mean, covariance = both.mean(axis=0), np.cov(both.T, bias=True)
    return torch.from_numpy(mean), torch.from_numpy(covariance), images.shape[1]


@pytest.mark.parametrize("alpha", [1e-9, 0.1, 10.0])
def test_ridge_is_least_squares_of_the_augmented_system(pairs, alpha):
    images, captions = pairs
    weight, bias, *rest = ridge.solve(moments(*pairs), alpha, E, ridge.Options())
    # The columns W and b; b is not penalised. The penalty of a mean over pairs is N times a sum's penalty.
    root = np.sqrt(N * alpha * images.var(axis=0).mean())
    left = np.vstack([np.c_[images, np.ones(N)], np.c_[root * np.eye(D), np.zeros(D)]])
    right = np.vstack([captions, np.zeros((D, E))])
    found = np.linalg.lstsq(left, right, rcond=None)[0]
    np.testing.assert_allclose(weight.numpy(), found[:D].T, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(bias.numpy(), found[D], rtol=1e-7, atol=1e-9)
    assert torch.equal(rest[0], torch.eye(E)) and not rest[1].any()


def inverse_root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(values**-0.5) @ vectors.T


@pytest.mark.parametrize("alpha", [1e-9, 0.3])
def test_cca_is_the_svd_of_the_whitened_cross_covariance(pairs, alpha):
    mean, covariance, d = (
        part.numpy() if isinstance(part, torch.Tensor) else part for part in moments(*pairs)
    )
    found = cca.solve(moments(*pairs), alpha, 3, cca.Options(power=2.0))
    parts = covariance[:d, :d], covariance[d:, d:]
    roots = [inverse_root(part + alpha * np.trace(part) / len(part) * np.eye(len(part))) for part in parts]
    left, rho, right = np.linalg.svd(roots[0] @ covariance[:d, d:] @ roots[1])
    expected = [rho[:3, None] ** 2 * (left.T[:3] @ roots[0]), rho[:3, None] ** 2 * (right[:3] @ roots[1])]
    signs = np.sign((found[0].numpy() * expected[0]).sum(axis=1, keepdims=True))
    for weight, bias, direction, centre in zip(
        found[::2], found[1::2], expected, (mean[:d], mean[d:]), strict=True
    ):
        np.testing.assert_allclose(signs * weight.numpy(), direction, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(bias.numpy(), -weight.numpy() @ centre, rtol=1e-6, atol=1e-9)


def test_directions_have_numpys_canonical_correlations_and_nothing_else(pairs):
    images, captions = pairs
    image_weight, _, caption_weight, _ = cca.solve(moments(*pairs), 1e-12, E, cca.Options(power=1e-9))
    mapped = images @ image_weight.numpy().T, captions @ caption_weight.numpy().T
    # Canonical correlations are the cosines of the angles between both centred column spaces.
    bases = [np.linalg.qr(part - part.mean(axis=0))[0] for part in pairs]
    expected = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    correlations = np.corrcoef(mapped[0].T, mapped[1].T)
    np.testing.assert_allclose(np.diag(correlations[:E, E:]), expected, atol=1e-6)
    np.testing.assert_allclose(correlations[:E, :E], np.eye(E), atol=1e-6)


def test_canonical_correlations_are_those_of_scikit_learn(pairs):
    images, captions = pairs
    image_weight, _, caption_weight, _ = cca.solve(moments(*pairs), 1e-12, 2, cca.Options())
    mapped = images @ image_weight.numpy().T, captions @ caption_weight.numpy().T
    theirs = pytest.importorskip("sklearn.cross_decomposition").CCA(2, max_iter=10_000, tol=1e-12)
    of_theirs = theirs.fit(images, captions).transform(images, captions)
    for ours, other in zip(
        *(np.corrcoef(a.T, b.T)[:2, 2:].diagonal() for a, b in (mapped, of_theirs)), strict=True
    ):
        assert ours == pytest.approx(other, abs=1e-4)


@pytest.fixture(scope="module")
def inputs(corpus, tmp_path_factory):
    """Role → folder, with the states of a drawn BERT and its file."""
    folder = tmp_path_factory.mktemp("states")
    torch.manual_seed(7)
    text = TextEncoder(len(Vocabulary.read(corpus / "tokens")), Options(**BERT)).eval()
    save_file(text.bert.state_dict(), folder / "bert.safetensors")
    write_caption_states(text, 8, Tokens.load(corpus / "tokens"), folder, folder / "state", device=tiny.CPU)
    return tiny.artefacts(corpus, caption_states=folder)


def made(run, inputs, folder):
    raw = {"text_weights": inputs["caption_states"] / "bert.safetensors"}
    job = Job(output=folder / "out", state=folder / "state", raw=raw)
    (folder / "out").mkdir(parents=True)
    return folder / "out", STEP.run(run, inputs, folder / "out", job)


def pairs_of(inputs, split):
    """Unit features and mean states of all captions of a split, one by one."""
    _, captions = read_tables(inputs["corpus"])
    states = CaptionStates.open(inputs["caption_states"], Tokens.load(inputs["tokens"]))
    features = np.load(inputs["features"] / "features.npy")[:, 0].astype(np.float64)
    images, means = [], []
    for row in np.flatnonzero(np.asarray(captions["split"]) == split):
        feature = features[captions["image_index"][row]]
        images.append(feature / np.linalg.norm(feature))
        begin, end = states.tokens.offsets[row : row + 2]
        means.append(states.states[begin:end].astype(np.float64).mean(axis=0))
    return np.array(images), np.array(means)


@pytest.mark.parametrize(("run", "solve"), [(RIDGE, ridge.solve), (CCA, cca.solve)], ids=["ridge", "cca"])
def test_a_fitted_run_has_the_maps_of_its_training_pairs_with_the_best_alpha(run, solve, inputs, tmp_path):
    out, facts = made(run, inputs, tmp_path / "a")
    options = {**run.fit.options, "alphas": tuple(run.fit.options["alphas"])}
    module = ridge if run.fit.name == "ridge" else cca
    expected = solve(
        moments(*pairs_of(inputs, "train")), facts["alpha"], run.model.joint_dim, module.Options(**options)
    )
    found = weights(out)
    names = ("image_map.weight", "image_map.bias", "text.linear.weight", "text.linear.bias")
    signs = torch.ones(len(expected[0]), 1)
    if run.fit.name == "cca":
        signs = (found[names[0]] * expected[0]).sum(dim=1, keepdim=True).sign().float()
    for name, value in zip(names, expected, strict=True):
        sign = signs if value.ndim == 2 else signs[:, 0]
        np.testing.assert_allclose(found[name], sign * value.float(), rtol=2e-3, atol=2e-4)
    # The file of BERT is in the model, unchanged.
    assert any(name.startswith("text.bert.") for name in found)
    (row,) = history(out)
    assert (
        facts["rsum_by_alpha"][f"{facts['alpha']:g}"]
        == max(facts["rsum_by_alpha"].values())
        == float(row["rsum"])
    )


def test_the_history_is_what_the_published_model_recalls(inputs, tmp_path):
    out, facts = made(RIDGE, inputs, tmp_path)
    embeddings = encode_run(RIDGE, "val", {**inputs, "run": out}, tiny.CPU)
    metrics = retrieval_metrics(retrieval_ranks(embeddings))
    (row,) = history(out)
    assert float(row["rsum"]) == metrics.rsum and float(row["i2t_r5"]) == metrics.i2t.r5
    # What pages show of a training.
    assert {"epochs", "best_epoch", "pairs_per_second", "device", "threads"} <= facts.keys()


@pytest.mark.parametrize("run", [RIDGE, CCA], ids=["ridge", "cca"])
def test_a_second_fit_gives_the_same_bytes(run, inputs, tmp_path):
    first, second = (made(run, inputs, tmp_path / name)[0] for name in "ab")
    for name in ("model.safetensors", "config.json", "vocabulary.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_seeds_and_the_schedule_do_not_count(inputs, tmp_path):
    other = change(RIDGE, init_seed=4, order_seed=5, schedule__epochs=9, loss=Component("sum_of_hinges"))
    first, second = made(RIDGE, inputs, tmp_path / "a")[0], made(other, inputs, tmp_path / "b")[0]
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_a_joint_space_that_a_fit_cannot_fill_is_refused(inputs, tmp_path):
    small = change(RIDGE, model__joint_dim=3, model__text__dim=3)
    with pytest.raises(VseppError, match=r"got \(8, .*expected \(3, .*change joint_dim and text.dim"):
        made(small, inputs, tmp_path / "ridge")
    wide = change(CCA, model__joint_dim=9, model__text__dim=9)
    with pytest.raises(VseppError, match=r"got \(8, .*expected \(9, .*change joint_dim and text.dim"):
        made(wide, inputs, tmp_path / "cca")
