"""Distinguishes a restart by the launcher from a new start, by a file in the model folder.

torchrun starts all ranks again after one was lost and when a node joins or leaves, and Slurm
requeues a job. They repeat the command with its flags, which were meant for the first start.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from translate_ddp.runtime.files import write_atomically

FILE = ".launch"


def launch_names(environment: Mapping[str, str]) -> list[str]:
    """The names of the torchrun and of the Slurm job that started this process, if any."""
    return [*_torchrun(environment), *_slurm_starts(environment)[-1:]]


def is_restart(environment: Mapping[str, str], folder: Path) -> bool:
    """Whether the run in the folder was begun by the same torchrun, or by the job before a requeue.

    The next `srun` of an interactive Slurm job is not a restart.
    """
    try:
        begun = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    earlier = [*_torchrun(environment), *_slurm_starts(environment)[:-1]]
    return not set(begun).isdisjoint(earlier)


def record_launch(folder: Path, names: Iterable[str]) -> None:
    """Record that these launchers have begun the run in the folder. Raises OSError."""
    write_atomically(folder / FILE, json.dumps(sorted(names)))


def _torchrun(environment: Mapping[str, str]) -> list[str]:
    # A folder that each torchrun makes for itself; `--log-dir=/dev/null` unsets it.
    folder = re.match("(.+)/attempt_", environment.get("TORCHELASTIC_ERROR_FILE", ""))
    return [f"torchrun with logs in {folder[1]}"] if folder else []


def _slurm_starts(environment: Mapping[str, str]) -> list[str]:
    """The starts of this Slurm job so far, this one last; empty outside of Slurm."""
    if "SLURM_JOB_ID" not in environment:
        return []
    restarts = int(environment.get("SLURM_RESTART_COUNT") or 0)
    return [f"start {n} of Slurm job {environment['SLURM_JOB_ID']}" for n in range(restarts + 1)]
