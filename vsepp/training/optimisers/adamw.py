"""AdamW (Loshchilov and Hutter, 2019): Adam with weight decay outside the gradient, and with rates of their own for parts of the model.

A step is that of `adam`, once per group of parameters that share learning rate and weight decay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from vsepp.base.declared import PositiveFloat
from vsepp.base.errors import VseppError
from vsepp.training.optimisers import adam

CITATION = "Loshchilov and Hutter, 2019: Decoupled weight decay regularization"


@dataclass(frozen=True)
class Options:
    """Options of AdamW. β₁ is .9 and ε 1e-8, as in the code of VSE∞ and of X-VLM."""

    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    """Share of a parameter that a step at learning rate 1 takes away. Text: VSE∞ 10e-4. Code: VSE∞ 1e-4, with BiGRU on regions .01;
    X-VLM .01."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """β₂, the decay of the second moments. Text: not mentioned. Code: VSE∞ .999; X-VLM .98."""
    rates: tuple[tuple[str, PositiveFloat], ...] = ()
    """Prefix of parameters' names, such as `encoder.`, and factor of their learning rate; the first that fits counts, and other
    parameters have factor 1. Text, code: VSE∞ BERT .1, the CNN pretrained on WSL images .01."""
    no_decay: tuple[str, ...] = ()
    """Parts of names, such as `bias`: parameters with one of them have no weight decay. Text: not mentioned. Code: VSE∞ none;
    X-VLM biases, and layer normalisations of both towers."""


class Optimiser(adam.Optimiser):
    """AdamW over groups of parameters.

    Parameters
    ----------
    parameters
        Names and trained parameters; changed in place.
    options
        See `Options`.

    Raises
    ------
    VseppError
        If an entry of `rates` or `no_decay` applies to no parameter.
    """

    def __init__(
        self, parameters: Iterable[tuple[str, torch.nn.Parameter]], options: Options = Options()
    ) -> None:
        named = list(parameters)
        super().__init__(named)
        self.beta2 = options.beta2
        self.groups = {}
        idle = {("rates", prefix) for prefix, _ in options.rates}
        idle |= {("no_decay", part) for part in options.no_decay}
        for position, (name, _) in enumerate(named):
            prefix, factor = next((rate for rate in options.rates if name.startswith(rate[0])), ("", 1.0))
            parts = [part for part in options.no_decay if part in name]
            idle -= {("rates", prefix), *(("no_decay", part) for part in parts)}
            group = factor, 0.0 if parts else options.weight_decay
            self.groups.setdefault(group, []).append(position)
        if idle:
            option, part = min(idle)
            tops = ", ".join(sorted({name.partition(".")[0] for name, _ in named}))
            raise VseppError(
                f"optimiser 'adamw': {option}: {part!r} is about no trained parameter, or only about those of an entry before it; "
                f"names begin with {tops}"
            )
