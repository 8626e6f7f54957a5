"""Captions → word ids, with the vocabulary of a released model."""

from __future__ import annotations

from dataclasses import replace

from vsepp.steps import tokens

STEP = replace(
    tokens.STEP,
    kind="tokens_of",
    phase="models",
    folder="results/{preset}/{variant}/runs/{name}/tokens",
    name=lambda spec, inputs, label: label,
)
