"""Random numbers of captions as a function of (draw, epoch, caption id), computed by hashing.

There is no generator with a state, so any process can draw for any pair at any time.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15

# Which uniform numbers of a caption decide what: none decides two things. A number here, once
# released, never changes.
CROP_TOP, CROP_LEFT, CROP_FLIP = 0, 1, 2
CROP_SHAPES = range(3, 23)
"""Area and aspect ratio of each attempt at a resized crop."""
CROP_SCALE = 23
"""Share of both sides that a scaled crop keeps."""
DROPPED_SHARE = 100
"""Share of an image's vectors that are left out."""
NEGATIVE_CAPTION, NEGATIVE_IMAGE = 200, 201
"""The matcher's negatives of the caption's image and of the caption."""
DROPPED_VECTORS = range(1_000, 10_000)
"""Whether a vector of the image is left out, by its position; the next three: of a word of the caption."""
CHANGED_WORDS = range(10_000, 20_000)
"""Whether a word is left out, masked or replaced."""
WORDS_FATES = range(20_000, 30_000)
"""Which of the three."""
OTHER_WORDS = range(30_000, 40_000)
"""The word that replaces it."""


def keys_of(caption_ids: np.ndarray, draw: int, epoch: int) -> np.ndarray:
    """One 64-bit key per caption, uint64 `(n,)`, from its id, the seed `draw` and the epoch."""
    start = np.zeros(1, np.uint64)
    for number in (np.int64(draw), np.int64(epoch)):
        start = mixed(start + number.astype(np.uint64) + np.uint64(_GOLDEN))
    return mixed(start + np.asarray(caption_ids, np.int64).astype(np.uint64) + np.uint64(_GOLDEN))


def uniform(keys: np.ndarray, which: int) -> np.ndarray:
    """The `which`-th uniform number in [0, 1) of every key, float64 `(n,)`."""
    step = np.uint64((which + 1) * _GOLDEN % 2**64)
    return (mixed(keys + step) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mixed(x: np.ndarray) -> np.ndarray:
    """Finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of a number, uint64,
    changes all of them."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
