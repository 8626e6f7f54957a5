"""The phases of dvc.yaml are the DAG of Snakemake, seen from farther away."""

import sys
from dataclasses import dataclass

import pytest
from dvc.dependency import ParamsDependency
from dvc.repo import Repo
from projects import ROOT, make_tiny_project

from vsepp.base.errors import PHASES
from vsepp.pipeline.planner import make_plan

pytestmark = pytest.mark.dvc
TARGETS = [f"all_{phase}" for phase in PHASES]


@dataclass(frozen=True)
class Phase:
    """A stage of dvc.yaml as DVC resolves it."""

    commands: list[str]
    deps: set[str]
    params: set[str]
    outs: set[str]
    persistent: bool
    unversioned: set[str]

    @property
    def folders(self):
        return self.outs | self.unversioned


def read_phases(folder):
    """Stages by name, placeholders filled in by DVC itself."""
    with Repo(str(folder)) as repo:
        return {stage.name: phase_of(stage) for stage in repo.index.stages}


def phase_of(stage):
    deps, params = set(), set()
    for dep in stage.deps:
        (params if isinstance(dep, ParamsDependency) else deps).add(dep.def_path)
    return Phase(
        [stage.cmd] if isinstance(stage.cmd, str) else stage.cmd,
        deps,
        params,
        {out.def_path for out in stage.outs},
        all(out.persist for out in stage.outs),
        set(stage.meta["unversioned"] if stage.meta else ()),
    )


def read_summary(project):
    """Output of a rule → the files that it reads, where they are known."""
    summary = project.output("snakemake", "--cores", "1", "--detailed-summary", "--", *TARGETS)
    rows = [line.split("\t") for line in summary[summary.index("output_file\t") :].splitlines()[1:]]
    return {row[0]: [file for file in row[4].split(",") if file not in ("", "-")] for row in rows}


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A checkout where nothing was run, its phases and its plan, all with the preset `paper`."""
    project = make_tiny_project(tmp_path_factory.mktemp("phases") / "vsepp")
    config = (ROOT / "params/config.yaml").read_text()
    (project.folder / "params/config.yaml").write_text(config)
    project.edit("params/config.yaml", "preset: mini ", "preset: paper ")
    project.edit("params/config.yaml", "fidelity: paper ", "fidelity: code ")
    return project, read_phases(project.folder), make_plan(project.folder / "params")


def below(path, folders):
    return {folder for folder in folders if path == folder or path.startswith(folder + "/")}


def folder_of(artefact, phases):
    """The folder of dvc.yaml that an artefact lies in: of its own phase, and kept or not as the plan has it."""
    phase = phases[artefact.phase]
    (folder,) = below(artefact.folder.as_posix(), phase.outs if artefact.versioned else phase.unversioned)
    return folder


def test_every_output_of_a_rule_lies_in_exactly_one_folder_and_every_out_is_made(case):
    """An out that nothing makes would stop `dvc repro` after the work is done."""
    project, phases, _ = case
    files = read_summary(project)
    folders = [folder for phase in phases.values() for folder in phase.folders]
    assert len(files) > 100
    assert [file for file in files if len(below(file, folders)) != 1] == []
    assert [folder for folder in folders if len(below(folder, folders)) != 1] == []
    outs = set().union(*(phase.outs for phase in phases.values()))
    assert {folder for file in files for folder in below(file, outs)} == outs


def test_edges_between_phases_are_those_of_the_plan(case):
    project, phases, plan = case
    ensembles = make_plan(project.folder / "params", {"papers": ["vse_infinity"]})

    def read(artefact, table):
        """Artefacts that an artefact is made from; where DVC does not keep one, the artefacts that made it."""
        for path in artefact.paths.values():
            if owner := table.owner(path):
                yield from [owner] if owner.versioned else read(owner, table)

    outs = set().union(*(phase.outs for phase in phases.values()))
    edges = {name: set() for name in phases}
    for table in (plan, ensembles):
        for artefact in table.table.values():
            owners = [owner for owner in read(artefact, table) if owner.phase != artefact.phase]
            edges[artefact.phase] |= {folder_of(owner, phases) for owner in owners}
    assert edges == {name: phase.deps & outs for name, phase in phases.items()}


def test_a_phase_makes_its_target_and_verifies_it_and_deletes_nothing(case):
    assert tuple(case[1]) == PHASES
    for name, phase in case[1].items():
        assert phase.commands == [f"snakemake --cores all -- all_{name}", f"vsepp verify --phase {name}"]
        assert phase.persistent


def test_verification_and_dvc_agree_on_what_is_kept_and_by_which_phase(case):
    _, phases, plan = case
    verified = {folder_of(artefact, phases) for artefact in plan.table.values()}
    assert verified >= set().union(*(phase.outs for phase in phases.values()))


_READS = """
import sys
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
from pathlib import Path
from vsepp.pipeline.planner import make_plan
make_plan(Path("params"), {})
print("\\n".join(sorted(name for name in opened if name.startswith(("params/", "docs/")))))
"""


def test_every_file_that_the_plan_reads_is_looked_at_by_every_phase(project):
    """Parameters, and records: what has one is not trained."""
    project.vsepp("record")
    read = set(project.output(sys.executable, "-c", _READS).split())
    papers = {name for name in read if name.startswith("params/papers/")}
    records = {name for name in read if name.startswith("docs/results/tiny/")}
    assert {"params/papers/vsepp/runs.yaml", "params/papers/vsepp/published.csv"} <= papers
    assert "docs/results/tiny/runs.jsonl" in records
    assert "params/config.yaml" in read
    for phase in read_phases(project.folder).values():
        assert phase.params == read - papers - records
        assert {"params/papers", "docs/results"} <= phase.deps


def test_no_run_is_named():
    text = (ROOT / "dvc.yaml").read_text()
    runs = make_plan(ROOT / "params").parameters.all_runs
    assert [run for run in runs if run in text] == []


def test_every_file_that_a_job_reads_and_no_job_makes_is_a_dependency(project):
    """Templates, told by Snakemake from what the jobs read."""
    phases, summary = read_phases(project.folder), read_summary(project)
    sources = {(file, read) for file, inputs in summary.items() for read in inputs if read not in summary}
    assert "reports/templates/index.html.j2" in {read for _, read in sources}
    for output, read in sources:
        (phase,) = (phase for phase in phases.values() if below(output, phase.folders))
        assert below(read, phase.deps | phase.unversioned), (output, read)


def test_what_dvc_must_not_hash_is_ignored():
    ignored = (ROOT / ".dvcignore").read_text().split()
    assert {"__pycache__", ".state"} <= set(ignored)
