"""What every key of `params/` accepts. The error messages come from these models.

The string below a key says what it is, and of a key of a run also what the paper's text and its released code say (`Text:`,
`Code:`), for docs/fidelity.md. A component's options are described in the same way.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.dataclasses import dataclass

from vsepp.base import spec
from vsepp.base.declared import STRICT, Count, Seed, SplitName
from vsepp.base.spec import Component, Mode
from vsepp.evaluation.metric_list import COMPARED, SCORES
from vsepp.pipeline.component_options import all_options, component_of, mistakes_in
from vsepp.reporting.figures import SHARED, kind_of
from vsepp.reporting.report_specs import (
    AveragedMetric,
    ClaimEntry,
    Column,
    FigureEntry,
    PaperSpec,
    Protocol,
    TableEntry,
)

Trainset = Literal["1C", "10C", "RC", "regions", "1C+rV", "10C+rV", "RC+rV", "regions+rV"]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.+-]*$", max_length=100)]
Role = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


def _each_once(seeds: list[int]) -> list[int]:
    if repeated := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise ValueError(f"seed {repeated[0]} is there twice; each seed is one training")
    return seeds


Seeds = Annotated[list[Seed], AfterValidator(_each_once)]
UNSET: Any = None
"""Default of a key that a layer may leave out, but that a resolved run must have."""


class _Model(BaseModel):
    model_config = ConfigDict(**STRICT, frozen=True)


class ComponentKeys(BaseModel):
    """A component: its name, its name with options, or options alone, for the component that another layer names."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    name: str | None = None
    """The component; each has its own options."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """All but the name."""
        return dict(self.model_extra or {})


COMPONENTS: dict[str, str] = {
    "loss": "loss",
    "similarity": "similarity",
    "text": "text encoder",
    "image_head": "image head",
    "image_pooling": "pooling",
    "caption_pooling": "pooling",
    "matcher": "matcher",
    "optimiser": "optimiser",
}
"""Key of a run → the kind of component that it names."""
if TYPE_CHECKING:
    ComponentKey = str  # text wherever it is not checked
    Loss = Component
    FigureKind = Component
    Reader = Component
else:
    ComponentKey = Literal[tuple(COMPONENTS)]
    Loss, FigureKind, Reader = map(component_of, ("loss", "figure", "reader"))
Defaults = Annotated[
    dict[ComponentKey, dict[str, dict[str, Any]]],
    Field(description="key of a run → component → its options, in the runs that name it"),
]


class _EntryKeys(_Model):
    """Keys of an entry that a run's spec lacks, or has in another form."""

    base: str | list[str] = UNSET
    """Entry or entries to inherit from; later entries override earlier ones."""
    abstract: bool = UNSET
    """Never trained, only inherited from."""
    ensemble: Annotated[list[Name], Field(min_length=2, max_length=2)] | None = UNSET
    """Two runs: the entry is not trained, and its scores are the mean of theirs, for each seed that both have."""
    feeds: dict[str, Protocol] = UNSET
    """Row of the paper's tables → protocol under which this run fills the row."""
    protocols: list[Protocol] = UNSET
    """Further protocols to evaluate under."""
    system: str = UNSET
    """The paper's name of the system, such as VSE++."""
    dataset: Role = UNSET
    """The role of the corpus; the preset assigns the data."""
    trainset: Trainset = UNSET
    """Training crops (1C, 10C, RC) or regions; +rV adds restval images, if the data have them."""
    encoder: Role = UNSET
    """The role of the image encoder; the preset assigns the network."""
    finetune_from: str | None = UNSET
    """Frozen run whose best snapshot this run starts from; null keeps the encoder frozen."""
    resize: Literal["squash", "short_side"] = UNSET
    """squash: the whole image becomes a square, the aspect ratio is lost; short_side: the short side gets the length, the aspect
    ratio is kept. Text: to 256×256; interpolation not mentioned; VSE∞ to 512×512. Code: short side to 256, aspect ratio kept; VSE∞
    to 512×512."""
    random_crop: Literal["crop", "resized_crop"] = UNSET
    """RC: a random window of fixed size, or of random scale and aspect ratio. Text: one random 224×224 crop of the resized
    image; VSE∞ not mentioned. Code: `RandomResizedCrop(224)` of the original pixels; VSE∞ both sides times one number from .6 to 1."""
    train_store_scale: Annotated[float, Field(ge=1.0, le=8.0)] = UNSET
    """RC: side of the cached image from which crops are taken, as a multiple of the encoder's store_side. Text: the 256×256
    image; VSE∞ not mentioned. Code: the original pixels; here a larger cached image replaces them, without the finest detail. VSE∞
    has crops of .6 to 1 of a side; here all are of .8."""
    exif_orientation: Literal["ignored", "applied"] = UNSET
    """EXIF orientation of photographs (turned or mirrored): ignored or applied. For your own pictures (`captions_csv`) it is always
    applied. Text: not mentioned. Code: ignored."""
    corners: Literal["image", "square"] = UNSET
    """10C: corners of the whole image, or of its central square; equal for squashed images. Text: not mentioned. Code: for
    published features the whole image with its aspect ratio, as in the order embeddings' extractor."""
    flip: bool = UNSET
    """RC: mirror half of the crops. Text: not mentioned. Code: horizontally, half of the time; VSE∞ too."""
    vocabulary: Literal["own_training", "all_splits"] = UNSET
    """Captions whose words are counted. Text: not mentioned. Code: all splits of raw data, test included (its README advises
    against it); training and validation with the precomputed features, and in VSE∞."""
    vocabulary_threshold: Count = UNSET
    """How often a word must occur to be in the vocabulary. Text: not mentioned. Code: 4."""
    frozen_mode: Mode = UNSET
    """Mode of a frozen encoder with RC. legacy-master: training mode until the first validation of each epoch; legacy-python3:
    in every step. Text: frozen. Code: branch `master`: training mode until the first validation of each epoch; branches
    `python3` and `pytorch4.1`: in every step. In training mode dropout is active and batch normalisation's statistics change. VSE∞: eval."""
    finetuned_mode: Mode = UNSET
    """Mode of a fine-tuned encoder's dropout and batch normalisation; same values as frozen_mode. Text: not mentioned. Code: as for a
    frozen encoder; VSE∞ eval."""
    image_features: Literal["computed", "precomputed_if_given"] = UNSET
    """1C, 10C and regions: features computed from the images, or the published ones if their folder is given. Text: computed from the
    images; VSE∞ regions of BUTD. Code: the published files of precomputed features; VSE∞ too."""
    seeds: Seeds | None = UNSET
    """One training per seed; null: the seeds of config.yaml; []: not trained, and its rows say so."""


def _keys_of(declaration: type, *names: str) -> dict[str, Any]:
    """Fields of a declaration as keys that a layer may leave out; some of them, or all."""
    hints = typing.get_type_hints(declaration, include_extras=True)
    chosen = names or [field.name for field in dataclasses.fields(declaration)]
    keys = {Component: ComponentKeys, Component | None: ComponentKeys | None}
    return {name: (keys.get(hints[name], hints[name]), UNSET) for name in chosen}


# What a run's spec has is declared there.
_WithSpec: Any = create_model(
    "_WithSpec",
    __base__=_EntryKeys,
    **_keys_of(spec.ModelSpec),
    **_keys_of(spec.RunSpec, "loss", "optimiser", "legacy_steps", "rc_features", "precision", "draw"),
    **_keys_of(spec.ScheduleSpec),
    **_keys_of(spec.SizeAugmentationSpec),
)


class RunKeys(_WithSpec):
    """One entry of a `runs.yaml`, or a layer's changes to it."""


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
    """Modules of vsepp.truths that say what is correct in its test set besides own captions."""


class CorpusKeys(_Model):
    """In a preset: the data set of a role. In a fidelity: the number of its validation images."""

    dataset: str = UNSET
    """An entry of datasets.yaml."""
    validation_images: Count | None = UNSET
    """Number of validation images, from the first; null: all. Text: 5,000 images of COCO, 1,000 of Flickr30K. Code: the first 1,000
    images of COCO (5,000 captions), all 1,014 of Flickr30K."""
    published_validation_images: Count | None = UNSET
    """The same, for runs on published features. Text: the same. Code: the first 1,000 images (5,000 captions) of the published
    files, for Flickr30K too."""
    first_images: dict[SplitName, Count] = UNSET
    """Split → how many images to keep, from the first, after all checks: to try a preset on a part of its data."""
    leave_out: list[str] = UNSET
    """Ids of images to leave out, after all checks, such as photographs that cannot be decoded."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class EncoderKeys(spec.EncoderKeys):
    """The network of an encoder role."""

    title: str
    """Name on pages."""

    @model_validator(mode="after")
    def _fits_its_family(self) -> EncoderKeys:
        if mistakes := mistakes_in("image encoder", self.family):
            raise ValueError("; ".join(what for _, what in mistakes))
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
    """Keep feature caches of random crops (tapes) after the last training that reads them."""
    runs_per_gpu: Count = 2
    """How many trainings on features or a feature cache share a GPU; a job with an encoder takes a whole GPU. A step of such a
    training computes about 40 GFLOP, less than a millisecond on a GPU, but launches hundreds of small kernels, which takes a
    few milliseconds: two trainings use the GPU better than a single training and need little memory. Measure with benchmarks/measure.py
    --only 'sharing*'. The pairs/s in history.csv then refer to a shared GPU."""
    checkpoint_seconds: Annotated[float, Field(ge=0.0)] = 60.0
    """Shortest time between two checkpoints of a training; 0: a checkpoint after each step."""
    data_on: Literal["auto", "device", "mapped"] = "auto"
    """Where images and features are read from. device: the GPU's memory. mapped: their files. auto: the GPU's
    memory if they fit, otherwise their files."""


class PresetFile(_Model):
    """A file of `params/presets/`."""

    title: str
    """Name of the preset's data on the pages."""
    data_note: str
    """Part of every caption; empty for the paper's own data."""
    corpora: dict[Role, CorpusKeys | None]
    """Role → data set; null: the role's runs are left out."""
    encoders: dict[Role, EncoderKeys | None]
    """Role → network; null: the role's runs are left out."""
    evaluation: EvaluationKeys
    components: Defaults = {}
    runs: dict[str, RunKeys] = {}
    tables: dict[Name, list[str]] = {}
    """Paper → tables and figures of its report, in order; papers without an entry have all of them."""
    resources: ResourceKeys
    scenes: spec.ScenesSpec | None = None
    pretraining: spec.PretrainingSpec | None = None


class FidelityFile(_Model):
    """A file of `params/fidelity/`."""

    runs: dict[str, RunKeys] = {}
    corpora: dict[Role, CorpusKeys] = {}
    components: Defaults = {}


class PaperFidelity(_Model):
    """One side of a paper's `fidelity.yaml`."""

    runs: dict[str, RunKeys] = {}
    """Entries of this paper's runs.yaml."""
    components: Defaults = {}


class PaperFidelityFile(_Model):
    """A paper's `fidelity.yaml`: values for its own runs and their components under each fidelity."""

    paper: PaperFidelity
    code: PaperFidelity


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
    archives: str | None = None
    """Your own folder of raw files, searched before anything is downloaded."""
    serif: bool = False
    """Set figures in a serif font, like the paper."""


class RowKeys(_Model):
    """A row of this table only, or a published row filled by a shared run."""

    run: str | Annotated[list[str], Field(min_length=1)]
    """Id of a run; of several runs the row shows the one with the highest rsum on validation."""
    protocol: Protocol
    row: str | None = None
    """The published row to compare with, if any."""
    label: str | None = None
    """Label of the row; by default made from the run."""

    @property
    def runs(self) -> tuple[str, ...]:
        """The run, or all of which one is shown."""
        return (self.run,) if isinstance(self.run, str) else tuple(self.run)


class TableGroup(_Model):
    """Rows of a table below one heading."""

    heading: str
    rows: Annotated[list[str | RowKeys], Field(min_length=1)]
    """Published rows by number, or your own rows."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TableKeys(TableEntry):
    """One table of a `tables.yaml`."""

    groups: Annotated[list[TableGroup], Field(min_length=1)]

    @property
    def rows(self) -> list[str | RowKeys]:
        """Rows, group after group."""
        return [row for group in self.groups for row in group.rows]


def in_order(runs: list[str] | dict[int, str]) -> list[str]:
    """Run ids as an entry lists them, or by size."""
    return [runs[size] for size in sorted(runs)] if isinstance(runs, dict) else runs


def sizes_of(runs: list[str] | dict[int, str]) -> tuple[int, ...]:
    """Sizes that runs stand for, ascending; none where they are a list."""
    return tuple(sorted(runs)) if isinstance(runs, dict) else ()


@dataclass(frozen=True, config=STRICT, kw_only=True)
class FigureKeys(FigureEntry):
    """One figure of a `tables.yaml`."""

    kind: FigureKind
    """A module of vsepp.reporting.figures, with its options. The plot of all gaps needs no entry."""
    runs: list[str] | dict[Count, str] = dataclasses.field(default_factory=list)
    """Run ids. negative_set: size of the negative set → run id. examples: two run ids. differences: two run ids a label."""
    losses: list[Loss] = dataclasses.field(default_factory=list)
    """For constellations and weights: modules of vsepp.losses, with their options."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> FigureKeys:
        name = self.kind.name
        kind = kind_of(name)
        given = {field.name for field in dataclasses.fields(self) if getattr(self, field.name)}
        if extra := sorted(given - {*SHARED} - kind.needs - kind.takes):
            raise ValueError(f"a figure of kind {name} takes no {', '.join(extra)}")
        if missing := sorted(kind.needs - given - self.kind.options.keys()):
            raise ValueError(f"a figure of kind {name} needs {', '.join(missing)}")
        known = COMPARED if kind.shows_training else SCORES
        if unknown := [metric for metric in self.metrics if metric not in known]:
            raise ValueError(f"metrics: got {unknown[0]!r}; a figure of kind {name} shows {', '.join(known)}")
        if kind.most_metrics and len(self.metrics) > kind.most_metrics:
            raise ValueError(
                f"metrics: a figure of kind {name} shows {kind.most_metrics}, got {len(self.metrics)}"
            )
        if isinstance(self.runs, dict) is not (kind.runs == "by_size") and self.runs:
            expected = "size → run id" if kind.runs == "by_size" else "a list of run ids"
            raise ValueError(f"runs: expected {expected}, as a figure of kind {name} has")
        if kind.runs == "pair" and len(self.drawn) != 2:
            raise ValueError(f"runs: a figure of kind {name} names two runs")
        if kind.runs == "pairs" and len(self.drawn) != 2 * len(self.labels):
            raise ValueError(
                f"runs: a figure of kind {name} names two runs a label, got {len(self.drawn)} runs and "
                f"{len(self.labels)} labels"
            )
        for loss in self.losses:
            if missing := [key for key in kind.losses_need if key not in all_options("loss", loss)]:
                raise ValueError(
                    f"losses: loss {loss.name} has no option `{missing[0]}`, which a figure of kind {name} draws"
                )
        return self

    @property
    def drawn(self) -> list[str]:
        """Run ids in the order of the labels, or of the sizes."""
        return in_order(self.runs)

    @property
    def named(self) -> list[str]:
        """All run ids, the baseline's too."""
        return [*self.drawn, *([self.baseline] if self.baseline else [])]


class TablesFile(_Model):
    """A paper's `tables.yaml`."""

    paper: PaperSpec
    titles: dict[Role, str]
    """Role → the paper's name."""
    default_encoder: Role
    """Encoder that row labels omit."""
    columns: list[Column]
    tables: dict[str, TableKeys]
    figures: dict[str, FigureKeys]

    @property
    def own_rows(self) -> list[RowKeys]:
        """Rows of all tables that are no published rows alone."""
        rows = (row for table in self.tables.values() for row in table.rows)
        return [row for row in rows if isinstance(row, RowKeys)]


class _ClaimKind(NamedTuple):
    """What a claim of a kind names beside its metrics; `vsepp.reporting.claims` judges each kind."""

    needs: tuple[str, ...] = ("protocol",)
    takes: tuple[str, ...] = ()
    runs: int = 2
    of_validation: bool = False


_CURVES = _ClaimKind(needs=(), takes=("epochs",), of_validation=True)
_CLAIMS = {
    "difference": _ClaimKind(takes=("sign", "at_most", "row")),
    "difference_of_differences": _ClaimKind(takes=("sign",), runs=4),
    "no_difference": _ClaimKind(),
    "best_value": _ClaimKind(needs=("protocol", "best"), of_validation=True),
    "crossing": _CURVES,
    "overfitting": _CURVES,
    "start": _CURVES._replace(takes=("epochs", "sign")),
}
_OF_SOME_CLAIMS = {key for kind in _CLAIMS.values() for key in (*kind.needs, *kind.takes)}


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ClaimKeys(ClaimEntry):
    """One claim of a `claims.yaml`."""

    runs: list[str] | dict[Count, str]
    """Run ids, the claim's subject first: a, b or, for differences of differences, a, b, c, d; for best_value, size → run id."""
    published: Annotated[dict[AveragedMetric, float | None], Field(min_length=1)]
    """Metric → the paper's effect in points, or its epoch; null if the paper prints no number."""
    row: str | None = None
    """For a difference: the row of published.csv that one run is compared with."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> ClaimKeys:
        kind = _CLAIMS[self.kind]
        for field in dataclasses.fields(ClaimKeys):
            given = getattr(self, field.name) != field.default
            if given and field.name in _OF_SOME_CLAIMS - {*kind.needs, *kind.takes}:
                raise ValueError(f"{field.name}: a claim of kind {self.kind} has none")
            if not given and field.name in kind.needs:
                raise ValueError(f"{field.name}: a claim of kind {self.kind} has one")
        unknown = [metric for metric in self.published if metric not in COMPARED]
        if unknown and kind.of_validation:
            raise ValueError(
                f"published: a claim of kind {self.kind} looks at validation, which has no {unknown[0]}; expected "
                f"{', '.join(COMPARED)}"
            )
        if self.best:
            sizes = self.runs if isinstance(self.runs, dict) else {}
            inside = [size for size in sizes if self.best[0] <= size <= self.best[1]]
            if not inside or len(inside) == len(sizes):
                raise ValueError("runs: expected size → run, some between the sizes of `best` and some not")
        elif not isinstance(self.runs, list) or len(self.runs) != (number := 1 if self.row else kind.runs):
            raise ValueError(f"runs: expected {number} in this claim of kind {self.kind}")
        compared = [self.named] if self.best else [self.named[:2], self.named[2:]]
        for runs in compared:
            if twice := next((run for run in runs if runs.count(run) > 1), None):
                raise ValueError(f"runs: {twice} is compared with itself; name another run")
        if self.named[:2] == self.named[2:]:
            raise ValueError("runs: a difference is compared with itself; name other runs")
        return self

    @property
    def named(self) -> list[str]:
        """Run ids, by size where they have one."""
        return in_order(self.runs)


class ClaimsFile(_Model):
    """A paper's `claims.yaml`: id → claim."""

    claims: dict[Name, ClaimKeys]


class RunsFile(_Model):
    """A paper's `runs.yaml`: id → entry."""

    runs: dict[Name, RunKeys]


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
