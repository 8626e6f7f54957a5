"""What a run is: a model, the schedule of its training, its loss, and the data that it reads;
and its evaluation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from vsepp.base.declared import (
    PROTOCOLS,
    STRICT,
    Count,
    Crops,
    Fraction,
    PositiveFloat,
    Precision,
    Role,
    Seed,
    SplitName,
)
from vsepp.base.spec import Component, CropSpec, EncoderSpec, StoreSpec, VocabularySpec

Mode = Literal["eval", "legacy-master", "legacy-python3"]

COMPONENTS = {
    "similarity": "similarity",
    "text": "text encoder",
    "image_head": "image head",
    "image_pooling": "pooling",
    "caption_pooling": "pooling",
    "matcher": "matcher",
    "loss": "loss",
    "optimiser": "optimiser",
}
"""Key of a run → the kind of component that it names."""


def _components(spec: Any) -> list[tuple[str, str]]:
    """Kind and name of the components that a spec names."""
    named = ((kind, getattr(spec, key, None)) for key, kind in COMPONENTS.items())
    return [(kind, component.name) for kind, component in named if component]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ScheduleSpec:
    """Optimisation. Section 3.2 of the paper."""

    batch_size: Annotated[int, Field(ge=2)]
    """Pairs (queries) per step. Text: 128. Code: the same."""
    epochs: Count
    """Passes over all training pairs. Text: 30; fine-tuning 15. Code: 30, its default."""
    learning_rate: PositiveFloat
    """Initial learning rate. Text: .0002; Order0 .001; fine-tuning .00002. Code: the same."""
    drop_at: Fraction
    """Fraction of the epochs after which the learning rate drops; 1: never. Text: after 15 of 30 epochs;
    fine-tuning never. Code: after 15 epochs, fine-tuning too."""
    drop_factor: Annotated[float, Field(gt=0.0, le=1.0)]
    """Factor of the learning rate's drop. Text: .1. Code: the same."""
    clip_norm: PositiveFloat | None
    """Largest global L2 norm of the gradient; null: any. Text: not mentioned. Code: 2; X-VLM none."""
    negative_set: Annotated[int, Field(ge=2)] | None = None
    """Size of the negative set: pairs among which negatives are searched (Section 3.6); null: the batch."""
    patience: Annotated[int, Field(ge=1)] | None = None
    """Epochs without a higher rsum on validation after which training ends; null:
    never. Text, code: never."""
    encoder_frozen_epochs: Annotated[int, Field(ge=0)] = 0
    """First epochs in which an image encoder inside the model is not trained; its mode is encoder_mode's.
    Without an encoder in the model they only delay warmup. Text: 0; VSE∞ 1. Code: 0; VSE∞ 1 with grids."""
    warmup: Fraction = 0.0
    """Fraction of all steps, from the end of encoder_frozen_epochs, in which step i (from 0) of n has i/n of
    the learning rate, or of the loss; 0: none. Text: none; VSE∞ from its second epoch. Code: none; VSE∞ one
    epoch, its second, with grids; X-VLM .1."""
    warmup_of: Literal["rate", "loss"] = "rate"
    """What warmup multiplies; the loss is recorded as it is without. Text: none; VSE∞ the learning rate.
    Code: none; VSE∞ the loss, before its gradient is clipped; X-VLM the learning rate."""
    linear_decay: bool = False
    """After warmup, the learning rate also falls linearly with the steps, to 0 at the end of the last epoch.
    Text, code: no; X-VLM yes."""
    embedded_at_once: Count | None = None
    """Pairs whose encoders' intermediate values are held at a time. More of a step are embedded in parts,
    twice: for the loss, and again for the gradient. Then its memory hardly grows with the batch, and dropout
    is drawn part by part; null: all. Text, code: all."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class SizeAugmentationSpec:
    """What a training step leaves out of images and captions (VSE∞, Section 4.3). Text,
    code of VSE++: nothing."""

    drop_vectors: Fraction = 0.0
    """Share of an image's vectors (regions, cells of a grid) left out of a training step; one is kept at
    least. Text, code: 0."""
    drop_vectors_by: Literal["vector", "image"] = "vector"
    """`vector`: each vector with this probability; `image`: with a probability drawn for each image: of its
    uniform u none where u is at most .2, else drop_vectors × u, as VSE∞'s code does for grids. Text: none;
    VSE∞ each vector alike. Code: none; VSE∞ of grids with a share that is drawn for each image."""
    drop_words: Fraction = 0.0
    """Share of a caption's words changed in a training step; one is kept at least. Text, code: 0."""
    drop_words_by: Literal["deletion", "mask", "mask_any"] = "deletion"
    """`deletion`: a word is left out; `mask`: it becomes `<mask>` (50 %), another word (10 %) or is left out
    (40 %); `mask_any`: so do `<start>` and `<end>`, and any token may replace one. Text: none; VSE∞ a word is
    deleted. Code: none; VSE∞ masked (50 %), another word (10 %) or deleted (40 %), with the BiGRU `<start>`
    and `<end>` too."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class ModelSpec:
    """The joint embedding of Eqs. 1–3."""

    text: Component
    """Text encoder, a module of vsepp.models.text, with its options; `dim` is D_ψ, the size of its state.
    Text: GRU; word embeddings of 300, a state of 1024. Code: the same."""
    joint_dim: Count
    """D, size of the joint space. Text: 1024. Code: the same."""
    caption_projection: bool
    """A linear map W_g after the text encoder (Eq. 2); without it D_ψ must equal D. Text: a linear map after
    the GRU. Code: none: the GRU's output is the embedding."""
    caption_bias: bool = False
    """A bias in W_g, where there is one. Text: none in Eq. 2. Code: no W_g; X-VLM a bias."""
    image_bias: bool
    """A bias in the image map W_f (Eq. 1). Text: none in Eq. 1. Code: a bias."""
    normalise_features: bool
    """L2-normalise the CNN's feature before W_f. Text: not mentioned. Code: normalised before the map."""
    normalise_images: bool
    """L2-normalise the image embedding; false makes the similarity a dot product. Text: all but VSE0. Code:
    the same."""
    absolute: bool
    """Absolute values of both embeddings. Text: only Order0. Code: the same."""
    similarity: Component
    """A module of vsepp.models.similarity, with its options."""
    image_head: Component = Component("linear")
    """A module of vsepp.models.heads, with its options: maps an image's feature into the joint space. Text: a
    linear map W_f (Eq. 1); VSE∞ not mentioned. Code: the same; VSE∞ with BERT batch normalisation of regions
    on each of four GPUs."""
    image_pooling: Component | None = None
    """A module of vsepp.models.poolings, with its options: maps an image's set of vectors, each through the
    image head, to one; null: an image is one vector. Text: an image is one vector. Code: the same."""
    caption_pooling: Component | None = None
    """The same of the states of a caption's tokens; null: the text encoder gives one state. Text: the GRU's
    last state. Code: the same."""
    matcher: Component | None = None
    """A module of vsepp.models.matchers, with its options: scores whether an image and a caption belong
    together, from the image's vectors and the states of the caption's tokens before their poolings; it
    re-ranks the best of the embeddings. null: embeddings alone rank. Text, code: none; X-VLM a fusion of
    cross-attention layers."""

    @property
    def components(self) -> list[tuple[str, str]]:
        """Kind and name of its components."""
        return _components(self)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class TrainingKeys:
    """Keys of a run's entry that its spec has as they stand, besides the keys of its parts."""

    system: str
    """The paper's name of the system: VSE0, VSE++, Order0 or Order++."""
    dataset: Role
    """The role of the corpus: a name used by papers, with data assigned by presets."""
    finetune_from: str | None
    """The frozen run whose best snapshot this run starts from; null keeps the encoder frozen."""
    loss: Component
    """A module of vsepp.losses, with its options. Text: MH (Eq. 6) or SH (Eq. 5); margin .2, Order0
    .05. Code: the same."""
    optimiser: Component = Component("adam")
    """A module of vsepp.training.optimisers, with its options. Text: Adam; VSE∞ AdamW, weight decay 10e-4.
    Code: the same; VSE∞ weight decay 1e-4, with BiGRU on regions .01."""
    legacy_steps: Count
    """legacy-master: steps between two validations in the released code, counted over the whole training.
    Text: not mentioned. Code: 500."""
    rc_features: Literal["tape", "inline"]
    """RC, frozen encoder: features of random crops computed once for all runs (a tape), or in
    each training step (inline)."""
    precision: Precision = "fp32"
    """Matrix products of a training step. fp32: IEEE. tf32: 10 bits of mantissa on a GPU's tensor cores, fp32
    elsewhere. bf16: autocast in the two encoders and their maps; on a GPU the GRU is in tf32. Weights,
    validation and ranked embeddings are always fp32."""
    draw: Seed
    """Crop seed: the seed of the random crops."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class RunSpec(TrainingKeys):
    """One trained model, for one seed."""

    id: str
    trainset: Crops
    restval: bool
    """Train on restval (rV) too."""
    encoder: EncoderSpec
    train_store: StoreSpec
    eval_store: StoreSpec
    crop: CropSpec
    vocabulary: VocabularySpec
    validation_images: Count | None
    """Number of validation images, from the first in file order; `None`: all."""
    model: ModelSpec
    schedule: ScheduleSpec
    encoder_mode: Mode
    """Mode of the encoder, as in the released code's branches. `legacy-master`: training mode until the first
    validation of each epoch; `legacy-python3`: in every step."""
    init_seed: Seed
    order_seed: Seed
    image_features: Literal["computed", "precomputed"] = "computed"
    """1C, 10C, regions: features computed here by the encoder, or published with the captions."""
    size_augmentation: SizeAugmentationSpec = SizeAugmentationSpec()

    @property
    def components(self) -> list[tuple[str, str]]:
        """Kind and name of the components that a training has besides the encoder's family."""
        return [*self.model.components, *_components(self)]

    @property
    def seeded_id(self) -> str:
        """Its name among the artefacts; see `seeded`. Published features in place of computed ones
        make another model."""
        published = "-published" * (self.image_features == "precomputed")
        return seeded(f"{self.id}{published}", self.init_seed)

    @property
    def finetuned(self) -> bool:
        """Whether the image encoder is trained."""
        return self.finetune_from is not None

    @property
    def live_encoder(self) -> bool:
        """Whether the encoder runs inside the model: it is trained, or its statistics
        change (legacy modes)."""
        return self.finetuned or (self.encoder_mode != "eval" and self.trainset == "RC")

    @property
    def reads(self) -> Literal["features", "tape", "inline", "live"]:
        """What a training step reads for its images.

        `features` under a fixed crop; random-crop features of a frozen encoder, from a `tape` or computed
        `inline` from the image store; or crops for a `live` encoder.
        """
        if self.live_encoder:
            return "live"
        return self.rc_features if self.trainset == "RC" else "features"

    @property
    def runs_encoder(self) -> bool:
        """Whether a training step runs the encoder, over crops of stored images."""
        return self.reads in ("inline", "live")

    @property
    def grid(self) -> bool:
        """Whether an image is the cells of the encoder's last map: of a crop, pooled inside the model."""
        return self.model.image_pooling is not None and self.trainset in ("1C", "RC")

    @property
    def eval_crop(self) -> CropSpec:
        """Validation and test crop: ten crops for 10C, the regions, else the centre."""
        kind: Literal["1C", "10C", "regions"] = "1C" if self.trainset == "RC" else self.trainset
        return CropSpec(kind, self.crop.size, corners=self.crop.corners)


@dataclass(frozen=True, config=STRICT)
class EvaluationSpec:
    """Ranks and recalls of a model's embeddings of a split."""

    run: RunSpec
    protocols: tuple[str, ...]
    fold_size: Count
    """Images per fold, the 1K of `1K` and `5x1K`."""
    split: SplitName = "test"
    ensemble: str = ""
    """Name of an ensemble, whose scores are the mean of the scores of `run` and `second`; empty: `run`
    alone is evaluated."""
    second: RunSpec | None = None

    @property
    def truths(self) -> tuple[str, ...]:
        """Protocols that are truths, modules of vsepp.evaluation.truths."""
        return tuple(name for name in self.protocols if name not in PROTOCOLS)


def seeded(run: str, seed: int) -> str:
    """Name of a model's artefact of one seed, which is also its folder below the folder of its kind."""
    return f"{run}/seed-{seed}"
