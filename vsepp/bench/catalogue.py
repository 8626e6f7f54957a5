"""What `vsepp bench` measures: names, sizes, and what each figure is compared with. Never imports torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType

from vsepp.bench.measurement import Group, Measurement
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

# Of an encoder that trains on a CPU, where a step of 128 would take minutes; mini encoders see fewer pixels.
_BATCH_ON_CPU, LARGE_PIXELS = 16, 64


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


_END = {"fp32": "", "bf16": "-bf16"}
"""How names end, by the precision of a run."""

_ON_GPU = {
    "-tf32": {"precision": "tf32"},
    "-bf16": {"precision": "bf16"},
    "-bf16-compiled": {"precision": "bf16", "compile": "default"},
    "-bf16-graphs": {"precision": "bf16", "compile": "cuda_graphs"},
}
_ON_CPU = {"-contiguous": {"memory_format": "contiguous"}, "-bf16": {"precision": "bf16"}}
WAYS: dict[str, dict[str, dict[str, str]]] = {"cuda": _ON_GPU, "cpu": _ON_CPU}
"""Settings of an encoder that are measured beside the default ones, by kind of device and by how names end."""


def groups(quick: bool, device: str) -> list[Group]:
    """All that is measured.

    Parameters
    ----------
    quick
        Without networks of full size, and without most of what could make a step faster.
    device
        `cpu` or `cuda`: a network of full size is trained in batches of 16 on a CPU, where a step of 128 takes
        minutes.
    """
    mini = {"feature_dim": 128, "photograph": (56, 56), "images": 1280}
    found = [full_heads(VGG19, 4096, quick), heads(VGG_MINI, "mini", **mini)]
    for run in (VGG_MINI, RESNET_MINI):
        found += [frozen(run, **mini), finetuned(run, **mini)]
    found += [data(VGG_MINI, "mini", **mini), ranking(VGG19, 5000, device)]
    found.append(sharing(VGG_MINI, "mini", (1, 2) if quick else (1, 2, 4), **mini))
    if quick:
        return found
    order = replace(VGG19, model=replace(VGG19.model, similarity="order", absolute=True))
    for run, dim in ((VGG19, 4096), (RESNET152, 2048)):
        found.append(heads(run, str(dim), ("fp32", "bf16"), feature_dim=dim))
    found.append(sharing(random_crops(VGG19), "4096", (1, 2, 4), feature_dim=4096))
    for run, dim in ((VGG19, 4096), (RESNET152, 2048)):
        run = in_batches_for(run, device)
        sizes = {"feature_dim": dim, "images": 320}
        for group in (frozen(run, WAYS[device], **sizes), finetuned(run, WAYS[device], **sizes)):
            found += by_encoder(group) if device == "cuda" else [group]
    found += [data(VGG19, "full", feature_dim=4096, images=160), embedding(RESNET152, order)]
    found.append((Measurement("rank-order/1000", "rank", order, images=1000),))
    return found


def in_batches_for(run: RunSpec, device: str) -> RunSpec:
    """The run, in batches of 16 where its encoder is of full size and the device a CPU."""
    if device != "cpu" or run.encoder.input_size <= LARGE_PIXELS:
        return run
    size = min(run.schedule.batch_size, _BATCH_ON_CPU)
    return replace(run, schedule=replace(run.schedule, batch_size=size))


def by_encoder(group: Group) -> list[Group]:
    """A group in parts, one for each way that its encoder is run: a GPU's memory holds a part at a time.

    The reference is in the first part, which alone is compared with it.
    """
    parts: dict[EncoderSpec, list[Measurement]] = {}
    for measurement in group:
        parts.setdefault(measurement.run.encoder, []).append(measurement)
    first, *others = parts.values()
    return [tuple(first), *(tuple(replace(m, reference=None) for m in part) for part in others)]


def random_crops(run: RunSpec) -> RunSpec:
    """The run on RC."""
    return replace(run, trainset="RC", crop=replace(run.crop, kind="RC"))


def full_heads(run: RunSpec, dim: int, quick: bool) -> Group:
    """The 1C step as it is and with what could make it faster, beside the reference step."""
    half = replace(run, precision="bf16")
    step = Measurement(f"step-1c/{dim}", "step", run, dim, reference=f"reference-1c/{dim}")
    variants = [
        step,
        replace(step, name=f"step-1c-bf16/{dim}", run=half),
        replace(step, name=f"reference-1c/{dim}", kind="reference", reference=None),
    ]
    if not quick:
        variants += [
            replace(step, name=f"step-1c-padded/{dim}", packed=False),
            replace(step, name=f"step-1c-bf16-padded/{dim}", run=half, packed=False),
        ]
    return tuple(variants)


def heads(run: RunSpec, size: str, precisions: Sequence[str] = ("fp32",), **sizes: object) -> Group:
    """Steps of the kinds of runs that read features of fixed crops, in each of some precisions."""
    order = replace(run, model=replace(run.model, similarity="order", absolute=True))
    many = replace(run, loss=replace(run.loss, negative_set=512))
    found = {"step-10c": replace(run, trainset="10C"), "step-order": order, "step-negatives-512": many}
    if size != "4096":  # where `full_heads` has it
        found = {"step-1c": run, **found}
    return tuple(
        Measurement(f"{name}{_END[precision]}/{size}", "step", replace(spec, precision=precision), **sizes)
        for name, spec in found.items()
        for precision in precisions
    )


def sharing(run: RunSpec, size: str, counts: Sequence[int], **sizes: object) -> Group:
    """Trainings that share a device, in all beside one alone: what `resources.runs_per_gpu` is chosen by."""
    return tuple(
        Measurement(
            f"sharing-{count}/{size}",
            "sharing",
            run,
            processes=count,
            reference=None if count == counts[0] else f"sharing-{counts[0]}/{size}",
            **sizes,
        )
        for count in counts
    )


def frozen(
    run: RunSpec, ways: Mapping[str, Mapping[str, str]] = MappingProxyType({}), **sizes: object
) -> Group:
    """A frozen encoder: alone, writing a tape, in the step, and the steps that read its tape.

    Steps are measured in fp32 and, where that is one of the ways, in bf16 with an encoder in bf16.

    Parameters
    ----------
    run
        Its encoder.
    ways
        How else the encoder is run alone and writes a tape: how the names end → settings of its spec.
    sizes
        Of the measurements.
    """
    net, run = run.encoder.name, random_crops(run)
    reference = f"reference-rc/{net}"
    found = []
    for end, settings in {"": {}, **ways}.items():
        other = _run_as(run, settings)
        inline, limit = replace(other, rc_features="inline"), f"forward{end}/{net}"
        found += [
            Measurement(limit, "forward", other, **sizes),
            Measurement(f"tape{end}/{net}", "tape", other, limit=limit, **sizes),
        ]
        if end == _END[other.precision]:
            found += [
                Measurement(f"step-rc-tape{end}/{net}", "step", other, reference=reference, **sizes),
                Measurement(
                    f"step-rc-inline{end}/{net}", "step", inline, limit=limit, reference=reference, **sizes
                ),
            ]
    return (*found, Measurement(reference, "reference", replace(run, rc_features="inline"), **sizes))


def _run_as(run: RunSpec, settings: Mapping[str, str]) -> RunSpec:
    """The run with an encoder of these settings, itself in bf16 where the encoder is: else it trains in fp32."""
    precision = "bf16" if settings.get("precision") == "bf16" else "fp32"
    return replace(run, precision=precision, encoder=replace(run.encoder, **settings))


def finetuned(
    run: RunSpec, ways: Mapping[str, Mapping[str, str]] = MappingProxyType({}), **sizes: object
) -> Group:
    """An encoder that is trained: forward and backward alone, and whole steps.

    Parameters
    ----------
    run, ways, sizes
        As of `frozen`; of the ways those in bf16, which the whole run then has.
    """
    net = run.encoder.name
    run = replace(random_crops(run), finetune_from="bench")
    reference = f"reference-finetuned/{net}"
    found = []
    for end, settings in {"": {}, **ways}.items():
        other = _run_as(run, settings)
        if end and other.precision != "bf16":
            continue
        limit = f"forward-backward{end}/{net}"
        found += [
            Measurement(limit, "forward-backward", other, **sizes),
            Measurement(
                f"step-finetuned{end}/{net}", "step", other, limit=limit, reference=reference, **sizes
            ),
        ]
    return (*found, Measurement(reference, "reference", run, **sizes))


def data(run: RunSpec, size: str, **sizes: object) -> Group:
    """The steps around the training: store, features, and embedding a split."""
    return tuple(
        Measurement(f"{kind}/{size}", kind, run, **sizes) for kind in ("store", "features", "encode")
    )


def embedding(resnet: RunSpec, order: RunSpec) -> Group:
    """A split through models of full size, apart from the one that `data` has."""
    return (
        Measurement("encode/2048", "encode", resnet, feature_dim=2048),
        Measurement("encode-order/4096", "encode", order, feature_dim=4096),
    )


def ranking(run: RunSpec, images: int, device: str) -> Group:
    """Ranks of both directions by counting, on a GPU too where there is one, and by sorting for each query."""
    counted = Measurement(f"rank/{images}", "rank", run, images=images, reference=f"argsort/{images}")
    on_gpu = replace(counted, name=f"rank-device/{images}", kind="rank-device")
    sorting = replace(counted, name=f"argsort/{images}", kind="argsort", reference=None)
    return (counted, on_gpu, sorting) if device == "cuda" else (counted, sorting)


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
