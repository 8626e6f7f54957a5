"""Results travel: pushed to a remote of each kind, and had again in a clone that computes nothing."""

import os
import random
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import pytest
from dag import Project
from s3_server import serve_s3
from ssh_server import SSHD, serve_ssh

pytestmark = pytest.mark.dvc


@pytest.fixture
def ssh(tmp_path):
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd on the path: apt-get install openssh-server, PATH=$PATH:/usr/sbin")
    if find_spec("dvc_ssh") is None:
        pytest.skip("no dvc-ssh in this environment: uv run --group dev pytest")
    with serve_ssh(tmp_path / "ssh") as server:
        yield server


@pytest.fixture
def s3(tmp_path):
    if find_spec("dvc_s3") is None or find_spec("moto") is None:
        pytest.skip("no dvc-s3 and moto in this environment: uv run --group dev pytest")
    with serve_s3(tmp_path / "s3") as server:
        yield server


def tables(project):
    """Name of every table, in each of its formats → its bytes."""
    folder = project.folder
    found = {path.relative_to(folder): path.read_bytes() for path in folder.glob("reports/**/tables/*")}
    assert found
    return found


def pushed(project, url, shared=(), local=()):
    """Push to a remote; `shared` are settings that a user would commit, `local` settings that stay with the user."""
    project.call("dvc", "remote", "add", "--default", "store", url)
    for setting in shared:
        project.call("dvc", "remote", "modify", "store", *setting)
    for setting in local:
        project.call("dvc", "remote", "modify", "--local", "store", *setting)
    project.commit("Where results are kept")
    project.call("dvc", "push")
    return project


def clone_of(project):
    """A clone in a folder where no cache, no setting and no result of the first one is within reach."""
    folder = project.folder.parent / "elsewhere/vsepp"
    folder.parent.mkdir()
    project.call("git", "clone", "--quiet", project.folder, folder)
    assert not (folder / "results").exists() and not (folder / ".dvc/cache").exists()
    return Project(folder)


def travels(project, *sync, local=()):
    """Clone, delete the original, sync: the clone, which has all results."""
    before, clone = tables(project), clone_of(project)
    shutil.rmtree(project.folder)
    for setting in local:
        clone.call("dvc", "remote", "modify", "--local", "store", *setting)
    assert "artefacts fetched and verified" in clone.said("vsepp", "sync", *sync)
    assert tables(clone) == before
    assert clone.is_versioned()
    return clone


def test_a_folder_and_what_sync_makes_of_times_and_of_what_is_missing(project, tmp_path):
    """Such as a mounted drive that colleagues share."""
    clone = travels(pushed(project, tmp_path / "shared"))
    assert clone.planned() == {}, "it does not miss the stores that nobody pushed"
    manifest = (clone.model() / "manifest.json").read_bytes()

    shutil.rmtree(clone.model())
    shutil.rmtree(clone.folder / ".snakemake")  # what Snakemake noted when it was told that all is done
    files = sorted(path for path in clone.folder.glob("results/**/*") if path.is_file())
    moments = list(range(len(files)))
    random.Random(0).shuffle(moments)
    for file, moment in zip(files, moments, strict=True):
        os.utime(file, (1.7e9 + moment, 1.7e9 + moment))
    assert clone.planned(), "times of a checkout mean nothing"
    clone.call("vsepp", "sync")
    assert (clone.model() / "manifest.json").read_bytes() == manifest
    assert clone.planned() == {}
    assert "didn't change, skipping" in clone.said("dvc", "repro")

    # Snakemake asks for no store, so a change of what makes them must not pass.
    clone.edit("vsepp/data/store.py")
    assert "made from a store with other code" in clone.refusal("vsepp", "verify", "--phase", "features")


@pytest.mark.whole
@pytest.mark.s3
def test_s3(project, s3):
    """With a server of one's own, as MinIO or Ceph are."""
    keys = [("access_key_id", s3.key), ("secret_access_key", s3.secret)]
    travels(pushed(project, f"s3://{s3.bucket}/vsepp", [("endpointurl", s3.url)], keys), local=keys)


@pytest.mark.whole
@pytest.mark.ssh
def test_ssh(project, tmp_path, ssh):
    """With a key and no password."""
    url, key = f"ssh://{ssh.user}@127.0.0.1:{ssh.port}{tmp_path}/server", [("keyfile", ssh.key)]
    travels(pushed(project, url, local=key), local=key)
    assert any((tmp_path / "server").iterdir())


@contextmanager
def web_server(folder):
    """Any web server: the address at which it serves a folder."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.whole
def test_http_to_read_from(project, tmp_path):
    """A folder that one user writes to and other users read through a web server."""
    with web_server(tmp_path / "shared") as url:
        project.call("dvc", "remote", "add", "public", url)
        travels(pushed(project, tmp_path / "shared"), "--remote", "public")


def times(project):
    """Manifest → when it was last written or touched."""
    return {path: (project.folder / path).stat().st_mtime_ns for path in project.manifests()}


def test_nothing_is_declared_done_that_does_not_verify(project):
    """Results that a commit holds although its parameters would make others."""
    before = times(project)
    project.edit("params/presets/tiny.yaml", "vocabulary_threshold: 2", "vocabulary_threshold: 3")
    said = project.refusal("vsepp", "sync")
    assert "nothing was declared done" in said
    assert "results/tiny/tokens/" in said
    assert times(project) == before
    assert project.planned()
