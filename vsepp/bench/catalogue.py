"""What `vsepp bench` measures: names, sizes, and what each figure is compared with. Never imports torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from vsepp.errors import VseppError
from vsepp.spec import (
    CropSpec,
    EncoderSpec,
    LossSpec,
    ModelSpec,
    RunSpec,
    ScheduleSpec,
    StoreSpec,
    VocabularySpec,
)

Kind = Literal[
    "forward",
    "forward-backward",
    "tape",
    "step",
    "reference",
    "store",
    "features",
    "encode",
    "rank",
    "argsort",
]
UNITS: dict[Kind, str] = {
    "forward": "images",
    "forward-backward": "images",
    "tape": "images",
    "step": "pairs",
    "reference": "pairs",
    "store": "images",
    "features": "images",
    "encode": "captions",
    "rank": "scores",
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
    bf16: bool = False
    """Embed under autocast to bf16; scores, loss and weights stay in fp32."""
    packed: bool = True
    """Pack captions for the GRU, as the package does; else let it run over the padding too."""
    limit: str | None = None
    """The measurement that this one cannot be faster than."""
    reference: str | None = None
    """The measurement of the reference that this one is compared with."""


Group = tuple[Measurement, ...]
"""Measured in turn, so that what else the machine does meets all of them alike."""


def _encoder(architecture: str, size: int, side: int) -> EncoderSpec:
    scale = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return EncoderSpec(architecture.rpartition("/")[2], architecture, "random", size, side, *scale)


FULL_MODEL = ModelSpec(
    text_encoder="gru",
    word_dim=300,
    text_dim=1024,
    joint_dim=1024,
    caption_projection=False,
    image_bias=True,
    normalise_features=True,
    normalise_images=True,
    absolute=False,
    similarity="dot",
    order_form="squared",
)
_MINI_MODEL = replace(FULL_MODEL, word_dim=64, text_dim=128, joint_dim=128)


def _run(encoder: EncoderSpec, model: ModelSpec) -> RunSpec:
    """VSE++ on 1C; the other kinds of runs are made from it."""
    return RunSpec(
        id="bench",
        system="VSE++",
        dataset="coco",
        trainset="1C",
        restval=False,
        encoder=encoder,
        finetune_from=None,
        train_store=StoreSpec("squash", encoder.store_side),
        eval_store=StoreSpec("squash", encoder.store_side),
        crop=CropSpec("1C", encoder.input_size),
        vocabulary=VocabularySpec(("train",), 4),
        validation_images=None,
        model=model,
        loss=LossSpec("max_of_hinges", 0.2),
        schedule=ScheduleSpec(128, 30, 2e-4, 0.5, 0.1, 2.0),
        encoder_mode="eval",
        legacy_steps=500,
        rc_features="tape",
        init_seed=0,
        order_seed=0,
        draw=0,
    )


VGG_MINI = _run(_encoder("mini/vgg_mini", 40, 46), _MINI_MODEL)
RESNET_MINI = _run(_encoder("mini/resnet_mini", 40, 46), _MINI_MODEL)
VGG19 = _run(_encoder("torchvision/vgg19", 224, 256), FULL_MODEL)
RESNET152 = _run(_encoder("torchvision/resnet152", 224, 256), FULL_MODEL)


def groups(quick: bool, device: str) -> list[Group]:
    """All that is measured.

    Parameters
    ----------
    quick
        Without networks of full size.
    device
        `cpu` or `cuda`: a network of full size is trained in batches of 16 on a CPU, where a step of 128 takes
        minutes, and in bf16 too on a GPU.
    """
    mini = {"feature_dim": 128, "photograph": (56, 56), "images": 1280}
    found = [full_heads(VGG19, 4096, quick), heads(VGG_MINI, "mini", **mini)]
    for run in (VGG_MINI, RESNET_MINI):
        found += [frozen(run, **mini), finetuned(run, **mini)]
    found += [data(VGG_MINI, "mini", **mini), ranking(VGG19, 5000)]
    if quick:
        return found
    found.append(heads(VGG19, "4096", feature_dim=4096))
    for run, dim in ((VGG19, 4096), (RESNET152, 2048)):
        batch = 16 if device == "cpu" else run.schedule.batch_size
        run = replace(run, schedule=replace(run.schedule, batch_size=batch))
        sizes = {"feature_dim": dim, "images": 320}
        found += [frozen(run, gpu=device != "cpu", **sizes), finetuned(run, gpu=device != "cpu", **sizes)]
    found.append(data(VGG19, "full", feature_dim=4096, images=160))
    return found


def full_heads(run: RunSpec, dim: int, quick: bool) -> Group:
    """The 1C step as it is and with what could make it faster, beside the reference step."""
    step = Measurement(f"step-1c/{dim}", "step", run, dim, reference=f"reference-1c/{dim}")
    variants = [
        step,
        replace(step, name=f"step-1c-bf16/{dim}", bf16=True),
        replace(step, name=f"reference-1c/{dim}", kind="reference", reference=None),
    ]
    if not quick:
        variants += [
            replace(step, name=f"step-1c-padded/{dim}", packed=False),
            replace(step, name=f"step-1c-bf16-padded/{dim}", bf16=True, packed=False),
        ]
    return tuple(variants)


def heads(run: RunSpec, size: str, **sizes: object) -> Group:
    """Steps of the kinds of runs that read features of fixed crops."""
    order = replace(run, model=replace(run.model, similarity="order", absolute=True))
    many = replace(run, loss=replace(run.loss, negative_set=512))
    found = {"step-10c": replace(run, trainset="10C"), "step-order": order, "step-negatives-512": many}
    if size == "mini":
        found = {"step-1c": run, **found}
    return tuple(Measurement(f"{name}/{size}", "step", spec, **sizes) for name, spec in found.items())


def frozen(run: RunSpec, *, gpu: bool = False, **sizes: object) -> Group:
    """A frozen encoder: alone, writing a tape, in the step, and the steps that read its tape."""
    net = run.encoder.name
    run = replace(run, trainset="RC", crop=replace(run.crop, kind="RC"))
    limit, reference = f"forward/{net}", f"reference-rc/{net}"
    inline = replace(run, rc_features="inline")
    found = [
        Measurement(limit, "forward", run, **sizes),
        Measurement(f"tape/{net}", "tape", run, limit=limit, **sizes),
        Measurement(f"step-rc-tape/{net}", "step", run, reference=reference, **sizes),
        Measurement(f"step-rc-inline/{net}", "step", inline, limit=limit, reference=reference, **sizes),
        Measurement(reference, "reference", inline, **sizes),
    ]
    if gpu:
        found.append(Measurement(f"forward-bf16/{net}", "forward", run, bf16=True, **sizes))
    return tuple(found)


def finetuned(run: RunSpec, *, gpu: bool = False, **sizes: object) -> Group:
    """An encoder that is trained: forward and backward alone, and whole steps."""
    net = run.encoder.name
    run = replace(run, trainset="RC", crop=replace(run.crop, kind="RC"), finetune_from="bench")
    limit, reference = f"forward-backward/{net}", f"reference-finetuned/{net}"
    found = [
        Measurement(limit, "forward-backward", run, **sizes),
        Measurement(f"step-finetuned/{net}", "step", run, limit=limit, reference=reference, **sizes),
        Measurement(reference, "reference", run, **sizes),
    ]
    if gpu:
        half = {"bf16": True, **sizes}
        found += [
            Measurement(f"forward-backward-bf16/{net}", "forward-backward", run, **half),
            Measurement(
                f"step-finetuned-bf16/{net}",
                "step",
                run,
                limit=f"forward-backward-bf16/{net}",
                reference=reference,
                **half,
            ),
        ]
    return tuple(found)


def data(run: RunSpec, size: str, **sizes: object) -> Group:
    """The steps around the training: store, features, and embedding a split."""
    return tuple(
        Measurement(f"{kind}/{size}", kind, run, **sizes) for kind in ("store", "features", "encode")
    )


def ranking(run: RunSpec, images: int) -> Group:
    """Ranks of both directions by counting, and by sorting for each query."""
    counted = Measurement(f"rank/{images}", "rank", run, images=images, reference=f"argsort/{images}")
    return (counted, replace(counted, name=f"argsort/{images}", kind="argsort", reference=None))


def chosen(found: Iterable[Group], only: Sequence[str]) -> list[Group]:
    """Groups reduced to the measurements that are asked for, and to those that they are compared with.

    Parameters
    ----------
    found
        From `groups`.
    only
        Names, their parts before the stroke, or patterns such as `step-*`; none means all.

    Raises
    ------
    VseppError
        Where one of them means nothing, with the names that there are.
    """
    found = list(found)
    if not only:
        return found
    names = [measurement.name for group in found for measurement in group]
    wanted: set[str] = set()
    for pattern in only:
        matching = {name for name in names if _means(pattern, name)}
        if not matching:
            raise VseppError(
                f"--only: got {pattern!r}; expected names or patterns of: {', '.join(sorted(names))} (networks of full "
                "size are measured without --quick)"
            )
        wanted |= matching
    for measurement in (m for group in found for m in group if m.name in wanted):
        wanted |= {name for name in (measurement.limit, measurement.reference) if name}
    kept = (tuple(m for m in group if m.name in wanted) for group in found)
    return [group for group in kept if group]


def _means(pattern: str, name: str) -> bool:
    return pattern in (name, name.partition("/")[0]) or fnmatchcase(name, pattern)
