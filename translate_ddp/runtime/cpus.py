"""The number of CPU cores and threads for this process. Does not import torch."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from translate_ddp.runtime.launcher import Launch


def threads_per_process(launch: Launch) -> int:
    """OMP_NUM_THREADS if the user set it, else this process's share of the cores."""
    chosen = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if chosen.isdecimal() and int(chosen) and not _is_torchruns_default(chosen, launch):
        return int(chosen)
    return max(1, usable_cores() // launch.local_size)


def _is_torchruns_default(chosen: str, launch: Launch) -> bool:
    """Whether torchrun has set OMP_NUM_THREADS=1, as it does for several ranks by default."""
    if not (launch.under_torchrun and chosen == "1"):
        return False
    try:
        # The environment with which torchrun was started, before it set its own variables.
        variables = Path(f"/proc/{os.getppid()}/environ").read_bytes()
        return b"\0OMP_NUM_THREADS=" not in b"\0" + variables
    except OSError:
        return True


def usable_cores() -> int:
    """Cores in this process's affinity mask, or the CPU quota of its container if lower."""
    has_mask = hasattr(os, "sched_getaffinity")  # not on macOS
    cores = len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in cpu_quotas())]))


def cpu_quotas(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[float]:
    """CPU limits of this process's control group and its parents, in cores.

    cgroup v2 has `QUOTA PERIOD` or `max PERIOD` in `cpu.max`; v1 has a file for each number.
    """
    lines = own.read_text().splitlines() if own.exists() else []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        is_v2 = not controllers
        if not is_v2 and "cpu" not in controllers.split(","):
            continue
        names = ["cpu.max"] if is_v2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        group = (root if is_v2 else root / "cpu") / path.lstrip("/")
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):  # no such files, or `max`
                quota, period = " ".join((folder / name).read_text() for name in names).split()
                if int(quota) > 0:
                    yield int(quota) / int(period)
            if folder == root:
                break
