"""Two nodes on one machine: linked network namespaces or, without permission, loopback."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers import processes
from tests.helpers.commands import ROOT, TORCHRUN, environment
from tests.helpers.processes import children_of, wait_until

CLONE_NEWNET = 0x40000000
OWN_NAMESPACE = "/proc/thread-self/ns/net"
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Agent:
    """A running torchrun on one node; its output and its only rank's output is in a file."""

    process: subprocess.Popen[bytes]
    output: Path
    known_rank: int | None = None

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def rank(self) -> int:
        """The process id of its rank, once it is started."""
        wait_until(lambda: self._find_rank() or self.process.poll() is not None)
        assert self.known_rank is not None, self.text
        return self.known_rank

    def _find_rank(self) -> int | None:
        with suppress(FileNotFoundError):
            children = filter(is_rank, children_of(self.process.pid))
            self.known_rank = next(children, self.known_rank)
        return self.known_rank

    def kill(self) -> None:
        """Send SIGKILL to the rank and to torchrun."""
        for pid in (self.rank(), self.process.pid):
            os.kill(pid, signal.SIGKILL)

    def wait(self) -> int:
        """The exit code, without a kill."""
        return self.process.wait(processes.SECONDS)

    def end(self) -> None:
        """Kill what still runs, and an orphaned rank."""
        rank = self.known_rank or self._find_rank()
        self.process.kill()
        self.process.wait()
        if rank is not None and is_rank(rank):
            os.kill(rank, signal.SIGKILL)


@dataclass
class Nodes:
    """Two nodes, each with an address, a core and one rank."""

    addresses: Sequence[str] = ("127.0.0.1", "127.0.0.2")
    interface: str = "lo"
    namespaces: Sequence[str] = ()  # their paths; none on loopback
    agents: list[Agent] = field(default_factory=list)
    jobs: list[processes.Job] = field(default_factory=list)

    @property
    def are_linked(self) -> bool:
        return bool(self.namespaces)

    def torchrun(self, flags: list[str], folder: Path, **environ: str) -> list[Agent]:
        """`torchrun train.py` on one or both nodes; the output is in `folder`."""
        endpoint = f"{self.addresses[0]}:{processes.free_port()}"
        agents = []
        for node, address in enumerate(self.addresses):
            # torchrun finds the host by its name, which is not the name of these addresses.
            conf = f"is_host={int(node == 0)},last_call_timeout=30"
            words = [
                *(*TORCHRUN, "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3"),
                *("--rdzv-backend=c10d", "--rdzv-id=test", f"--rdzv-endpoint={endpoint}"),
                *(f"--rdzv-conf={conf}", f"--local-addr={address}", "train.py", *flags),
            ]
            agents.append(self.start_agent(node, words, folder, **environ))
        return agents

    def start_agent(self, node: int, words: list[str], folder: Path, **environ: str) -> Agent:
        """That torchrun on a node; the output is in `folder`."""
        output = folder / f"torchrun-{node}-{time.monotonic_ns()}.txt"
        with output.open("wb") as file, self.inside(node):
            process = subprocess.Popen(
                words,
                cwd=ROOT,
                env=environment() | {"GLOO_SOCKET_IFNAME": self.interface} | environ,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.agents.append(agent := Agent(process, output))
        return agent

    def train(
        self,
        flags: Sequence[Sequence[str]],
        folder: Path,
        lock_seconds: float = 0.0,
        **environ: str,
    ) -> processes.Job:
        """`train.py` on one node for each list of flags, without torchrun, which is faster.

        A rank waits `lock_seconds` for a model folder in use.
        """
        variables = {"MASTER_ADDR": self.addresses[0], "GLOO_SOCKET_IFNAME": self.interface}
        arguments = (list(self.namespaces), [list(words) for words in flags], lock_seconds)
        job = processes.start(train_on_node, folder, len(flags), variables | environ, *arguments)
        self.jobs.append(job)
        return job

    def set_link(self, state: str) -> None:
        """`down` or `up`, for both nodes."""
        with self.inside(1):
            _ip(f"link set {self.interface} {state}")

    @contextmanager
    def inside(self, node: int) -> Iterator[None]:
        """Within it, processes are started on that node."""
        cores = os.sched_getaffinity(0)
        with _return_to_own_namespace():
            move_to_node(node, self.namespaces)
            try:
                yield
            finally:
                os.sched_setaffinity(0, cores)

    def end(self) -> None:
        """Kill what a failed test has left running."""
        for job in self.jobs:
            for rank in job.ranks:
                rank.kill()
        for agent in self.agents:
            agent.end()


@contextmanager
def two_nodes() -> Iterator[Nodes]:
    """Two nodes with a virtual link if this machine allows it, else on loopback.

    The namespaces have no names: the kernel removes them with the last process.
    """
    with ExitStack() as stack:
        try:
            nodes = _linked_nodes(stack)
        except (OSError, subprocess.CalledProcessError):  # not root, no `ip`, no such kernel
            nodes = Nodes()
        stack.callback(nodes.end)
        yield nodes


def _linked_nodes(stack: ExitStack) -> Nodes:
    addresses, interface, namespaces = ["10.99.0.1", "10.99.0.2"], "eth0", []
    with _return_to_own_namespace():
        for _ in addresses:
            _check(LIBC.unshare(CLONE_NEWNET))
            handle = stack.enter_context(open(OWN_NAMESPACE))
            namespaces.append(f"/proc/{os.getpid()}/fd/{handle.fileno()}")
            _ip("link set lo up")
        _ip(f"link add {interface} type veth peer name {interface} netns {namespaces[0]}")
    nodes = Nodes(addresses, interface, namespaces)
    for node, address in enumerate(addresses):
        with nodes.inside(node):
            _ip(f"address add {address}/24 dev {interface}")
            _ip(f"link set {interface} up")
    return nodes


def move_to_node(node: int, namespaces: Sequence[str]) -> None:
    """Move this thread, and the processes it starts, to a node."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[node % len(cores)]})
    if namespaces:
        with open(namespaces[node]) as namespace:
            _check(LIBC.setns(namespace.fileno(), CLONE_NEWNET))


def train_on_node(namespaces: list[str], flags: list[list[str]], lock_seconds: float) -> None:
    from translate_ddp.runtime import run_folder

    run_folder.LOCK_SECONDS = lock_seconds  # all nodes have one kernel
    rank = int(os.environ["RANK"])
    os.environ.update({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"})
    move_to_node(rank, namespaces)
    processes.run_train(flags[rank])


@contextmanager
def _return_to_own_namespace() -> Iterator[None]:
    with open(OWN_NAMESPACE) as home:
        try:
            yield
        finally:
            LIBC.setns(home.fileno(), CLONE_NEWNET)


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)


def wait_until_stopped(*pids: int) -> None:
    """Wait until the processes are stopped by a SIGSTOP."""
    for pid in pids:
        wait_until(lambda pid=pid: state_of(pid) in "TXZ-")
        assert state_of(pid) == "T", "it exited before"


def resume(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def is_rank(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return b"train.py" in words and b"torch.distributed.run" not in words
    return False


def state_of(pid: int) -> str:
    """The state in one letter: T is stopped, Z a zombie, - no process."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return "-"
