"""Adam (Kingma and Ba, 2014) around torch's functional form, without torch's optimiser classes.

Torch's classes import the compiler on creation, to exempt themselves from it. That takes 5 s on a CPU, this class 2 ms, and
every run of a table is a process of its own. The arithmetic is torch's fused kernel: weights are equal bit for bit, and a
step takes 15.5 ms instead of 16.0 (1C at the paper's size, 11 million parameters, one core; a whole training step takes
380 ms with either).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.adam import adam

CITATION = "Kingma and Ba, 2014: Adam: a method for stochastic optimization"
BETAS = (0.9, 0.999)
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

    def __init__(self, parameters: Iterable[tuple[str, torch.nn.Parameter]], options: Any = None) -> None:
        self.parameters = [parameter for _, parameter in parameters]
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._steps = [torch.zeros((), device=parameter.device) for parameter in self.parameters]

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, learning_rate: float) -> None:
        """Take a step along the gradients; a parameter without one, and its moments, stay unchanged."""
        self._update(adam, range(len(self.parameters)), learning_rate, BETAS[1], weight_decay=0.0)

    @torch.no_grad()
    def _update(
        self,
        function: Callable[..., None],
        positions: Iterable[int],
        learning_rate: float,
        beta2: float,
        weight_decay: float,
    ) -> None:
        """A step of some parameters by one of torch's functions."""
        has = [k for k in positions if self.parameters[k].grad is not None]
        function(
            [self.parameters[k] for k in has],
            [self.parameters[k].grad for k in has],
            [self._means[k] for k in has],
            [self._squares[k] for k in has],
            [],
            [self._steps[k] for k in has],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=beta2,
            lr=learning_rate,
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
