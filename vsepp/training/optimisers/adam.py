"""Adam (Kingma and Ba, 2014) around torch's functional form, without torch's optimiser classes.

Torch's classes import the compiler on creation, to exempt themselves from it. That takes 5 s on a CPU, this class 2 ms, and
every run of a table is a process of its own. The arithmetic is torch's fused kernel: weights are equal bit for bit, and a
step takes 15.5 ms instead of 16.0 (1C at the paper's size, 11 million parameters, one core; a whole training step takes
380 ms with either). Without weight decay AdamW is Adam.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.optim.adamw import adamw

CITATION = "Kingma and Ba, 2014: Adam: a method for stochastic optimization"
BETA1 = 0.9
EPSILON = 1e-8


class Optimiser:
    """Adam with torch's default constants and no weight decay (Section 3.2).

    Parameters
    ----------
    parameters
        Names and trained parameters; changed in place.
    options
        Adam has none.
    """

    beta2 = 0.999

    def __init__(self, parameters: Iterable[tuple[str, torch.nn.Parameter]], options: Any = None) -> None:
        self.parameters = [parameter for _, parameter in parameters]
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._steps = [torch.zeros((), device=parameter.device) for parameter in self.parameters]
        self.groups = {(1.0, 0.0): list(range(len(self.parameters)))}
        """Factor of the learning rate and weight decay → positions of parameters."""

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Take a step along the gradients; a parameter without one, and its moments, stay unchanged.

        `learning_rate` is the rate of parameters with factor 1.
        """
        for (factor, weight_decay), positions in self.groups.items():
            changed = [k for k in positions if self.parameters[k].grad is not None]
            adamw(
                [self.parameters[k] for k in changed],
                [self.parameters[k].grad for k in changed],  # type: ignore[misc]  # none is None
                [self._means[k] for k in changed],
                [self._squares[k] for k in changed],
                [],
                [self._steps[k] for k in changed],
                fused=True,
                amsgrad=False,
                beta1=BETA1,
                beta2=self.beta2,
                lr=factor * learning_rate,
                weight_decay=weight_decay,
                eps=EPSILON,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Moments and counts, in the order of the parameters."""
        return {"means": self._means, "squares": self._squares, "steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`, onto the parameters' devices."""
        for own, saved in zip(self.state_dict().values(), state.values(), strict=True):
            for tensor, value in zip(own, saved, strict=True):
                tensor.copy_(value)
