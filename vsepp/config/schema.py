"""What every key of `params/` accepts. The JSON schema and the error messages come from these models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Dataset = Literal["coco", "flickr"]
EncoderRole = Literal["vgg", "resnet"]
Protocol = Literal["1K", "5x1K", "5K"]
Trainset = Literal["1C", "10C", "RC", "1C+rV", "10C+rV", "RC+rV"]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
Seed = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.+-]*$")]
Channels = tuple[float, float, float]


def _key(description: str, **limits: Any) -> Any:
    """A key that a layer may leave out; the resolved run must have it."""
    return Field(default=None, description=description, **limits)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunKeys(_Model):
    """One entry of `runs.yaml`, or a layer's changes to it."""

    base: str | list[str] = _key("entry or entries to inherit from; of several, the later wins")
    abstract: bool = _key("only inherited from, never trained")
    feeds: dict[str, Protocol] = _key("row of the paper's tables → protocol under which this run fills it")
    protocols: list[Protocol] = _key("further protocols to evaluate under")
    system: Literal["VSE0", "VSE++", "Order0", "Order++"] = _key("what the paper calls the system")
    dataset: Dataset = _key("the role of the corpus; the preset says which data plays it")
    trainset: Trainset = _key("crops in training (1C, 10C, RC), +rV with the restval images of COCO")
    encoder: EncoderRole = _key("the role of the image encoder; the preset says which network plays it")
    finetune_from: str | None = _key(
        "frozen run whose best snapshot this run starts from; null keeps the encoder frozen"
    )
    resize: Literal["squash", "short_side"] = _key(
        "to a square, losing the aspect ratio, or the short side and a centred square"
    )
    random_crop: Literal["crop", "resized_crop"] = _key(
        "RC: one random window, or one of random scale and aspect"
    )
    train_store_scale: float = _key(
        "RC: side of the stored image that crops are taken from, relative to the encoder's store_side",
        ge=1.0,
        le=8.0,
    )
    flip: bool = _key("RC: mirror half of the crops")
    vocabulary: Literal["own_training", "all_splits"] = _key("captions that words are counted in")
    vocabulary_threshold: Positive = _key("times a word must be seen to be known")
    text_encoder: Literal["gru"] = _key("a module of vsepp.models.text")
    word_dim: Positive = _key("size of the word embeddings")
    text_dim: Positive = _key("D_ψ, size of the GRU's state")
    joint_dim: Positive = _key("D, size of the joint space")
    caption_projection: bool = _key("a linear map W_g after the text encoder (Eq. 2)")
    image_bias: bool = _key("a bias in the image map W_f (Eq. 1)")
    normalise_features: bool = _key("L2-normalise the CNN's feature before W_f")
    normalise_images: bool = _key(
        "L2-normalise the image embedding; false makes the similarity a dot product"
    )
    absolute: bool = _key("absolute values of both embeddings")
    similarity: Literal["dot", "order"] = _key("a module of vsepp.similarity")
    order_form: Literal["squared", "root"] = _key("−‖max(0, g−f)‖² or −‖max(0, g−f)‖")
    loss: Literal["sum_of_hinges", "max_of_hinges"] = _key(
        "a module of vsepp.losses: SH (Eq. 5) or MH (Eq. 6)"
    )
    margin: PositiveFloat = _key("α of Eqs. 5 and 6")
    negative_set: Annotated[int, Field(ge=2)] | None = _key(
        "pairs among which negatives are sought (Section 3.6); null is the batch"
    )
    mask_same_image: bool = _key("leave captions of the query's own image out of the negatives")
    curriculum: Fraction = _key("fraction of the epochs trained with SH before the loss above (Section 3.5)")
    batch_size: Annotated[int, Field(ge=2)] = _key("pairs per step")
    epochs: Positive = _key("passes over all training pairs")
    learning_rate: PositiveFloat = _key("of Adam, at the start")
    drop_at: Fraction = _key("fraction of the epochs after which the rate falls; 1 never")
    drop_factor: PositiveFloat = _key("what the rate is multiplied with then", le=1.0)
    clip_norm: PositiveFloat = _key("largest global L2 norm of the gradient")
    frozen_mode: Literal["eval", "legacy"] = _key(
        "mode of a frozen encoder under RC; legacy: training mode until the first validation of every epoch"
    )
    finetuned_mode: Literal["eval", "legacy"] = _key(
        "mode of a fine-tuned encoder's dropout and batch normalisation"
    )
    legacy_steps: Positive = _key(
        "steps between two validations of the released code, counted over the whole training"
    )
    rc_features: Literal["tape", "inline"] = _key(
        "random-crop features of a frozen encoder: from the shared tape, or computed in the step"
    )
    draw: Seed = _key("which draw of random crops")


class DatasetKeys(_Model):
    """One entry of `datasets.yaml`."""

    title: str
    reader: Literal["coco", "karpathy", "flickr8k"]
    files: dict[str, str]
    generator: Literal["coco", "flickr"] | None = Field(
        default=None, description="layout that the scene generator writes; null for real data"
    )
    captions_per_image: Positive | None = None
    surplus_captions: Literal["drop", "error"] = "error"
    expected_images: dict[Literal["train", "restval", "val", "test"], Positive] = {}
    licence: str
    citation: str


class CorpusKeys(_Model):
    """Which data plays a role, in a preset, and how much of it validates, in a fidelity."""

    dataset: str = _key("an entry of datasets.yaml")
    validation_images: Positive | None = _key("validate on at most the first so many images; null takes all")


class EncoderKeys(_Model):
    """Which network plays an encoder's role."""

    title: str
    architecture: str = Field(pattern=r"^(mini|torchvision|lite)/[a-z0-9_]+$", description="family/name")
    weights: str = Field(description="scenes, torchvision/<name of weights>, pip, random, or a file")
    input_size: Positive = Field(description="side of the crop it sees, pixels")
    store_side: Positive = Field(description="side of the resized image that crops are taken from, pixels")
    mean: Channels = Field(description="of its input, per channel on a 0–1 scale")
    std: Channels = Field(description="of its input, per channel on a 0–1 scale")


class EvaluationKeys(_Model):
    """Evaluation."""

    fold_size: Positive = Field(description="images of a fold: the 1K of protocol 1K and 5x1K")


class ScenesKeys(_Model):
    """The generator of the embedded corpus."""

    seed: Seed
    side: Positive = Field(description="side of a rendered image, pixels")
    images: dict[Dataset, dict[Literal["train", "restval", "val", "test"], Positive]]
    settings: dict[str, float] = Field(
        description="probabilities and counts of the renderer and the grammar, see vsepp/scenes"
    )


class PretrainingKeys(_Model):
    """Supervised training of the mini encoders on labelled scenes."""

    seed: Seed
    images: Positive
    side: Positive
    epochs: Positive
    batch_size: Positive
    learning_rate: PositiveFloat


class ResourceKeys(_Model):
    """What a job may take. No result depends on these beyond the last bits of floating point."""

    threads: Positive = Field(description="cores of a training job on a machine without GPU")
    memory_mb: Positive = Field(description="memory declared for the jobs with tensors, MB")
    keep_tapes: bool = Field(description="keep tapes of random-crop features after their last reader")


class PresetFile(_Model):
    """A file of `params/presets/`."""

    title: str = Field(description="what pages call the preset's data")
    data_note: str = Field(description="said in every caption; empty for the paper's own data")
    corpora: dict[Dataset, CorpusKeys]
    encoders: dict[EncoderRole, EncoderKeys]
    evaluation: EvaluationKeys
    runs: dict[str, RunKeys] = {}
    tables: list[str] = Field(description="tables and figures of the report, in order")
    resources: ResourceKeys
    scenes: ScenesKeys | None = None
    pretraining: PretrainingKeys | None = None


class FidelityFile(_Model):
    """A file of `params/fidelity/`."""

    runs: dict[str, RunKeys]
    corpora: dict[Dataset, CorpusKeys]


class Settings(_Model):
    """`params/config.yaml`."""

    preset: Name
    fidelity: Literal["paper", "code"]
    seeds: Annotated[list[Seed], Field(min_length=1)]
    label: Name | None = None
    only: list[str] | None = Field(default=None, description="patterns of run ids to train")
    archives: str | None = Field(
        default=None, description="folder looked into for raw files before resources/"
    )


class TableGroup(_Model):
    """Rows of a table below one heading."""

    heading: str
    rows: Annotated[list[str], Field(min_length=1)]


class TableKeys(_Model):
    """One table of `tables.yaml`."""

    title: str
    caption: str
    dataset: Dataset
    trainset: bool = Field(description="a column that names each row's training set")
    groups: Annotated[list[TableGroup], Field(min_length=1)]


class FigureKeys(_Model):
    """One figure of `tables.yaml`."""

    kind: Literal["curves", "negative_set"]
    title: str
    caption: str
    dataset: Dataset
    metrics: Annotated[list[str], Field(min_length=1)] = Field(description="a panel each, such as i2t_r1")
    runs: list[str] | dict[Positive, str] = Field(description="run ids, or size of the negative set → run id")
    labels: list[str] = Field(description="of the runs; for negative_set of the line and of the baseline")
    baseline: str | None = Field(default=None, description="run drawn as a horizontal line")
    protocol: Protocol | None = Field(default=None, description="of the metrics, for negative_set")


class TablesFile(_Model):
    """`params/tables.yaml`."""

    titles: dict[str, str] = Field(description="role → what the paper calls it")
    default_encoder: EncoderRole = Field(description="encoder that a row's label does not name")
    columns: list[Literal["r1", "r5", "r10", "medr"]]
    tables: dict[str, TableKeys]
    figures: dict[str, FigureKeys]


class RunsFile(_Model):
    """`params/runs.yaml`: id → entry."""

    runs: dict[Name, RunKeys]


class DatasetsFile(_Model):
    """`params/datasets.yaml`: name → entry."""

    datasets: dict[Name, DatasetKeys]
