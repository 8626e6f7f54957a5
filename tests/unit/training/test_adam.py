import torch
from processes import python

from vsepp.training.optimisers.adam import Optimiser


def parameters(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.nn.Parameter(torch.randn(*shape, generator=generator)) for shape in ((5, 3), (4,), (2, 2, 2))
    ]


def give_gradients(params, step):
    generator = torch.Generator().manual_seed(100 + step)
    for number, parameter in enumerate(params):
        parameter.grad = torch.randn(parameter.shape, generator=generator)
        if number == 1 and step % 2:
            parameter.grad = None


def test_steps_are_those_of_torchs_own_class_to_the_bit_while_the_rate_changes():
    mine, theirs = parameters(), parameters()
    own, reference = Optimiser(enumerate(mine)), torch.optim.Adam(theirs, lr=0.1, fused=True)
    for step in range(6):
        rate = reference.param_groups[0]["lr"] = 0.1 / (step + 1)
        give_gradients(mine, step)
        own.step(rate)
        give_gradients(theirs, step)
        reference.step()
        assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))


def test_no_step_imports_the_compiler():
    code = (
        "import sys, specs, torch; from vsepp.models.encoder import build_encoder; from vsepp.training.optimisers.adam import Optimiser;"
        "encoder = build_encoder(specs.ENCODER); weights = list(encoder.parameters()); adam = Optimiser(enumerate(weights));"
        "encoder(torch.zeros(1, 3, 24, 24)).sum().backward(); torch.nn.utils.clip_grad_norm_(weights, 1.0);"
        "adam.step(0.1); adam.zero_grad();"
        "assert not [name for name in sys.modules if name.startswith(('torch._dynamo', 'torch._inductor'))]"
    )
    python(code)
