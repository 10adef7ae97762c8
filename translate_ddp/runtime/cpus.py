"""How many CPU cores and threads are this process's. It does without torch."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from translate_ddp.runtime.launcher import Launch


def threads_per_process(launch: Launch) -> int:
    """OMP_NUM_THREADS if the user set it, else this process's share of the cores."""
    chosen = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if chosen.isdecimal() and int(chosen) and not _is_torchruns_default(chosen, launch):
        return int(chosen)
    return max(1, usable_cores() // launch.local_size)


def _is_torchruns_default(chosen: str, launch: Launch) -> bool:
    """Whether torchrun set the variable: it does to 1, for several ranks, if the user did not."""
    if not (launch.supervised and chosen == "1"):
        return False
    try:
        # What the process was started with, before it changed its own.
        variables = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    except OSError:
        return True
    return not any(variable.startswith(b"OMP_NUM_THREADS=") for variable in variables)


def usable_cores() -> int:
    """Cores of this process's affinity mask, or fewer by the quota of its container."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min([cores, *(math.ceil(quota) for quota in cpu_quotas())]))


def cpu_quotas(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[float]:
    """The limits of this process's control group and those above it, in cores.

    Version 2 says `QUOTA PERIOD` in `cpu.max`, or `max`; version 1 has a file for each.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        is_v2 = not controllers
        if not is_v2 and "cpu" not in controllers.split(","):
            continue
        group = (root if is_v2 else root / "cpu") / path.lstrip("/")
        for folder in (group, *group.parents):
            yield from _quota(folder, is_v2)
            if folder == root:
                break


def _quota(folder: Path, is_v2: bool) -> Iterator[float]:
    names = ["cpu.max"] if is_v2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    try:
        quota, period = " ".join((folder / name).read_text() for name in names).split()
        if quota != "max" and int(quota) > 0:
            yield int(quota) / int(period)
    except (OSError, ValueError):
        return
