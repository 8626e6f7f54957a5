"""`vsepp fetch`: one file for a rule, or all that a preset reads, by hand."""

import argparse
import hashlib

import pytest
import yaml
from file_server import serve
from plans import PARAMS, copied

from vsepp.cli import fetch as command
from vsepp.errors import VseppError
from vsepp.spec import SourceSpec, to_json


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.add_steps(parser.add_subparsers())
    given = parser.parse_args(["fetch", *map(str, arguments)])
    given.call(given)


def test_a_rule_fetches_its_one_file(tmp_path, content):
    with serve({"a": content}) as server:
        spec = SourceSpec("a.bin", mirrors=(server.url("a"),), sha256=hashlib.sha256(content).hexdigest())
        run("--spec", to_json(spec), "--lock", tmp_path / "lock.yaml", "--output", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == content


def test_spec_and_output_belong_together(tmp_path):
    spec = to_json(SourceSpec("a.bin"))
    for arguments in (
        ("--spec", spec),
        ("--output", "a.bin"),
        ("--spec", spec, "--output", "a.bin", "a.bin"),
    ):
        with pytest.raises(VseppError, match="expected --spec and --output together"):
            run(*arguments)


@pytest.fixture
def parameters(tmp_path):
    """A copy of the parameters, to change."""
    return copied(tmp_path)


def serve_sources(params, server, names):
    """Let the parameters name `server` as the only mirror of these files, and nothing else be known of them."""
    path = params / "datasets.yaml"
    entries = yaml.safe_load(path.read_text())
    for name in names:
        entries["sources"][name] |= {"mirrors": [server.url(name)], "size": None, "sha256": None}
    path.write_text(yaml.safe_dump(entries, allow_unicode=True))


def test_by_hand_all_files_of_a_preset_come(parameters, tmp_path, capsys):
    names = ["Flickr8k_Dataset.zip", "Flickr8k_text.zip"]
    empty_zip = b"PK\x03\x04" + b"PK\x05\x06" + bytes(18)
    with serve(dict.fromkeys(names, empty_zip)) as server:
        serve_sources(parameters, server, names)
        where = ("--params", parameters, "--preset", "flickr8k", "--folder", tmp_path / "down")
        run(*where)
        assert sorted(request.name for request in server.requests) == names
        run(*where)
        assert len(server.requests) == 2
    assert sorted(yaml.safe_load((parameters / "sources.lock.yaml").read_text())) == names
    assert f"Flickr8k_text.zip: {tmp_path / 'down' / 'Flickr8k_text.zip'}" in capsys.readouterr().out


def test_by_hand_only_the_named_ones_and_none_of_the_users_own(parameters, tmp_path, capsys):
    names = ["Flickr8k_Dataset.zip", "Flickr8k_text.zip"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "Flickr8k_text.zip").write_bytes(b"as it is")
    with serve({}) as server:
        serve_sources(parameters, server, names)
        where = ("--params", parameters, "--preset", "flickr8k", "--folder", tmp_path / "down")
        own = ("--config", f"archives={tmp_path / 'mine'}")
        run("Flickr8k_text.zip", *where, *own)
        assert not server.requests
        with pytest.raises(VseppError, match="1 of 1 files could not be fetched"):
            run("Flickr8k_text.zip", *where)
    assert f"your own, {tmp_path / 'mine' / 'Flickr8k_text.zip'}" in capsys.readouterr().out


def test_names_that_no_run_reads_are_refused(capsys):
    with pytest.raises(
        VseppError, match=r"a\.zip: not read by preset flickr8k; it reads Flickr8k_Dataset\.zip, "
    ):
        run("a.zip", "--params", PARAMS, "--preset", "flickr8k")
    run("--params", PARAMS, "--preset", "mini")
    assert "reads no files that are fetched" in capsys.readouterr().out
