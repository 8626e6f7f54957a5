"""A real Slurm on this machine: controller, two nodes, accounting, with all their files in one folder.

The nodes have the cores of this machine each, more memory than it has, and two GPUs that are only counted.
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ports import free_port, wait_for_port
from processes import wait_until

NODES = ("n1", "n2")
# For Slurm a GPU is a device file, and Slurm counts the files that are listed; these two files are on every machine.
_GPUS = ("/dev/null", "/dev/zero")
_PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
_PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd")
MISSING = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
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
SlurmdTimeout=20
KillWait=5
MinJobAge=300
GresTypes=gpu
{accounting}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores} RealMemory=100000"
    " Gres=gpu:{gpus}"
)
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports[slurmdbd]}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/none
"""
_DATABASE = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports[slurmdbd]}
SlurmUser={user}
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports[mariadbd]}
StorageUser={user}
StoragePass=none
StorageLoc=accounts
"""
# The plugin tells what runs in a job nothing of SLURM_CONF; on a cluster, a node finds its settings by itself.
_CLIENT = '#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {program} "$@"\n'


@dataclass(frozen=True)
class SlurmCluster:
    """A cluster that runs."""

    folder: Path
    daemons: dict
    """Name, such as `slurmctld` or `n1` → its process."""

    @property
    def environment(self):
        """What finds it: its `sbatch`, `srun` and `sacct` stand before any others."""
        python = Path(sys.executable).parent
        return {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": os.pathsep.join([str(self.folder / "bin"), str(python), os.environ["PATH"]]),
        }

    def said(self, *command):
        """Output of a client, such as `squeue`."""
        done = self._call(*command)
        assert done.returncode == 0, f"{done.args}: {done.stderr}"
        return done.stdout

    def refusal(self, *command):
        """What a client says that must fail."""
        done = self._call(*command)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def _call(self, *command):
        environment = {**os.environ, **self.environment}
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)

    def queued(self):
        """Jobs that wait or run: number → node, if it has any yet."""
        lines = self.said("squeue", "--noheader", "--array", "--format=%i|%N").splitlines()
        return dict(line.split("|") for line in lines)

    def jobs(self, since, *columns):
        """Rows of the accounting about jobs that came after a number: number, comment, and these columns."""
        wanted = ["JobID", "Comment", *columns]
        lines = self.said("sacct", "-X", "-n", "-P", "-a", f"--format={','.join(wanted)}").splitlines()
        rows = [dict(zip(wanted, line.split("|"), strict=True)) for line in lines]
        return [row for row in rows if int(row["JobID"].partition("_")[0]) > since]

    def last(self):
        """Number of the last job that was submitted; 0 if none was."""
        return max((int(row["JobID"].partition("_")[0]) for row in self.jobs(0)), default=0)

    def start_node(self, name):
        """Start a node's daemon, or start it again."""
        environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _PATH}
        self.daemons[name] = _start(self.folder, name, ["slurmd", "-D", "-N", name], environment)
        wait_until(lambda: self.node(name) == "IDLE", self.daemons[name])

    def kill_node(self, name, sessions):
        """Kill a node's daemon and all processes of `sessions`, its jobs' sessions, as a power cut would."""
        self.daemons[name].kill()
        self.daemons[name].wait()
        # In the order of their start: first the process that could still tell of the others.
        for pid in sorted(int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
            with suppress(ProcessLookupError):
                if os.getsid(pid) in sessions:
                    os.kill(pid, signal.SIGKILL)

    def node(self, name):
        """State of a node."""
        return self.said("sinfo", "--noheader", "--Node", f"--nodes={name}", "--format=%T").strip().upper()


def _start(folder, name, command, environment=None):
    """Start a daemon whose log is `<name>.log`."""
    with (folder / f"{name}.log").open("a") as log:
        return subprocess.Popen(
            list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=environment or {**os.environ, "PATH": _PATH}, start_new_session=True,
        )  # fmt: skip


def _write_settings(folder, ports, accounting):
    user, host = getpass.getuser(), socket.gethostname().partition(".")[0]
    node = {"host": host, "cores": os.cpu_count(), "gpus": len(_GPUS)}
    nodes = "\n".join(_NODE.format(name=name, port=ports[name], **node) for name in NODES)
    given = {"folder": folder, "ports": ports, "user": user, "host": host}
    given["accounting"] = _ACCOUNTING.format(**given) if accounting else ""
    (folder / "slurm.conf").write_text(_SETTINGS.format(nodes=nodes, **given))
    (folder / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in _GPUS))
    (folder / "slurmdbd.conf").write_text(_DATABASE.format(**given))
    (folder / "slurmdbd.conf").chmod(0o600)
    for name in ("state", "bin", *(f"spool-{node}" for node in NODES)):
        (folder / name).mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "sshare", "sacct", "sacctmgr"):
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


def _start_database(folder, port):
    """Start an empty database, on which anybody of this machine may do anything."""
    data, user = folder / "database", getpass.getuser()
    same = ["--no-defaults", f"--datadir={data}", f"--user={user}"]
    with (folder / "mariadb-install-db.log").open("w") as log:
        command = [shutil.which("mariadb-install-db"), *same, "--skip-test-db"]
        subprocess.run(command, check=True, stdout=log, stderr=log)
    sockets = ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder}/mariadb.socket"]
    small = ["--skip-grant-tables", "--skip-networking=0", "--innodb-buffer-pool-size=64M"]
    process = _start(folder, "mariadbd", ["mariadbd", *same, *sockets, *small])
    wait_for_port(port, process, folder / "mariadbd.log")
    return process


@contextmanager
def slurm_cluster(folder, accounting=True):
    """Run a cluster until the body ends, with slurmdbd or without: then `sacct` knows nothing."""
    folder.mkdir(parents=True)
    ports = {name: free_port() for name in ("mariadbd", "slurmdbd", "slurmctld", *NODES)}
    _write_settings(folder, ports, accounting)
    cluster = SlurmCluster(folder, {})
    environment = {**os.environ, **cluster.environment, "PATH": _PATH}
    with ExitStack() as ended:
        ended.callback(_end, cluster)
        cluster.daemons["munged"] = _start_munge(folder)
        if accounting:
            cluster.daemons["mariadbd"] = _start_database(folder, ports["mariadbd"])
            database = _start(folder, "slurmdbd", ["slurmdbd", "-D"], environment)
            cluster.daemons["slurmdbd"] = database
            wait_for_port(ports["slurmdbd"], database, folder / "slurmdbd.log")
            cluster.said("sacctmgr", "--immediate", "add", "cluster", "tests")
        controller = _start(folder, "slurmctld", ["slurmctld", "-D"], environment)
        cluster.daemons["slurmctld"] = controller
        wait_for_port(ports["slurmctld"], controller, folder / "slurmctld.log")
        for name in NODES:
            cluster.start_node(name)
        yield cluster


def _end(cluster):
    """Cancel all jobs, then end the daemons, the last that was started first."""
    with suppress(AssertionError):  # it did not even start
        cluster.said("scancel", "--user", getpass.getuser())
        wait_until(lambda: not cluster.queued())
    for daemon in reversed(cluster.daemons.values()):
        daemon.terminate()
        daemon.wait(60)
