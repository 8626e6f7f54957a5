"""VSE++, GPO, and X-VLM's two losses in double precision, against their formulas written out."""

import dataclasses
import math

import numpy as np
import pytest
import specs
import torch

from vsepp.base import components
from vsepp.base.spec import Component
from vsepp.losses.batch import Batch
from vsepp.models.encoder import build_encoder
from vsepp.models.joint import JointEmbedding
from vsepp.models.sets import ImageBatch
from vsepp.training.matching import Candidates
from vsepp.training.step import RunLoss, StepBatch, Training, make_optimiser, take_step

CPU = torch.device("cpu")
LENGTHS = torch.tensor([4, 2, 3, 4, 5])
GPO = {"temperature": 0.1}


def near(value, expected):
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-12)


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def unit(vectors):
    return vectors / vectors.square().sum(dim=-1, keepdim=True).sqrt()


def training_of(run, feature_dim):
    torch.manual_seed(0)
    model = JointEmbedding(run.model, feature_dim, 20).double()
    loss = RunLoss.from_run(run, {}, CPU)
    loss.state.double()
    return Training(run, model, loss, make_optimiser(run, model, loss), CPU)


def gru(weights, inputs, reverse=False):
    """States of a GRU of one sequence `(l, d)`, by its equations."""
    suffix = "_l0_reverse" if reverse else "_l0"
    w_in, w_state, b_in, b_state = (
        weights[f"{name}{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    state, states = torch.zeros(w_state.shape[1], dtype=torch.float64), []
    for x in inputs.flip(0) if reverse else inputs:
        (a_r, a_z, a_n), (h_r, h_z, h_n) = (w_in @ x + b_in).chunk(3), (w_state @ state + b_state).chunk(3)
        r, z = 1 / (1 + (-a_r - h_r).exp()), 1 / (1 + (-a_z - h_z).exp())
        state = (1 - z) * (a_n + r * h_n).tanh() + z * state
        states.append(state)
    return torch.stack(states[::-1] if reverse else states)


def parameters_of(module):
    return {name: value.detach().clone().requires_grad_() for name, value in module.named_parameters()}


def part(weights, prefix):
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def test_an_encoder_inside_a_model_is_double_too():
    encoder = build_encoder(specs.ENCODER)
    torch.manual_seed(0)
    model = JointEmbedding(specs.MODEL, encoder.dim, 20, encoder).eval()
    crops = torch.randint(0, 256, (2, 24, 24, 3), dtype=torch.uint8)
    single = model.embed_images(ImageBatch(crops))
    double = model.double().embed_images(ImageBatch(crops))
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single, rtol=1e-4, atol=1e-6)
    network = encoder.network((crops.double() / 255 - 0.5).div(0.25).permute(0, 3, 1, 2))
    features = unit(network.flatten(1)) @ model.image_map.weight.T + model.image_map.bias
    torch.testing.assert_close(double, unit(features), rtol=1e-6, atol=1e-7)  # the mean is a number of fp32


def test_a_step_of_vsepp():
    training = training_of(specs.RUN, 5)
    weights = parameters_of(training.model)
    features, ids = drawn(5, 5), torch.randint(0, 20, (5, 5), generator=torch.Generator().manual_seed(1))
    value = take_step(training, StepBatch(5, ImageBatch(features), ids, LENGTHS, Batch()), 0.01)

    f = unit(unit(features) @ weights["image_map.weight"].T + weights["image_map.bias"])  # Eq. 1
    words = weights["text.words.weight"]
    last = [
        gru(part(weights, "text.gru."), words[row[:length]])[-1]
        for row, length in zip(ids, LENGTHS, strict=True)
    ]
    scores = f @ unit(torch.stack(last)).T  # Eqs. 2, 3
    loss = torch.zeros((), dtype=torch.float64)
    for i in range(5):  # Eq. 6
        others = [k for k in range(5) if k != i]
        loss = loss + (0.2 + max(scores[i, k] for k in others) - scores[i, i]).clamp(min=0)
        loss = loss + (0.2 + max(scores[k, i] for k in others) - scores[i, i]).clamp(min=0)
    near(value, loss.detach())
    slopes = torch.autograd.grad(loss, weights.values())
    norm = math.sqrt(sum(float(slope.square().sum()) for slope in slopes))
    # The first step of Adam: both moments are corrected to the clipped gradient and its square.
    for (name, weight), slope in zip(weights.items(), slopes, strict=True):
        slope = slope * min(1.0, 2.0 / norm)
        stepped = weight.detach() - 0.01 * slope / (slope.abs() + 1e-8)
        torch.testing.assert_close(training.model.get_parameter(name).detach(), stepped, rtol=1e-6, atol=1e-8)


def test_gpo():
    torch.manual_seed(0)
    pooling = components.make("pooling", Component("gpo", GPO)).double()
    weights = {name: value.detach() for name, value in pooling.named_parameters()}
    values = drawn(5, 5, 3)
    for row, length, pooled in zip(values, LENGTHS.tolist(), pooling(values, LENGTHS), strict=True):
        codes = torch.tensor(
            [
                [(math.sin, math.cos)[d % 2](k * 10_000 ** (-(d - d % 2) / 32)) for d in range(32)]
                for k in range(length)
            ],
            dtype=torch.float64,
        )
        of_gru = part(weights, "gru.")
        states = (gru(of_gru, codes) + gru(of_gru, codes, reverse=True)) / 2
        shares = (states @ weights["score.weight"][0] / GPO["temperature"]).exp()
        ordered = torch.from_numpy(np.sort(row[:length].numpy(), axis=0)[::-1].copy())
        near(pooled.detach(), (shares / shares.sum()) @ ordered)


def normalised(weights, x):
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True) + weights.eps).sqrt() * weights.weight + (
        weights.bias
    )


def gelu(x):
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def attended(module, states, source, heads=2):
    own, out = module["self"], module["output"]
    q, k, v = (
        getattr(own, name)(x).unflatten(1, (heads, -1)).transpose(0, 1)
        for name, x in (("query", states), ("key", source), ("value", source))
    )
    shares = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[2]), dim=2)
    return normalised(out.LayerNorm, out.dense((shares @ v).transpose(0, 1).flatten(1)) + states)


def layer(module, states, source=None):
    """A layer of BERT on the states of one caption; with cross-attention to the vectors of one image."""
    states = attended(module.attention, states, states)
    if source is not None:
        states = attended(module.crossattention, states, source)
    inner = module.output.dense(gelu(module.intermediate["dense"](states)))
    return normalised(module.output.LayerNorm, inner + states)


TEXT = {"layers": 1, "hidden": 8, "dim": 8, "linear": False, "heads": 2, "intermediate": 12, "dropout": 0.0}
FUSION = {"layers": 1, "heads": 2, "intermediate": 12, "dropout": 0.0}
XVLM = dataclasses.replace(
    specs.change(specs.RUN, schedule__clip_norm=None),
    model=specs.change(
        specs.MODEL,
        text=Component("bert", TEXT),
        joint_dim=6,
        caption_projection=True,
        caption_bias=True,
        normalise_features=False,
        image_pooling=Component("mean"),
        caption_pooling=Component("first"),
        matcher=Component("fusion", {**FUSION, "temperature": None, "drawn_from": 3, "before_maps": True}),
    ),
    loss=Component("info_nce", {"share_same_image": True, "learned": "temperature"}),
)


@pytest.mark.parametrize("weight", [1.0, 0.1])
def test_the_losses_of_xvlm_and_their_gradient(weight):
    """ITC and ITM of X-VLM's code, models/xvlm.py, whose sum times 2n is ours."""
    training = training_of(specs.change(XVLM, model__matcher__weight=weight), 5)
    model, tau = training.model, training.loss.state.temperature
    n, images = 5, drawn(5, 3, 5)
    ids = torch.randint(0, 20, (n, 5), generator=torch.Generator().manual_seed(1))
    rows = np.array([0, 1, 1, 2, 3])
    chosen = Candidates.from_pairs(rows, np.arange(n), 0, 0, CPU)

    states = []
    for row, length in zip(ids, LENGTHS, strict=True):
        embed = model.text.bert.embeddings
        x = embed.word_embeddings.weight[row[:length]] + embed.position_embeddings.weight[:length]
        x = normalised(embed.LayerNorm, x + embed.token_type_embeddings.weight[0])
        states.append(layer(model.text.bert.encoder["layer"][0], x))
    tokens = torch.cat([images.mean(dim=1, keepdim=True), images], dim=1)  # the mean in front
    f = unit(model.image_map(tokens[:, 0]))
    g = unit(model.caption_map(torch.stack([x[0] for x in states])))
    scores = f @ g.T / tau
    same = torch.from_numpy(rows[:, None] == rows)
    targets = same / same.sum(dim=1, keepdim=True)
    itc = sum(-(torch.log_softmax(s, dim=1) * targets).sum(dim=1).mean() for s in (scores, scores.T)) / 2

    def negative(similar, i, number):
        """Drawn among the pairs of a process, 0–2 and 3–4, by softmax + 1e-5, 0 at the same image."""
        others = range(3) if i < 3 else range(3, 5)
        total = sum(math.exp(similar[i, k]) for k in others)
        shares = [(math.exp(similar[i, k]) / total + 1e-5) * (not same[i, k]) for k in others]
        below = np.cumsum(shares)
        return others[int((below <= number * below[-1]).sum())]

    costs = []
    for i in range(n):
        text = negative(scores.detach(), i, float(chosen.for_images[i]))
        image = negative(scores.detach().T, i, float(chosen.for_captions[i]))
        for image_of, text_of, label in ((i, i, 1), (i, text, 0), (image, i, 0)):
            fused = layer(model.matcher.layer[0], states[text_of], tokens[image_of])[0]
            first, norm, _, last = model.matcher.head
            logits = last(gelu(normalised(norm, first(fused))))
            costs.append(-torch.log_softmax(logits, dim=0)[label])
    total = 2 * n * (itc + weight * torch.stack(costs).mean())
    trained = [*model.parameters(), tau]
    expected = torch.autograd.grad(total, trained, allow_unused=True)

    known = Batch(image_rows=torch.from_numpy(rows), state=training.loss.state)
    batch = StepBatch(n, ImageBatch(images, torch.full((n,), 3)), ids, LENGTHS, known, chosen)
    value = take_step(training, batch, 0.0)
    near(value, 2 * n * itc.detach())
    for parameter, slope in zip(trained, expected, strict=True):
        if slope is not None:
            near(parameter.grad, slope)
