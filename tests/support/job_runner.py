"""Stand-ins for the API servers of Kubernetes and AWS Batch, which keep what they are asked for and run it on this machine."""

import base64
import json
import os
import re
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# The image has the storage plugin; the plugins would have it installed again in each job.
_INSTALLS = re.compile(r"[^&(;]*pip install [^&;]*&& ")


class Machine:
    """Runs the commands of jobs, each in an empty folder and with no more environment than it and its image were given."""

    def __init__(self, folder, image):
        self.folder, self.image, self.jobs = folder, image, {}

    def start(self, name, command, environment):
        """Start a job's command, as a container would."""
        home = self.folder / name
        home.mkdir(parents=True)
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "OMP_NUM_THREADS") if key in os.environ}
        with (home / "job.out").open("w") as output:
            self.jobs[name] = subprocess.Popen(
                ["/bin/bash", "-c", _INSTALLS.sub("", command)],
                cwd=home,
                env={**kept, "PYTHONPATH": str(home), **self.image, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def status(self, name):
        """Exit status of a job; `None` as long as it runs."""
        return self.jobs[name].poll()

    def stop(self):
        for job in self.jobs.values():
            if job.poll() is None:
                job.kill()
            job.wait()


class ApiServer(ThreadingHTTPServer):
    """An API of JSON; `answer` gives what a request is answered with."""

    daemon_threads = True

    def __init__(self, folder, image):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.machine = Machine(folder, image)
        self.asked = []
        """Method, path and body of each request that changes something."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, method, path, body):
        """What a request is answered with, as JSON."""
        raise NotImplementedError


class Kubernetes(ApiServer):
    """Jobs and secrets of the namespace `default`."""

    def __init__(self, folder, image):
        super().__init__(folder, image)
        self.secrets = {}

    def answer(self, method, path, body):
        kind, name = re.search(r"/namespaces/default/(\w+)/?([\w-]*)", path).groups()
        if method == "POST" and kind == "secrets":
            self.secrets[body["metadata"]["name"]] = body["data"]
        if method == "POST" and kind == "jobs":
            (container,) = body["spec"]["template"]["spec"]["containers"]
            self.machine.start(body["metadata"]["name"], container["args"][-1], self._variables(container))
        if method == "GET" and kind == "pods":
            return {"kind": "PodList", "apiVersion": "v1", "items": []}
        if method == "GET" and kind == "jobs":
            status = self.machine.status(name)
            state = "active" if status is None else "failed" if status else "succeeded"
            return {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": name}, "status": {state: 1}}
        return body or {}

    def _variables(self, container):
        asked = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in container.get("env", [])}
        return {
            name: base64.b64decode(self.secrets[ref["name"]][ref["key"]]).decode()
            for name, ref in asked.items()
        }


class Batch(ApiServer):
    """Job definitions and jobs of one queue."""

    def __init__(self, folder, image):
        super().__init__(folder, image)
        self.definitions = {}

    def answer(self, method, path, body):
        action = path.rpartition("/")[2]
        if action == "registerjobdefinition":
            self.definitions[body["jobDefinitionName"]] = body["containerProperties"]
            arn = f"arn:aws:batch:us-east-1:1:job-definition/{body['jobDefinitionName']}:1"
            return {"jobDefinitionName": body["jobDefinitionName"], "jobDefinitionArn": arn, "revision": 1}
        if action == "submitjob":
            container = self.definitions[body["jobDefinition"].rpartition(":")[0]]
            variables = {each["name"]: each["value"] for each in container["environment"]}
            self.machine.start(body["jobName"], container["command"][-1], variables)
            return {"jobName": body["jobName"], "jobId": body["jobName"]}
        if action == "describejobs":
            (name,) = body["jobs"]
            status = self.machine.status(name)
            state = "RUNNING" if status is None else "FAILED" if status else "SUCCEEDED"
            job = {"jobName": name, "jobId": name, "status": state, "statusReason": "it ended"}
            return {"jobs": [{**job, "jobQueue": "queue", "startedAt": 0, "jobDefinition": "definition"}]}
        return {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def _handle(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body, path = json.loads(text) if text else None, urlsplit(self.path).path
        if self.command == "POST":
            self.server.asked.append((path, body))
        answer = json.dumps(self.server.answer(self.command, path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_DELETE = _handle


@contextmanager
def serve(kind, folder, image):
    """An API server of a kind until the body ends; `image` is the environment that the jobs' image has of its own."""
    with kind(folder, image) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            server.machine.stop()
            thread.join()
