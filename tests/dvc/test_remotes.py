"""Results travel: pushed to a remote of each kind, and had again in a clone that computes nothing."""

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import pytest
from repository import Repository
from s3_server import serve_s3
from ssh_server import SSHD, serve_ssh

pytestmark = pytest.mark.dvc


@pytest.fixture
def ssh(tmp_path):
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd here: apt-get install openssh-server")
    if find_spec("dvc_ssh") is None:
        pytest.skip("no dvc-ssh in this environment: pip install 'vsepp[ssh]'")
    with serve_ssh(tmp_path / "ssh") as server:
        yield server


@pytest.fixture
def s3(tmp_path):
    if find_spec("dvc_s3") is None or find_spec("moto") is None:
        pytest.skip("no dvc-s3 and moto in this environment")
    with serve_s3(tmp_path / "s3") as server:
        yield server


def tables(repository):
    """Name of every table, in each of its formats → its bytes."""
    folder = repository.folder
    found = {path.relative_to(folder): path.read_bytes() for path in folder.glob("reports/**/tables/*")}
    assert found
    return found


def is_done(repository):
    """Whether Snakemake, called without a target, has nothing to do; it does not miss the stores that nobody pushed."""
    return "Nothing to be done" in repository.dry_run("all")


def clone_of(repository, folder):
    """Clone into a folder where no cache, no setting and no result of the first one is within reach."""
    folder.parent.mkdir()
    repository.call("git", "clone", "--quiet", repository.folder, folder)
    clone = Repository(folder)
    assert not (folder / "results").exists() and not (folder / ".dvc/cache").exists()
    return clone


def travels(repository, folder, local=()):
    """Push, clone, delete the original, sync; `local` are settings that a user would not commit."""
    before = tables(repository)
    for setting in local:
        repository.call("dvc", "remote", "modify", "--local", "store", *setting)
    repository.commit("Where results are kept")
    repository.call("dvc", "push")
    clone = clone_of(repository, folder)
    shutil.rmtree(repository.folder)
    for setting in local:
        clone.call("dvc", "remote", "modify", "--local", "store", *setting)
    assert not is_done(clone)
    output = clone.call("vsepp", "sync").stdout
    assert "artefacts fetched and verified" in output
    assert is_done(clone)
    assert "up to date" in clone.call("dvc", "status").stdout
    assert tables(clone) == before
    return clone


def test_a_folder(repository, tmp_path):
    """Such as a mounted drive that colleagues share."""
    repository.call("dvc", "remote", "add", "--default", "store", tmp_path / "shared")
    clone = travels(repository, tmp_path / "elsewhere/vsepp")
    before = clone.manifests()
    assert "artefacts fetched and verified" in clone.call("vsepp", "sync").stdout
    assert is_done(clone)
    assert clone.manifests().keys() == before.keys()
    assert "didn't change, skipping" in clone.repro()
    assert is_done(clone)


def test_s3(repository, tmp_path, s3):
    """With a server of one's own, as MinIO or Ceph are."""
    repository.call("dvc", "remote", "add", "--default", "store", f"s3://{s3.bucket}/vsepp")
    repository.call("dvc", "remote", "modify", "store", "endpointurl", s3.url)
    keys = [("access_key_id", s3.key), ("secret_access_key", s3.secret)]
    travels(repository, tmp_path / "elsewhere/vsepp", keys)


def test_ssh(repository, tmp_path, ssh):
    """With a key and no password."""
    url = f"ssh://{ssh.user}@127.0.0.1:{ssh.port}{tmp_path}/server"
    repository.call("dvc", "remote", "add", "--default", "store", url)
    travels(repository, tmp_path / "elsewhere/vsepp", [("keyfile", ssh.key)])
    assert any((tmp_path / "server").iterdir())


@contextmanager
def web_server(folder):
    """Any web server: the address at which it serves a folder."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_http_to_read_from(repository, tmp_path):
    """A folder that one writes to and others read through a web server."""
    repository.call("dvc", "remote", "add", "--default", "store", tmp_path / "shared")
    repository.call("dvc", "push")
    clone = clone_of(repository, tmp_path / "elsewhere/vsepp")
    with web_server(tmp_path / "shared") as url:
        clone.call("dvc", "remote", "add", "public", url)
        clone.call("vsepp", "sync", "--remote", "public")
    assert is_done(clone)
    assert tables(clone) == tables(repository)


def times(repository):
    """Manifest → when it was last written or touched."""
    return {path: (repository.folder / path).stat().st_mtime_ns for path in repository.manifests()}


def test_nothing_is_declared_done_that_does_not_verify(repository):
    """Results that a commit holds although its parameters would make others."""
    before = times(repository)
    repository.edit("params/presets/tiny.yaml", "vocabulary_threshold: 2", "vocabulary_threshold: 3")
    done = repository.call("vsepp", "sync", check=False)
    assert done.returncode == 1
    assert "nothing was declared done" in done.stdout
    assert "results/tiny/tokens/" in done.stdout
    assert times(repository) == before
    assert not is_done(repository)
