"""Results appear together, and only while somebody waits for them."""

import os
import shlex
import subprocess
import sys

import pytest
from processes import wait_until

from vsepp.base.manifest import MANIFEST
from vsepp.base.publish import RULE_SHELL, published

# Says that it works, waits until it may end, and publishes.
STEP = """
import sys, time
from pathlib import Path
from vsepp.base.publish import published
output = Path(sys.argv[1])
with published(output) as folder:
    (folder / "numbers.txt").write_text("new")
    (folder / "manifest.json").write_text("{}")
    output.with_name("works").touch()
    while not output.with_name("end").exists():
        time.sleep(0.01)
output.with_name("published").touch()
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_results_replace_those_of_the_same_names_and_leave_others(tmp_path):
    output = tmp_path / "report"
    (output / "tables").mkdir(parents=True)
    (output / "tables/old.csv").touch()
    (output / "mine.txt").touch()
    with published(output) as folder:
        (folder / "tables").mkdir()
        (folder / "tables/new.csv").touch()
        assert names(output / "tables") == ["old.csv"]
    assert names(output / "tables") == ["new.csv"]
    assert names(output) == ["mine.txt", "tables"] and names(tmp_path) == ["report"]


def test_a_step_that_fails_leaves_what_is_there(tmp_path):
    output = tmp_path / "report"
    output.mkdir()
    (output / MANIFEST).write_text("old")
    with pytest.raises(ZeroDivisionError), published(output) as folder:
        (folder / MANIFEST).write_text("new")
        1 / 0  # noqa: B018
    assert (output / MANIFEST).read_text() == "old" and names(tmp_path) == ["report"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f".report.{os.uname().nodename}.{ended.pid}.part"
    left.mkdir()
    (left / "half").touch()
    with published(tmp_path / "report"):
        pass
    assert not left.exists()


@pytest.mark.parametrize("waits", [True, False], ids=["a rule waits", "by hand"])
def test_a_step_whose_shell_was_killed_publishes_only_where_no_rule_waited_for_it(tmp_path, waits):
    output = tmp_path / "report"
    output.mkdir()
    (output / "numbers.txt").write_text("old")
    (tmp_path / "step.py").write_text(STEP)
    log = tmp_path / "said"
    rule = f"export {RULE_SHELL}=$$; " if waits else ""
    # With a second command the shell stays.
    step = shlex.join([sys.executable, f"{tmp_path}/step.py", str(output)])
    command = f"{rule}{step} 2> {shlex.quote(str(log))}; touch {shlex.quote(str(tmp_path / 'ended'))}"
    shell = subprocess.Popen(["bash", "-c", command], start_new_session=True)
    wait_until((tmp_path / "works").exists, shell)
    shell.kill()
    shell.wait()
    (tmp_path / "end").touch()
    if waits:
        wait_until(lambda: "has ended" in log.read_text())
    else:
        wait_until((tmp_path / "published").exists)
    assert (output / MANIFEST).exists() != waits
    assert (output / "numbers.txt").read_text() == ("old" if waits else "new")
    wait_until(lambda: not list(tmp_path.glob(".*.part")))
    assert not (tmp_path / "ended").exists()


def test_a_step_publishes_while_its_rule_waits(tmp_path):
    (tmp_path / "end").touch()
    command = [sys.executable, "-c", STEP, str(tmp_path / "report")]
    subprocess.run(["bash", "-c", f'export {RULE_SHELL}=$$; "$@"; exit', "rule", *command], check=True)
    # Also where the shell becomes the step, as it does for a last command.
    subprocess.run(["bash", "-c", f'export {RULE_SHELL}=$$; exec "$@"', "rule", *command], check=True)
    assert names(tmp_path / "report") == [MANIFEST, "numbers.txt"]
