"""What can be measured, and which rate of a plan it is. Never imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vsepp.spec import EncoderSpec, ModelSpec, RunSpec, StoreSpec

Kind = Literal[
    "forward",
    "forward-backward",
    "tape",
    "step",
    "sharing",
    "reference",
    "store",
    "features",
    "encode",
    "rank",
    "rank-device",
    "argsort",
]
UNITS: dict[Kind, str] = {
    "forward": "images",
    "forward-backward": "images",
    "tape": "images",
    "step": "pairs",
    "sharing": "pairs",
    "reference": "pairs",
    "store": "images",
    "features": "images",
    "encode": "captions",
    "rank": "scores",
    "rank-device": "scores",
    "argsort": "scores",
}


@dataclass(frozen=True)
class Measurement:
    """One thing to measure, in a process of its own."""

    name: str
    """What, a stroke, and at which size: `step-1c/4096`."""
    kind: Kind
    run: RunSpec
    """The run whose part is measured."""
    feature_dim: int = 0
    """D_φ, where features are made up; an encoder gives its own."""
    images: int = 640
    """Of the made-up corpus, with five captions each."""
    photograph: tuple[int, int] = (640, 480)
    """Width and height of a JPEG, pixels."""
    packed: bool = True
    """Pack captions for the GRU, as the package does; else let it run over the padding too."""
    processes: int = 1
    """Trainings that step on the device at once, where the kind is `sharing`."""
    limit: str | None = None
    """The measurement that this one cannot be faster than."""
    reference: str | None = None
    """The measurement of the reference that this one is compared with."""


Group = tuple[Measurement, ...]
"""Measured in turn, so that what else the machine does meets all of them alike."""


def precision_of(measurement: Measurement) -> str:
    """Of the products that are timed: the encoder's own in a frozen pass, else the run's."""
    run = measurement.run
    return run.encoder.precision if measurement.kind in ("forward", "tape", "features") else run.precision


def network_entry(encoder: EncoderSpec, precision: str | None = None) -> str:
    """Name of an encoder's rates: `torchvision/vgg19@224`, and how it is run where that is not the default.

    Parameters
    ----------
    encoder
        Which.
    precision
        Of a run that trains it; a frozen encoder has its own.
    """
    ways = [] if (precision or encoder.precision) == "fp32" else [precision or encoder.precision]
    ways += [] if encoder.memory_format == "channels_last" else [encoder.memory_format]
    ways += [] if encoder.compile == "off" else [f"compile-{encoder.compile}"]
    return "/".join([f"{encoder.architecture}@{encoder.input_size}", *ways])


def head_entry(model: ModelSpec, feature_dim: int | str, precision: str = "fp32") -> str:
    """Name of the rates of all that is not the encoder: size of its features, and of the text encoder."""
    order = "" if model.similarity == "dot" else f"/{model.similarity}"
    return f"head@{feature_dim}/{model.text_dim}{order}" + ("" if precision == "fp32" else f"/{precision}")


def decode_entry(store: StoreSpec) -> str:
    """Name of the rate at which photographs are decoded into a store."""
    return f"decode@{store.side}"


def rank_entry(model: ModelSpec) -> str:
    """Name of the rate at which scores are made and ranked."""
    return f"ranks@{model.joint_dim}/{model.similarity}"


def rate_of(measurement: Measurement) -> tuple[str, str] | None:
    """The rate of a plan that a measurement gives: entry and name; `None` where no plan asks for it.

    Of the steps on features those of 1C give it: they do all that those of 10C and RC do, in the same time.
    """
    run, kind = measurement.run, measurement.kind
    if kind == "tape":
        return network_entry(run.encoder), "forward_images_per_s"
    if kind == "step" and run.finetuned:
        return network_entry(run.encoder, run.precision), "train_pairs_per_s"
    plain = run.trainset == "1C" and run.loss.negative_set is None and measurement.packed
    if kind == "step" and plain:
        return head_entry(run.model, measurement.feature_dim, run.precision), "pairs_per_s"
    if kind == "encode":
        return head_entry(run.model, measurement.feature_dim), "captions_per_s"
    if kind == "store":
        return decode_entry(run.train_store), "images_per_s_per_core"
    return (rank_entry(run.model), "scores_per_s") if kind == "rank" else None
