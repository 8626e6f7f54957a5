"""The phases of dvc.yaml are the DAG of Snakemake, seen from farther away."""

import fnmatch
import re
import sys
from dataclasses import dataclass

import pytest
import yaml
from dag import ROOT
from dvc.dependency import ParamsDependency
from dvc.repo import Repo
from repository import Repository, make_tiny_repository

from vsepp.config import make_plan
from vsepp.config.artefacts import PHASES, expected_artefacts

pytestmark = pytest.mark.dvc
TARGETS = [f"all_{phase}" for phase in PHASES]


@dataclass(frozen=True)
class Phase:
    """A stage of dvc.yaml as DVC resolves it."""

    name: str
    commands: tuple[str, ...]
    deps: frozenset[str]
    params: frozenset[str]
    outs: frozenset[str]
    persistent: bool
    unversioned: frozenset[str]


def read_phases(folder):
    """Stages by name, placeholders filled in by DVC itself."""
    repo = Repo(str(folder))
    try:
        return {stage.name: phase_of(stage) for stage in repo.index.stages}
    finally:
        repo.close()


def phase_of(stage):
    is_params = [isinstance(dep, ParamsDependency) for dep in stage.deps]
    return Phase(
        stage.name,
        tuple([stage.cmd] if isinstance(stage.cmd, str) else stage.cmd),
        frozenset(dep.def_path for dep, params in zip(stage.deps, is_params, strict=True) if not params),
        frozenset(dep.def_path for dep, params in zip(stage.deps, is_params, strict=True) if params),
        frozenset(out.def_path for out in stage.outs),
        all(out.persist for out in stage.outs),
        frozenset(stage.meta["unversioned"] if stage.meta else ()),
    )


@dataclass(frozen=True)
class Dag:
    """What Snakemake would make, without making anything."""

    outputs: dict[str, set[str]]
    """Rule → its outputs."""
    edges: set[tuple[str, str]]
    """Rule that makes something and rule that reads it."""


def read_dag(folder):
    repository = Repository(folder)
    call = ["snakemake", "--cores", "1"]
    summary = repository.call(*call, "--detailed-summary", "--", *TARGETS).stdout
    outputs = {}
    for line in summary[summary.index("output_file\t") :].splitlines()[1:]:
        file, _, rule, *_ = line.split("\t")
        outputs.setdefault(rule, set()).add(file)
    graph = repository.call(*call, "--rulegraph", "--", *TARGETS).stdout
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', graph))
    edges = {(names[a], names[b]) for a, b in re.findall(r"(\d+) -> (\d+)", graph)}
    assert set(outputs) == set(names.values()) - set(TARGETS) - {"reproduce_tables"}
    return Dag(outputs, {(a, b) for a, b in edges if a in outputs and b in outputs})


@pytest.fixture(scope="module", params=[("mini", "paper"), ("paper", "code")], ids="-".join)
def case(request, tmp_path_factory):
    """A checkout in which nothing was run, its phases and its DAG."""
    folder = make_tiny_repository(tmp_path_factory.mktemp("phases") / "vsepp").folder
    config = (ROOT / "params/config.yaml").read_text()
    for key, value in zip(("preset: mini ", "fidelity: paper "), request.param, strict=True):
        assert key in config
        config = config.replace(key, f"{key.split()[0]} {value} ")
    (folder / "params/config.yaml").write_text(config)
    return folder, read_phases(folder), read_dag(folder)


def below(path, folders):
    return {folder for folder in folders if path == folder or path.startswith(folder + "/")}


def misplaced(phases, dag):
    """Outputs of rules that do not lie below exactly one folder that a phase makes."""
    folders = [(phase.name, folder) for phase in phases.values() for folder in phase.outs | phase.unversioned]
    return [
        (file, found)
        for files in dag.outputs.values()
        for file in files
        if len(found := [(name, folder) for name, folder in folders if below(file, [folder])]) != 1
    ]


def folder_edges(phases, dag):
    """Phase → folders of other phases that its rules read, those that DVC does not keep seen through to what made them."""

    def places(rule):
        return {
            (phase.name, folder, folder in phase.outs)
            for phase in phases.values()
            for folder in phase.outs | phase.unversioned
            for file in dag.outputs[rule]
            if below(file, [folder])
        }

    def read_by(rule, reader):
        found = set()
        for maker, user in dag.edges:
            if user != rule:
                continue
            for phase, folder, versioned in places(maker):
                if versioned:
                    found |= {folder} if phase != reader else set()
                else:
                    found |= read_by(maker, reader)
        return found

    found = {name: set() for name in phases}
    for rule in dag.outputs:
        for phase in {phase for phase, _, _ in places(rule)}:
            found[phase] |= read_by(rule, phase)
    return found


def declared_edges(phases):
    """Phase → its dependencies that are outs of phases."""
    outs = frozenset().union(*(phase.outs for phase in phases.values()))
    return {name: set(phase.deps & outs) for name, phase in phases.items()}


def test_phases_are_those_of_the_package_in_their_order(case):
    assert tuple(case[1]) == PHASES


def test_every_output_of_a_rule_lies_in_exactly_one_place_of_dvc_yaml(case):
    _, phases, dag = case
    assert len(dag.outputs) > 8
    assert misplaced(phases, dag) == []


def test_places_do_not_overlap(case):
    _, phases, _ = case
    folders = [folder for phase in phases.values() for folder in (*phase.outs, *phase.unversioned)]
    assert [folder for folder in folders if len(below(folder, folders)) != 1] == []


def test_every_place_is_made_by_a_rule(case):
    """An out that nothing makes would stop `dvc repro` after the work is done."""
    _, phases, dag = case
    files = set().union(*dag.outputs.values())
    for phase in phases.values():
        for folder in phase.outs:
            assert any(below(file, [folder]) for file in files), folder


def test_edges_between_phases_are_those_of_the_dag(case):
    _, phases, dag = case
    assert declared_edges(phases) == folder_edges(phases, dag)


def test_a_phase_makes_what_its_target_asks_for_and_what_its_verification_looks_at(case):
    folder, phases, _ = case
    targets = set(Repository(folder).call("snakemake", "--list-target-rules").stdout.split())
    for name, phase in phases.items():
        make, verify = phase.commands
        assert make == f"snakemake --cores all -- all_{name}"
        assert verify == f"vsepp verify --phase {name}"
        assert f"all_{name}" in targets


def test_nothing_is_deleted_before_a_phase_runs(case):
    assert all(phase.persistent for phase in case[1].values())


def test_verification_and_dvc_agree_on_what_is_kept_and_by_which_phase(case):
    folder, phases, _ = case
    plan = make_plan(folder / "params", {})
    verified = {plan.report.as_posix()}
    for expected in expected_artefacts(plan):
        phase = phases[expected.phase]
        place = below(expected.folder.as_posix(), phase.outs if expected.versioned else phase.unversioned)
        assert len(place) == 1, expected
        verified |= place
    assert verified >= set().union(*(phase.outs for phase in phases.values()))


_READS = """
import sys
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
from pathlib import Path
from vsepp.config import make_plan
make_plan(Path("params"), {})
print("\\n".join(sorted(name for name in opened if name.startswith("params/"))))
"""


def test_every_parameter_file_that_is_read_is_looked_at_by_every_phase(case):
    folder, phases, _ = case
    found = Repository(folder).call(sys.executable, "-c", _READS).stdout.split()
    read = {name for name in found if name.endswith((".yaml", ".csv"))}
    published = (
        "params/published.csv"  # to the plan only a list of rows, which changes no artefact but the report
    )
    assert {"params/config.yaml", "params/runs.yaml", published} <= read
    for phase in phases.values():
        assert phase.params == read - {published}, phase.name
    assert published in phases["results"].deps


def test_no_run_is_named():
    text = (ROOT / "dvc.yaml").read_text()
    runs = make_plan(ROOT / "params", {}).parameters.all_runs
    assert len(runs) > 20
    assert [run for run in runs if run in text] == []


@pytest.mark.parametrize(
    "phase, index", [("corpus", 0), ("corpus", 1), ("features", 0), ("results", 1), ("results", 2)]
)
def test_an_out_that_is_taken_away_is_noticed(case, tmp_path, phase, index):
    """The checks above can fail: without one of its outs, dvc.yaml no longer fits the DAG."""
    folder, _, dag = case
    copy = Repository(folder).copy(tmp_path / "vsepp").folder
    content = yaml.safe_load((copy / "dvc.yaml").read_text())
    del content["stages"][phase]["outs"][index]
    (copy / "dvc.yaml").write_text(yaml.safe_dump(content))
    assert misplaced(read_phases(copy), dag)


@pytest.mark.parametrize(
    "phase, pattern", [("models", "*/tokens"), ("results", "*/encoders"), ("features", "*/corpora")]
)
def test_a_dependency_that_is_taken_away_is_noticed(case, tmp_path, phase, pattern):
    folder, _, dag = case
    copy = Repository(folder).copy(tmp_path / "vsepp").folder
    content = yaml.safe_load((copy / "dvc.yaml").read_text())
    deps = content["stages"][phase]["deps"]
    content["stages"][phase]["deps"] = [dep for dep in deps if not fnmatch.fnmatch(dep, pattern)]
    assert len(content["stages"][phase]["deps"]) == len(deps) - 1
    (copy / "dvc.yaml").write_text(yaml.safe_dump(content))
    phases = read_phases(copy)
    assert declared_edges(phases) != folder_edges(phases, dag)


def test_every_file_that_a_job_reads_and_no_job_makes_is_a_dependency(tiny_repository):
    """Templates and the paper's numbers, told by Snakemake from what the jobs read."""
    phases = read_phases(tiny_repository.folder)
    summary = tiny_repository.call("snakemake", "--cores", "1", "--detailed-summary", "--", *TARGETS).stdout
    rows = [line.split("\t") for line in summary[summary.index("output_file\t") :].splitlines()[1:]]
    made = {row[0] for row in rows}
    read = {(row[0], file) for row in rows for file in row[4].split(",") if file not in ("", "-")}
    sources = {(output, file) for output, file in read if file not in made}
    assert {file for _, file in sources} >= {"params/published.csv", "reports/templates/index.html.j2"}
    for output, file in sources:
        (phase,) = (p for p in phases.values() if below(output, p.outs | p.unversioned))
        assert below(file, phase.deps | phase.unversioned), (output, file)


def test_what_dvc_must_not_hash_is_ignored():
    ignored = (ROOT / ".dvcignore").read_text().split()
    assert {"__pycache__", ".state"} <= set(ignored)
