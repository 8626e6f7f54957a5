"""A package that is installed beside this one and offers a component."""

import importlib
import textwrap
from functools import cache

from vsepp.base import components

# A similarity and a text encoder that this package does not have.
MANHATTAN = '''
"""Minus the powers of the differences, added up."""
from dataclasses import dataclass

@dataclass(frozen=True)
class Options:
    power: float = 2.0
    """Of a difference."""

def score(images, captions, options=Options()):
    return -(abs(images - captions) ** options.power).sum(-1)
'''
MEAN_OF_WORDS = '''
"""The mean of the words."""
from dataclasses import dataclass

import torch

@dataclass(frozen=True)
class Options:
    dim: int = 128
    """Of a word, and of the state."""

class TextEncoder(torch.nn.Module):
    def __init__(self, vocabulary_size, options):
        super().__init__()
        self.table = torch.nn.Embedding(vocabulary_size, options.dim)

    def forward(self, ids, lengths):
        own = torch.arange(ids.shape[1]) < lengths[:, None]
        return (self.table(ids) * own[:, :, None]).sum(dim=1) / lengths[:, None]
'''


def install(monkeypatch, folder, kind, name, source):
    """Put a module with its entry point on the path; `kind` is the group, such as `vsepp.models.similarity`."""
    (folder / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    facts = folder / f"{name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text(f"[{kind}]\n{name} = {name}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    # What is installed is looked up once a process: here before the package came, and again after it has gone.
    monkeypatch.setattr(components, "_entry_points", cache(components._entry_points.__wrapped__))


DOTS = '''
"""A dot, computed and then drawn."""
from typing import Literal

from pydantic.dataclasses import dataclass

from vsepp.base.declared import STRICT
from vsepp.report.figures.base import FigureOfLosses
from vsepp.report.plots import Description, read_data

@dataclass(frozen=True, config=STRICT, kw_only=True)
class Figure(FigureOfLosses):
    """A dot."""

    kind: Literal["dots"]
    at: float = 0.5
    """Height."""

    def compute(self):
        return {"at": self.at, "losses": len(self.losses)}

    def draw(self, canvas, material):
        data = read_data(material)
        canvas.subplots().plot([0], [data["at"]], marker="o")
        return Description(caption=[f"Losses: {data['losses']}, at {self.at}."])
'''
"""A kind of figure."""


OWN_HEAD = '''
"""A map of an image's vector, or of each of its vectors."""
import torch

class ImageHead(torch.nn.Module):
    def __init__(self, feature_dim, spec, options):
        super().__init__()
        self.map = torch.nn.Linear(feature_dim, spec.joint_dim, bias=spec.image_bias)

    def initialise(self):
        torch.nn.init.xavier_uniform_(self.map.weight)
        torch.nn.init.zeros_(self.map.bias)

    @staticmethod
    def feature_dim(weights):
        return weights["map.weight"].shape[1]

    def forward(self, features, lengths=None):
        return self.map(features)
'''
"""An image head."""

MIDDLE = '''
"""Half way from the smallest to the largest value."""
import torch

class Pooling(torch.nn.Module):
    def __init__(self, options):
        super().__init__()

    def forward(self, values, lengths):
        own = [row[:length] for row, length in zip(values, lengths)]
        return torch.stack([(row.amin(dim=0) + row.amax(dim=0)) / 2 for row in own])
'''
"""A pooling."""

MOMENTUM = '''
"""Gradient descent with momentum, the loss's parameters at a rate of their own."""
from dataclasses import dataclass

import torch

@dataclass(frozen=True)
class Options:
    momentum: float = 0.9
    """Share of the last step."""
    of_loss: float = 1.0
    """Factor of the loss's learning rate."""

class Optimiser:
    def __init__(self, parameters, options):
        names, self.parameters = zip(*parameters)
        self.factors = [options.of_loss if name.startswith("loss.") else 1.0 for name in names]
        self.options = options
        self.steps = [torch.zeros_like(parameter) for parameter in self.parameters]

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, learning_rate):
        for parameter, last, factor in zip(self.parameters, self.steps, self.factors):
            if parameter.grad is not None:
                last.mul_(self.options.momentum).add_(parameter.grad)
                parameter.sub_(factor * learning_rate * last)

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        for own, saved in zip(self.steps, state["steps"]):
            own.copy_(saved)
'''
"""An optimiser with an option and a state."""

COSINES = '''
"""The inner product of the means of both sets, scaled to unit length."""
from dataclasses import dataclass

import torch

@dataclass(frozen=True)
class Options:
    k: int = 1
    """Re-ranked."""
    weight: float = 1.0
    """Of the loss."""
    temperature: float = 1.0
    """Of the draws."""
    drawn_from: int | None = None
    """Of the draws, too."""
    before_maps: bool = False
    """What it takes of images."""
    sign: float = 1.0
    """Of the product."""

class Matcher(torch.nn.Module):
    def __init__(self, image_dim, caption_dim, options):
        super().__init__()
        self.sign = options.sign

    def forward(self, images, of_images, states, of_states):
        sides = []
        for values, inside in ((images, of_images), (states, of_states)):
            mean = (values * inside[:, :, None]).sum(1) / inside.sum(1, keepdim=True)
            sides.append(torch.nn.functional.normalize(mean.double(), dim=1))
        match = self.sign * (sides[0] * sides[1]).sum(1)
        return torch.stack([-match, match], dim=1)
'''
"""A matcher that says what mean poolings and a dot product say."""
