"""What every key of `params/` accepts. The error messages come from these models.

The string below a key says what it is, and of a key of a run also what the paper's text and its released code say (`Text:`,
`Code:`), for docs/fidelity.md. A component's options are described in the same way.
"""

from __future__ import annotations

import dataclasses
import json
import os.path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.dataclasses import dataclass

from vsepp.base import run_spec, spec
from vsepp.base.components import component_of, require_known
from vsepp.base.declared import STRICT, Count, Crops, Name, Role, Seed, SplitName, adapter
from vsepp.base.run_spec import COMPONENTS, Mode
from vsepp.base.spec import Component
from vsepp.report.entries import Protocol

Trainset = Literal["1C", "10C", "RC", "regions", "1C+rV", "10C+rV", "RC+rV", "regions+rV"]


def _each_once(seeds: list[int]) -> list[int]:
    if repeated := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise ValueError(f"seed {repeated[0]} is there twice; each seed is one training")
    return seeds


Seeds = Annotated[list[Seed], AfterValidator(_each_once)]


class _Model(BaseModel):
    model_config = ConfigDict(**STRICT, frozen=True)


if TYPE_CHECKING:
    ComponentKey = str  # text wherever it is not checked
    Reader = Component
else:
    ComponentKey = Literal[tuple(COMPONENTS)]
    Reader = component_of("reader")
Defaults = Annotated[
    dict[ComponentKey, dict[str, dict[str, Any]]],
    Field(description="key of a run → component → its options, in the runs that name it"),
]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class RunKeys(
    spec.CaptionKeys,
    run_spec.SizeAugmentationSpec,
    run_spec.ScheduleSpec,
    run_spec.TrainingKeys,
    run_spec.ModelSpec,
):
    """A run: what its entry, the entries that it inherits from and all layers say together."""

    base: str | list[str] = dataclasses.field(default_factory=list)
    """Entry or entries to inherit from; later entries override earlier ones."""
    abstract: bool = False
    """Never trained, only inherited from."""
    ensemble: Annotated[list[Name], Field(min_length=2, max_length=2)] | None = None
    """Two runs: the entry is not trained, and its scores are the mean of theirs, for each seed that both have."""
    feeds: dict[str, Protocol] = dataclasses.field(default_factory=dict)
    """Row of the paper's tables → protocol under which this run fills the row."""
    protocols: list[Protocol] = dataclasses.field(default_factory=list)
    """Further protocols to evaluate under."""
    trainset: Trainset
    """Training crops (1C, 10C, RC) or regions; +rV adds restval images, if the data have them."""
    encoder: Role
    """The role of the image encoder; the preset assigns the network."""
    resize: Literal["squash", "short_side"]
    """squash: the whole image becomes a square, the aspect ratio is lost; short_side: the short side gets the
    length, the aspect ratio is kept. Text: to 256×256; interpolation not mentioned. Code: short side to 256,
    aspect ratio kept."""
    random_crop: Literal["crop", "resized_crop", "scaled_crop"]
    """RC: a random window of fixed size, of random scale and aspect ratio, or of .6 to 1 of both sides. Text: one random 224×224 crop of the resized
    image; VSE∞ not mentioned. Code: `RandomResizedCrop(224)` of the original pixels; VSE∞ both sides times one number from .6 to 1."""
    train_store_scale: Annotated[float, Field(ge=1.0, le=8.0)]
    """RC: side of the stored image from which crops are taken, as a multiple of the encoder's store_side.
    Text: the 256×256 image. Code: the original pixels, replaced here by a larger stored image."""
    exif_orientation: Literal["ignored", "applied"]
    """EXIF orientation of photographs (turned or mirrored): ignored or applied. For your own pictures (`captions_csv`) it is always
    applied. Text: not mentioned. Code: ignored."""
    corners: Literal["image", "square"]
    """10C: corners of the whole image, or of its central square; equal for squashed images. Text: not mentioned. Code: for
    published features the whole image with its aspect ratio, as in the order embeddings' extractor."""
    flip: bool
    """RC: mirror half of the crops. Text: not mentioned. Code: horizontally, half of the time."""
    vocabulary: Literal["own_training", "training_and_validation", "all_splits"]
    """Captions whose words are counted. Text: not mentioned. Code: all splits of raw data, test included; of published features training and validation; VSE∞ training and
    validation."""
    validation_images: Count | None = None
    """Number of validation images, from the first; null: as many as its role in `corpora` has. Text: as
    `corpora`. Code: VSE∞ 1,000."""
    vocabulary_threshold: Count
    """How often a word must occur to be in the vocabulary. Text: not mentioned. Code: 4."""
    frozen_mode: Mode
    """Mode of a frozen encoder with RC. legacy-master: training mode until the first validation of each
    epoch; legacy-python3: in every step. Text: frozen. Code: branch `master`: training mode until the first
    validation of each epoch; branches `python3` and `pytorch4.1`: in every step. VSE∞ eval."""
    finetuned_mode: Mode
    """Mode of a fine-tuned encoder's dropout and batch normalisation; same values as frozen_mode. Text: not mentioned. Code: as for a
    frozen encoder; VSE∞ eval."""
    image_features: Literal["computed", "precomputed_if_given"]
    """1C, 10C and regions: features computed from the images, or the published ones if their folder is given.
    Text: computed from the images; VSE∞ regions of BUTD. Code: the published files."""
    seeds: Seeds | None = None
    """One training per seed; null: the seeds of config.yaml; []: not trained, and its rows say so."""

    @property
    def crops(self) -> Crops:
        """Its training set without rV."""
        return self.trainset.partition("+")[0]  # type: ignore[return-value]  # as `Trainset` lists them

    @property
    def restval(self) -> bool:
        """Whether its training set is with rV."""
        return self.trainset.endswith("+rV")


def _checked(keys: dict[str, Any]) -> dict[str, Any]:
    try:
        adapter(RunKeys).validate_json(json.dumps(keys), strict=True)
    except ValidationError as error:
        wrong = [detail for detail in error.errors() if detail["type"] != "missing"]
        if wrong:
            raise ValidationError.from_exception_data(error.title, wrong) from None  # type: ignore[arg-type]
    return keys


class _SomeKeys(AfterValidator):
    """Of a declaration, in an entry or in a layer: they are checked, and left as they stand."""

    declaration = RunKeys


Entry = Annotated[dict[str, Any], _SomeKeys(_checked)]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class DatasetKeys(spec.CorpusKeys):
    """One entry of `datasets` in `datasets.yaml`."""

    title: str
    """Name of the data on pages."""
    reader: Reader
    """A module of vsepp.data.readers, with its options."""
    files: dict[str, str]
    """The reader's name of a file → entry of `sources`, or file written by the generator."""
    splits: tuple[SplitName, ...] = ("train", "val", "test")
    """Splits that the data have."""
    generator: str | None = None
    """Layout that the scene generator writes; null for real data."""
    photographs: bool = False
    """Whether pages may show the pictures; otherwise they show ids."""
    crops: Literal["1C", "10C", "regions"] | None = None
    """Reader `precomp` only: crops of the published features, or regions."""
    precomputed: dict[Literal["1C", "10C", "regions"], str] = dataclasses.field(default_factory=dict)
    """Crops or regions → entry with the published features and captions of this data set."""
    truths: tuple[str, ...] = ()
    """Modules of vsepp.evaluation.truths that say what is correct in its test set besides own captions."""


class CorpusOfRole(_Model):
    """In a preset: the data set of a role. In a fidelity: the number of its validation images."""

    dataset: str = ""
    """An entry of datasets.yaml."""
    validation_images: Count | None = None
    """Number of validation images, from the first; null: all. Text: 5,000 images of COCO, 1,000 of Flickr30K.
    Code: the first 1,000 of COCO, all 1,014 of Flickr30K."""
    published_validation_images: Count | None = None
    """The same, for runs on published features. Text: the same. Code: the first 1,000 of the published
    files."""
    first_images: dict[SplitName, Count] = {}
    """Split → how many images to keep, from the first, after all checks: to try a preset on a part of its data."""
    leave_out: tuple[str, ...] = ()
    """Ids of images to leave out, after all checks, such as photographs that cannot be decoded."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class EncoderOfRole(spec.EncoderKeys):
    """The network of an encoder role."""

    title: str
    """Name on pages."""

    @model_validator(mode="after")
    def _fits_its_family(self) -> EncoderOfRole:
        require_known("image encoder", self.family)
        return self


class EvaluationKeys(_Model):
    """How embeddings are evaluated."""

    fold_size: Count
    """Images per fold, the 1K of the protocols 1K and 5x1K."""


class ResourceKeys(_Model):
    """What a job may use. Results do not depend on it, except for the last bits of floating point."""

    threads: Count
    """Cores of a training on a machine without a GPU."""
    memory_mb: Count
    """Memory declared for each job that uses torch, MB."""
    keep_tapes: bool
    """Keep tapes after the last training that reads them."""
    runs_per_gpu: Count = 2
    """How many trainings on features or a tape share a GPU; a job with an encoder takes a whole GPU. A step of such a
    training computes about 40 GFLOP, less than a millisecond on a GPU, but launches hundreds of small kernels, which takes a
    few milliseconds: two trainings use the GPU better than a single training and need little memory. Measure with benchmarks/measure.py
    --only 'sharing*'. The pairs/s in history.csv then refer to a shared GPU."""
    checkpoint_seconds: Annotated[float, Field(ge=0.0)] = 60.0
    """Shortest time between two checkpoints of a training; 0: a checkpoint after each step."""
    data_on: Literal["auto", "device", "mapped"] = "auto"
    """Where images and features are read from. device: the GPU's memory. mapped: their files. auto: the GPU's
    memory if they fit, otherwise their files."""


class Overlay(_Model):
    """What a file, or the command line, says of runs. A paper's `runs.yaml` is `runs` alone."""

    runs: dict[Name, Entry] = {}
    """Entry → its keys, or changes to them."""
    components: Defaults = {}


class PresetFile(Overlay):
    """A file of `params/presets/`."""

    title: str
    """Name of the preset's data on the pages."""
    data_note: str
    """Part of every caption; empty for the paper's own data."""
    corpora: dict[Role, CorpusOfRole | None]
    """Role → data set; null: the role's runs are left out."""
    encoders: dict[Role, EncoderOfRole | None]
    """Role → network; null: the role's runs are left out."""
    evaluation: EvaluationKeys
    tables: dict[Name, list[str]] = {}
    """Paper → tables and figures of its report, in order; papers without an entry have all of them."""
    resources: ResourceKeys
    scenes: spec.ScenesSpec | None = None


class FidelityFile(Overlay):
    """A file of `params/fidelity/`."""

    corpora: dict[Role, CorpusOfRole] = {}


class PaperFidelityFile(_Model):
    """A paper's `fidelity.yaml`: values for its own runs and their components under each fidelity."""

    paper: Overlay
    code: Overlay


class Settings(_Model):
    """`params/config.yaml`."""

    preset: Name
    papers: Annotated[list[Name], Field(min_length=1)]
    """Folders of params/papers/ to reproduce."""
    fidelity: Literal["paper", "code"]
    seeds: Annotated[Seeds, Field(min_length=1)]
    label: Name | None = None
    only: list[str] | None = None
    """Patterns of the run ids to train; null: all."""
    archives: Annotated[str, AfterValidator(os.path.expanduser)] | None = None
    """Your own folder of raw files, searched before anything is downloaded."""
    serif: bool = False
    """Set figures in a serif font, like the paper."""


class DatasetsFile(_Model):
    """`params/datasets.yaml`."""

    sources: dict[str, spec.SourceKeys]
    datasets: dict[Name, DatasetKeys]


class ReleasedKeys(_Model):
    """One entry of a `released.yaml`: a checkpoint of the authors."""

    run: str
    """The run that the checkpoint belongs to."""
    checkpoint: str
    """File below the folder `archives`, or resources/downloads/."""
    vocabulary: str
    """File below the same folder."""


class ReleasedFile(_Model):
    """A paper's `released.yaml`: id → entry."""

    released: dict[Name, ReleasedKeys]
