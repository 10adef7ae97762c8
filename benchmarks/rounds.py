"""Interleaved rounds of measurements, and contestants that run as child processes.

Round 1 of all contestants comes before round 2 of any: a machine that becomes slower during the
benchmark slows all of them.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

from tqdm import tqdm

from benchmarks.common import OFFLINE, ROOT, Failed, Values, last_line
from benchmarks.report import Row, shown

SAMPLE_SECONDS = 0.5  # between two samples of the memory

Result = dict[str, Any]  # of one measurement
# By name of a result: the file of /proc and the fields that are summed over all processes.
Memory = Mapping[str, tuple[str, Sequence[str]]]
RESIDENT: dict[str, tuple[str, Sequence[str]]] = {"peak_rss_mib": ("status", ("VmRSS",))}


@dataclass
class Outcome:
    """The results of all rounds of a contestant."""

    rounds: list[Result] = field(default_factory=list)
    failure: str = ""  # why there were no further rounds

    def all(self, key: str) -> list[float]:
        return [result[key] for result in self.rounds]

    def median(self, key: str) -> float:
        return median(self.all(key))


Outcomes = Mapping[str, Outcome]  # by name of the contestant


def raw(outcomes: Outcomes) -> dict[str, list[Result]]:
    return {name: outcome.rounds for name, outcome in outcomes.items()}


def rows(
    outcomes: Outcomes, key: str, column: str, further: Callable[[str, Outcome], Values]
) -> list[Row]:
    """For each contestant the median of the results `key`, its range, and `further` values."""
    found = []
    for name, outcome in outcomes.items():
        values: Values = {}
        if not outcome.failure:
            least, most = shown(min(outcome.all(key))), shown(max(outcome.all(key)))
            values = {column: outcome.median(key), "least to most": f"{least} to {most}"}
            values |= further(name, outcome)
        found.append(Row(name, values, outcome.failure))
    return found


def interleave(measures: Mapping[str, Callable[[int], Result]], rounds: int) -> dict[str, Outcome]:
    """Call every function with 0 to `rounds` - 1, in turns; one that raises Failed only once."""
    outcomes = {name: Outcome() for name in measures}
    turns = [(turn, name) for turn in range(rounds) for name in measures]
    for turn, name in (bar := tqdm(turns, unit="run")):
        bar.set_postfix_str(name)
        if outcomes[name].failure:
            continue
        try:
            outcomes[name].rounds.append(measures[name](turn))
        except Failed as error:
            outcomes[name].failure = str(error)
            tqdm.write(f"{name} failed: {error}", file=sys.stderr)
    return outcomes


def run_rounds(
    commands: Mapping[str, Sequence[str]], rounds: int, timeout: float
) -> dict[str, Outcome]:
    """Interleave commands that print their result; one that takes `timeout` seconds has failed."""
    return interleave(
        {name: lambda _, c=command: run_once(c, timeout) for name, command in commands.items()},
        rounds,
    )


def run_once(
    command: Sequence[str],
    timeout: float,
    environment: Mapping[str, str] | None = None,
    memory: Memory = RESIDENT,
    sample_seconds: float = SAMPLE_SECONDS,
) -> Result:
    """The JSON object in the last line of stdout, with the peak of each kind of memory in MiB.

    The command runs in the root of the repository. Resident memory is the sum over its processes,
    so pages that two of them share count twice. `environment` replaces this process's
    without network. Raises Failed with the last line of stderr, or with another reason.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        peaks, end, code = dict.fromkeys(memory, 0.0), time.monotonic() + timeout, None
        environment = environment or os.environ | OFFLINE
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=err)
        try:
            while code is None:
                with suppress(subprocess.TimeoutExpired):
                    code = child.wait(sample_seconds)
                if code is None and time.monotonic() > end:
                    raise Failed(f"it took longer than {timeout:.0f} s")
                pids = descendants(child.pid)
                for name, (file, fields) in memory.items():
                    found = sum(_read_mib(pid, file, fields) for pid in pids)
                    peaks[name] = max(peaks[name], found)
        finally:
            for pid in descendants(child.pid) if child.poll() is None else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            child.wait()
        if code:
            raise Failed(_last_line(err) or f"exit code {code}")
        with suppress(ValueError):
            if isinstance(result := json.loads(_last_line(out)), dict):
                return result | peaks
        raise Failed("its last line of output is not a JSON object")


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


def _last_line(file: IO[str]) -> str:
    file.seek(0)
    return last_line(file.read())


def _read_mib(pid: int, file: str, names: Iterable[str]) -> float:
    """The sum of these fields of a process; 0 if it has ended."""
    with suppress(OSError):
        fields = dict(re.findall(r"(\w+):\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text()))
        return sum(int(fields.get(name, 0)) for name in names) / 1024
    return 0.0


def disk_mib(folder: Path) -> float:
    """The blocks of all files below a folder, which may change meanwhile."""
    blocks = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            blocks += path.lstat().st_blocks
    return blocks * 512 / 2**20
