"""Code digests see what computes and nothing else."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vsepp
from vsepp.provenance import code
from vsepp.provenance.digests import path_digest, value_digest

PACKAGE = Path(vsepp.__file__).parent


@pytest.fixture
def package(tmp_path):
    return Path(shutil.copytree(PACKAGE, tmp_path / "vsepp", ignore=shutil.ignore_patterns("__pycache__")))


def digest(package, *modules):
    probe = f"from vsepp.provenance.digests import code_digest; print(code_digest(*{modules!r}))"
    found = subprocess.run(
        [sys.executable, "-c", probe], cwd=package.parent, capture_output=True, text=True, check=True
    )
    return found.stdout


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_comments_docstrings_and_layout_change_nothing(package):
    before = digest(package, "vsepp.losses.max_of_hinges")
    path = package / "losses" / "max_of_hinges.py"
    path.write_text(
        '"""Another docstring."""\n# and a comment\n' + path.read_text().replace("\n\n\n", "\n\n\n\n")
    )
    assert digest(package, "vsepp.losses.max_of_hinges") == before


def test_an_edit_of_one_loss_changes_that_loss_alone(package):
    losses = ("vsepp.losses.max_of_hinges", "vsepp.losses.sum_of_hinges")
    before = [digest(package, loss) for loss in losses]
    path = package / "losses" / "max_of_hinges.py"
    path.write_text(path.read_text() + "\nSOMETHING = 1\n")
    after = [digest(package, loss) for loss in losses]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_an_edit_of_an_imported_module_changes_its_importers(package):
    before = digest(package, "vsepp.losses.max_of_hinges")
    path = package / "losses" / "violations.py"
    path.write_text(path.read_text() + "\nSOMETHING = 1\n")
    assert digest(package, "vsepp.losses.max_of_hinges") != before


def test_plumbing_is_not_computation(package):
    before = digest(package, "vsepp.training.loop")
    for plumbing in ("runtime/progress.py", "errors.py", "spec.py", "provenance/manifest.py"):
        path = package / plumbing
        path.write_text(path.read_text() + "\nSOMETHING = 1\n")
    assert digest(package, "vsepp.training.loop") == before


def test_a_new_loss_changes_no_digest(package):
    before = digest(package, "vsepp.training.loop", "vsepp.losses.max_of_hinges")
    (package / "losses" / "new.py").write_text("def loss(scores, margin, **_): return scores.sum()\n")
    assert digest(package, "vsepp.training.loop", "vsepp.losses.max_of_hinges") == before


def test_training_follows_the_components_of_its_run_only():
    from vsepp.config import make_plan

    plan = make_plan(PACKAGE.parent / "params", {})
    digests = {name: code.train_code(run.spec) for name, run in plan.runs.items()}
    assert digests["coco-vse0-rc"] == digests["flickr-vse0-1c"]
    assert digests["coco-vse0-rc"] != digests["coco-vsepp-rc"]
    assert digests["coco-vsepp-10c-rv"] != digests["coco-orderpp-10c-rv"]
    assert digests["coco-vsepp-rc-rv"] != digests["coco-vsepp-rc-rv-ft"]


def test_a_module_that_does_not_exist_is_named():
    from vsepp.provenance.digests import code_digest

    with pytest.raises(ModuleNotFoundError, match=r"vsepp\.losses\.nothing"):
        code_digest("vsepp.losses.nothing")


def test_value_digest_ignores_the_order_of_keys():
    assert value_digest({"a": 1, "b": 2}) == value_digest({"b": 2, "a": 1})
    assert value_digest({"a": 1}) != value_digest({"a": 2})


def test_path_digest_of_a_folder_sees_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    before = path_digest(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    assert path_digest(tmp_path) == before
    (tmp_path / "a").rename(tmp_path / "b")
    assert path_digest(tmp_path) != before
