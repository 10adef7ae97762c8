"""Ranks of the real program, forked from a server that has imported everything once."""

import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from translate_ddp.runtime.supervisor import STOP_SIGNALS

CONTEXT = multiprocessing.get_context("forkserver")
# The others are modules that a run imports late: half of the second that a tiny run takes.
CONTEXT.set_forkserver_preload(
    [
        *("train", "translate_ddp.training.run", "tests.helpers.preload"),
        *("torch._dynamo", "datasets", "sacrebleu", "jiwer"),
    ]
)
SECONDS = 600  # timeout of a job, below the timeout of pytest: for hangs, not for slow machines


@dataclass
class Job:
    """Running ranks, each with its output in a file."""

    ranks: list[Any]
    outputs: list[Path]

    def wait(self) -> list[int]:
        """The exit code of each rank."""
        deadline = time.monotonic() + SECONDS
        for rank in self.ranks:
            rank.join(max(0.0, deadline - time.monotonic()))
        still_alive = [rank for rank in self.ranks if rank.is_alive()]
        for rank in still_alive:
            rank.kill()
        assert not still_alive, f"hung after {SECONDS} s:\n{self.text()}"
        return [rank.exitcode for rank in self.ranks]

    def succeed(self) -> str:
        """Wait, require exit code 0 of every rank, and return the output of rank 0."""
        assert self.wait() == [0] * len(self.ranks), self.text()
        return self.outputs[0].read_text()

    def fail(self) -> str:
        """Wait, require exit code 2 of every rank, and return the output of all ranks."""
        assert self.wait() == [2] * len(self.ranks), self.text()
        return self.text()

    def kill_when(self, condition: Callable[[], object]) -> None:
        """Send SIGKILL to every rank once the condition holds; they must still be running."""
        self._wait_for(condition)
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL to every rank; they must still be running."""
        for rank in self.ranks:
            os.kill(rank.pid, signal.SIGKILL)
        assert self.wait() == [-signal.SIGKILL] * len(self.ranks), "ended before it was killed"

    def kill_rest(self) -> None:
        """Wait until a rank has killed itself, and kill the others at once."""
        wait_until(lambda: any(rank.exitcode is not None for rank in self.ranks), self.text)
        codes = [rank.exitcode for rank in self.ranks]
        for rank in self.ranks:
            rank.kill()
        self.wait()
        assert -signal.SIGKILL in codes, f"no rank was killed: {codes}\n{self.text()}"

    def signal_when(self, condition: Callable[[], object], number: int, rank: int = 0) -> None:
        self._wait_for(condition)
        self.signal(number, rank)

    def signal(self, number: int, rank: int = 0) -> None:
        os.kill(self.ranks[rank].pid, number)

    def _wait_for(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"timeout:\n{self.text()}"
            assert all(rank.is_alive() for rank in self.ranks), self.text()
            time.sleep(0.001)

    def text(self) -> str:
        return "\n".join(path.read_text() for path in self.outputs)


def train(arguments: Sequence[str], folder: Path, size: int = 1, **environment: str) -> Job:
    """`train.py` on `size` ranks, as a launcher would start it; the output is in `folder`."""
    return start(run_train, folder, size, environment, list(arguments))


def start(
    work: Callable[..., None],
    folder: Path,
    size: int,
    environment: dict[str, str] | None = None,
    *arguments: Any,
) -> Job:
    """`work(*arguments)` on `size` ranks that can open a world together."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    ranks, outputs = [], []
    for rank in range(size):
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WANDB_MODE": "disabled",
        } | (environment or {})
        output = folder / f"rank-{rank}-{time.monotonic_ns()}.txt"
        output.touch()
        process = CONTEXT.Process(
            target=_run_rank, args=(work, variables, output, arguments), daemon=True
        )
        process.start()
        ranks.append(process)
        outputs.append(output)
    return Job(ranks, outputs)


def wait_until(condition: Callable[[], object], text: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timeout:\n{text()}"
        time.sleep(0.002)


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _run_rank(
    work: Callable[..., None], variables: dict[str, str], output: Path, arguments: tuple[Any, ...]
) -> None:
    os.environ.update(variables)
    for number in STOP_SIGNALS:  # a shell ignores SIGINT for background processes, nohup SIGHUP
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    work(*arguments)


def run_train(arguments: list[str]) -> None:
    from translate_ddp.apps.commands.train import run

    sys.argv = ["train.py", *arguments]
    run(arguments)
