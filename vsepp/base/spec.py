"""What a corpus, an encoder and the artefacts of both are; a run is in `run_spec`.

Every step takes one of these, and nothing else decides what it computes. `vsepp.pipeline` makes them from
`params/`; `to_dict` and `from_dict` carry them to a step by the plan, and to manifests.

Canonical JSON leaves out fields that have their default, so a new field with a default changes only the
digests of specs that set it. A default here, once released, must therefore never change.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base.declared import (
    STRICT,
    Count,
    Crops,
    Fraction,
    PositiveFloat,
    Precision,
    Seed,
    Side,
    SplitName,
    adapter,
    mistakes_of,
)
from vsepp.base.errors import VseppError, first_of

S = TypeVar("S")


@dataclass(frozen=True, config=STRICT)
class Component:
    """A component's name and its options: `{"name": "max_of_hinges", "margin": 0.3}` in JSON.

    See `vsepp.base.components` for where components are found and what their options are.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """Options that differ from the defaults of the component's `Options`."""

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        """Options stand beside the name; the name alone will do."""
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping):
            options = {key: option for key, option in value.items() if key != "name"}
            return {**{key: value[key] for key in ("name",) if key in value}, "options": options}
        return value

    @model_serializer
    def _as_json(self) -> dict[str, Any]:
        return {"name": self.name, **self.options}


@dataclass(frozen=True, config=STRICT, kw_only=True)
class SourceKeys:
    """What is known about a raw file: one entry of `sources` in `datasets.yaml`."""

    mirrors: tuple[Annotated[str, Field(pattern="^https?://")], ...] = ()
    """URLs, tried in this order; empty if the file must be requested by hand."""
    size: Count | None = None
    """Bytes; null if unknown."""
    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")] | None = None
    """SHA-256 of the whole file; null if unknown, then the first download records it."""
    accepts: tuple[str, ...] = ()
    """Other names of the file in your own folder, such as the unpacked folder's name."""
    instructions: str = ""
    """How to get a file without a mirror: where to ask, and where to put it."""
    licence: str = ""
    citation: str = ""


@dataclass(frozen=True, config=STRICT)
class SourceSpec(SourceKeys):
    """A raw file, fetched before anything else."""

    file: str
    """File name in the folder of downloads and in the user's folder."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class CorpusKeys:
    """How a set of captioned images is read and checked: an entry of `datasets`."""

    captions_per_image: Count | None = None
    """Captions used per image; null: all."""
    surplus_captions: Literal["drop", "error"] = "error"
    """If an image has more captions: keep the first ones, or raise an error."""
    expected_images: dict[SplitName, Count] = field(default_factory=dict)
    """Images per split; checked if given."""
    content: str = ""
    """Names pictures and captions where several sets of them have one entry, as the trials
    of `vsepp try` have."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class CorpusSpec(CorpusKeys):
    """A set of captioned images and its files."""

    name: str
    """The entry of `datasets.yaml`: `coco2014`, `flickr30k`, `flickr8k`, ..."""
    reader: Component
    """A module of `vsepp.data.readers`."""
    files: dict[str, str] = field(default_factory=dict)
    """The reader's name of a file (`images`, `splits`, `captions`, ...) → name of the file,
    zip archive or folder."""
    first_images: dict[SplitName, Count] = field(default_factory=dict)
    """Split → how many of its images to keep, from the first, after all checks: to try a preset on
    a part of its data."""
    leave_out: tuple[str, ...] = ()
    """Ids of images to leave out, after all checks, such as photographs that cannot be decoded."""


@dataclass(frozen=True, config=STRICT)
class StoreSpec:
    """Image cache: all images of a corpus, decoded once."""

    resize: Literal["squash", "short_side"]
    """`squash`: side×side (the paper); `short_side`: the short side has `side` pixels, the aspect ratio is
    kept (released code)."""
    side: Side
    """Pixels."""
    orientation: Literal["ignored", "applied"] = "ignored"
    """Whether the EXIF orientation of photographs is applied."""


@dataclass(frozen=True, config=STRICT)
class PicturesSpec:
    """Small pictures of the test images with their captions, for pages."""

    photographs: bool = True
    """Whether pages may show the pictures; otherwise only captions and ids."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class EncoderKeys:
    """A network, cut at its penultimate layer, and how it is run: a preset's entry."""

    architecture: Annotated[str, Field(pattern=r"^[a-z0-9_]+/[a-z0-9_]+$")]
    """family/name: a module of vsepp.models.image and one of its networks."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the family; a run leaves out default values."""
    weights: Annotated[str, Field(pattern=r"^(scenes|pip|random|torchvision/\w+|file(/\w[\w.+-]*)+)$")]
    """scenes (they come with vsepp), pip, random, torchvision/<entry> or file/<name>: an entry of `sources`,
    or a file in the folder `archives`."""
    input_size: Side
    """Side of the network's input crop, pixels."""
    store_side: Side
    """Side of the stored image from which crops are taken, pixels."""
    mean: tuple[float, float, float]
    """Per input channel, on a scale of 0–1."""
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat]
    """Per input channel, on a scale of 0–1."""
    precision: Precision = "fp32"
    """Matrix products of a frozen encoder. fp32: IEEE. tf32: 10 bits of mantissa on a GPU's tensor cores,
    fp32 elsewhere. bf16: autocast, 7 bits. Lower precision is faster only on hardware made for it: measure
    with benchmarks/measure.py. An encoder inside the model follows the run's `precision`."""

    @property
    def family(self) -> Component:
        """The component of `vsepp.models.image` that builds it."""
        return Component(self.architecture.partition("/")[0], self.options)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class EncoderSpec(EncoderKeys):
    """An image encoder cut at its penultimate layer."""

    name: str
    """The encoder's role, such as `vgg`."""

    @property
    def component(self) -> tuple[str, str]:
        """Kind and name of its family."""
        return "image encoder", self.family.name


@dataclass(frozen=True, config=STRICT)
class CropSpec:
    """Which part of a decoded image the encoder sees: its centre, ten crops, a random crop, or the
    windows of `regions`."""

    kind: Crops
    size: Side
    """Pixels."""
    random: Literal["crop", "resized_crop", "scaled_crop"] = "crop"
    """RC only: a random window of fixed size; of random scale and aspect ratio (`RandomResizedCrop`); or of
    .6 to 1 of both sides."""
    flip: bool = False
    """RC only: mirror half of the crops."""
    corners: Literal["image", "square"] = "image"
    """10C only: corners of the stored image, or of the square at its centre."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class CaptionKeys:
    """How a caption is read, before its words are counted or numbered."""

    clean_captions: bool = False
    """Leave out . , ' ! ? " ( ) * # : ; ~ and read - and / as spaces. Text, code: no; X-VLM yes."""
    first_words: Count | None = None
    """Words of a caption that are read, from the first, as spaces part them; null: all. Text,
    code: all; X-VLM 30."""
    end_token: bool = True
    """A caption ends with `<end>`, or `[SEP]`. Text: not mentioned. Code: yes; X-VLM no."""


AS_WRITTEN = CaptionKeys()


@dataclass(frozen=True, config=STRICT)
class VocabularySpec(CaptionKeys):
    """The words that a text encoder knows, or the pieces of words."""

    splits: tuple[SplitName, ...]
    """Splits whose captions are counted; none for pieces of words."""
    threshold: Count
    """How often a word must occur to be kept; 1 for pieces of words."""
    mask: bool = False
    """Words: `<mask>` is the last one, for what hides words in training. Pieces of words have a
    token for it anyway."""
    kind: Literal["words", "wordpieces"] = "words"
    """`words`: counted in the corpus; `wordpieces`: pieces of words that a pretrained text encoder knows."""
    file: str = ""
    """Pieces of words: name of the raw file `vocab.txt`; empty: the file of all-MiniLM-L6-v2. Words: name of
    the raw file with the vocabulary of a released model; empty: the words are counted."""


@dataclass(frozen=True, config=STRICT)
class CaptionStatesSpec:
    """States of the tokens of all captions under a text encoder that no training changes."""

    text: Component
    """A module of vsepp.models.text, with the options that decide the states."""


@dataclass(frozen=True, config=STRICT)
class VectorsSpec:
    """Vectors of all captions of a corpus; inner products measure the similarity of two captions."""

    encoder: Literal["tfidf", "minilm"]
    """`tfidf`: TF-IDF of the captions' words; `minilm`: a pretrained sentence encoder, all-MiniLM-L6-v2."""
    splits: tuple[SplitName, ...] = ()
    """`tfidf`: splits whose captions are counted for word rarity."""


_Objects = Annotated[float, Field(ge=1, le=6, multiple_of=1)]


@dataclass(frozen=True, config=STRICT)
class Difficulty:
    """How hard generated scenes are: probabilities, and numbers for the renderer."""

    objects_min: _Objects
    """Fewest objects in a scene."""
    objects_max: _Objects
    """Most objects in a scene."""
    near_duplicate: Fraction
    """A scene is a copy of an earlier one of its split with one attribute changed."""
    overlap: Fraction
    """How far two objects may cover each other, as a fraction of their radii."""
    shortest_side: Annotated[float, Field(ge=0.5, le=1)]
    """Shortest possible side of an image, as a fraction of the longer side."""
    colour_jitter: Annotated[float, Field(ge=0, le=0.5)]
    """Deviation of an object's colour around its name's, on a scale of 0–1."""
    noise: Annotated[float, Field(ge=0, le=0.5)]
    """Deviation of the pixel noise, on a scale of 0–1."""
    jpeg_quality: Annotated[float, Field(ge=30, le=100, multiple_of=1)]
    """Quality that images are written with."""
    omit_object: Fraction
    """A caption leaves an object out (never all of them)."""
    omit_attribute: Fraction
    """A mention leaves out a colour, a size or a texture."""
    omit_background: Fraction
    """A caption leaves out the ground, or the sky."""
    vague: Fraction
    """A mention says `thing` or similar instead of the shape."""
    synonym: Fraction
    """A word is replaced by a synonym."""
    relation: Fraction
    """A caption of several objects says how two of them are placed."""
    extra_captions: Fraction
    """A COCO image has six or seven captions, not five."""

    @model_validator(mode="after")
    def _at_least_one_count(self) -> Difficulty:
        if self.objects_min > self.objects_max:
            raise ValueError(f"expected objects_min of at most objects_max = {self.objects_max:g}")
        return self


@dataclass(frozen=True, config=STRICT)
class ScenesSpec:
    """The generator of scenes."""

    seed: Seed
    side: Annotated[int, Field(ge=32)]
    """Longer side of a rendered image, pixels."""
    images: dict[Annotated[str, Field(pattern="^(coco|flickr)$")], dict[SplitName, Count]]
    """Layout → split → scenes."""
    settings: Difficulty


@dataclass(frozen=True, config=STRICT)
class EncoderWeightsSpec:
    """An image encoder, without its last layer."""

    encoder: EncoderSpec


@dataclass(frozen=True, config=STRICT)
class FeaturesSpec:
    """Features of all images of an image store under a fixed crop."""

    encoder: EncoderSpec
    crop: CropSpec
    grid: bool = False
    """Keep the cells of the encoder's last map, as a set of vectors, instead of their mean."""


@dataclass(frozen=True, config=STRICT)
class TapeSpec:
    """Feature cache of random crops: a frozen encoder's features for every training caption and epoch."""

    encoder: EncoderSpec
    crop: CropSpec
    draw: Seed
    """Crop seed: the seed of the random crops."""
    epochs: Count
    splits: tuple[SplitName, ...]
    """Splits whose captions have crops."""


def part_of(declaration: type[S], keys: Any, **others: Any) -> S:
    """What a declaration has of a larger one's values, with others beside them or in their place."""
    names = {field.name for field in dataclasses.fields(declaration)}  # type: ignore[arg-type]  # a dataclass
    return declaration(**{**{name: value for name, value in vars(keys).items() if name in names}, **others})


def to_dict(spec: Any) -> Any:
    """JSON values of a spec and its nested specs, without fields that have their default: as a
    manifest holds them."""
    return adapter(type(spec)).dump_python(spec, mode="json", exclude_defaults=True)


def to_json(spec: Any) -> str:
    """Canonical JSON of a spec: keys sorted, no spaces; equal specs give equal text."""
    return json.dumps(to_dict(spec), sort_keys=True, separators=(",", ":"))


def from_dict(kind: type[S], values: Mapping[str, Any], where: str = "") -> S:
    """Build a spec of type `kind`; inverse of `to_dict`. Messages begin with `where`.

    Raises
    ------
    VseppError
        On unknown or missing keys, and values of another type or out of range, naming them.
    """
    try:
        return adapter(kind).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        # What is missing may be what stands there under a wrong name.
        mistakes = sorted(mistakes_of(error, kind), key=lambda mistake: mistake[1] == "missing")
        listed = first_of(
            [f"{'.'.join([kind.__name__, *([key] if key else [])])}: {what}" for key, what in mistakes]
        )
        raise VseppError(f"{where}{listed}") from error
