"""Steps and artefacts: what is declared of a kind of artefact, and one row of the plan's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vsepp.base.components import module_name
from vsepp.base.digests import value_digest
from vsepp.base.manifest import CLOCKED, MANIFEST
from vsepp.base.spec import to_dict
from vsepp.pipeline.code import code_digest


@dataclass
class Job:
    """One call of a step: where it works, and what it may use of the machine. No result depends on the latter."""

    output: Path
    """Folder that gets the results once the step has succeeded."""
    state: Path
    """Folder that outlives a kill, for these inputs only; for a step that `resumes`."""
    device: str = "auto"
    device_share: int = 1
    """How many jobs like this one share a GPU."""
    threads: int | None = None
    """CPU threads or processes; `None`: torch's choice."""
    data_on: str = "auto"
    checkpoint_seconds: float = 60.0
    test_images: int = 0
    """Smallest number of test images that later evaluations need."""


Inputs = Mapping[str, Path]
"""Role → file or folder that a step reads."""
Facts = Mapping[str, Any]
"""What a step found out, for the manifest."""
Run = Callable[[Any, Inputs, Path, Job], Facts]
Gpu = Literal["none", "part", "whole"]


class Input(NamedTuple):
    """What an artefact is made from: another artefact's folder, one file of it, or a raw file or folder."""

    path: Path
    raw: str = ""
    """Name of a raw file or folder, wherever it lies; empty of anything else."""


def _all_but_raw_folders(spec: Any, inputs: Mapping[str, Input]) -> Inputs:
    """A folder of photographs is known by its store."""
    return {role: read.path for role, read in inputs.items() if not (read.raw and read.path.is_dir())}


def no_raw(spec: Any, inputs: Mapping[str, Input]) -> Inputs:
    """Inputs of a step whose raw files stand in the manifest of its corpus."""
    return {role: read.path for role, read in inputs.items() if not read.raw}


def _label(spec: Any, label: str) -> str:
    return label


@dataclass(frozen=True, eq=False)
class Step:
    """A kind of artefact and the step that makes it: its inputs, code and folder."""

    kind: str
    """`corpus`, `tokens`, `store`, `run`, ...: also the wildcard of its rule."""
    spec: type
    """Class of the parameters that decide what is computed, besides code and inputs."""
    run: Run
    """Spec, role → input, folder to write to, the job → facts for the manifest."""
    phase: str
    """One of `vsepp.base.errors.PHASES`."""
    folder: str
    """With `{preset}`, `{variant}` and `{name}`, relative to the working folder."""
    modules: Callable[[Any], Sequence[str]]
    """Spec → modules that the step computes with; what they import is found by following imports."""
    components: Callable[[Any], Sequence[tuple[str, str]]] = lambda spec: ()
    """Spec → kind and name of each component that it computes with: components are imported by name at run time."""
    name: Callable[[Any, str], str] = _label
    """Spec and a label of the planner's → readable name. The planner adds a digest where variants share the folder."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Role → file of the artefact that is read in that role; empty: its folder."""
    recorded: Callable[[Any, Mapping[str, Input]], Inputs] = _all_but_raw_folders
    """Spec, inputs → the inputs whose digests the manifest has."""
    files: Callable[[Any], Sequence[str]] = lambda spec: ()
    """Spec → the files that it writes besides its manifest; none where the folder as a whole is the artefact."""
    versioned: bool = True
    """Whether DVC keeps it. Otherwise it may be absent, and is verified if present."""
    seed: Callable[[Any], int | None] = lambda spec: None
    threads: Literal["one", "preset", "all"] = "one"
    """Cores of a job: one, as many as the preset's `resources` say, or all."""
    gpu: Callable[[Any], Gpu] = lambda spec: "none"
    """Spec → whether a job takes a GPU, or shares it."""
    sometimes: Sequence[str] = ()
    """Files that it writes for some specs alone; what another spec left there before is removed."""
    resumes: bool = False
    """Whether the step goes on after a kill, and so needs a folder for its state."""
    published: Callable[[Path], None] = lambda folder: None
    """Function to call with the folder once the results are in it."""

    def code(self, spec: Any) -> str:
        """Digest of the code that the step computes with, including the components that a spec names."""
        components = [module_name(kind, name) for kind, name in self.components(spec)]
        return code_digest(self.run.__module__, *self.modules(spec), *components)


@dataclass(frozen=True, eq=False)
class Artefact:
    """One row of the table that rules, `make`, `verify` and the report look up."""

    step: Step
    name: str
    """Name, unique within the kind."""
    folder: Path
    """Its folder, relative to the working folder."""
    spec: Any
    """All that decides what is computed, besides code and inputs: a dataclass of `vsepp.base.spec` or `vsepp.report.entries`."""
    inputs: Mapping[str, Input] = field(default_factory=dict)
    """Role → what it is made from."""

    @property
    def paths(self) -> Inputs:
        """Role → path of what it is made from."""
        return {role: read.path for role, read in self.inputs.items()}

    @property
    def kind(self) -> str:
        """Kind, as `Step.kind`."""
        return self.step.kind

    @property
    def phase(self) -> str:
        """Phase, as `Step.phase`."""
        return self.step.phase

    @property
    def versioned(self) -> bool:
        """Whether DVC keeps it."""
        return self.step.versioned

    @cached_property
    def spec_digest(self) -> str:
        """Digest of the spec, as manifests have it."""
        return value_digest(to_dict(self.spec))

    @cached_property
    def code(self) -> str:
        """Digest of the computing modules."""
        return self.step.code(self.spec)

    @cached_property
    def digest(self) -> str:
        """Digest of spec, code and the names of inputs: another digest makes the artefact again. Where raw files lie, and what a
        machine has, are no part of it."""
        names = {role: read.raw or str(read.path) for role, read in self.inputs.items()}
        return value_digest([self.spec_digest, self.code, names])

    @property
    def outputs(self) -> list[Path]:
        """The files that it consists of, its manifest the last; or its folder as a whole."""
        files = self.step.files(self.spec)
        return [self.folder / name for name in (*files, MANIFEST)] if files else [self.folder]

    @property
    def targets(self) -> list[Path]:
        """The outputs that Snakemake is asked for and that others depend on; two equal trainings differ in the others."""
        return [path for path in self.outputs if path.name not in (*CLOCKED, MANIFEST)] or [self.folder]


def owner_of(path: Path, by_folder: Mapping[Path, Artefact]) -> Artefact | None:
    """The artefact of a folder, or of a file in its folder; `None` for a path that belongs to no artefact."""
    return by_folder.get(path) or by_folder.get(path.parent)
