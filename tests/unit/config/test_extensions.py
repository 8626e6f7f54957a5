"""What an extension touches, done as a user would in a copy of the project: nothing else is made again."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
DUMP = """
import json, sys
from vsepp.config import make_plan
from vsepp.errors import VseppError
from vsepp.provenance.digests import value_digest
from vsepp.spec import to_dict
try:
    plan = make_plan("params", json.loads(sys.argv[1]))
except VseppError as error:
    sys.exit(str(error))
found = {}
for (kind, name), made in plan.table.items():
    inputs = {role: str(path) for role, path in made.inputs.items()}
    found[f"{kind} {name}"] = value_digest([str(made.folder), to_dict(made.spec), made.code, inputs])
print(json.dumps(found))
"""


class Project:
    """A copy of the package and its parameters."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("vsepp", "params"):
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)

    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))

    def change(self, path, change):
        file = self.folder / path
        content = yaml.safe_load(file.read_text())
        change(content)
        file.write_text(yaml.safe_dump(content, sort_keys=False))

    def table(self, *more_paths, **overrides):
        """Kind and name of every artefact → digest of all that decides whether it is made again."""
        done = self.planned(*more_paths, **overrides)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def planned(self, *more_paths, **overrides):
        paths = os.pathsep.join(map(str, [self.folder, *more_paths]))
        return subprocess.run(
            [sys.executable, "-c", DUMP, json.dumps(overrides)],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        )  # fmt: skip


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project")


@pytest.fixture(scope="session")
def before():
    """The table of the project as it is."""
    command = [sys.executable, "-c", DUMP, "{}"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def new(before, after):
    """Artefacts that only the second table has; all others must be as they were, but for the reports."""
    changed = {name for name in before if before[name] != after.get(name) and not name.startswith("report")}
    assert not changed
    return after.keys() - before.keys()


def test_a_run_and_a_row_of_ones_own_are_entries_of_a_papers_files(project, before):
    runs, tables = (f"params/papers/vsepp/{name}.yaml" for name in ("runs", "tables"))
    project.change(runs, lambda r: r.update({"my-run": {"base": "coco-vsepp-1c", "loss": {"margin": 0.4}}}))
    row = {"run": "my-run", "protocol": "5x1K", "label": "mine"}
    project.change(tables, lambda t: t["tables"]["table2"]["groups"][0]["rows"].append(row))
    assert new(before, project.table()) == {"run my-run/seed-0", "evaluation my-run/seed-0"}


def test_a_paper_is_a_folder(project, before):
    mine = project.folder / "params/papers/mine"
    project.write(mine / "runs.yaml", "wide: {base: coco-vsepp-1c, joint_dim: 256, caption_projection: true}")
    heading = (ROOT / "params/papers/vsepp/published.csv").read_text().splitlines()[0]
    project.write(mine / "published.csv", heading + "\n")
    shutil.copy(project.folder / "params/papers/vsepp/tables.yaml", mine)
    row = {"run": "wide", "protocol": "5x1K"}
    tables = {
        "mine": {
            "title": "T",
            "caption": "C.",
            "dataset": "coco",
            "trainset": True,
            "groups": [{"heading": "H", "rows": [row]}],
        }
    }
    project.change(mine / "tables.yaml", lambda t: t.update(tables=tables, figures={}))
    # Before it is reproduced nothing of it is made, and it is reproduced without a label.
    assert new(before, project.table()) == set()
    both = project.table(papers=["vsepp", "mine"])
    assert new(before, both) == {"run wide/seed-0", "evaluation wide/seed-0", "report mine"}
    alone = project.table(papers=["mine"])
    assert alone["run wide/seed-0"] == both["run wide/seed-0"]
    assert not any(name.startswith("run coco-") for name in alone)


LOSS = '''
    """A loss of one's own."""
    from dataclasses import dataclass

    from vsepp.losses import WHOLE, Batch
    from vsepp.losses.violations import hinge_costs

    CITATION = "Nobody (2026)"

    @dataclass(frozen=True)
    class Options:
        margin: float = 0.2
        """α."""
        power: float = 2.0
        """What a violation is raised to."""

    def loss(scores, options=Options(), batch=WHOLE):
        captions, images = hinge_costs(scores, options.margin, batch)
        return (captions**options.power).sum() + (images**options.power).sum()
'''
SIMILARITY = '''
    """Minus the Euclidean distance."""
    from dataclasses import dataclass

    from vsepp.similarity import namespace

    @dataclass(frozen=True)
    class Options:
        scale: float = 1.0
        """Of the distance."""

    def score(images, captions, options=Options()):
        difference = images - captions
        return -options.scale * namespace(images).linalg.vecdot(difference, difference)
'''
TEXT = '''
    """The mean of the words."""
    from dataclasses import dataclass

    from torch import nn

    @dataclass(frozen=True)
    class Options:
        dim: int = 128
        """Of a word, and of the state."""

    class TextEncoder(nn.Module):
        def __init__(self, vocabulary_size, options):
            super().__init__()
            self.table = nn.EmbeddingBag(vocabulary_size, options.dim)

        def forward(self, ids, lengths):
            return self.table(ids)
'''


@pytest.mark.parametrize(
    ("module", "text", "entry"),
    [
        ("losses/powers.py", LOSS, {"loss": {"name": "powers", "power": 1.5}}),
        ("similarity/euclidean.py", SIMILARITY, {"similarity": {"name": "euclidean", "scale": 3}}),
        ("models/text/bag.py", TEXT, {"text": "bag"}),
    ],
)
def test_a_component_with_options_is_one_module_and_one_entry(project, before, module, text, entry):
    project.write(f"vsepp/{module}", text)
    assert new(before, project.table()) == set()
    project.change(
        "params/papers/vsepp/runs.yaml",
        lambda r: r.update(odd={"base": "coco-vsepp-1c", "protocols": ["1K"], **entry}),
    )
    after = project.table()
    assert new(before, after) == {"run odd/seed-0", "evaluation odd/seed-0"}
    # An edit of it makes again what uses it, and nothing else.
    project.write(f"vsepp/{module}", text + "\n    EDITED = 1\n")
    edited = project.table()
    assert {name for name in after if after[name] != edited[name] and not name.startswith("report")} == {
        "run odd/seed-0",
        "evaluation odd/seed-0",
    } - ({"evaluation odd/seed-0"} if module.startswith("losses") else set())


def test_an_encoder_family_is_one_module_and_an_entry_of_a_preset(project, before):
    project.write(
        "vsepp/models/image/mine.py",
        '''
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
        ''',
    )
    network = {"title": "net", "architecture": "mine/net", "options": {"depth": 3}, "weights": "random"}
    project.change(
        "params/presets/mini.yaml",
        lambda p: p["encoders"].update(other={**p["encoders"]["vgg"], **network}),
    )
    run = {"base": "coco-vsepp-1c", "protocols": ["1K"], "encoder": "other"}
    project.change("params/papers/vsepp/runs.yaml", lambda r: r.update(odd=run))
    kinds = {name.split()[0] for name in new(before, project.table())}
    assert kinds == {"encoder", "features", "run", "evaluation"}


def test_a_third_role_is_an_entry_of_a_preset(project, before):
    project.change(
        "params/presets/mini.yaml", lambda p: p["corpora"].update(third={"dataset": "scenes_flickr"})
    )
    run = {"base": "flickr-vsepp-1c", "protocols": ["1K"], "dataset": "third"}
    project.change("params/papers/vsepp/runs.yaml", lambda r: r.update(odd=run))
    kinds = sorted(name.split()[0] for name in new(before, project.table()))
    assert kinds == ["corpus", "evaluation", "features", "run", "store", "tokens"]


def test_a_layout_of_ones_own_is_one_reader(project, before):
    project.write("vsepp/data/readers/folder.py", '''
        """Pictures in a folder, captions in a table."""
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Options:
            delimiter: str = ","
            """Between columns."""

        def read(spec):
            raise NotImplementedError
    ''')  # fmt: skip
    source = {"mirrors": [], "size": None, "sha256": None, "licence": "mine", "citation": "me"}
    data = {"title": "Mine", "reader": {"name": "folder", "delimiter": ";"}, "files": {"images": "mine"}}

    def add(content):
        content["sources"]["mine"] = source
        content["datasets"]["mine"] = data

    project.change("params/datasets.yaml", add)
    project.change("params/presets/mini.yaml", lambda p: p["corpora"].update(third={"dataset": "mine"}))
    run = {"base": "flickr-vsepp-1c", "protocols": ["1K"], "dataset": "third"}
    project.change("params/papers/vsepp/runs.yaml", lambda r: r.update(odd=run))
    assert any(name.startswith("corpus third-") for name in new(before, project.table()))


def install(folder, package, name="powers"):
    """A package that offers a loss, as pip would leave it."""
    module = folder / package
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "objective.py").write_text(textwrap.dedent(LOSS))
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[vsepp.losses]\n{name} = {package}.objective\n")
    return folder


def test_an_installed_package_offers_a_loss(project, before, tmp_path):
    site = install(tmp_path / "site", "theirs")
    run = {"base": "coco-vsepp-1c", "protocols": ["1K"], "loss": {"name": "powers", "power": 3}}
    project.change("params/papers/vsepp/runs.yaml", lambda r: r.update(odd=run))
    after = project.table(site)
    assert new(before, after) == {"run odd/seed-0", "evaluation odd/seed-0"}
    source = site / "theirs" / "objective.py"
    source.write_text(source.read_text() + "\nEDITED = 1\n")
    edited = project.table(site)
    assert {name for name in after if after[name] != edited[name]} - {"report vsepp"} == {"run odd/seed-0"}


@pytest.mark.parametrize("name", ["powers", "max_of_hinges"])
def test_two_packages_that_offer_one_name_are_refused(project, tmp_path, name):
    sites = [install(tmp_path / "one", "one", name)]
    if name == "powers":
        sites.append(install(tmp_path / "two", "two", name))
    run = {"base": "coco-vsepp-1c", "protocols": ["1K"], "loss": {"name": name, "margin": 0.3}}
    project.change("params/papers/vsepp/runs.yaml", lambda r: r.update(odd=run))
    said = project.planned(*sites).stderr
    assert f"loss '{name}' is offered by several packages: one (one.objective), " in said
    assert "uninstall all but one" in said


BAD = [
    ({"loss": "triplet"}, ["runs.odd.loss", "no loss is named 'triplet'", "max_of_hinges, sum_of_hinges"]),
    ({"loss": {"name": "max_of_hinges", "temperature": 1}}, ["runs.odd.loss", "unknown option 'temperature' of loss max_of_hinges", "margin"]),
    ({"loss": {"name": "max_of_hinges", "margin": "wide"}}, ["runs.yaml", "runs.odd.loss", "option margin of loss max_of_hinges: got 'wide'", "number"]),
    ({"loss": {"name": "sum_of_hinges", "margin": 0}}, ["runs.odd.loss", "option margin of loss sum_of_hinges: got 0.0; expected a number above 0"]),
    ({"similarity": {"name": "order", "shape": "round"}}, ["runs.odd.similarity", "unknown option 'shape' of similarity order; it takes form"]),
    ({"dataset": "third"}, ["params/papers/vsepp/runs.yaml", "params/presets/mini.yaml", "corpora.third", "of odd"]),
    ({"encoder": "third"}, ["params/papers/vsepp/runs.yaml", "params/presets/mini.yaml", "encoders.third"]),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "said"), BAD)
def test_bad_components_and_roles_are_named_with_file_run_and_what_is_accepted(project, entry, said):
    run = {"base": "coco-vsepp-1c", "protocols": ["1K"], **entry}
    project.change("params/papers/vsepp/runs.yaml", lambda r: r.update(odd=run))
    message = project.planned().stderr
    for part in said:
        assert part in message, message


def test_a_role_that_is_left_empty_on_purpose_leaves_its_runs_out(project):
    project.change("params/presets/mini.yaml", lambda p: p["corpora"].update(coco=None))
    table = project.table()
    assert any(name.startswith("run flickr-") for name in table)
    assert not any(name.startswith("run coco-") for name in table)


@pytest.mark.parametrize("name", ["runs.yaml", "tables.yaml", "published.csv"])
def test_a_paper_without_one_of_its_files_is_refused(project, name):
    (project.folder / "params/papers/vsepp" / name).unlink()
    message = project.planned().stderr
    assert f"params/papers/vsepp/{name}: no such file" in message


def test_what_papers_that_are_not_reproduced_have_is_named(project):
    mine = project.folder / "params/papers/mine"
    shutil.copytree(project.folder / "params/papers/vsepp", mine)
    project.write(mine / "runs.yaml", "alone: {base: coco-vsepp-1c, protocols: [1K]}")
    (mine / "fidelity.yaml").unlink()
    (mine / "released.yaml").unlink()
    tables = "params/papers/vsepp/tables.yaml"
    project.change(tables, lambda t: t["figures"]["figure2a"].update(runs=["alone"], labels=["A"]))
    row = {"run": "alone", "protocol": "1K"}
    project.change(tables, lambda t: t["tables"]["table2"]["groups"][0]["rows"].append(row))
    message = project.planned().stderr
    for place in ("figures.figure2a", "tables.table2"):
        assert (
            f"tables.yaml: {place}: alone is a run of params/papers/mine/runs.yaml, which is not reproduced"
            in message
        )
    assert "papers: got 'nobodys', but there is no folder" in project.planned(papers=["nobodys"]).stderr
    project.change(mine / "runs.yaml", lambda r: r.update({"coco-vse0-1c": {"base": "vse0"}}))
    assert "ids are shared by all papers" in project.planned().stderr
