"""Submissions of small made-up models."""

from pathlib import Path

import numpy as np
from reported import CLEAN, seal

from vsepp.evaluation import protocols
from vsepp.evaluation.embeddings import Embeddings
from vsepp.provenance.studies import read_results
from vsepp.reporting.submissions import write_submission

N, OWNER = 40, np.repeat(np.arange(40), 5)
SAID = {
    "name": "A model",
    "revision": "1.0",
    "reference": "https://example.org/paper",
    "license": "MIT",
    "open_weights": True,
    "n_parameters": None,
    "embed_dim": 16,
    "similarity": "dot",
    "training_datasets": ["CC3M"],
    "test_captions_in_training": False,
    "test_images_in_training": "unknown",
    "data_set": "Forty",
    "command": "python rank.py",
}
"""A card, but for what is measured."""


def evaluated(folder, seed=0, protocol="5x1K", owner=OWNER, noise=1.0):
    """An evaluation of embeddings whose likeness drowns in noise; only the noise differs by seed; some captions are tied."""
    images = np.random.default_rng(0).standard_normal((N, 16))
    captions = images[owner] + noise * np.random.default_rng(seed).standard_normal((len(owner), 16))
    captions[::7] = captions[3]
    folder.mkdir(parents=True)
    protocols.save([protocols.evaluate(Embeddings(images, captions, owner), protocol, 8)], folder)
    seal(folder, "evaluation", CLEAN, [])
    return folder


def submit(folder, *, seeds=(0,), noise=1.0, owner=OWNER, protocol="5x1K", **said):
    """Write a submission, one seed after the other; `None`: of a model without seeds."""
    work = Path(f"{folder}-evaluated")
    places = {seed: work / ("once" if seed is None else f"seed-{seed}") for seed in seeds}
    for seed, place in places.items():
        evaluated(place, seed or 0, protocol, owner, noise)
    models = [read_results(None, place, trained=False) for place in places.values()]
    return write_submission(folder, {**SAID, "name": folder.name, **said}, models)
