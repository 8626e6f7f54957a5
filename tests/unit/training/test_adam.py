import torch

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
    own, reference = Optimiser(enumerate(mine), 0.1), torch.optim.Adam(theirs, lr=0.1, fused=True)
    for step in range(6):
        own.learning_rate = reference.param_groups[0]["lr"] = 0.1 / (step + 1)
        for params, optimiser in ((mine, own), (theirs, reference)):
            give_gradients(params, step)
            optimiser.step()
        assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))
