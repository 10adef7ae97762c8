"""The launch of this process, from the variables of torchrun or Slurm, and its record in a folder.

The record distinguishes a restart by the launcher from a new start. torchrun starts all ranks
again after one was lost and when a node joins or leaves, and Slurm requeues a job. They repeat the
command with its flags, which were meant for the first start. Does not import torch, which takes
seconds.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from translate_ddp.errors import UserError
from translate_ddp.runtime.files import write_atomically

LAUNCH_FILE = ".launch"

UNSET = (
    "Start with torchrun, or unset RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and "
    "MASTER_PORT to train with one process."
)


@dataclass(frozen=True)
class Launch:
    """The place of this process among all that the launcher has started."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node: int = 0  # an id of this rank's node
    under_torchrun: bool = False


ONE_PROCESS = Launch()


def read_launch(environment: Mapping[str, str]) -> Launch:
    """The launch by torchrun, else by Slurm's `srun`, else of a single process.

    Raises UserError if its variables contradict each other, or for several processes of MPI.
    """
    if "RANK" in environment or "WORLD_SIZE" in environment:
        return _read_torchrun(environment)
    _reject_mpirun(environment, "OMPI_COMM_WORLD_SIZE")  # its daemons are a step of Slurm
    # A batch script has most of these variables too, but only `srun` sets a step's variables.
    is_step = "SLURM_STEP_TASKS_PER_NODE" in environment
    if is_step and _number(environment, "SLURM_STEP_NUM_TASKS", 1) > 1:
        return Launch(
            rank=_number(environment, "SLURM_PROCID"),
            size=_number(environment, "SLURM_STEP_NUM_TASKS"),
            local_rank=_number(environment, "SLURM_LOCALID"),
            local_size=_slurm_local_size(environment),
            node=_number(environment, "SLURM_NODEID"),
        )
    _reject_mpirun(environment, "PMI_SIZE")  # srun may set it, too
    return ONE_PROCESS


def _reject_mpirun(environment: Mapping[str, str], name: str) -> None:
    if (size := _number(environment, name, 1)) > 1:
        raise UserError(
            f"mpirun has started {size} processes without RANK and WORLD_SIZE, so each would train "
            "on its own: start the ranks with torchrun or srun."
        )


def is_first_process(environment: Mapping[str, str]) -> bool:
    """Whether this process prints an error that all processes of the launch have.

    Raises no error, whatever the variables are.
    """
    names = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    return next((environment[name] for name in names if name in environment), "0") in ("0", "")


def _read_torchrun(environment: Mapping[str, str]) -> Launch:
    rank, local_rank = _number(environment, "RANK"), _number(environment, "LOCAL_RANK", 0)
    launch = Launch(
        rank=rank,
        size=_number(environment, "WORLD_SIZE"),
        local_rank=local_rank,
        local_size=_number(environment, "LOCAL_WORLD_SIZE", 1),
        # Where a launcher numbers no nodes, the ranks of a node follow each other.
        node=_number(environment, "GROUP_RANK", rank - local_rank),
        under_torchrun="TORCHELASTIC_RUN_ID" in environment,
    )
    if launch.rank >= launch.size:
        raise _unusable(f"RANK={launch.rank} is not below WORLD_SIZE={launch.size}.")
    if launch.size > 1:
        _number(environment, "MASTER_PORT")
        if not environment.get("MASTER_ADDR"):
            raise _unusable("RANK is set, but MASTER_ADDR is not.")
    return launch


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    """The number in a variable, or the default. Raises UserError if there is none."""
    text = environment.get(name)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdecimal()):
        found = "not set" if text is None else f"{text!r}, which is no number"
        raise _unusable(f"The launcher's variable {name} is {found}.")
    return int(text)


def _unusable(problem: str) -> UserError:
    # Each process reports its own variables: there may be no rank 0.
    return UserError(f"{problem} {UNSET}", this_rank_only=True)


def _slurm_local_size(environment: Mapping[str, str]) -> int:
    """Tasks on this node, from a list such as `4(x2),3`: nodes 0 and 1 have 4, node 2 has 3."""
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment["SLURM_STEP_TASKS_PER_NODE"])
    counts = [int(tasks) for tasks, nodes in groups for _ in range(int(nodes or 1))]
    return counts[int(environment["SLURM_NODEID"])]


def first_slurm_host(nodelist: str) -> str:
    """The first host of a list such as `gpu[07-09,12],big1`."""
    prefix, number = re.findall(r"([^\[,]*)(?:\[([0-9]+))?", nodelist)[0]
    return prefix + number


def launch_names(environment: Mapping[str, str], *, earlier: bool = False) -> list[str]:
    """The names of the torchrun and of the start of a Slurm job that started this process, if any.

    `earlier`: of the starts of that job before this one.
    """
    # A folder that each torchrun makes for itself; `--log-dir=/dev/null` unsets it.
    folder = re.match("(.+)/attempt_", environment.get("TORCHELASTIC_ERROR_FILE", ""))
    names = [f"torchrun with logs in {folder[1]}"] if folder else []
    if job := environment.get("SLURM_JOB_ID"):
        restarts = int(environment.get("SLURM_RESTART_COUNT") or 0)
        starts = range(restarts) if earlier else [restarts]
        names += [f"start {n} of Slurm job {job}" for n in starts]
    return names


def is_restart(environment: Mapping[str, str], folder: Path) -> bool:
    """Whether the run in the folder was begun by the same torchrun, or by the job before a requeue.

    The next `srun` of an interactive Slurm job is not a restart.
    """
    try:
        begun = json.loads((folder / LAUNCH_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return not set(begun).isdisjoint(launch_names(environment, earlier=True))


def record_launch(folder: Path, names: Iterable[str]) -> None:
    """Record that these launchers have begun the run in the folder. Raises OSError."""
    write_atomically(folder / LAUNCH_FILE, json.dumps(sorted(names)))
