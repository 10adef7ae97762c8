"""Contestants run in interleaved rounds, each a process of its own that prints what it measured.

Round 1 of all comes before round 2 of any, so that a machine that slows down meanwhile slows all
of them. It knows nothing of what is measured: a contestant's last line of output, one JSON object,
is kept as it is, beside the memory that its processes held.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_SECONDS = 0.5  # between two looks at the memory
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Contestant:
    """A command, run from the repository's root, whose last line on stdout is one JSON object."""

    name: str  # as it stands in the table
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What each round of a contestant printed, with `peak_rss_mib` added."""

    contestant: Contestant
    rounds: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""  # why no more rounds were run


class Failed(Exception):
    """A contestant gave no result; the text says why."""


def run_rounds(contestants: Sequence[Contestant], rounds: int, timeout: float) -> list[Outcome]:
    """Run every contestant `rounds` times; one that fails, or takes `timeout` seconds, no more."""
    outcomes = [Outcome(contestant) for contestant in contestants]
    turns = [outcome for _ in range(rounds) for outcome in outcomes]
    for outcome in (bar := tqdm(turns, unit="run")):
        bar.set_postfix_str(outcome.contestant.name)
        if outcome.failure:
            continue
        try:
            outcome.rounds.append(run_once(outcome.contestant, timeout))
        except Failed as error:
            outcome.failure = str(error)
            tqdm.write(f"{outcome.contestant.name} failed: {error}", file=sys.stderr)
    return outcomes


def run_once(contestant: Contestant, timeout: float) -> dict[str, Any]:
    """One run's result. Raises Failed with the last line of its stderr, or what else went wrong."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with _started(contestant, out, err) as process:
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
            raise Failed("its last line of output is no JSON object")
        return result | {"peak_rss_mib": memory.peak_bytes / 2**20}


@contextmanager
def _started(
    contestant: Contestant, out: IO[str], err: IO[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, of which nothing is left afterwards, whatever happened."""
    environment = os.environ | contestant.environment
    process = subprocess.Popen(
        contestant.command, cwd=ROOT, env=environment, stdout=out, stderr=err
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            for pid in tree(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


class Memory:
    """The most memory that a process and its descendants held at once, looked up by a thread.

    Resident sizes are summed over processes: pages that two of them share count twice.
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(resident_bytes, tree(self._pid))))

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def tree(root: int) -> list[int]:
    """The process and its descendants, as far as their parents still live."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                # The name, in brackets, may hold anything; the parent is the second field after it.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for pid in found:  # which grows meanwhile
        found += children.get(pid, [])
    return found


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):  # it has just ended
        return 0


def _last_line(file: IO[str]) -> str:
    file.seek(0)
    lines = [line.strip() for line in file.read().splitlines() if line.strip()]
    return lines[-1] if lines else ""


def median(outcome: Outcome, key: str) -> float:
    return statistics.median(result[key] for result in outcome.rounds)


def spread(outcome: Outcome, key: str) -> tuple[float, float]:
    """The least and the most."""
    values = [result[key] for result in outcome.rounds]
    return min(values), max(values)
