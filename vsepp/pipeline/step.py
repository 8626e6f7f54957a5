"""Artefacts, and the steps that make them: what is declared of a kind of artefact, and one row of a plan's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from vsepp.base.components import module_name
from vsepp.base.digests import value_digest
from vsepp.base.spec import to_dict
from vsepp.pipeline.code import code_digest


class Role(NamedTuple):
    """What a step reads in a role."""

    what: str
    """Description, for the help of the command."""
    file: str = ""
    """Name of the artefact's file that is read in that role; empty: the folder."""
    optional: bool = False


@dataclass
class Job:
    """One call of a step. Options besides spec and inputs do not change its result."""

    output: Path
    """Folder that gets the results once the step has succeeded."""
    state: Path
    """Folder that outlives a kill, for these inputs only; for a step that `resumes`."""
    raw: Mapping[str, Path] = field(default_factory=dict)
    """Role → raw file or folder."""
    device: str = "auto"
    device_share: int = 1
    threads: int | None = None
    data_on: str = "auto"
    checkpoint_seconds: float = 60.0
    test_images: int = 0


Inputs = Mapping[str, Path]
"""Role → file or folder that a step reads."""
Facts = Mapping[str, Any]
"""What a step found out, for the manifest."""
Run = Callable[[Any, Inputs, Path, Job], Facts]


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
    """One of `PHASES`."""
    folder: str
    """With `{preset}`, `{variant}` and `{name}`, relative to the working folder."""
    modules: tuple[str, ...]
    """Modules that the step computes with; the modules that they import are found by following imports."""
    more_modules: Callable[[Any], tuple[str, ...]] = lambda _: ()
    """Spec → modules that it computes with for such a spec alone."""
    components: Callable[[Any], Sequence[tuple[str, str]]] = lambda _: ()
    """Spec → kind and name of each component that it computes with: components are imported by name at run time."""
    name: Callable[[Any, Mapping[str, Artefact], str], str] = lambda _spec, _inputs, label: label
    """Spec, inputs and a label of the planner's → name, unique within the kind."""
    reads: Mapping[str, Role] = field(default_factory=dict)
    named_inputs: Callable[[Any], Mapping[str, Path]] = lambda _: {}
    """Spec → inputs that the spec itself names."""
    known_raw: Callable[[Any, Mapping[str, Path]], Mapping[str, Path]] | None = None
    """Spec, raw files → the raw files whose digests the manifest has; `None`: the step takes no raw files."""
    files: tuple[str, ...] = ()
    """Names of the files that other steps read; none where the folder as a whole is the artefact."""
    versioned: bool = True
    """Whether DVC keeps it. Otherwise it may be absent, and is verified if present."""
    seed: Callable[[Any], int | None] = lambda _: None
    resumes: bool = False
    """Whether the step goes on after a kill, and so needs a folder for its state."""
    takes: tuple[str, ...] = ()
    """Fields of `Job` that the step takes from the command line."""
    published: Callable[[Path], None] = lambda _: None
    """Function to call with the folder once the results are in it."""

    def code(self, spec: Any) -> str:
        """Digest of the code that the step computes with, including the components that a spec names."""
        components = [module_name(kind, name) for kind, name in self.components(spec)]
        return code_digest(*self.modules, *self.more_modules(spec), *components)


@dataclass(frozen=True, eq=False)
class Artefact:
    """One row of the table that the rules, `verify` and the report look up."""

    step: Step
    name: str
    """Name, unique within the kind."""
    folder: Path
    """Its folder, relative to the working folder."""
    spec: Any
    """All that decides what is computed, besides code and inputs: a dataclass of `vsepp.base.spec` or `vsepp.reporting.layout`."""
    code: str
    """Digest of the computing modules."""
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Role → input: the folder of another artefact, or one file of it."""
    raw: Mapping[str, Path] = field(default_factory=dict)
    """Role → raw file or folder. An archive here may have been an unpacked folder on another machine."""

    @property
    def kind(self) -> str:
        """Kind, as `Step.kind`."""
        return self.step.kind

    @property
    def phase(self) -> str:
        """Phase, as `Step.phase`."""
        return self.step.phase

    @property
    def spec_digest(self) -> str:
        """Digest of the spec, as manifests have it."""
        return value_digest(to_dict(self.spec))

    @property
    def versioned(self) -> bool:
        """Whether DVC keeps it."""
        return self.step.versioned

    @property
    def targets(self) -> list[Path]:
        """The files that Snakemake is asked for, and that others depend on."""
        return [self.folder / name for name in self.step.files] or [self.folder]


Artefacts = Mapping[str, Artefact]
"""Role → the artefact that is read."""


def owner_of(path: Path, by_folder: Mapping[Path, Artefact]) -> Artefact | None:
    """The artefact of a folder, or of a file in its folder; `None` for a path that belongs to no artefact."""
    return by_folder.get(path) or by_folder.get(path.parent)


def behind(artefact: Artefact, by_folder: Mapping[Path, Artefact]) -> dict[Path, Artefact]:
    """Folder → artefact, for all artefacts that an artefact is made from, directly or indirectly."""
    found: dict[Path, Artefact] = {}
    for path in artefact.inputs.values():
        if (owner := owner_of(path, by_folder)) and owner.folder not in found:
            found |= {owner.folder: owner, **behind(owner, by_folder)}
    return found


def short_digest(*parts: Any) -> str:
    """Beginning of the digest of specs or JSON values, for names of artefacts that variants share."""
    return value_digest([to_dict(part) for part in parts])[:8]
