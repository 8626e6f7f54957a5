"""What one invocation computes: ONE table of artefacts, which all rules and commands look up, and its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vsepp.base.files import is_there
from vsepp.base.run_spec import RunSpec, seeded
from vsepp.base.spec import SourceSpec
from vsepp.base.words import bytes_text
from vsepp.pipeline.parameters import Parameters
from vsepp.pipeline.step import Artefact
from vsepp.pipeline.table import ArtefactTable, SourceFile

DOWNLOADS = Path("resources") / "downloads"
"""Where files are fetched to, relative to the working folder."""


def raw_file(parameters: Parameters, name: str) -> SourceFile:
    """Where a raw file is or will be: in the user's own folder if it is there, else among the downloads."""
    keys = parameters.sources.get(name)
    spec = SourceSpec(name, **vars(keys) if keys else {})
    own = in_archives(parameters, name, *spec.accepts)
    return SourceFile(spec, own or DOWNLOADS / name, own is not None)


def in_archives(parameters: Parameters, *names: str) -> Path | None:
    """Path of the first of these files in the user's own folder; `None` if none is there."""
    if not (archives := parameters.settings.archives):
        return None
    return next((path for name in names if is_there(path := Path(archives) / name)), None)


def present_file(parameters: Parameters, name: str) -> Path | None:
    """A file in the user's own folder or among the downloads; `None` if it is in neither."""
    downloaded = DOWNLOADS / name
    return in_archives(parameters, name) or (downloaded if is_there(downloaded) else None)


@dataclass(frozen=True)
class PlannedModel:
    """What is evaluated: a run that is trained here, a checkpoint that the authors released, or an ensemble of two runs."""

    specs: Mapping[int, RunSpec]
    """Seed → spec."""
    protocols: tuple[str, ...]
    recorded: frozenset[int] = frozenset()
    """Seeds with a kept record: they are not trained again."""
    released: str | None = None
    """Run that a released checkpoint is a training of; `None` for any other model."""
    pictures: Path | None = None
    """Folder of small pictures of its test images, where its data have some."""
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
class Plan(ArtefactTable):
    """What one invocation computes: its table, with the parameters and models that it was laid out from."""

    parameters: Parameters
    models: dict[str, PlannedModel]

    @property
    def seeds(self) -> list[int]:
        """Seeds of all runs together."""
        trained = [model.specs for model in self.models.values() if model.trained]
        return sorted(set().union(*trained)) or list(self.parameters.settings.seeds)

    def absent(self) -> list[str]:
        """Notes on raw files that are not there: those that will be fetched, where the user's own folder lacks them, and
        those that nobody but the user can get."""
        files = [file for file in self.downloads.values() if not is_there(file.path)]
        fetched = [file.spec for file in files if file.spec.mirrors]
        notes = [
            f"{file.spec.file} is not there. {file.spec.instructions}"
            for file in files
            if not file.spec.mirrors
        ]
        if fetched and (archives := self.parameters.settings.archives):
            names = "; ".join(
                f"{spec.file} {f'({spec.instructions})' if spec.instructions else ''}".strip()
                for spec in fetched
            )
            size = bytes_text(sum(spec.size or 0 for spec in fetched))
            notes.insert(0, f"{archives} lacks, and they will be fetched, {size}: {names}")
        return notes

    def training(self, model: str, seed: int) -> Artefact | None:
        """The training of a run that has no record."""
        return self.table.get(("run", self.models[model].specs[seed].seeded_id))

    def evaluation(self, model: str, seed: int) -> Artefact | None:
        """The evaluation of a model that has no record."""
        name = (
            seeded(model, seed) if self.models[model].ensemble else self.models[model].specs[seed].seeded_id
        )
        return self.table.get(("evaluation", name))
