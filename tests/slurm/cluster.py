"""A real Slurm of two nodes on one machine, in namespaces of their own; nothing is installed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.commands import ROOT, environment
from tests.helpers.nodes import Nodes, is_rank, state_of, two_nodes
from tests.helpers.processes import children_of, wait_until

NAMES = ("n1", "n2")
COMMANDS = ("sbatch", "srun", "scontrol", "scancel", "sinfo")
DAEMONS = ("slurmctld", "slurmd", "slurmstepd")
# A node has its own host name, names of hosts, network and processes; all end with the first one.
ENTER_NODE = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
CONFIGURATION = """
ClusterName=two
SlurmctldHost={names[0]}({addresses[0]})
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
{plugins}
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
KillWait=15
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={names[0]} NodeAddr={addresses[0]} CPUs=2 State=UNKNOWN
NodeName={names[1]} NodeAddr={addresses[1]} CPUs=2 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def poll(condition: Callable[[], bool], text: Callable[[], str]) -> None:
    """Wait for a condition that takes a process to find out."""
    wait_until(lambda: condition() or time.sleep(0.2), text)


# A node refuses a job that starts in the second in which its last process ended.
SOON = timedelta(seconds=5)


@dataclass(frozen=True)
class Installation:
    """Slurm's programs, and what its commands need in their environment."""

    daemons: dict[str, str]
    variables: dict[str, str]
    plugins: str = ""  # their setting, where it is not the default

    @classmethod
    def find(cls) -> "Installation":
        """Slurm in $SLURM_ROOT, else on the PATH."""
        root = Path(os.environ.get("SLURM_ROOT", "/"))
        folders = [str(root / "usr" / name) for name in ("sbin", "bin")]
        path = ":".join([*folders, os.environ["PATH"]])
        found = {
            name: shutil.which(f"{name}-wlm", path=path) or shutil.which(name, path=path)
            for name in DAEMONS + COMMANDS
        }
        if missing := [name for name, program in found.items() if program is None]:
            pytest.skip(
                f"no {', '.join(missing)} in $SLURM_ROOT or on the PATH: see tests/slurm/fetch"
            )
        programs = {name: program for name, program in found.items() if program}
        path = f"{Path(sys.executable).parent}:{path}"
        if root == Path("/"):
            return cls(programs, {"PATH": path})
        (library,) = root.glob("usr/lib/*/slurm-wlm/libslurmfull.so")
        libraries = f"{library.parent}:{library.parent.parent}"
        return cls(
            programs, {"PATH": path, "LD_LIBRARY_PATH": libraries}, f"PluginDir={library.parent}"
        )


@dataclass
class Cluster:
    """Two running nodes; the first also runs the controller. They share all files."""

    slurm: Installation
    nodes: Nodes
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        return environment() | self.slurm.variables | {"SLURM_CONF": f"{self.folder}/slurm.conf"}

    def start(self) -> None:
        (self.folder / "state").mkdir()
        text = CONFIGURATION.format(
            names=NAMES,
            addresses=self.nodes.addresses,
            folder=self.folder,
            plugins=self.slurm.plugins,
        )
        (self.folder / "slurm.conf").write_text(text)
        pairs = zip(("127.0.0.1", *self.nodes.addresses), ("localhost", *NAMES), strict=True)
        (self.folder / "hosts").write_text("".join(f"{a} {name}\n" for a, name in pairs))
        self._daemon("controller", 0, [self.slurm.daemons["slurmctld"], "-D"])
        for node in range(len(NAMES)):
            self.start_node(node)
        poll(self.is_idle, self.logs)

    def start_node(self, node: int) -> None:
        slurmd, step = self.slurm.daemons["slurmd"], self.slurm.daemons["slurmstepd"]
        self._daemon(NAMES[node], node, [slurmd, "-D", "-N", NAMES[node], "-d", step])

    def _daemon(self, name: str, node: int, words: list[str]) -> None:
        prepare = f"hostname {NAMES[node]} && mount --bind {self.folder}/hosts /etc/hosts"
        shell = ["sh", "-c", f'{prepare} && exec "$@"', "sh", *words]
        with self.nodes.inside(node), (self.folder / f"{name}.out").open("ab") as output:
            self.running[name] = subprocess.Popen(
                [*ENTER_NODE, *shell], env=self.variables, stdout=output, stderr=output
            )

    def kill(self, name: str) -> None:
        """Kill a daemon, and all processes of its node, as a power cut does."""
        unshare = self.running.pop(name)
        for first in children_of(unshare.pid):  # of the processes that the node sees
            os.kill(first, signal.SIGKILL)
        unshare.wait(processes.SECONDS)

    def is_idle(self) -> bool:
        return self.run("sinfo", "-h", "-o", "%T %D").strip() == f"idle {len(NAMES)}"

    def run(self, *words: str, **variables: str) -> str:
        """The output of a command of Slurm."""
        with self.nodes.inside(0):
            done = subprocess.run(
                words,
                cwd=ROOT,
                env=self.variables | variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=processes.SECONDS,
            )
        return done.stdout

    def logs(self) -> str:
        files = [*self.folder.glob("*.out"), *self.folder.glob("*.log")]
        return "\n".join(f"{file.name}:\n{file.read_text()[-2000:]}" for file in files)


@dataclass
class BatchJob:
    """A submitted `launch/slurm.sh`."""

    cluster: Cluster
    number: str
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def show(self, name: str) -> str:
        """A field of `scontrol show job`."""
        words = self.cluster.run("scontrol", "show", "job", self.number).split()
        return next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), "")

    def wait_for(self, *states: str) -> None:
        poll(lambda: self.show("JobState") in states, self.explain)

    def explain(self) -> str:
        return f"{self.show('JobState')} {self.show('Reason')}\n{self.text}\n{self.cluster.logs()}"

    def start_again(self) -> None:
        """Start it soon: Slurm delays a job that was queued again by two minutes."""
        self.wait_for("PENDING")
        poll(self._is_started, self.explain)

    def _is_started(self) -> bool:
        # Slurm sets the time when the job's last process has ended, maybe after the first update.
        # Once the time has come it is "Unknown".
        start = self.show("StartTime")
        if start != "Unknown" and start > (datetime.now() + 2 * SOON).isoformat():
            words = [f"JobId={self.number}", f"StartTime=now+{SOON.seconds}"]
            self.cluster.run("scontrol", "update", *words)
        return self.show("JobState") in ("RUNNING", "COMPLETED")


def submit(
    cluster: Cluster, folder: Path, flags: list[str], *options: str, **variables: str
) -> BatchJob:
    """`sbatch launch/slurm.sh` on both nodes."""
    output = folder / "job.txt"
    # Not as values of --export, which commas separate.
    words = ["--nodes=2", f"--output={output}", "--export=ALL", "--parsable", *options]
    number = cluster.run("sbatch", *words, "launch/slurm.sh", *flags, **variables).strip()
    assert number.isdecimal(), number
    return BatchJob(cluster, number, output)


def stopped_ranks(folder: Path) -> list[int]:
    """The processes of `train.py` with this model folder that a SIGSTOP has stopped."""
    return [pid for pid in ranks_of(folder) if state_of(pid) == "T"]


def ranks_of(folder: Path) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if is_rank(pid) and str(folder) in command_of(pid)]


def command_of(pid: int) -> list[str]:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[Cluster]:
    """A running cluster. Skips the tests where Slurm, root or the command ip is missing."""
    slurm = Installation.find()
    with two_nodes() as nodes:
        if not nodes.are_linked:
            pytest.skip("network namespaces with a link need root and the command ip")
        cluster = Cluster(slurm, nodes, folder)
        try:
            cluster.start()
            yield cluster
        finally:
            for name in list(cluster.running):
                cluster.kill(name)
