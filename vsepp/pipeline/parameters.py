"""All parameters of one invocation, and what follows from them together."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from vsepp.base.declared import PROTOCOLS
from vsepp.base.spec import SourceKeys
from vsepp.pipeline.files import Mistakes, read_model
from vsepp.pipeline.papers import Paper
from vsepp.pipeline.settings import CorpusOfRole, DatasetKeys, DatasetsFile, PresetFile, RunKeys, Settings
from vsepp.report.records import Study, study_of

Origins = dict[tuple[str, ...], str]
"""Key, or key of a component and its option, such as `("loss", "margin")` → file and entry."""

HARMLESS = (
    "preset",
    "papers",
    "fidelity",
    "seeds",
    "label",
    "only",
    "archives",
    "serif",
    "resources",
    "sources",
)
"""Overriding these changes no result, so they need no label."""


@dataclass(frozen=True)
class Parameters:
    """All parameters of one invocation, resolved and checked."""

    folder: Path
    settings: Settings
    preset: PresetFile
    papers: dict[str, Paper]
    """The papers that are reproduced."""
    sources: dict[str, SourceKeys]
    datasets: dict[str, DatasetKeys]
    corpora: dict[str, CorpusOfRole]
    """Role → the corpus that plays it; without roles that the preset leaves empty."""
    all_runs: dict[str, RunKeys]
    """Every run of the papers that are reproduced, by id."""
    origins: dict[str, Origins]
    """Run → what set its values: file, and entry in it. What is not there has its default."""
    as_code: dict[str, RunKeys]
    """The same runs under the overlay `code`: how the authors trained the checkpoints that they released."""
    overrides: dict[str, Any] = field(default_factory=dict)

    @property
    def variant(self) -> str:
        """Name of the variant: the fidelity, or the user's label."""
        return self.settings.label or self.settings.fidelity

    @property
    def changed(self) -> dict[str, Any]:
        """Values of the command line that change results."""
        return {key: value for key, value in self.overrides.items() if key not in HARMLESS}

    @property
    def preset_file(self) -> Path:
        """Where the preset stands."""
        return self.folder / "presets" / f"{self.settings.preset}.yaml"

    @property
    def expected(self) -> Path:
        """File of the expected values of the variant's scores, if there are any, below `docs` beside the folder of parameters."""
        preset, variant = self.settings.preset, self.variant
        name = preset if variant == "paper" else f"{preset}-{variant}"
        return self.folder.parent / "docs/results" / name / "expected.csv"

    @property
    def study(self) -> Study:
        """Records of the variant's models, beside its expected values."""
        return study_of(self.expected.parent)

    def place(self, section: str) -> str:
        """File of a section of the preset or of datasets.yaml, for a message about a mistake; `--config` where it was overridden."""
        if section in self.overrides:
            return "--config"
        return str(
            self.folder / "datasets.yaml" if section in DatasetsFile.model_fields else self.preset_file
        )

    @cached_property
    def possible_runs(self) -> tuple[str, ...]:
        """Ids of the runs whose corpus and encoder the preset has; published features come without images."""
        return tuple(run for run in self.all_runs if self._possible(run))

    def seeds(self, run: str) -> tuple[int, ...]:
        """Seeds that a run is trained with: its own seeds, or the seeds of all runs; of an ensemble, the seeds that both runs have."""
        if members := self.all_runs[run].ensemble:
            return tuple(seed for seed in self.seeds(members[0]) if seed in self.seeds(members[1]))
        own = self.all_runs[run].seeds
        return tuple(self.settings.seeds if own is None else own)

    def _possible(self, run: str) -> bool:
        if members := self.all_runs[run].ensemble:
            return all(self._possible(member) for member in members)
        keys = self.corpora.get(self.all_runs[run].dataset)
        if keys is None or self.preset.encoders.get(self.all_runs[run].encoder) is None:
            return False
        crops = self.datasets[keys.dataset].crops
        return crops is None or self.all_runs[run].crops == crops

    @cached_property
    def runs(self) -> dict[str, RunKeys]:
        """Possible runs that `only` names, with the runs that they start from or are the ensemble of."""
        patterns = ["*"] if self.settings.only is None else self.settings.only
        wanted = {run for run in self.possible_runs if any(fnmatch(run, pattern) for pattern in patterns)}
        wanted |= {member for run in wanted for member in self.all_runs[run].ensemble or ()}
        wanted |= {start for run in wanted if (start := self.all_runs[run].finetune_from)}
        return {run: self.all_runs[run] for run in self.possible_runs if run in wanted and self.seeds(run)}

    @cached_property
    def protocols(self) -> dict[str, tuple[str, ...]]:
        """Run → protocols that it is evaluated under: its own protocols, and the protocols of the rows and figures that it is in."""
        protocols = {
            run: {*self.all_runs[run].feeds.values(), *self.all_runs[run].protocols} for run in self.all_runs
        }
        for paper in self.papers.values():
            named = [(run, row.protocol) for row in paper.tables.own_rows for run in row.runs]
            for figure in paper.tables.figures.values():
                named += [(run, figure.protocol) for run in figure.named if figure.protocol]
            for run, protocol in named:
                if run in protocols:
                    protocols[run].add(protocol)
        return {
            run: tuple(sorted(name for name in names if self.applies(run, name)))
            for run, names in protocols.items()
        }

    def applies(self, run: str, protocol: str) -> bool:
        """Whether a run can be evaluated under a protocol; under a truth, only where people judged its data set."""
        keys = self.corpora.get(self.all_runs[run].dataset)
        return protocol in PROTOCOLS or keys is None or protocol in self.datasets[keys.dataset].truths

    def runs_of(self, paper: Paper) -> dict[str, RunKeys]:
        """A paper's own runs."""
        return {run: keys for run, keys in self.all_runs.items() if run in paper.entries}

    def feeders(self, paper: Paper) -> dict[str, tuple[str, str]]:
        """Row of a paper's published tables → the run that fills it, and the protocol."""
        return {
            row: (run, protocol)
            for run, keys in self.runs_of(paper).items()
            for row, protocol in keys.feeds.items()
        }

    def images(self, dataset: str) -> dict[str, int]:
        """Split → images that a data set must have, as far as that is known."""
        entry = self.datasets[dataset]
        generated = entry.generator and self.preset.scenes
        return dict(self.preset.scenes.images[entry.generator] if generated else entry.expected_images)  # type: ignore[union-attr, index]  # `generated` says that both are there

    def splits(self, dataset: str) -> tuple[str, ...]:
        """Splits that a data set has."""
        entry = self.datasets[dataset]
        return tuple(self.images(dataset)) if entry.generator and self.preset.scenes else entry.splits


def data_licences(params: Path) -> dict[str, list[str]]:
    """Name of each data set of `datasets.yaml` → the licences of its files.

    Raises
    ------
    VseppError
        On mistakes in the file.
    """
    mistakes = Mistakes()
    datasets = read_model(DatasetsFile, params / "datasets.yaml", mistakes)
    mistakes.raise_if_any()
    assert datasets is not None
    return {
        name: ["generated by this project, Apache-2.0"]
        if dataset.generator
        else list(dict.fromkeys(datasets.sources[file].licence for file in dataset.files.values()))
        for name, dataset in datasets.datasets.items()
    }
