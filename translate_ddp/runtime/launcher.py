"""Rank, world size and restarts of this process, from the variables of torchrun or Slurm.

Does not import torch, which takes seconds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from translate_ddp.errors import UserError


@dataclass(frozen=True)
class Launch:
    """The place of this process among those that the launcher has started."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0
    under_torchrun: bool = False


def read_launch(environment: Mapping[str, str]) -> Launch:
    """The launch by torchrun, else by Slurm's `srun`, else of a single process."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return Launch(
            rank=int(environment["RANK"]),
            size=int(environment["WORLD_SIZE"]),
            local_rank=int(environment.get("LOCAL_RANK", "0")),
            local_size=int(environment.get("LOCAL_WORLD_SIZE", "1")),
            # Slurm requeues a job with the same command; torchrun's count then starts at 0 again.
            restarts=int(environment.get("TORCHELASTIC_RESTART_COUNT", "0"))
            + int(environment.get("SLURM_RESTART_COUNT", "0")),
            under_torchrun="TORCHELASTIC_RUN_ID" in environment,
        )
    # A batch script has most of these variables too, but only `srun` sets those of a step.
    if "SLURM_STEP_TASKS_PER_NODE" in environment and int(environment["SLURM_NTASKS"]) > 1:
        return Launch(
            rank=int(environment["SLURM_PROCID"]),
            size=int(environment["SLURM_NTASKS"]),
            local_rank=int(environment["SLURM_LOCALID"]),
            local_size=_slurm_local_size(environment),
            restarts=int(environment.get("SLURM_RESTART_COUNT", "0")),
        )
    return Launch()


def _slurm_local_size(environment: Mapping[str, str]) -> int:
    """Tasks on this node, from a list such as `4(x2),3`: nodes 0 and 1 have 4, node 2 has 3."""
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment["SLURM_STEP_TASKS_PER_NODE"])
    counts = [int(tasks) for tasks, nodes in groups for _ in range(int(nodes or 1))]
    return counts[int(environment["SLURM_NODEID"])]


def first_slurm_host(nodelist: str) -> str:
    """The first host of a list such as `gpu[07-09,12],big1`."""
    match = re.match(r"([^\[,]+)(?:\[([0-9]+))?", nodelist)
    if match is None:
        raise UserError(f"SLURM_STEP_NODELIST contains no host: {nodelist!r}.")
    return match[1] + (match[2] or "")
