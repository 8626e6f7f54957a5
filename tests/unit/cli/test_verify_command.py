"""What `vsepp verify --phase` refuses before it looks at any artefact."""

from pathlib import Path

import pytest

from vsepp.cli.verify import require_copies, require_versionable
from vsepp.config import make_plan
from vsepp.errors import VseppError

PARAMS = Path(__file__).resolve().parents[3] / "params"


def test_a_labelled_variant_is_no_phase_of_dvc_yaml():
    plan = make_plan(PARAMS, {"label": "mine"})
    require_versionable(plan, None)
    with pytest.raises(VseppError, match=r"label is 'mine'.*set label to null"):
        require_versionable(plan, "models")


@pytest.fixture
def dvc(tmp_path, monkeypatch):
    """A `.dvc`, and nothing set by this machine's user."""
    for level in ("GLOBAL", "SYSTEM"):
        monkeypatch.setenv(f"DVC_{level}_CONFIG_DIR", str(tmp_path / level))
    folder = tmp_path / ".dvc"
    folder.mkdir()
    (folder / "config").write_text("[cache]\n    type = reflink,copy\n")
    return folder


def test_copies_are_fine(dvc):
    require_copies(dvc)
    (dvc / "config").write_text("[core]\n    analytics = false\n")
    require_copies(dvc)
    require_copies(dvc.with_name("nowhere"))


def test_links_of_ones_own_settings_are_named_with_their_file(dvc):
    (dvc / "config.local").write_text("[cache]\n    type = hardlink,copy\n")
    with pytest.raises(
        VseppError, match=r"config\.local: cache\.type is hardlink, copy.*dvc config --local cache"
    ):
        require_copies(dvc)


def test_links_of_the_project_are_named_with_their_file(dvc):
    (dvc / "config").write_text("[cache]\n    type = symlink\n")
    with pytest.raises(VseppError, match=r"\.dvc/config: cache\.type is symlink.*dvc config --project cache"):
        require_copies(dvc)


def test_links_of_the_user_are_named_unless_the_project_pins_copies(dvc, tmp_path):
    (tmp_path / "GLOBAL").mkdir()
    (tmp_path / "GLOBAL" / "config").write_text("[cache]\n    type = hardlink\n")
    require_copies(dvc)
    (dvc / "config").write_text("")
    with pytest.raises(
        VseppError, match=r"GLOBAL/config: cache\.type is hardlink.*dvc config --global cache"
    ):
        require_copies(dvc)
