"""Peaks of the memory and of the disk that a process and its descendants use."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from benchmarks.rounds import descendants

MIB = 2**20


class Usage:
    """The most of each quantity over all calls, in MiB.

    `largest_rss_mib`: resident memory of the largest process, also between calls. `anonymous_mib`:
    anonymous memory of all processes, which the kernel cannot drop; shared pages count once.
    `disk_mib`: files below the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.peaks = {"largest_rss_mib": 0.0, "anonymous_mib": 0.0, "disk_mib": 0.0}

    def __call__(self, pid: int) -> None:
        """Sample the process `pid` and its descendants."""
        pids = descendants(pid)
        found = {
            "largest_rss_mib": max(_read_mib(pid, "status", ["VmHWM"]) for pid in pids),
            "anonymous_mib": sum(
                _read_mib(pid, "smaps_rollup", ["Pss_Anon", "Pss_Shmem"]) for pid in pids
            ),
            "disk_mib": disk_mib(self.folder),
        }
        self.peaks = {name: max(peak, found[name]) for name, peak in self.peaks.items()}


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
    return blocks * 512 / MIB
