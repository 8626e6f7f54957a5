"""What one invocation computes: ONE table of artefacts, which all rules and commands look up.

Artefacts that several variants share (corpora, stores, encoders, features) carry a digest of the parameters that
made them in their name, so that changed parameters make a new one and overwrite nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vsepp.base.declared import FOLDS
from vsepp.base.files import is_there
from vsepp.base.spec import RunSpec, SourceSpec, seeded
from vsepp.pipeline.parameters import Parameters
from vsepp.pipeline.step import Artefact, behind, owner_of
from vsepp.reporting.studies import Study, study_of

DOWNLOADS = Path("resources") / "downloads"
"""Where files are fetched to, relative to the working folder."""


@dataclass(frozen=True)
class SourceFile:
    """A raw file that something reads, and where it is."""

    spec: SourceSpec
    path: Path
    """Where it is, or will be fetched to."""
    own: bool
    """Whether it was found in the user's own folder, under its name or a name that its source accepts."""


def raw_file(parameters: Parameters, name: str) -> SourceFile:
    """Where a raw file is or will be: in the user's own folder if it is there, else among the downloads."""
    keys = parameters.sources.get(name)
    spec = SourceSpec(name, **vars(keys) if keys else {})
    own = in_archives(parameters, name, *spec.accepts)
    return SourceFile(spec, own or DOWNLOADS / name, own is not None)


def in_archives(parameters: Parameters, *names: str) -> Path | None:
    """Path of the first of these files in the user's own folder; `None` if none is there."""
    archives = parameters.settings.archives
    return next((path for name in names if archives and is_there(path := Path(archives) / name)), None)


@dataclass(frozen=True)
class Model:
    """What is evaluated: a run that is trained here, a checkpoint that the authors released, or an ensemble of two runs."""

    specs: Mapping[int, RunSpec]
    """Seed → spec."""
    protocols: tuple[str, ...]
    recorded: frozenset[int] = frozenset()
    """Seeds with a kept record: they are not trained again."""
    released: str | None = None
    """Run that a released checkpoint is a training of; `None` for any other model."""
    ensemble: tuple[str, ...] = ()
    """Two runs whose scores an ensemble averages; empty for any other model."""

    @property
    def trained(self) -> bool:
        """Whether it is trained here."""
        return self.released is None and not self.ensemble

    @property
    def spec(self) -> RunSpec:
        """The spec of the first seed, for all that does not depend on the seed."""
        return next(iter(self.specs.values()))


@dataclass(frozen=True)
class Plan:
    """What one invocation computes."""

    parameters: Parameters
    files: dict[str, SourceFile]
    """Name → raw file, the user's own files included."""
    models: dict[str, Model]
    table: dict[tuple[str, str], Artefact]
    """Kind and name → artefact, in the order of making."""

    def of_kind(self, kind: str) -> dict[str, Artefact]:
        """Name → artefact of a kind."""
        return {name: artefact for (of, name), artefact in self.table.items() if of == kind}

    def owner(self, path: Path) -> Artefact | None:
        """As `owner_of`, among the artefacts of the plan."""
        return owner_of(path, self._by_folder)

    def behind(self, artefact: Artefact) -> Collection[Artefact]:
        """All artefacts that an artefact is made from, directly or indirectly."""
        return behind(artefact, self._by_folder).values()

    def needed(self, ends: Iterable[Artefact] = ()) -> list[Artefact]:
        """`ends`, by default the evaluations of all models, and all artefacts that they are made from."""
        needed: set[Artefact] = set()
        for end in ends or self.of_kind("evaluation").values():
            needed |= {end, *self.behind(end)}
        return [artefact for artefact in self.table.values() if artefact in needed]

    @cached_property
    def _by_folder(self) -> dict[Path, Artefact]:
        return {artefact.folder: artefact for artefact in self.table.values()}

    def test_images(self, corpus: Artefact) -> int:
        """Smallest number of test images with which all folds of a corpus's evaluations are full."""
        evaluations = (
            made for made in self.of_kind("evaluation").values() if made.inputs["corpus"] == corpus.folder
        )
        return max(
            (
                FOLDS.get(name, 0) * made.spec.fold_size
                for made in evaluations
                for name in made.spec.protocols
            ),
            default=0,
        )

    @property
    def seeds(self) -> list[int]:
        """Seeds of all runs together."""
        trained = [model.specs for model in self.models.values() if model.trained]
        return sorted(set().union(*trained)) or list(self.parameters.settings.seeds)

    @property
    def expected(self) -> Path:
        """File of the expected values of this variant's scores, if there are any."""
        return expected_of(self.parameters)

    @property
    def study(self) -> Study:
        """Records of this variant's models."""
        return study_of_variant(self.parameters)

    def folders(self, model: str, seed: int) -> tuple[Path, Path]:
        """Folder of the training, and folder of the evaluation, of a model that has no record."""
        evaluation = self.table["evaluation", seeded(model, seed)]
        return evaluation.inputs["run"], evaluation.folder

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
        """Folder of the artefacts that the variants of the preset share, relative to the working folder."""
        return Path("results") / self.preset

    @property
    def variant_results(self) -> Path:
        """Folder of the variant's runs and their evaluations."""
        return self.results / self.variant

    @property
    def reports(self) -> Path:
        """Folder of the variant's reports, one a paper."""
        return Path("reports") / self.preset / self.variant


def expected_of(parameters: Parameters) -> Path:
    """File of the expected values of a variant's scores, if there are any, below `docs` beside the folder of parameters."""
    preset, variant = parameters.settings.preset, parameters.variant
    study = preset if variant == "paper" else f"{preset}-{variant}"
    return parameters.folder.parent / "docs/results" / study / "expected.csv"


def study_of_variant(parameters: Parameters) -> Study:
    """Records of a variant's models, beside its expected values."""
    return study_of(expected_of(parameters).parent)
