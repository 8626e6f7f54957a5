"""Every artefact of one invocation: its name, its spec and what it is made from. The Snakefile only looks up.

Artefacts that several variants share (corpora, stores, encoders, features) carry a digest of the parameters that
made them in their name, so that changed parameters make a new one and overwrite nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vsepp.config.resolve import Parameters
from vsepp.spec import (
    CorpusSpec,
    CropSpec,
    EncoderSpec,
    PretrainingSpec,
    RunSpec,
    ScenesSpec,
    SourceSpec,
    StoreSpec,
    VocabularySpec,
)

DOWNLOADS = Path("resources") / "downloads"
"""Where files are fetched to, relative to the working folder."""


@dataclass(frozen=True)
class SourceFile:
    """A raw file that something reads, and where it is."""

    spec: SourceSpec
    path: Path
    """Where it is, or will be fetched to."""
    own: bool
    """Found in the user's own folder, under its name or one that its source accepts."""


@dataclass(frozen=True)
class Tokens:
    """A corpus' captions as word ids of one vocabulary."""

    corpus: str
    vocabulary: VocabularySpec
    folder: Path
    """Where they lie, relative to the working folder."""
    released: str | None = None
    """The released checkpoint whose vocabulary this is; `None` where it is counted here."""


@dataclass(frozen=True)
class Store:
    """A corpus' decoded images."""

    corpus: str
    spec: StoreSpec


@dataclass(frozen=True)
class Features:
    """1C or 10C features of a store."""

    store: str
    encoder: str
    crop: CropSpec


@dataclass(frozen=True)
class Tape:
    """Random-crop features of a store, for every caption of `splits` and every epoch."""

    corpus: str
    store: str
    encoder: str
    crop: CropSpec
    draw: int
    splits: tuple[str, ...]
    epochs: int


@dataclass(frozen=True)
class Run:
    """A run's spec for each seed and the artefacts that it reads, by name; absent ones are None."""

    specs: Mapping[int, RunSpec]
    corpus: str
    tokens: str
    encoder: str | None
    features: str | None
    eval_features: str | None
    tape: str | None
    train_store: str | None
    eval_store: str | None
    protocols: tuple[str, ...]

    @property
    def spec(self) -> RunSpec:
        """The spec of the first seed, for all that does not depend on the seed."""
        return next(iter(self.specs.values()))


@dataclass(frozen=True)
class Released:
    """A checkpoint of the authors that is converted and evaluated like a run."""

    model: Run
    """What it is, as the run that it is a training of would be."""
    checkpoint: Path
    vocabulary: Path


@dataclass(frozen=True)
class Plan:
    """What one invocation computes."""

    parameters: Parameters
    files: dict[str, SourceFile]
    """Raw files by name, those of the user's own among them."""
    scenes: ScenesSpec | None
    scenes_folder: Path | None
    pretraining: PretrainingSpec | None
    corpora: dict[str, CorpusSpec]
    tokens: dict[str, Tokens]
    stores: dict[str, Store]
    encoders: dict[str, EncoderSpec]
    encoder_files: dict[str, Path]
    """Encoder → the file of its weights, where they come from one."""
    features: dict[str, Features]
    precomputed: dict[str, str]
    """Published features → the corpus whose raw files hold them."""
    tapes: dict[str, Tape]
    runs: dict[str, Run]
    released: dict[str, Released]
    """Checkpoints of the authors whose files are there."""

    @property
    def models(self) -> dict[str, Run]:
        """All that is evaluated: runs, and released checkpoints."""
        return {**self.runs, **{name: released.model for name, released in self.released.items()}}

    def seeds_of(self, model: str) -> list[int]:
        """Seeds of a run; a released checkpoint is one training, under the first of them."""
        return self.seeds if model in self.runs else self.seeds[:1]

    @property
    def downloads(self) -> dict[str, SourceFile]:
        """Files that are fetched, or lie where they would be fetched to."""
        return {name: file for name, file in self.files.items() if not file.own}

    @property
    def preset(self) -> str:
        """Name of the preset."""
        return self.parameters.settings.preset

    @property
    def variant(self) -> str:
        """Name of the variant: the fidelity, or the user's label."""
        return self.parameters.variant

    @property
    def results(self) -> Path:
        """Folder of what the variants of the preset share, relative to the working folder."""
        return Path("results") / self.preset

    @property
    def variant_results(self) -> Path:
        """Folder of the variant's runs and their metrics."""
        return self.results / self.variant

    @property
    def report(self) -> Path:
        """Folder of the variant's tables, figures and page."""
        return Path("reports") / self.preset / self.variant

    @property
    def seeds(self) -> list[int]:
        """Seeds of every run."""
        return list(self.parameters.settings.seeds)

    @property
    def pretrained(self) -> dict[str, EncoderSpec]:
        """Encoders whose weights are trained here, on scenes."""
        return {name: spec for name, spec in self.encoders.items() if spec.weights == "scenes"}
