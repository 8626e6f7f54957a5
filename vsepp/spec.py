"""What a corpus, an encoder and a run are, as frozen dataclasses of the standard library.

Every step takes one of these, and nothing else decides what it computes. `vsepp.config` makes them from
`params/`; `to_json` and `from_json` carry them to a step's command line, so that a training step runs on a
machine without the configuration's dependencies.

Canonical JSON leaves out fields that have their default, so a new field with a default changes only the digests of specs
that set it. A default here, once released, must therefore never change.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from vsepp.errors import VseppError
from vsepp.foreign import json_of, shortly, text_of

S = TypeVar("S")
_LARGEST_SPEC = 64 << 20

Split = Literal["train", "restval", "val", "test"]
SPLITS: tuple[str, ...] = typing.get_args(Split)
SplitName = Annotated[str, SPLITS]
LEAST = 1
Count = Annotated[int, LEAST]
"""A whole number of at least one: sizes, counts, epochs."""
Protocol = Literal["1K", "5x1K", "5K"]
FOLDS = {"1K": 1, "5x1K": 5}
"""Protocol → folds of the test set; any other protocol takes all images."""


@dataclass(frozen=True)
class Component:
    """A component's name and its options: `{"name": "max_of_hinges", "margin": 0.3}` in JSON.

    See `vsepp.components` for where components are found and what their options are.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """Options that differ from the defaults of the component's `Options`."""


@dataclass(frozen=True)
class SourceSpec:
    """A raw file, fetched before anything else, and what is known about it."""

    file: str
    """Its name in the folder of downloads and in the user's own folder."""
    mirrors: tuple[str, ...] = ()
    """URLs, tried in this order; empty if the file must be requested by hand."""
    size: int | None = None
    """Bytes, where known."""
    sha256: str | None = None
    """Of the whole file, in hexadecimal; if unknown, the first download records it."""
    accepts: tuple[str, ...] = ()
    """Other names that it may have in the user's own folder, such as that of the unpacked folder."""
    instructions: str = ""
    """How to get it by hand if it has no mirror: where to ask, and what to put where."""
    licence: str = ""
    citation: str = ""


@dataclass(frozen=True)
class CorpusSpec:
    """A set of captioned images and the files that it is read from."""

    name: str
    """The entry of `datasets.yaml`: `coco2014`, `flickr30k`, `flickr8k`, ..."""
    reader: Component
    """A module of `vsepp.data.readers`."""
    files: dict[str, str] = field(default_factory=dict)
    """What the reader calls the file (`images`, `splits`, `captions`, ...) → path of the file, zip archive or folder. Paths
    do not decide what is computed: manifests and plans hold the spec without them."""
    captions_per_image: Count | None = None
    """Captions used of each image; `None`: all."""
    surplus_captions: Literal["drop", "error"] = "error"
    """If an image has more captions: keep the first ones, or raise an error."""
    expected_images: dict[SplitName, Count] = field(default_factory=dict)
    """Images per split; checked if given."""
    reported_sha256: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a raw text file → SHA-256 sums that others report; a different one gives a warning, not an error."""
    first_images: dict[SplitName, Count] = field(default_factory=dict)
    """Split → how many of its images to keep, from the first, after all checks: to try a preset on a part of its data."""
    leave_out: tuple[str, ...] = ()
    """Ids of images to leave out, after all checks: photographs that cannot be decoded, say."""
    photographs_sha256: tuple[str, ...] = ()
    """Digests that are known of all photographs together, as `build_store` takes them: of a folder no archive's checksum says
    what it holds. A different one gives a warning."""


@dataclass(frozen=True)
class StoreSpec:
    """Decoded images."""

    resize: Literal["squash", "short_side"]
    """`squash`: to side×side (the paper); `short_side`: the short side to `side`, the aspect ratio kept (released code)."""
    side: Count
    """Pixels."""
    orientation: Literal["ignored", "applied"] = "ignored"
    """Of photographs whose EXIF data say that they are to be turned."""


@dataclass(frozen=True)
class PicturesSpec:
    """Small pictures of the images of a split, with their captions, for people to look at."""

    split: Split = "test"
    side: Count = 128
    """The longer side, pixels; images that are stored smaller stay as they are."""
    quality: int = 80
    """Of the JPEGs, from 1 to 95."""
    photographs: bool = True
    """Whether a page may show them; else there are captions and ids alone."""


@dataclass(frozen=True)
class EncoderSpec:
    """An image encoder cut at its penultimate layer."""

    name: str
    """The role that it plays, such as `vgg`."""
    architecture: str
    """`mini/vgg_mini`, `torchvision/vgg19`, `lite/efficientnet_lite0`, ..."""
    weights: str
    """`scenes` (pretrained here), `file/<name>` (a downloaded or local file), `torchvision/<entry>`, `pip` or
    `random`."""
    input_size: Count
    """Side of the crop that it takes, pixels."""
    store_side: Count
    """Side of the decoded image that crops are taken from, pixels."""
    mean: tuple[float, float, float]
    """Mean of its input per channel, on a scale of 0–1."""
    std: tuple[float, float, float]
    """Standard deviation of its input per channel, on a scale of 0–1."""
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    """Of a frozen encoder's matrix products; an encoder inside the model follows the run's precision."""
    memory_format: Literal["contiguous", "channels_last"] = "channels_last"
    """Memory layout of its images and weights."""
    compile: Literal["off", "default", "cuda_graphs"] = "off"
    """Whether its network is compiled with `torch.compile` and, for `cuda_graphs`, replayed as a CUDA graph."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of its family that differ from the defaults."""

    @property
    def family(self) -> Component:
        """The component of `vsepp.models.image` that builds it."""
        return Component(self.architecture.partition("/")[0], self.options)

    @property
    def variant(self) -> str:
        """Its name among the benchmarks: `torchvision/vgg19@224`, and how it is run if not by default."""
        ways: list[str] = [] if self.memory_format == "channels_last" else [self.memory_format]
        ways += [] if self.compile == "off" else [f"compile-{self.compile}"]
        return " ".join([f"{self.architecture}@{self.input_size}", *ways])


@dataclass(frozen=True)
class CropSpec:
    """Which part of a decoded image the encoder sees."""

    kind: Literal["1C", "10C", "RC"]
    size: Count
    """Pixels."""
    random: Literal["crop", "resized_crop"] = "crop"
    """RC only: a random window of fixed size, or of random scale and aspect ratio (`RandomResizedCrop`)."""
    flip: bool = False
    """RC only: mirror half of the crops."""
    corners: Literal["image", "square"] = "image"
    """10C only: corners of the stored image, or of the square at its centre."""


@dataclass(frozen=True)
class VocabularySpec:
    """The words a text encoder knows."""

    splits: tuple[SplitName, ...]
    """Splits whose captions are counted."""
    threshold: Count
    """How often a word must occur to be kept."""


@dataclass(frozen=True)
class VectorsSpec:
    """Vectors of all captions of a corpus, whose inner products say how alike two captions are."""

    encoder: Literal["tfidf", "minilm"]
    """`tfidf`: of their words, TF-IDF; `minilm`: of a pretrained sentence encoder, all-MiniLM-L6-v2."""
    splits: tuple[SplitName, ...] = ()
    """`tfidf`: splits whose captions say how rare a word is."""


@dataclass(frozen=True)
class FigureDataSpec:
    """What a figure draws of losses: over sets of negatives in a plane (Figure 1), or weights of GOAL (its Figures 2 and 3)."""

    kind: Literal["constellations", "weights"]
    losses: tuple[Component, ...]
    positive: tuple[float, ...] = ()
    """Of constellations: where the positive lies; the query lies at the origin."""
    negatives: tuple[tuple[tuple[float, ...], ...], ...] = ()
    """Of constellations: sets of points."""
    of: str = ""
    """Of weights: `triplet` or `pair`."""
    others: float = 0.0
    """Of weights of pairs: m₊ and m₋, the mean over the other pairs."""


@dataclass(frozen=True)
class ScenesSpec:
    """The generator of scenes."""

    seed: int
    side: Count
    """Side of a rendered image, pixels."""
    images: dict[str, dict[SplitName, Count]]
    """Layout (`coco`, `flickr`) → split → number of scenes."""
    settings: dict[str, float]
    """Difficulty: every probability and count of the renderer and the grammar."""


@dataclass(frozen=True)
class PretrainingSpec:
    """Supervised training of a mini encoder on labelled single-object scenes."""

    seed: int
    images: Count
    side: Count
    """Pixels."""
    epochs: Count
    batch_size: Count
    learning_rate: float


@dataclass(frozen=True)
class PretrainedSpec:
    """A mini encoder that is trained on scenes."""

    encoder: EncoderSpec
    pretraining: PretrainingSpec


@dataclass(frozen=True)
class FeaturesSpec:
    """Features of all images of a store under a fixed crop."""

    encoder: EncoderSpec
    crop: CropSpec


@dataclass(frozen=True)
class TapeSpec:
    """Random-crop features of a frozen encoder, for every training caption and epoch."""

    encoder: EncoderSpec
    crop: CropSpec
    draw: int
    """Seed of the random crops."""
    epochs: Count
    splits: tuple[SplitName, ...]
    """Whose captions."""


@dataclass(frozen=True)
class ScheduleSpec:
    """Optimisation. Section 3.2 of the paper."""

    batch_size: Count
    """Pairs (queries) per step."""
    epochs: Count
    learning_rate: float
    drop_at: float
    """Fraction of the epochs after which the learning rate drops; 1: never."""
    drop_factor: float
    clip_norm: float
    """Largest global L2 norm of the gradient."""
    negative_set: Count | None = None
    """Number of pairs from which negatives are taken (Section 3.6); `None`: the batch."""


@dataclass(frozen=True)
class ModelSpec:
    """The joint embedding of Eqs. 1–3."""

    text: Component
    """The text encoder, a module of `vsepp.models.text`. Its options have `dim`, D_ψ, the size of its state."""
    joint_dim: Count
    """D, size of the joint space."""
    caption_projection: bool
    """A linear map W_g after the text encoder (Eq. 2); without it D_ψ must equal D."""
    image_bias: bool
    """Whether the map W_f (Eq. 1) has a bias."""
    normalise_features: bool
    """L2-normalise the CNN's feature before W_f."""
    normalise_images: bool
    """L2-normalise the image embedding; false for VSE0, whose similarity is then a dot product."""
    absolute: bool
    """Take absolute values of both embeddings (Order0)."""
    similarity: Component
    """A module of `vsepp.similarity`."""


@dataclass(frozen=True)
class RunSpec:
    """One trained model, for one seed."""

    id: str
    system: str
    """VSE0, VSE++, Order0 or Order++."""
    dataset: str
    """The role of the corpus: a name that papers use, and for which presets name the data."""
    trainset: Literal["1C", "10C", "RC"]
    restval: bool
    """Train on restval (rV) too."""
    encoder: EncoderSpec
    finetune_from: str | None
    """The frozen run whose best snapshot this run starts from; `None` keeps the encoder frozen."""
    train_store: StoreSpec
    eval_store: StoreSpec
    crop: CropSpec
    vocabulary: VocabularySpec
    validation_images: Count | None
    """Validate on the first so many validation images, in file order; `None`: all."""
    model: ModelSpec
    loss: Component
    """A module of `vsepp.losses`."""
    schedule: ScheduleSpec
    encoder_mode: Literal["eval", "legacy-master", "legacy-python3"]
    """As the branches of the released code have it. `legacy-master`: training mode until the first validation of each epoch;
    `legacy-python3`: in every step."""
    legacy_steps: int
    """`legacy-master`: steps between two validations in the released code, counted over the whole training."""
    rc_features: Literal["tape", "inline"]
    """Random-crop features of a frozen encoder: read from the tape, where they were written once for all runs, or computed
    in each training step."""
    init_seed: int
    order_seed: int
    draw: int
    """Seed of the random crops."""
    image_features: Literal["computed", "precomputed"] = "computed"
    """1C and 10C: features computed here by the encoder, or those published with the captions."""
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    """Of the matrix products of a training step; bf16 only within the two encoders and their maps. Weights and validation are
    fp32."""

    @property
    def train_splits(self) -> tuple[str, ...]:
        """Splits that the run trains on."""
        return ("train", "restval") if self.restval else ("train",)

    @property
    def finetuned(self) -> bool:
        """Whether the image encoder is trained."""
        return self.finetune_from is not None

    @property
    def live_encoder(self) -> bool:
        """Whether the encoder runs inside the model: it is trained, or its statistics change (legacy modes)."""
        return self.finetuned or (self.encoder_mode != "eval" and self.trainset == "RC")

    @property
    def reads(self) -> Literal["features", "tape", "inline", "live"]:
        """What a training step reads for its images.

        `features` under a fixed crop; random-crop features of a frozen encoder, from a `tape` or computed `inline` from the
        image store; or crops for a `live` encoder.
        """
        if self.live_encoder:
            return "live"
        return self.rc_features if self.trainset == "RC" else "features"

    @property
    def eval_crop(self) -> CropSpec:
        """Validation and test crop: ten crops for 10C, else the centre."""
        kind: Literal["1C", "10C"] = "10C" if self.trainset == "10C" else "1C"
        return CropSpec(kind, self.crop.size, corners=self.crop.corners)


@dataclass(frozen=True)
class EvaluationSpec:
    """A model's embeddings of a split, and their ranks and recalls."""

    run: RunSpec
    protocols: tuple[str, ...]
    fold_size: Count
    """Images per fold, the 1K of `1K` and `5x1K`."""
    split: SplitName = "test"


def to_dict(spec: Any) -> Any:
    """Plain dictionary of a spec and its nested specs, without fields that have their default.

    It holds JSON values only, so that it equals what is read back from a manifest.
    """
    if isinstance(spec, Component):
        return {"name": spec.name, **to_dict(spec.options)}
    if dataclasses.is_dataclass(spec):
        return {
            f.name: to_dict(getattr(spec, f.name))
            for f in dataclasses.fields(spec)
            if not _has_default(f, getattr(spec, f.name))
        }
    if isinstance(spec, typing.Mapping):
        return {key: to_dict(item) for key, item in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [to_dict(item) for item in spec]
    return spec


def _has_default(f: dataclasses.Field[Any], value: Any) -> bool:
    if f.default_factory is not dataclasses.MISSING:
        return value == f.default_factory()
    return f.default is not dataclasses.MISSING and value == f.default


def to_json(spec: Any) -> str:
    """Canonical JSON of a spec: keys sorted, no spaces; equal specs give equal text."""
    return json.dumps(to_dict(spec), sort_keys=True, separators=(",", ":"))


def from_dict(kind: type[S], values: dict[str, Any]) -> S:
    """Build a spec of type `kind`; inverse of `to_dict`.

    Raises
    ------
    VseppError
        On unknown or missing keys, and values of another type, naming them.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(values) - names):
        raise VseppError(f"{kind.__name__}: unknown keys {unknown}; known are {sorted(names)}")
    required = {
        f.name
        for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if missing := sorted(required - set(values)):
        raise VseppError(f"{kind.__name__}: missing keys {missing}")
    return kind(
        **{key: _revive(hints[key], value, f"{kind.__name__}.{key}") for key, value in values.items()}
    )


def from_json(kind: type[S], text_or_path: str) -> S:
    """Read a spec from JSON text, or from a file if the text does not start with a brace."""
    text, where = text_or_path, kind.__name__
    if not text.lstrip().startswith("{"):
        where = f"{text_or_path}: {where}"
        text = text_of(Path(text_or_path), f"JSON of a {kind.__name__}", _LARGEST_SPEC)
    values = json_of(text, where)
    if not isinstance(values, dict):
        raise VseppError(f"{where}: expected a JSON object, got {shortly(values)}")
    try:
        return from_dict(kind, values)
    except VseppError as error:
        if where == kind.__name__:
            raise
        raise VseppError(f"{text_or_path}: {error}") from None


def _revive(hint: Any, value: Any, key: str) -> Any:
    """A JSON value as the annotation names it: tuples for lists, specs for objects; anything else is refused."""
    if hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (hint,) = [argument for argument in arguments if argument is not type(None)]
        return _revive(hint, value, key)
    if origin is Annotated:
        _revive(hint.__origin__, value, key)
        (bound,) = hint.__metadata__
        if hint is Count and value < bound:
            raise VseppError(f"{key}: expected at least {bound}, got {shortly(value)}")
        if hint is SplitName and value not in bound:
            raise VseppError(f"{key}: expected {', '.join(bound)}, got {shortly(value)}")
        return value
    if origin is Literal:
        if type(value) is str and value in arguments:
            return value
        raise VseppError(f"{key}: expected {', '.join(map(str, arguments))}, got {shortly(value)}")
    kind = origin or hint
    accepted, said = _JSON_KINDS.get(kind, ((dict,), "an object"))
    # True and false are numbers to Python alone.
    fits = isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
    if not fits:
        raise VseppError(f"{key}: expected {said}, got {shortly(value)}")
    if hint is Component:
        if not isinstance(value.get("name"), str):
            raise VseppError(f"{key}: expected an object with a name, got {shortly(value)}")
        return Component(value["name"], {name: item for name, item in value.items() if name != "name"})
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, value)  # type: ignore[arg-type]
    if kind is tuple:
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) != len(value):
            raise VseppError(f"{key}: expected a list of {len(kinds)}, got {shortly(value)}")
        return tuple(_revive(one, item, key) for one, item in zip(kinds, value, strict=True))
    if kind is dict:
        of_name, of_item = arguments
        return {
            _revive(of_name, name, key): _revive(of_item, item, f"{key}.{name}")
            for name, item in value.items()
        }
    return value


_JSON_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    tuple: ((list, tuple), "a list"),
    str: ((str,), "a text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
"""Type of a field → what JSON has for it, and its name; an object for any other."""
