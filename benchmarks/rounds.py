"""Interleaved rounds of measurements, and contestants that run as child processes.

Round 1 of all contestants comes before round 2 of any: a machine that becomes slower during the
benchmark slows all of them.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from benchmarks.common import OFFLINE, ROOT, Failed, last_line

SAMPLE_SECONDS = 0.5  # between two samples of the memory
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Result = dict[str, Any]  # of one measurement


@dataclass
class Outcome:
    """The results of all rounds of a contestant."""

    rounds: list[Result] = field(default_factory=list)
    failure: str = ""  # why there were no further rounds

    def median(self, key: str) -> float:
        return statistics.median(result[key] for result in self.rounds)

    def range(self, key: str) -> tuple[float, float]:
        """Minimum and maximum."""
        values = [result[key] for result in self.rounds]
        return min(values), max(values)

    def least_to_most(self, key: str, digits: int = 0) -> str:
        least, most = self.range(key)
        return f"{least:,.{digits}f} to {most:,.{digits}f}"


def interleave(measures: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, Outcome]:
    """Call every function `rounds` times, in turns; one that raises Failed is not called again."""
    outcomes = {name: Outcome() for name in measures}
    for name in (bar := tqdm([name for _ in range(rounds) for name in measures], unit="run")):
        bar.set_postfix_str(name)
        if outcomes[name].failure:
            continue
        try:
            outcomes[name].rounds.append(measures[name]())
        except Failed as error:
            outcomes[name].failure = str(error)
            tqdm.write(f"{name} failed: {error}", file=sys.stderr)
    return outcomes


def run_rounds(
    commands: Mapping[str, Sequence[str]], rounds: int, timeout: float
) -> dict[str, Outcome]:
    """Interleave commands that print their result; one that takes `timeout` seconds has failed."""
    return interleave({n: partial(run_once, c, timeout) for n, c in commands.items()}, rounds)


def run_once(command: Sequence[str], timeout: float) -> Result:
    """The JSON object in the last line of stdout, with `peak_rss_mib` added.

    The command runs in the root of the repository. Raises Failed with the last line of stderr, or
    with another reason.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with _started(command, out, err) as process:
            memory = Memory(process.pid)
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise Failed(f"it took longer than {timeout:.0f} s") from None
            finally:
                memory.close()
        if code:
            raise Failed(_last_line(err) or f"exit code {code}")
        try:
            result = json.loads(_last_line(out))
        except ValueError:
            result = None
        if not isinstance(result, dict):
            raise Failed("its last line of output is not a JSON object")
        return result | {"peak_rss_mib": memory.peak_bytes / 2**20}


@contextmanager
def _started(
    command: Sequence[str], out: IO[str], err: IO[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The running process; it and its descendants are killed at the end of the block."""
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | OFFLINE, stdout=out, stderr=err)
    try:
        yield process
    finally:
        if process.poll() is None:
            for pid in descendants(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


class Memory:
    """Peak resident memory of a process and its descendants, sampled by a thread.

    Resident sizes are summed over processes: pages that two of them share count twice.
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(resident_bytes, descendants(self._pid))))

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def descendants(root: int) -> list[int]:
    """The process and all descendants whose chain of parents is still alive."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                # The name, in brackets, may contain anything; the parent is the second field after.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:  # the list grows during the loop
        found += children.get(pid, [])
    return found


def resident_bytes(pid: int) -> int:
    """Resident memory of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _last_line(file: IO[str]) -> str:
    file.seek(0)
    return last_line(file.read())
