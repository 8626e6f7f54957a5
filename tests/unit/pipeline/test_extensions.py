"""What an extension touches, done as a user would in a copy of the project: nothing else is made again."""

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from packages import DOTS, MANHATTAN, MEAN_OF_WORDS, MIDDLE, MOMENTUM, OWN_HEAD, install
from page_blocks import squared_hinges
from plans import edit
from projects import copy_of_the_project

from vsepp.base import components
from vsepp.pipeline.planner import make_plan

DUMP = """
import json
from vsepp.pipeline.planner import make_plan
from vsepp.base.errors import VseppError
try:
    table = make_plan("params").table
except VseppError as error:
    raise SystemExit(str(error))
print(json.dumps({f"{kind} {name}": made.digest for (kind, name), made in table.items()}))
"""
RUNS, PRESET = "params/papers/vsepp/runs.yaml", "params/presets/mini.yaml"
BASE = {"base": "coco-vsepp-1c", "protocols": ["1K"]}


def table(project, *more_paths):
    """Kind and name of every artefact → digest of all that decides whether it is made again, by the project's own package."""
    paths = os.pathsep.join(map(str, [project.folder, *more_paths]))
    return json.loads(project.output(sys.executable, "-c", DUMP, PYTHONPATH=paths))


def planned(params, **overrides):
    """The same of parameters, where nothing else was edited."""
    return {
        f"{kind} {name}": artefact.digest
        for (kind, name), artefact in make_plan(params, overrides).table.items()
    }


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))


def add_run(folder, **entry):
    """A run `odd`, which differs from its base in what is given."""
    edit(folder / RUNS, {"odd": {**BASE, **entry}})


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A copy of the project, which keeps what was read of its modules."""
    project = copy_of_the_project(tmp_path_factory.mktemp("extended") / "project")
    (project.folder / "results").mkdir()
    project.call("git", "init", "--quiet")
    project.commit()
    return project


@pytest.fixture(scope="module")
def before(clean):
    """The table of the project as it is."""
    return table(clean)


@pytest.fixture
def project(clean):
    """The copy, for a test that edits it."""
    yield clean
    clean.call("git", "checkout", "--quiet", ".")
    clean.call("git", "clean", "--quiet", "--force", "-d")


def changed(before, after):
    """Artefacts that two tables have differently, but for the reports."""
    return {name for name in before if before[name] != after.get(name) and not name.startswith("report")}


def new(before, after):
    """Artefacts that only the second table has; all others must be as they were."""
    assert not changed(before, after)
    return after.keys() - before.keys()


def table_of(run):
    rows = [{"run": run, "protocol": "5x1K", "label": "mine"}]
    groups = [{"heading": "H", "rows": rows}]
    return {"title": "T", "caption": "C.", "dataset": "coco", "trainset": True, "groups": groups}


def test_a_run_and_a_table_of_ones_own_are_entries_of_a_papers_files(params, before):
    add_run(params.parent, loss={"margin": 0.4})
    edit(params / "papers/vsepp/tables.yaml", {"tables": {"mine": table_of("odd")}})
    assert new(before, planned(params)) == {"run odd/seed-0", "evaluation odd/seed-0"}


def test_a_paper_is_a_folder(params, before):
    vsepp, mine = (params / "papers" / name for name in ("vsepp", "mine"))
    write(mine / "runs.yaml", "wide: {base: coco-vsepp-1c, joint_dim: 256, caption_projection: true}")
    write(mine / "published.csv", (vsepp / "published.csv").read_text().splitlines()[0] + "\n")
    shutil.copy(vsepp / "tables.yaml", mine)
    edit(mine / "tables.yaml", {"tables": None, "figures": None})
    edit(mine / "tables.yaml", {"tables": {"mine": table_of("wide")}, "figures": {}})
    # Before it is reproduced nothing of it is made, and it is reproduced without a label.
    assert new(before, planned(params)) == set()
    both = planned(params, papers=["vsepp", "mine"])
    assert new(before, both) == {"run wide/seed-0", "evaluation wide/seed-0", "report mine"}
    alone = planned(params, papers=["mine"])
    assert alone["run wide/seed-0"] == both["run wide/seed-0"]
    assert not any(name.startswith("run coco-") for name in alone)


COMPONENTS = {
    "losses/squared_hinges.py": (squared_hinges(), {"loss": {"name": "squared_hinges", "margin": 0.1}}),
    "models/similarity/manhattan.py": (MANHATTAN, {"similarity": {"name": "manhattan", "power": 3.0}}),
    "models/text/mean_of_words.py": (MEAN_OF_WORDS, {"text": "mean_of_words"}),
    "models/heads/mlp.py": (OWN_HEAD, {"image_head": "mlp"}),
    "models/poolings/middle.py": (
        MIDDLE,
        {"image_pooling": "middle", "trainset": "RC", "rc_features": "inline"},
    ),
    "training/optimisers/momentum.py": (MOMENTUM, {"optimiser": {"name": "momentum", "of_loss": 0.1}}),
}


def test_a_component_with_options_is_one_module_and_one_entry(project, before):
    entries = {}
    for module, (text, entry) in COMPONENTS.items():
        write(project.folder / f"vsepp/{module}", text)
        entries[Path(module).stem] = {**BASE, **entry}
    assert new(before, table(project)) == set()
    edit(project.folder / RUNS, entries)
    after = table(project)
    # A pooling takes a grid, so it has features of its own.
    artefacts = {name for name in new(before, after) if not name.startswith("features")}
    assert artefacts == {f"{kind} {run}/seed-0" for run in entries for kind in ("run", "evaluation")}
    # An edit of it makes again what uses it, and nothing else.
    (loss, _), *others = ((module, text) for module, (text, _) in COMPONENTS.items())
    write(project.folder / f"vsepp/{loss}", COMPONENTS[loss][0] + "\n    EDITED = 1\n")
    edited = table(project)
    assert changed(after, edited) == {"run squared_hinges/seed-0"}
    for module, text in others:
        write(project.folder / f"vsepp/{module}", text + "\n    EDITED = 1\n")
    runs = {f"run {Path(module).stem}/seed-0" for module, _ in others}
    assert changed(edited, table(project)) == runs | {"evaluation manhattan/seed-0"}


def test_an_encoder_family_is_one_module_and_an_entry_of_a_preset(project, before):
    module = '''
        """A family of one's own."""
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Options:
            depth: int = 2
            """Layers."""

        def architectures():
            return ["net"]

        def build(name, input_size, options):
            raise NotImplementedError
    '''
    write(project.folder / "vsepp/models/image/mine.py", module)
    network = {"title": "net", "architecture": "mine/net", "options": {"depth": 3}, "weights": "random"}
    network |= {"input_size": 40, "store_side": 46, "mean": [0.5] * 3, "std": [0.5] * 3}
    edit(project.folder / PRESET, {"encoders": {"other": network}})
    add_run(project.folder, encoder="other")
    after = table(project)
    assert {name.split()[0] for name in new(before, after)} == {"encoder", "features", "run", "evaluation"}
    write(project.folder / "vsepp/models/image/mine.py", module + "\n        EDITED = 1\n")
    edited = {name.split()[0] for name in changed(after, table(project))}
    assert edited == {"encoder", "features"}


LENGTHS = '''
    """Captions → how many words each has."""
    from vsepp.pipeline.step import Step
    from vsepp.base.spec import VocabularySpec
    def run(spec, inputs, out, job):
        """Count the words of each caption."""
        raise NotImplementedError

    STEP = Step(
        "lengths", VocabularySpec, run, phase="corpus", folder="results/{preset}/lengths/{name}",
        modules=lambda spec: ["vsepp.data.captions"], reads={"captions": "captions.parquet"},
        files=lambda spec: ["lengths.txt"],
    )
'''


def test_a_kind_of_artefact_is_one_step_and_what_asks_for_it(project, before):
    write(project.folder / "vsepp/pipeline/steps/lengths.py", LENGTHS)
    assert new(before, table(project)) == set()
    project.edit(
        "vsepp/pipeline/planner.py",
        "        if published is not None:\n            inputs[",
        "        self._add('lengths', spec.vocabulary, {'captions': corpus})\n        if published is not None:\n            inputs[",
    )
    after = table(project)
    assert {name.split()[0] for name in new(before, after)} == {"lengths"}


def test_a_layout_of_ones_own_is_one_reader(project, before):
    reader = '''
        """Pictures in a folder, captions in a table."""
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Options:
            delimiter: str = ","
            """Between columns."""

        FILES = ("images",)

        def read(spec, files):
            raise NotImplementedError
    '''
    write(project.folder / "vsepp/data/readers/folder.py", reader)
    source = {"licence": "mine", "citation": "me"}
    data = {"title": "Mine", "reader": {"name": "folder", "delimiter": ";"}, "files": {"images": "mine"}}
    entries = {"sources": {"mine": source}, "datasets": {"mine": data}}
    edit(project.folder / "params/datasets.yaml", entries)
    edit(project.folder / PRESET, {"corpora": {"third": {"dataset": "mine"}}})
    add_run(project.folder, dataset="third")
    assert any(name.startswith("corpus third-") for name in new(before, table(project)))


@pytest.mark.parametrize("kind", components.KINDS)
def test_a_component_of_any_kind_may_be_in_an_installed_package(tmp_path, monkeypatch, kind):
    name, required = f"{kind.replace(' ', '_')}_of_mine", components.KINDS[kind].required
    install(
        monkeypatch,
        tmp_path,
        components.KINDS[kind].package,
        name,
        f"CITATION = 'Mine'\nclass {required}: pass\n",
    )
    assert name in components.known(kind)
    assert components.load(kind, name).__file__ == str(tmp_path / f"{name}.py")
    assert components.describe(kind, name).citation == "Mine"


def test_an_installed_package_offers_a_loss(project, before, tmp_path, monkeypatch):
    install(monkeypatch, tmp_path, "vsepp.losses", "squares", squared_hinges())
    add_run(project.folder, loss={"name": "squares", "margin": 0.1})
    after = table(project, tmp_path)
    assert new(before, after) == {"run odd/seed-0", "evaluation odd/seed-0"}
    with (tmp_path / "squares.py").open("a") as source:
        source.write("\nEDITED = 1\n")
    assert changed(after, table(project, tmp_path)) == {"run odd/seed-0"}


@pytest.mark.parametrize("kind", components.KINDS)
def test_each_component_of_ours_names_its_source(kind):
    # Components of generated scenes, of our own, and of the paper itself.
    players = {"mini", "vit", "captions_csv", "standings", "linear"}
    for name in components.known(kind):
        assert bool(components.describe(kind, name).citation) != (name in players), name


def test_an_edit_of_what_decides_no_page_makes_no_report_again(project, before):
    """Progress bars, the decoding of photographs, encoders and the loop of a training, and declarations of other artefacts."""
    for name in (
        "base/progress", "base/spec", "data/decode", "data/store", "models/encoder",
        "pipeline/settings", "training/loop",
    ):  # fmt: skip
        file = project.folder / "vsepp" / f"{name}.py"
        file.write_text(file.read_text() + "\n\ndef more():\n    pass\n")
    after = table(project)
    assert after["report vsepp"] == before["report vsepp"] and changed(before, after)


def test_a_kind_of_figure_is_one_module_and_an_entry_and_may_have_data_of_its_own(project, before):
    write(project.folder / "vsepp/report/figures/dots.py", DOTS)
    mine = {
        "kind": "dots",
        "at": 0.2,
        "labels": ["SH"],
        "title": "Dots",
        "caption": "C.",
        "losses": ["sum_of_hinges"],
    }
    edit(project.folder / "params/papers/vsepp/tables.yaml", {"figures": {"mine": mine}})
    edit(project.folder / PRESET, {"tables": {"vsepp": ["table2", "figure1", "mine"]}})
    after = table(project)
    assert new(before, after) == {"figure_data vsepp/mine"}
    write(project.folder / "vsepp/report/figures/dots.py", DOTS.replace("0.5", "0.6"))
    edited = table(project)
    assert changed(after, edited) == {"figure_data vsepp/mine"}
    assert edited["report vsepp"] != after["report vsepp"]


def test_a_metric_is_an_entry_of_one_table_and_no_model_is_trained_or_evaluated_again(project, before):
    project.edit(
        "vsepp/evaluation/metrics.py",
        '    "mrr": Metric(',
        '    "worst": Metric("Worst r", lambda ranks: ranks.best, lambda v: float(v.max()) + 1, 1.0, True),\n    "mrr": Metric(',
    )
    edit(
        project.folder / "params/papers/vsepp/tables.yaml",
        {"tables": {"table1": {"columns": ["r1", "worst", "mapr"]}}},
    )
    after = table(project)
    assert changed(before, after) == {"figure_data vsepp/figure1"} and before.keys() == after.keys()
    assert after["report vsepp"] != before["report vsepp"]


def test_a_truth_is_one_module_and_entries_and_nothing_that_is_there_is_made_again(project, before):
    write(
        project.folder / "vsepp/evaluation/truths/half.py",
        """
        FILES = {"pairs": "half.json"}


        def installed():
            return {}


        def read(files):
            raise NotImplementedError
        """,
    )
    edit(project.folder / "params/datasets.yaml", {"datasets": {"scenes_coco": {"truths": ["half"]}}})
    add_run(project.folder, protocols=["1K", "half"])
    after = table(project)
    assert new(before, after) == {"run odd/seed-0", "evaluation odd/seed-0"}
