"""What the launcher says of this process: torchrun's variables, or Slurm's.

It does without torch, which takes seconds to import.
"""

import os
import re
from dataclasses import dataclass

from translate_ddp.errors import UserError


@dataclass(frozen=True)
class Launch:
    """What the launcher says of this process."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0
    supervised: bool = False  # by a torchrun, without which the ranks are orphans


def read_launch(environment: dict[str, str] | os._Environ[str]) -> Launch:
    """What torchrun or, failing that, Slurm's `srun` says; otherwise one process."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return Launch(
            rank=int(environment["RANK"]),
            size=int(environment["WORLD_SIZE"]),
            local_rank=int(environment.get("LOCAL_RANK", "0")),
            local_size=int(environment.get("LOCAL_WORLD_SIZE", "1")),
            # Slurm queues a job again with the same command, torchrun's count then starts at 0.
            restarts=int(environment.get("TORCHELASTIC_RESTART_COUNT", "0"))
            + int(environment.get("SLURM_RESTART_COUNT", "0")),
            supervised="TORCHELASTIC_RUN_ID" in environment,
        )
    # A batch script has most of these variables too, but only `srun` says where its tasks are.
    if "SLURM_STEP_TASKS_PER_NODE" in environment and int(environment["SLURM_NTASKS"]) > 1:
        return Launch(
            rank=int(environment["SLURM_PROCID"]),
            size=int(environment["SLURM_NTASKS"]),
            local_rank=int(environment["SLURM_LOCALID"]),
            local_size=_slurm_local_size(environment),
            restarts=int(environment.get("SLURM_RESTART_COUNT", "0")),
        )
    return Launch()


def _slurm_local_size(environment: dict[str, str] | os._Environ[str]) -> int:
    """Tasks on this node, from a list such as `4(x2),3`: nodes 0 and 1 have 4, node 2 has 3."""
    counts: list[int] = []
    for tasks, times in re.findall(
        r"(\d+)(?:\(x(\d+)\))?", environment["SLURM_STEP_TASKS_PER_NODE"]
    ):
        counts += [int(tasks)] * int(times or 1)
    return counts[int(environment["SLURM_NODEID"])]


def first_slurm_host(nodelist: str) -> str:
    """The first host of a list such as `gpu[07-09,12],big1`."""
    match = re.match(r"([^\[,]+)(?:\[([0-9]+))?", nodelist)
    if match is None:
        raise UserError(f"SLURM_STEP_NODELIST names no host: {nodelist!r}.")
    return match[1] + (match[2] or "")
