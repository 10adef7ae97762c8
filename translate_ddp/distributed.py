"""The processes of a run as a value: who am I, how many are we, and how do we agree.

The only module that reads the launcher's variables or imports `torch.distributed`. With one
process every collective is the identity, so no caller asks whether there are others; and
`World(rank=3, size=8)` is a plain value, with which sharding is tested without processes.
"""

import itertools
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from translate_ddp.errors import UserError

T = TypeVar("T")

__all__ = [
    "DistributedConfig",
    "Launch",
    "World",
    "first_slurm_host",
    "open_world",
    "read_launch",
    "record",
]

COLLECTIVE_TIMEOUT = timedelta(minutes=10)
HEARTBEAT_SECONDS = 2.0
SILENCE_SECONDS = 60.0  # a leader that has not been heard from for so long is lost


@dataclass(frozen=True)
class DistributedConfig:
    backend: Literal["auto", "nccl", "gloo"] = "auto"
    """How ranks talk: auto is NCCL between GPUs and gloo between CPUs."""
    bucket_cap_mb: int = 25
    """Gradients travel in buckets of this many MiB, while backward is still running."""

    def __post_init__(self) -> None:
        if self.bucket_cap_mb < 1:
            raise ValueError(f"bucket_cap_mb must be at least 1, but is {self.bucket_cap_mb}.")


@dataclass(frozen=True)
class Launch:
    """What the launcher says of this process."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0


@dataclass(frozen=True)
class World:
    """This process among the `size` processes of a run.

    Collectives must be entered by every rank, in the same order.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")
    backend: str = "none"
    leaders: tuple[int, ...] = (0,)  # the first rank of every node
    restarted: bool = False  # the launcher has started this run before
    store: dist.Store | None = field(default=None, repr=False, compare=False)
    _calls: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def node(self) -> int:
        """The place of this rank's node in what `on_each_node` returns."""
        return sum(leader <= self.rank for leader in self.leaders) - 1

    def sum(self, tensor: Tensor) -> Tensor:
        """The elementwise sum over all ranks, as a new tensor."""
        total = tensor.clone()
        if self.size > 1:
            dist.all_reduce(total)
        return total

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Each flag, true on every rank if it is true on one."""
        if self.size == 1:
            return flags
        raised = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(raised, op=dist.ReduceOp.MAX)
        return tuple(bool(flag) for flag in raised.tolist())

    def gather(self, text: str) -> list[str]:
        """Every rank's text, in the order of ranks, on every rank."""
        if self.size == 1:
            return [text]
        mine = torch.frombuffer(bytearray(text.encode() + b"\n"), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor([len(mine)]))
        longest = max(int(length) for length in lengths)
        padded = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(padded, nn.functional.pad(mine, (0, longest - len(mine))))
        return [
            bytes(row[: int(length)].numpy()).decode().removesuffix("\n")
            for row, length in zip(padded, lengths, strict=True)
        ]

    def broadcast(self, data: bytes | None, source: int) -> bytes:
        """The bytes that rank `source` passes in, on every rank; the others pass None."""
        if self.size == 1:
            assert data is not None
            return data
        length = torch.tensor([len(data) if data is not None else 0])
        dist.broadcast(length, src=source)
        if data is not None and self.rank == source:
            payload = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        else:
            payload = torch.empty(int(length), dtype=torch.uint8)
        if int(length):
            dist.broadcast(payload, src=source)
        return bytes(payload.numpy())

    def replicate(self, module: nn.Module, config: DistributedConfig) -> nn.Module:
        """The module with gradients averaged over ranks in backward, and rank 0's weights."""
        if self.size == 1:
            return module
        return DistributedDataParallel(
            module,
            bucket_cap_mb=config.bucket_cap_mb,
            gradient_as_bucket_view=True,
        )

    def accumulating(self, module: nn.Module) -> AbstractContextManager[None]:
        """Within it, forward *and* backward leave this rank's gradients unsent."""
        if isinstance(module, DistributedDataParallel):
            return module.no_sync()
        return nullcontext()

    def on_main(self, phase: str, work: Callable[[], T]) -> T:
        """Rank 0 does `work`, however long; every rank gets its result, which must be JSON.

        The others wait on the store and watch rank 0's heartbeat: no collective can time out.
        A `UserError` of rank 0 is raised on every rank.
        """
        return self._on_ranks((0,), phase, work)[0]

    def on_each_node(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_main`, but the first rank of every node works; returns all nodes' results."""
        return self._on_ranks(self.leaders, phase, work)

    def _on_ranks(self, ranks: Sequence[int], phase: str, work: Callable[[], T]) -> list[T]:
        if self.store is None:
            return [work()]
        prefix = f"{next(self._calls)}/{phase}"
        if self.rank in ranks:
            _publish(self.store, f"{prefix}/{self.rank}", work)
        keys = [f"{prefix}/{rank}" for rank in ranks]
        outcomes = _await(self.store, keys, phase)
        for rank, outcome in zip(ranks, outcomes, strict=True):
            if "failed" in outcome:
                raise RuntimeError(f"Rank {rank} failed while {phase}: {outcome['failed']}")
        # Nobody leaves, and takes the store along, before all have read it.
        self.any(False)
        for outcome in outcomes:
            if "error" in outcome:
                raise UserError(outcome["error"])
        return [outcome["value"] for outcome in outcomes]


def _publish(store: dist.Store, key: str, work: Callable[[], Any]) -> None:
    """Do the work under a heartbeat and leave its outcome in the store."""
    try:
        with _heartbeat(store, f"{key}/beat"):
            outcome = {"value": work()}
    except UserError as error:
        outcome = {"error": str(error)}
    except BaseException as error:
        store.set(key, json.dumps({"failed": repr(error)}))
        raise
    store.set(key, json.dumps(outcome))


@contextmanager
def _heartbeat(store: dist.Store, key: str) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        for count in itertools.count():
            store.set(key, str(count))
            if done.wait(HEARTBEAT_SECONDS):
                return

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _await(store: dist.Store, keys: list[str], phase: str) -> list[dict[str, Any]]:
    """The outcomes at `keys`, once all are there and as long as those still missing beat."""
    last_beats: list[bytes] = []
    heard = time.monotonic()
    pause = 0.005
    try:
        while not store.check(keys):
            beats = [store.get(f"{key}/beat") for key in keys if store.check([f"{key}/beat"])]
            if beats != last_beats:
                last_beats, heard = beats, time.monotonic()
            if time.monotonic() - heard > SILENCE_SECONDS:
                raise RuntimeError(f"No sign of life for {SILENCE_SECONDS:.0f} s while {phase}.")
            time.sleep(pause)
            pause = min(2 * pause, 0.25)
        return [json.loads(store.get(key)) for key in keys]
    except dist.DistNetworkError as error:
        raise RuntimeError(f"The process that keeps the store was lost while {phase}.") from error


@contextmanager
def open_world(config: DistributedConfig) -> Iterator[World]:
    """Join the other processes of this run; leave them again, on the clean path only.

    Raises UserError if this machine cannot do what the launcher asks.
    """
    launch = read_launch(os.environ)
    device, backend = _choose_device(launch, config)
    _set_threads(device, launch.local_size)
    world = World(launch.rank, launch.size, device, restarted=launch.restarts > 0)
    if launch.size == 1:
        yield world
        return
    store = _join(launch, device, backend)
    world = replace(world, backend=backend.split(":")[-1])
    local_ranks = world.gather(str(launch.local_rank))
    yield replace(
        world,
        leaders=tuple(rank for rank, local in enumerate(local_ranks) if local == "0"),
        restarted=world.any(world.restarted)[0],
        store=dist.PrefixStore("phases", store),
    )
    dist.destroy_process_group()


def read_launch(environment: dict[str, str] | os._Environ[str]) -> Launch:
    """What torchrun or, failing that, Slurm's `srun` says; otherwise one process."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return Launch(
            rank=int(environment["RANK"]),
            size=int(environment["WORLD_SIZE"]),
            local_rank=int(environment.get("LOCAL_RANK", "0")),
            local_size=int(environment.get("LOCAL_WORLD_SIZE", "1")),
            restarts=int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")),
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


def _choose_device(launch: Launch, config: DistributedConfig) -> tuple[torch.device, str]:
    if not torch.cuda.is_available():
        if config.backend == "nccl":
            raise UserError(
                "NCCL needs GPUs and none is visible: leave --backend out, or use gloo."
            )
        return torch.device("cpu"), "gloo"
    count = torch.cuda.device_count()
    if launch.local_size > count:
        raise UserError(
            f"{launch.local_size} processes were started on this machine, which has {count} "
            f"GPU(s): pass --nproc_per_node={count}, or set CUDA_VISIBLE_DEVICES='' for CPUs.",
            alone=launch.local_rank == 0 < launch.rank,
        )
    device = torch.device("cuda", launch.local_rank)
    torch.cuda.set_device(device)
    return device, "gloo" if config.backend == "gloo" else "cpu:gloo,cuda:nccl"


def _set_threads(device: torch.device, local_size: int) -> None:
    """Share the cores out. torchrun forces one thread a process, on any number of cores."""
    if device.type == "cpu":
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // local_size))


def _join(launch: Launch, device: torch.device, backend: str) -> dist.Store:
    environment = os.environ
    if "RANK" not in environment:  # started by srun alone
        environment["RANK"], environment["WORLD_SIZE"] = str(launch.rank), str(launch.size)
        host = first_slurm_host(environment.get("SLURM_STEP_NODELIST", "127.0.0.1"))
        environment.setdefault("MASTER_ADDR", host)
        port = 20000 + int(environment.get("SLURM_JOB_ID", "0")) % 10000
        environment.setdefault("MASTER_PORT", str(port))
    where = f"{environment.get('MASTER_ADDR')}:{environment.get('MASTER_PORT')}"
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=COLLECTIVE_TIMEOUT))
    except dist.DistNetworkError as error:
        raise UserError(
            f"The ranks cannot meet at {where}: {str(error).splitlines()[0]} "
            "Free the port, or choose another by MASTER_PORT or torchrun's --rdzv-endpoint.",
            alone=launch.local_rank == 0 < launch.rank,
        ) from error
    store = dist.PrefixStore(_name_attempt(store, rank, size), store)
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("group", store),
        rank=rank,
        world_size=size,
        timeout=COLLECTIVE_TIMEOUT,
        device_id=device if "nccl" in backend else None,
    )
    return store


def _name_attempt(store: dist.Store, rank: int, size: int) -> str:
    """A name that all ranks of this start share, and no rank of an earlier one.

    torchrun keeps one store over all restarts, and what ranks wrote there before they died would
    be taken for the word of those that took their place. So each rank asks under a name never used
    before, and rank 0 answers until all have heard.
    """
    mine = uuid.uuid4().hex
    if rank > 0:
        store.set(f"asking/{rank}", mine)
        store.wait([f"answer/{mine}"], COLLECTIVE_TIMEOUT)
        name = store.get(f"answer/{mine}").decode()
        store.set(f"{name}/heard/{rank}", "")
        return name
    missing = set(range(1, size))
    deadline = time.monotonic() + COLLECTIVE_TIMEOUT.total_seconds()
    while missing:
        for other in missing:
            if store.check([f"asking/{other}"]):
                asked = store.get(f"asking/{other}").decode()
                store.set(f"answer/{asked}", mine)
        missing = {other for other in missing if not store.check([f"{mine}/heard/{other}"])}
        if time.monotonic() > deadline:
            raise UserError(f"Ranks {sorted(missing)} of {size} did not come within 10 minutes.")
        time.sleep(0.01)
    return mine
