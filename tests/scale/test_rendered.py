"""Jobs for Kubernetes and AWS Batch, made by the real plugins through the shipped profiles.

The API servers are stand-ins, which run the jobs on this machine: their specs are checked, no cluster ever saw them.
"""

import json
from types import SimpleNamespace

import pytest
from contents import content, differing, without_repository
from dag import RUNS, make_tiny_project
from job_runner import Batch, Kubernetes, serve
from s3_server import serve_s3

for needed in (
    "moto",
    "snakemake_storage_plugin_s3",
    "snakemake_executor_plugin_kubernetes",
    "snakemake_executor_plugin_aws_batch",
):
    pytest.importorskip(needed, reason=f"needs {needed}: uv run --group scale pytest")
boto3 = pytest.importorskip("boto3")
pytestmark = [pytest.mark.scale, pytest.mark.timeout(900)]

RUN = RUNS[2]
ON_GPUS = {"features", "train", "evaluate"}
# Memory of the rules that do not take the preset's `memory_mb`.
MEMORY = {"tokens": "1500M", "pictures": "500M"}
IMAGE = "registry.example.org/vsepp:1"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: test}}}}]
clusters: [{{name: test, cluster: {{server: "{url}"}}}}]
users: [{{name: test, user: {{}}}}]
"""
# Where jobs are submitted from there are GPUs, which must not decide what a job asks for.
TWO_GPUS = "from vsepp.runtime import devices\ndevices.installed = lambda: 2\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The project with one run on a tape; nothing was made in the project."""
    made = make_tiny_project(tmp_path_factory.mktemp("rendered").resolve() / "vsepp")
    made.edit("params/config.yaml", f"only: {json.dumps(RUNS)}", f"only: {json.dumps([RUN])}")
    made.commit("One run")
    return made


@pytest.fixture(scope="module")
def alone(project):
    """What one machine makes without storage."""
    one = project.copy(project.folder.parent / "alone")
    one.run("reproduce_tables")
    return without_repository(content(one))


@pytest.fixture
def storage(tmp_path):
    """Environment of a command, and a client, of a bucket that is kept."""
    with serve_s3(tmp_path / "s3") as server:
        keys = {"aws_access_key_id": server.key, "aws_secret_access_key": server.secret}
        client = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", **keys)
        client.put_object(Bucket=server.bucket, Key="vsepp/.keep")
        settings = {"ENDPOINT_URL": server.url, "ACCESS_KEY": server.key, "SECRET_KEY": server.secret}
        yield {f"SNAKEMAKE_STORAGE_S3_{name}": value for name, value in settings.items()}, client


def through(profile, *arguments):
    """The command of a user."""
    prefix = ["--default-storage-prefix", "s3://results/vsepp", "--container-image", IMAGE]
    return ["snakemake", "--profile", f"profiles/{profile}", *prefix, *arguments, "reproduce_tables"]


def assert_stored(client, alone, folder):
    """All that is stored is what one machine made, and all of its artefacts are there."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="results", Prefix="vsepp/"):
        for key in (one["Key"] for one in page["Contents"]):
            file = folder / key
            file.parent.mkdir(parents=True, exist_ok=True)
            client.download_file("results", key, str(file))

    found = without_repository(content(SimpleNamespace(folder=folder / "vsepp")))
    assert [name for name in differing(found, alone) if name in found] == []
    assert {name for name in alone if name.endswith("manifest.json")} <= set(found)


def commit_of(project):
    """What the image of this commit says of itself; see `Dockerfile`."""
    return {"VSEPP_GIT_COMMIT": project.said("git", "rev-parse", "HEAD").strip()}


def rule_in(command):
    """Rule of a job, of its command."""
    words = command.split()
    return words[words.index("--allowed-rules") + 1]


def test_jobs_of_kubernetes_ask_for_what_the_profile_and_the_rules_say(project, alone, storage, tmp_path):
    from kubernetes.client import ApiClient

    settings, client = storage
    here = project.copy(tmp_path.resolve() / "vsepp")
    (here.folder / "sitecustomize.py").write_text(TWO_GPUS)
    with serve(Kubernetes, tmp_path / "pods", commit_of(project)) as cluster:
        config = tmp_path / "kubeconfig"
        config.write_text(KUBECONFIG.format(url=cluster.url))
        quick = ["--seconds-between-status-checks", "1", "--jobs", "2"]
        done = here.call(*through("kubernetes", *quick), check=False, KUBECONFIG=str(config), **settings)
        outputs = [path.read_text()[-3000:] for path in (tmp_path / "pods").glob("*/job.out")]
        assert done.returncode == 0, done.stdout + "\n".join(outputs)
        jobs = [body for path, body in cluster.asked if path.endswith("/jobs")]
    rules = set()
    api = ApiClient()
    for job in jobs:
        # If a field were unknown to the client's models, or of another type, another job would come back.
        model = api.deserialize(type("Answer", (), {"data": json.dumps(job)}), "V1Job")
        assert api.sanitize_for_serialization(model) == job
        pod = job["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        rule = rule_in(container["args"][-1])
        rules.add(rule)
        wanted = container["resources"]
        gpus = {"nvidia.com/gpu": "1"} if rule in ON_GPUS else {}
        assert wanted["limits"]["cpu"] == "1000m"
        assert wanted["limits"]["memory"] == wanted["requests"]["memory"] == MEMORY.get(rule, "1800M")
        assert {k: v for k, v in wanted["limits"].items() if "gpu" in k} == gpus
        assert {k: v for k, v in wanted["requests"].items() if "gpu" in k} == gpus
        assert bool(pod.get("tolerations")) == bool(gpus)
        assert container["image"] == IMAGE
    assert rules >= ON_GPUS | {"corpus", "tokens", "store", "pretrain"}
    assert_stored(client, alone, tmp_path / "stored")


def test_jobs_of_aws_batch_ask_for_what_the_profile_and_the_rules_say(project, alone, storage, tmp_path):
    from botocore.session import get_session
    from botocore.validate import ParamValidator

    settings, client = storage
    here = project.copy(tmp_path.resolve() / "vsepp")
    (here.folder / "sitecustomize.py").write_text(TWO_GPUS)
    arns = ["--aws-batch-job-queue", "arn:aws:batch:us-east-1:1:job-queue/q"]
    arns += ["--aws-batch-job-role", "arn:aws:iam::1:role/r"]
    with serve(Batch, tmp_path / "containers", commit_of(project)) as cluster:
        keys = {"AWS_ACCESS_KEY_ID": "a-key", "AWS_SECRET_ACCESS_KEY": "a-secret"}
        done = here.call(
            *through("aws-batch", "--jobs", "2", *arns),
            check=False,
            AWS_ENDPOINT_URL_BATCH=cluster.url,
            **keys,
            **settings,
        )
        outputs = [path.read_text()[-3000:] for path in (tmp_path / "containers").glob("*/job.out")]
        assert done.returncode == 0, done.stdout + "\n".join(outputs)
        asked = cluster.asked
    service = get_session().get_service_model("batch")
    names = {"registerjobdefinition": "RegisterJobDefinition", "submitjob": "SubmitJob"}
    rules = set()
    for path, body in asked:
        action = names.get(path.rpartition("/")[2])
        if action is None:
            continue
        shape = service.operation_model(action).input_shape
        assert not ParamValidator().validate(body, shape).has_errors()
        assert body.keys() <= shape.members.keys()
        if action == "RegisterJobDefinition":
            container = body["containerProperties"]
            wanted = {each["type"]: each["value"] for each in container["resourceRequirements"]}
            rule = rule_in(container["command"][-1])
            rules.add(rule)
            # The plugin's smallest for one processor; the rules ask for 500 to 1,800 MB.
            assert (wanted["VCPU"], wanted["MEMORY"]) == ("1", "2048")
            assert wanted.get("GPU") == ("1" if rule in ON_GPUS else None)
            assert container["image"] == IMAGE
            assert body["timeout"] == {"attemptDurationSeconds": 43200}
    assert rules >= ON_GPUS | {"corpus", "tokens", "store", "pretrain"}
    assert_stored(client, alone, tmp_path / "stored")
