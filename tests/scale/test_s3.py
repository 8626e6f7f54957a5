"""The tiny project on storage of S3's kind, by the shipped profile: the results equal one machine's results without it.

The storage is moto's server on this machine. A machine is a folder of its own, which shares nothing but the storage.
"""

import json
import re
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from contents import content, differing, without_repository
from dag import RUNS, make_tiny_project
from failing_proxy import DROPPED, failing_proxy
from s3_server import serve_s3

boto3 = pytest.importorskip("boto3", reason="needs boto3: uv run --group scale pytest")
for needed in ("snakemake_storage_plugin_s3", "moto"):
    pytest.importorskip(needed, reason=f"needs {needed}: uv run --group scale pytest")
pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]

RUN = RUNS[0]
# The features of ten crops too, which this run's tables do not read.
WHOLE = "all_features", "reproduce_tables"
# Runs a job in the first of two folders where no job runs; each folder has nothing but what storage brings.
WORKER = """#!/bin/bash
for machine in {folder}/one {folder}/two; do
    mkdir -p $machine
    exec 9> $machine.lock
    if flock --nonblock 9; then
        echo $machine >> {folder}/machines
        cd $machine && PYTHONPATH=$machine VSEPP_GIT_COMMIT={commit} exec bash "$1"
    fi
done
exit 1
"""


@dataclass(frozen=True)
class Storage:
    """A folder in the bucket, reached through a proxy that can fail."""

    proxy: object
    client: object
    bucket: str = "results"
    folder: str = "vsepp"

    @property
    def environment(self):
        keys = {"ACCESS_KEY": "a-key", "SECRET_KEY": "a-secret", "ENDPOINT_URL": self.proxy.url}
        return {f"SNAKEMAKE_STORAGE_S3_{name}": value for name, value in keys.items()}

    def command(self, *targets):
        """The command of a user."""
        prefix = ["--default-storage-prefix", f"s3://{self.bucket}/{self.folder}"]
        return ["snakemake", "--profile", "profiles/s3", *prefix, "--cores", "all", *targets]

    def call(self, project, *targets, check=True):
        return project.call(*self.command(*targets), check=check, **self.environment)

    def objects(self):
        """Key below the folder → when it was stored, and its digest."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=self.folder)
        found = [one for page in pages for one in page.get("Contents", [])]
        return {
            one["Key"].removeprefix(f"{self.folder}/"): (one["LastModified"], one["ETag"]) for one in found
        }

    def buckets(self):
        return {bucket["Name"] for bucket in self.client.list_buckets()["Buckets"]}

    def keep(self):
        """The object without which Snakemake would make and delete buckets."""
        self.client.put_object(Bucket=self.bucket, Key=f"{self.folder}/.keep")

    def download(self, folder):
        """What a user has after a copy of the whole folder."""
        for key in self.objects():
            file = folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(self.bucket, f"{self.folder}/{key}", str(file))
        return SimpleNamespace(folder=folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve_s3(tmp_path_factory.mktemp("s3") / "server") as started:
        yield started


@pytest.fixture
def storage(server, request):
    """A new folder in the bucket, all of whose requests go well."""
    client = boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=server.key,
        aws_secret_access_key=server.secret,
    )
    with failing_proxy(server.url) as proxy:
        made = Storage(proxy, client, server.bucket, request.node.name.replace("[", "-").strip("]"))
        made.keep()
        yield made


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """The project with one run; nothing was made in the project."""
    project = make_tiny_project(tmp_path_factory.mktemp("fresh").resolve() / "vsepp")
    project.edit("params/config.yaml", f"only: {json.dumps(RUNS)}", f"only: {json.dumps([RUN])}")
    project.commit("One run")
    return project


@pytest.fixture(scope="module")
def alone(fresh):
    """What one machine makes without storage."""
    project = fresh.copy(fresh.folder.parent / "alone")
    project.run(*WHOLE)
    return content(project)


@pytest.fixture
def project(fresh, tmp_path):
    return fresh.copy(tmp_path.resolve() / "vsepp")


def is_manifest(name):
    return name.endswith("manifest.json")


def assert_equal(stored, alone):
    """All that is stored is what one machine made, and every artefact is there; its manifest has digests of all files."""
    assert [name for name in differing(stored, alone) if name in stored] == []
    assert set(filter(is_manifest, stored)) == set(filter(is_manifest, alone))


def test_a_second_machine_goes_on_with_what_the_first_began(project, alone, storage, tmp_path):
    second = project.copy(tmp_path / "second")
    storage.call(project, "all_features")
    began = storage.objects()
    said = storage.call(second, *WHOLE).stdout
    made = {name for name, found in storage.objects().items() if began.get(name) != found}
    assert f"Train {RUN}/seed-0" in said
    assert "Corpus " not in said and "Scenes: " not in said
    assert {name for name in made if name.startswith(("resources/", "results/tiny/features/"))} == set()
    assert_equal(content(storage.download(tmp_path / "stored")), alone)
    assert "Nothing to be done" in storage.call(project, *WHOLE).stdout


def test_jobs_on_two_machines_end_with_the_results_of_one(project, alone, storage, tmp_path):
    pytest.importorskip("snakemake_executor_plugin_cluster_sync", reason="needs the group `test`")
    worker = tmp_path / "worker.sh"
    commit = project.said("git", "rev-parse", "HEAD").strip()
    worker.write_text(WORKER.format(folder=tmp_path, commit=commit))
    worker.chmod(0o755)
    cluster = ["--executor", "cluster-sync", "--cluster-sync-submit-cmd", worker, "--job-deploy-sources"]
    storage.call(project, "--jobs", "2", *cluster, *WHOLE)
    assert set((tmp_path / "machines").read_text().split()) == {f"{tmp_path}/one", f"{tmp_path}/two"}
    stored = content(storage.download(tmp_path / "stored"))
    assert_equal(without_repository(stored), without_repository(alone))
    # The report is made where the command was given, and is whole there.
    here = {name: made for name, made in content(project).items() if name.startswith("reports/")}
    assert here.keys() >= {name for name in alone if name.startswith("reports/tiny/paper/vsepp/runs/")}


ENCODER = "results/tiny/encoders"
MADE_IN = {"Encoder": ENCODER, "Corpus": "results/tiny/corpora"}


def manifest_of(project, kind):
    """The manifest of the only encoder or corpus, to be asked for."""
    (name,) = re.findall(rf" {kind} ([\w-]+): ", project.run("-n"))
    return f"{MADE_IN[kind]}/{name}/manifest.json"


def beside(objects, *folders):
    """Stored objects that lie in none of these folders."""
    return {key: value for key, value in objects.items() if not key.startswith(folders)}


FAULTS = {
    "read-only": (
        (403, "AccessDenied", "Access Denied"),
        "(AccessDenied) when calling the PutObject operation",
    ),
    "full": (
        (507, "InsufficientStorage", "No space left"),
        "(InsufficientStorage) when calling the PutObject",
    ),
    "gone": (DROPPED, "ConnectionClosedError: Connection was closed before we received a valid response"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_storage_that_fails_in_an_upload_is_told_and_the_same_command_goes_on(project, storage, kind):
    fault, sentence = FAULTS[kind]
    encoder = manifest_of(project, "Encoder")
    storage.call(project, manifest_of(project, "Corpus"))
    before = storage.objects()
    begun = []

    def failing(method, path):
        if method == "PUT" and "encoder.safetensors" in path:
            begun.append(path)
        fails = begun if fault == DROPPED else method == "PUT"
        return fault if fails else None

    storage.proxy.fault = failing
    failed = storage.call(project, encoder, check=False)
    assert failed.returncode == 1
    assert f"Failed to store output in storage s3://results/{storage.folder}/{ENCODER}/" in failed.stdout
    assert sentence in failed.stdout
    assert "Traceback" not in failed.stdout
    assert storage.objects() == before
    storage.proxy.heal()
    said = storage.call(project, encoder).stdout
    assert "Corpus " not in said and "Scenes: " not in said
    assert encoder in storage.objects()
    changed = ENCODER, "results/tiny/logs", "results/tiny/benchmarks"
    assert beside(storage.objects(), *changed) == beside(before, *changed)


def test_slow_storage_only_takes_longer(project, storage):
    encoder = manifest_of(project, "Encoder")
    storage.proxy.delay = lambda method, path: 3 if method == "PUT" else 0.1
    storage.call(project, encoder)
    assert encoder in storage.objects()


def test_a_folder_of_which_a_part_is_stored_is_made_again_by_another_machine(
    project, alone, storage, tmp_path
):
    second, begun = project.copy(tmp_path / "second"), []

    def failing(method, path):
        if method == "PUT" and "flickr" in path:
            begun.append(path)
        return DROPPED if begun else None

    storage.proxy.fault = failing
    assert storage.call(project, "all_features", check=False).returncode == 1
    part = {name for name in storage.objects() if name.startswith("resources/")}
    assert 0 < len(part) < len({name for name in alone if name.startswith("resources/")})
    storage.proxy.heal()
    storage.call(second, "all_features")
    stored = content(storage.download(tmp_path / "stored"))
    assert [
        name for name in differing(stored, alone) if name in stored or name.startswith("resources/")
    ] == []


def test_storage_that_does_not_answer_is_told_in_its_own_words(project, storage):
    storage.proxy.fault = lambda method, path: DROPPED
    done = storage.call(project, "all_features", check=False)
    assert done.returncode == 1
    assert f"Failed to check existence of s3://results/{storage.folder}/.keep" in done.stdout
    assert "Connection was closed before we received a valid response from endpoint URL" in done.stdout


def test_a_bucket_that_is_not_there_is_told_and_not_made(project, storage):
    elsewhere = replace(storage, bucket="nowhere")
    done = elsewhere.call(project, "all_features", check=False)
    assert done.returncode == 1
    assert f"s3://nowhere/{storage.folder}/.keep: not there." in done.stdout
    assert "nowhere" not in storage.buckets()
    assert not [path for method, path in storage.proxy.seen if method != "HEAD"]


def test_a_bucket_whose_last_object_snakemake_may_delete_is_refused_and_stays(project, storage):
    empty = replace(storage, bucket="empty")
    storage.client.create_bucket(Bucket="empty")
    done = empty.call(project, "all_features", check=False)
    assert done.returncode == 1
    assert f"s3://empty/{storage.folder}/.keep: not there." in done.stdout
    empty.keep()
    storage.proxy.fault = lambda method, path: (
        (403, "AccessDenied", "Access Denied") if method == "PUT" and "encoder.safetensors" in path else None
    )
    empty.call(project, manifest_of(project, "Encoder"), check=False)
    assert "empty" in storage.buckets()
    assert not [
        path for method, path in storage.proxy.seen if method == "DELETE" and path.strip("/") == "empty"
    ]


def test_shards_are_refused_on_storage(project, storage):
    cut = ["--config", f"corpora={json.dumps({'coco': {'shards': {'items': 25, 'jobs': 3}}})}", "label=cut"]
    done = project.call(*storage.command("all_features", *cut), check=False, **storage.environment)
    assert done.returncode == 1
    assert "is in shards, which are not built for default storage" in done.stdout
