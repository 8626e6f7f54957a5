"""A package that is installed beside this one and offers a component."""

import importlib
import textwrap
from functools import cache

from vsepp import components

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
    """Put a module with its entry point on the path; `kind` is the group, such as `vsepp.similarity`."""
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
from dataclasses import dataclass

from vsepp.reporting.plots import Said, read_data

NEEDS = ("losses",)

@dataclass(frozen=True)
class Options:
    """Where."""

    at: float = 0.5
    """Height."""

def compute(options, losses):
    return {"at": options.at, "losses": len(losses)}

def draw(figure, spec, options, material):
    found = read_data(spec)
    figure.subplots().plot([0], [found["at"]], marker="o")
    return Said(caption=[f"Losses: {found['losses']}, at {options.at}."])
'''
"""A kind of figure."""
