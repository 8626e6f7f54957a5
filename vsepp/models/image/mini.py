"""Small encoders for generated scenes: one like VGG (dropout, no BN), one like ResNet (BN).

They keep what distinguishes the two families in the paper. A crop of about 40×40 pixels takes them a few million
multiplications, so that a CPU trains them in a minute. Both take any size from 24 pixels up.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from vsepp.models.encoder import CutNetwork

DIM = 128
# VGG19 drops half of its 4,096 units; half of 128 units would be too few to learn surfaces and tones.
DROPOUT = 0.1


def architectures() -> list[str]:
    """Names that `build` knows."""
    return ["resnet_mini", "vgg_mini"]


def build(name: str, input_size: int, options: object = None) -> CutNetwork:
    """Make the network `name` with random weights, under torch's seed, for inputs of any size; it has no options."""
    network = {"resnet_mini": resnet_mini, "vgg_mini": vgg_mini}[name]()
    for module in network.modules():
        # He et al. (2015): without batch normalisation, torch's default scale lets the activations fade.
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return CutNetwork(network, DIM)


def vgg_mini() -> nn.Sequential:
    """Like VGG19 up to FC7: convolutions and pooling, then two fully connected layers with dropout.

    The feature is taken after the second ReLU, like FC7; the dropout that follows is active only in training mode.
    """
    widths = [3, 16, 32, 48, 64]
    layers: list[nn.Module] = []
    for number, (before, after) in enumerate(pairwise(widths)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(inplace=True)]
        if number < 3:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Linear(widths[-1] * 9, DIM),
        nn.ReLU(inplace=True),
        nn.Dropout(DROPOUT),
        nn.Linear(DIM, DIM),
        nn.ReLU(inplace=True),
        nn.Dropout(DROPOUT),
    )


def resnet_mini() -> nn.Sequential:
    """Like ResNet152 up to its pooling: residual blocks with batch normalisation, then a global average."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 64, 2),
        Residual(64, DIM, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


class Residual(nn.Module):
    """Two convolutions around a shortcut (He et al., 2016, basic block)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`(n, before, h, w)` to `(n, after, h/stride, w/stride)`."""
        inner = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(inner)) + self.shortcut(x))
