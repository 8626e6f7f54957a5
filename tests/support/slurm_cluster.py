"""A real Slurm on this machine: a controller and a node, without accounting, with all their files in one folder.

The node has the cores of this machine, more memory than it has, and two GPUs that are only counted.
"""

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ports import free_port, wait_for_port
from processes import wait_until

# For Slurm a GPU is a device file, and Slurm counts the files that are listed; these two files are on every machine.
_GPUS = ("/dev/null", "/dev/zero")
_PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
_CLIENTS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "sshare", "sacct", "sacctmgr")
MISSING = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name, path=_PATH)]
"""Programs that this machine lacks."""

_SETTINGS = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[slurmctld]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
KillWait=5
MinJobAge=300
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[n1]} CPUs={cores} RealMemory=100000 Gres=gpu:{gpus}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
"""
# The plugin tells what runs in a job nothing of SLURM_CONF; on a cluster, a node finds its settings by itself.
_CLIENT = '#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {program} "$@"\n'


@dataclass(frozen=True)
class SlurmJob:
    """What the controller knows of a job."""

    rule: str
    state: str
    has_gpu: bool


@dataclass(frozen=True)
class SlurmCluster:
    """A cluster that runs."""

    folder: Path

    @property
    def environment(self):
        """What finds it: its `sbatch`, `srun` and `squeue` stand before any others."""
        python = Path(sys.executable).parent
        return {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": os.pathsep.join([str(self.folder / "bin"), str(python), os.environ["PATH"]]),
        }

    def said(self, *command):
        """Output of a client, such as `squeue`."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{done.args}: {done.stderr}"
        return done.stdout

    def queued(self):
        """Numbers of the jobs that wait or run."""
        return self.said("squeue", "--noheader", "--format=%i").split()

    def jobs(self):
        """All jobs of the last minutes."""
        found = []
        for line in self.said("scontrol", "show", "job", "--oneliner").splitlines():
            facts = dict(re.findall(r"(\w+)=(\S+)", line))
            # The plugin writes the rule into the comment.
            rule = re.match(r"rule_(\w+?)(_wildcards_|$)", facts["Comment"])[1]
            found.append(SlurmJob(rule, facts["JobState"], "gres:gpu:1" in line))
        return found


def _start(folder, name, command, **environment):
    """Start a daemon whose log is `<name>.log`."""
    with (folder / f"{name}.log").open("a") as log:
        return subprocess.Popen(
            list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, **environment, "PATH": _PATH}, start_new_session=True,
        )  # fmt: skip


def _write_settings(folder, ports):
    user, host = getpass.getuser(), socket.gethostname().partition(".")[0]
    machine = {"user": user, "host": host, "cores": os.cpu_count(), "gpus": len(_GPUS)}
    (folder / "slurm.conf").write_text(_SETTINGS.format(folder=folder, ports=ports, **machine))
    (folder / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in _GPUS))
    for name in ("state", "bin", "spool-n1"):
        (folder / name).mkdir()
    for name in _CLIENTS:
        client = folder / "bin" / name
        client.write_text(_CLIENT.format(folder=folder, program=shutil.which(name)))
        client.chmod(0o755)


def _start_munge(folder):
    """Start what the daemons trust each other by."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    arguments = ["--foreground", "--force", f"--socket={folder}/munge.socket", *files]
    process = _start(folder, "munged", ["munged", *arguments])
    wait_until((folder / "munge.socket").exists, process)
    return process


@contextmanager
def slurm_cluster(folder):
    """Run a cluster until the body ends."""
    folder.mkdir(parents=True)
    ports = {name: free_port() for name in ("slurmctld", "n1")}
    _write_settings(folder, ports)
    cluster = SlurmCluster(folder)
    settings = {"SLURM_CONF": folder / "slurm.conf"}
    with ExitStack() as ended:
        ended.callback(_end, _start_munge(folder))
        controller = _start(folder, "slurmctld", ["slurmctld", "-D"], **settings)
        ended.callback(_end, controller)
        wait_for_port(ports["slurmctld"], controller, folder / "slurmctld.log")
        node = _start(folder, "n1", ["slurmd", "-D", "-N", "n1"], **settings)
        ended.callback(_end, node)
        wait_until(lambda: cluster.said("sinfo", "--noheader", "--format=%T").strip() == "idle", node)
        yield cluster
        with suppress(AssertionError):
            cluster.said("scancel", "--user", getpass.getuser())
            wait_until(lambda: not cluster.queued())


def _end(daemon):
    daemon.terminate()
    daemon.wait(60)
