"""Numbers that two orders of computation give: equal but for rounding, which another machine rounds otherwise."""

import numpy as np
import torch


def assert_near(values, expected, bound):
    """Hold the difference's length against the vector's length, for each vector along the last axis.

    A single number near zero may be all rounding of what was added up to it.
    """
    values, expected = (
        np.asarray(torch.as_tensor(value).detach().cpu().double()) for value in (values, expected)
    )
    assert values.shape == expected.shape
    difference = np.linalg.norm(np.atleast_1d(values - expected), axis=-1)
    length = np.linalg.norm(np.atleast_1d(expected), axis=-1)
    assert (difference <= bound * length).all(), (
        f"{(difference / length).max():.3g} of the length, at most {bound:.3g}"
    )
