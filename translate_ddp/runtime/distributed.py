"""The processes of a run as a value: who am I, how many are we, and how do we agree.

The only module that imports `torch.distributed`. With one process every collective is the identity,
so no caller asks whether there are others; and `World(rank=3, size=8)` is a plain value, with which
sharding is tested without processes.
"""

import itertools
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from translate_ddp.errors import Stopped, UserError
from translate_ddp.modeling.precision import fix_cuda_kernels
from translate_ddp.runtime.cpus import threads_per_process
from translate_ddp.runtime.launcher import Launch, first_slurm_host, read_launch
from translate_ddp.runtime.out_of_memory import explain_out_of_memory
from translate_ddp.runtime.peers import Peers
from translate_ddp.runtime.watchdog import REFUSED, Watchdog, watching
from translate_ddp.settings import DistributedConfig

T = TypeVar("T")

__all__ = [
    "World",
    "open_world",
    "record",
]

MEETING_TIMEOUT = timedelta(minutes=10)  # for all ranks to be there at the start
LESS_MEMORY = "lower --max_tokens, choose a smaller model (--preset), or end other programs"
# How torch says that another rank is gone: by types of its own, and by gloo's words.
LOST_CONTACT = re.compile(r"gloo/|Connection (closed|reset|refused)|Timed out waiting|Broken pipe")


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
    watchdog: Watchdog = field(default_factory=Watchdog, repr=False, compare=False)
    store: dist.Store | None = field(default=None, repr=False, compare=False)
    _calls: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def leads_node(self) -> bool:
        return self.rank in self.leaders

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

        The others wait on the store for as long as rank 0 lives: no collective can time out.
        A `UserError` or `Stopped` of rank 0 is raised on every rank.
        """
        return self._on_ranks((0,), phase, work)[0]

    def on_each_node(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_main`, but the first rank of every node works; returns all nodes' results."""
        return self._on_ranks(self.leaders, phase, work)

    def on_each_rank(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_main`, but every rank works; returns all results."""
        return self._on_ranks(tuple(range(self.size)), phase, work)

    def _on_ranks(self, ranks: tuple[int, ...], phase: str, work: Callable[[], T]) -> list[T]:
        # What is done before training, such as reading a corpus, gives no signs of life.
        limited = self.watchdog.stage == "training" or self.rank not in ranks
        self.watchdog.at(phase, limited=limited)
        if self.store is None:
            return [work()]
        prefix = f"{next(self._calls)}/{phase}"
        mine = ""
        if self.rank in ranks:
            mine = _outcome(work)
            _tell_done(self.store, f"{prefix}/{self.rank}")
        with self.watchdog.awaiting(ranks):
            _await(self.store, [f"{prefix}/{rank}" for rank in ranks])
            # Not by the store: it dies with torchrun, and what is under way must still be saved.
            texts = self.gather(mine)
        self.watchdog.at(f"after {phase}")
        outcomes = [json.loads(texts[rank]) for rank in ranks]
        for outcome in outcomes:
            if "error" in outcome:
                raise UserError(outcome["error"])
        if any("stopped" in outcome for outcome in outcomes):
            raise Stopped
        return [outcome["value"] for outcome in outcomes]


def _outcome(work: Callable[[], Any]) -> str:
    """What comes of the work, as text that can travel."""
    try:
        return json.dumps({"value": work()})
    except UserError as error:
        return json.dumps({"error": str(error)})
    except Stopped:
        return json.dumps({"stopped": True})


def _tell_done(store: dist.Store, key: str) -> None:
    with suppress(dist.DistNetworkError):
        store.set(key, "")


def _await(store: dist.Store, keys: list[str]) -> None:
    """Return once all keys are there, or the store is lost."""
    pause = 0.005
    with suppress(dist.DistNetworkError):
        while not store.check(keys):
            time.sleep(pause)
            pause = min(2 * pause, 0.25)


@contextmanager
def open_world(config: DistributedConfig) -> Iterator[World]:
    """Join the other processes of this run; leave them again, on the clean path only.

    From here on signals are heard by the watchdog, and one rank tells what ends the run otherwise.
    Raises UserError if this machine cannot do what the launcher asks.
    """
    launch = read_launch(os.environ)
    device, backend = _choose_device(launch, config)
    if device.type == "cpu":
        torch.set_num_threads(threads_per_process(launch))
    fix_cuda_kernels()
    limit = 60 * config.timeout_minutes
    with watching(launch.rank, launch.size, launch.supervised) as watchdog:
        watchdog.limit = limit
        restarted = launch.restarts > 0
        world = World(launch.rank, launch.size, device, restarted=restarted, watchdog=watchdog)
        with _told(world):
            if launch.size > 1:
                world = _join(world, launch, backend, limit)
            with explain_out_of_memory(device, lambda: watchdog.where, LESS_MEMORY):
                yield world
        if launch.size > 1:
            dist.destroy_process_group()


@contextmanager
def _told(world: World) -> Iterator[None]:
    """Let one rank say how the run ends, if it ends in an error."""
    watchdog = world.watchdog
    try:
        yield
    except UserError as error:
        if not (error.this_rank_only or world.is_main):
            watchdog.withdraw()
        elif not watchdog.refuse(str(error)):
            os._exit(REFUSED)  # another rank has told its own
        raise
    except Exception as error:
        if world.size > 1 and _is_lost_contact(error):
            watchdog.lost_contact(error)
        watchdog.failed(error)
        raise


def _is_lost_contact(error: Exception) -> bool:
    if isinstance(error, dist.DistError):
        return True
    return type(error) is RuntimeError and bool(LOST_CONTACT.search(str(error)))


def _choose_device(launch: Launch, config: DistributedConfig) -> tuple[torch.device, str]:
    if not torch.cuda.is_available():
        if config.backend == "nccl":
            raise UserError(
                "NCCL needs GPUs and none is visible: leave --backend out, or use gloo."
            )
        return torch.device("cpu"), "gloo"
    count = torch.cuda.device_count()
    if 1 < count < launch.local_size:
        raise UserError(
            f"{launch.local_size} processes were started on this machine, which has {count} "
            f"GPUs: pass --nproc_per_node={count}, or set CUDA_VISIBLE_DEVICES='' for CPUs.",
            this_rank_only=launch.local_rank == 0 < launch.rank,
        )
    # A process that sees one GPU uses it: Slurm's --gpus-per-task=1 gives each its own.
    device = torch.device("cuda", launch.local_rank if count > 1 else 0)
    torch.cuda.set_device(device)
    return device, "gloo" if config.backend == "gloo" else "cpu:gloo,cuda:nccl"


def _claim_gpu(store: dist.Store, launch: Launch, device: torch.device) -> None:
    """Raise UserError if another rank has this rank's GPU: NCCL would hang or fail obscurely."""
    mine = str(torch.cuda.get_device_properties(device).uuid)
    owner = store.compare_set(f"gpu/{mine}", "", str(launch.rank)).decode()
    if owner != str(launch.rank):
        raise UserError(
            f"Ranks {owner} and {launch.rank} would share one GPU: start as many processes as "
            "there are GPUs (--nproc_per_node), set LOCAL_RANK or let each process see a GPU of "
            "its own, or set CUDA_VISIBLE_DEVICES='' for CPUs.",
            this_rank_only=True,
        )


def _join(world: World, launch: Launch, backend: str, limit: float) -> World:
    """The world once all ranks of this start have met."""
    world.watchdog.at("waiting for the other ranks", limited=False)
    store = _meet(launch)
    # A connection of its own: one that waits for an answer is in nobody else's way.
    notices = dist.PrefixStore("peers", store.clone())  # pyright: ignore[reportAttributeAccessIssue]
    world.watchdog.join(Peers(notices, launch.rank, launch.size))
    if "nccl" in backend:
        _claim_gpu(dist.PrefixStore("gpus", store), launch, world.device)
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("group", store),
        rank=launch.rank,
        world_size=launch.size,
        # The watchdog comes first: it can say which rank it was.
        timeout=timedelta(seconds=2 * limit),
        device_id=world.device if "nccl" in backend else None,
    )
    world = replace(world, backend=backend.split(":")[-1])
    local_ranks = world.gather(str(launch.local_rank))
    return replace(
        world,
        leaders=tuple(rank for rank, local in enumerate(local_ranks) if local == "0"),
        restarted=world.any(world.restarted)[0],
        store=dist.PrefixStore("phases", store),
    )


def _meet(launch: Launch) -> dist.Store:
    """A store that the ranks of this start share, and no others."""
    environment = os.environ
    if "RANK" not in environment:  # started by srun alone
        environment["RANK"], environment["WORLD_SIZE"] = str(launch.rank), str(launch.size)
        host = first_slurm_host(environment.get("SLURM_STEP_NODELIST", "127.0.0.1"))
        environment.setdefault("MASTER_ADDR", host)
        port = 20000 + int(environment.get("SLURM_JOB_ID", "0")) % 10000
        environment.setdefault("MASTER_PORT", str(port))
    where = f"{environment.get('MASTER_ADDR')}:{environment.get('MASTER_PORT')}"
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=MEETING_TIMEOUT))
    except dist.DistNetworkError as error:
        raise UserError(
            f"The ranks cannot meet at {where}: {str(error).splitlines()[0]} "
            "Free the port, or choose another by MASTER_PORT or torchrun's --rdzv-endpoint.",
            this_rank_only=launch.local_rank == 0 < launch.rank,
        ) from error
    return dist.PrefixStore(_name_attempt(store, rank, size), store)


def _name_attempt(store: dist.Store, rank: int, size: int) -> str:
    """A name that all ranks of this start share, and no rank of an earlier one.

    torchrun keeps one store over all restarts, and what ranks wrote there before they died would
    be taken for the word of those that took their place. So each rank asks under a name never used
    before, and rank 0 answers until all have heard.
    """
    mine = uuid.uuid4().hex
    if rank > 0:
        store.set(f"asking/{rank}", mine)
        store.wait([f"answer/{mine}"], MEETING_TIMEOUT)
        name = store.get(f"answer/{mine}").decode()
        store.set(f"{name}/heard/{rank}", "")
        return name
    missing = set(range(1, size))
    deadline = time.monotonic() + MEETING_TIMEOUT.total_seconds()
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
