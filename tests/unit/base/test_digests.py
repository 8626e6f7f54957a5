"""Code digests see what computes and nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python

import vsepp
from vsepp.base.digests import FileCache, path_digest

MH, SH, TRAINING = "vsepp.losses.max_of_hinges", "vsepp.losses.sum_of_hinges", "vsepp.training.loop"
PROBE = f"""
import json
from vsepp.pipeline.code import code_digest
print(json.dumps({{name: code_digest(name) for name in {(MH, SH, TRAINING)}}}))
"""


def digests(folder):
    """Digest of each module, by the package that lies in a folder."""
    return json.loads(python(PROBE, cwd=folder))


@pytest.fixture(scope="module")
def before():
    return digests(Path(vsepp.__file__).parents[1])


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"losses/max_of_hinges.py": '"""Another docstring."""\n# and a comment\n\n\n\n{}'}, set()),
        ({"losses/max_of_hinges.py": "{}\nSOMETHING = 1\n"}, {MH}),
        ({"losses/common.py": "{}\nSOMETHING = 1\n"}, {MH, SH}),  # which both import
        ({"losses/new.py": "def loss(scores, options, batch): return scores.sum()\n"}, set()),
        ({"training/step.py": "{}\nSOMETHING = 1\n"}, {TRAINING}),
        (
            # What only carries or shows is no computation.
            dict.fromkeys(("base/spec.py", "base/errors.py", "pipeline/making.py"), "{}\nSOMETHING = 1\n"),
            set(),
        ),
    ],
    ids=["comment", "a loss", "what losses import", "a new loss", "training", "plumbing"],
)
def test_an_edit_changes_what_computes_with_it_and_nothing_else(tmp_path, before, changes, changed):
    package = tmp_path / "vsepp"
    shutil.copytree(Path(vsepp.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in changes.items():
        old = (package / name).read_text() if (package / name).exists() else ""
        (package / name).write_text(text.replace("{}", old))
    after = digests(tmp_path)
    assert {module for module in before if before[module] != after[module]} == changed


PYODIDES = {"3.12": "0.27.7", "3.13": "0.28.3"}
"""Python → version of npm's package `pyodide`, that Python for WebAssembly."""
WHOLE = """
import sys, types
sys.modules.update((name, types.ModuleType(name)) for name in ("fcntl", "resource") if name not in sys.modules)
sys.path.insert(0, {folder!r})
import vsepp
from pathlib import Path
from vsepp.pipeline import code
root = Path(vsepp.__file__).parents[1]
names = [".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(root.glob("vsepp/**/*.py"))]
print(sys.version[:4], len(names), code.code_digest(*(name.removesuffix(".__init__") for name in names)))
"""
IN_NODE = """
import {{ loadPyodide }} from "pyodide";
const python = await loadPyodide();
python.mountNodeFS("/code", {folder});
python.runPython({code});
"""


@pytest.mark.whole
@pytest.mark.parametrize("version", PYODIDES)
def test_digests_are_the_same_on_every_python(tmp_path, version):
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("needs node and npm: apt-get install nodejs npm")
    fetched = ["npm", "install", "--silent", "--prefix", tmp_path, f"pyodide@{PYODIDES[version]}"]
    if subprocess.run(fetched, check=False).returncode:
        pytest.skip("needs npm's registry")
    root = str(Path(vsepp.__file__).parents[1])
    here = subprocess.run(
        [sys.executable, "-c", WHOLE.format(folder=root)], capture_output=True, text=True, check=True
    )
    script = tmp_path / "there.mjs"
    script.write_text(IN_NODE.format(folder=json.dumps(root), code=json.dumps(WHOLE.format(folder="/code"))))
    in_browser = subprocess.run(["node", script], capture_output=True, text=True, check=True)
    assert in_browser.stdout.split()[0] == version
    assert in_browser.stdout.split()[1:] == here.stdout.split()[1:]


def test_path_digest_of_a_folder_sees_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    before = path_digest(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    assert path_digest(tmp_path) == before
    (tmp_path / "a").rename(tmp_path / "b")
    assert path_digest(tmp_path) != before


def test_what_is_kept_of_code_follows_its_files(tmp_path):
    """Where there are results, modules are parsed once, as long as their files stay as they are."""
    package, kept = tmp_path / "mine", tmp_path / "results/.state/code-4.json"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from mine import b\n")
    (package / "b.py").write_text("X = 1\n")

    def digest():
        paths = os.pathsep.join([str(tmp_path), *sys.path])
        code = 'from vsepp.pipeline.code import code_digest; print(code_digest("mine.a"))'
        return python(code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths})

    first = digest()
    assert not kept.exists(), "nothing is kept where there are no results"
    (tmp_path / "results").mkdir()
    assert digest() == first == digest()
    assert {Path(file).name for file in json.loads(kept.read_text())} == {"a.py", "b.py"}

    # As long as before, and of the same time: an edit all the same.
    status = (package / "b.py").stat()
    (package / "b.py").write_text("X = 2\n")
    os.utime(package / "b.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    second = digest()
    assert second != first
    kept.write_text("{")
    assert digest() == second


# Files that did not change are not read again.


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "artefact"
    (folder / "below").mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * 1000)
    (folder / "below" / "history").write_bytes(b"h" * 10)
    return folder


def bytes_read(tmp_path, folder):
    """Bytes that digesting a folder takes, given what was kept before."""
    known = FileCache(tmp_path / "state" / "digests.json")
    assert path_digest(folder, known) == path_digest(folder)
    known.save()
    return known.read


def test_digests_are_those_of_the_bytes_and_only_a_file_that_changed_is_read_again(tmp_path, folder):
    assert bytes_read(tmp_path, folder) == 1010
    assert bytes_read(tmp_path, folder) == 0
    (folder / "below" / "history").write_bytes(b"i" * 12)
    assert bytes_read(tmp_path, folder) == 12


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(tmp_path, folder):
    bytes_read(tmp_path, folder)
    weights = folder / "weights"
    before = weights.stat()
    other = folder.parent / "other"
    other.write_bytes(b"x" * 1000)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(weights)
    assert weights.stat().st_mtime_ns == before.st_mtime_ns
    assert bytes_read(tmp_path, folder) == 1000


def test_a_damaged_list_costs_time_and_no_mistake(tmp_path, folder):
    bytes_read(tmp_path, folder)
    (tmp_path / "state" / "digests.json").write_text('{"a": [1, 2, 3, 4]}')
    assert bytes_read(tmp_path, folder) == 1010
    assert bytes_read(tmp_path, folder) == 0
