"""World: this process among all ranks, and their collectives.

With one process every collective is the identity, so no caller checks for other ranks. And
`World(rank=3, size=8)` is a plain value, with which sharding is tested without processes.
"""

import itertools
import os
import re
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

from translate_ddp.errors import Stopped, UserError, type_and_line
from translate_ddp.runtime.cpus import threads_per_process
from translate_ddp.runtime.device import choose_device, fix_cuda_kernels
from translate_ddp.runtime.environment import check_interfaces
from translate_ddp.runtime.flight_recorder import write_flight_recorder
from translate_ddp.runtime.launcher import Launch, read_launch
from translate_ddp.runtime.out_of_memory import explain_out_of_memory
from translate_ddp.runtime.peers import Peers, Termination
from translate_ddp.runtime.process_exit import ExitCode
from translate_ddp.runtime.rendezvous import check_same_device, claim_gpu, meet
from translate_ddp.runtime.watchdog import Watchdog, open_watchdog
from translate_ddp.settings import DistributedConfig

T = TypeVar("T")

__all__ = ["World", "open_world", "record"]

LOWER_MEMORY = "lower --max_tokens, choose a smaller model (--preset), or end other programs"
# Timeout of collectives. The watchdog ends a hang, with a message that names the rank. Work before
# training, and a validation on rank 0, may take any time while the others wait in a collective.
NEVER = timedelta(days=365)
# Messages of gloo for a lost rank; other backends raise types of torch.
LOST_PEER = re.compile(r"gloo/|Connection (closed|reset|refused)|Timed out waiting|Broken pipe")


@dataclass(frozen=True)
class World:
    """This process among the `size` processes of a run.

    Collectives must be entered by every rank, in the same order.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")
    backend: str = "none"
    nodes: tuple[int, ...] = ()  # the node of each rank; () if there is one
    disk_holders: tuple[int, ...] = (0,)  # for each node, the rank that locked its model folder
    watchdog: Watchdog = field(default_factory=Watchdog, repr=False, compare=False)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def node_leaders(self) -> tuple[int, ...]:
        """The first rank of every node."""
        return tuple(map(self.nodes.index, range(max(self.nodes) + 1))) if self.nodes else (0,)

    @property
    def is_node_leader(self) -> bool:
        return self.rank in self.node_leaders

    @property
    def disk_leaders(self) -> tuple[int, ...]:
        """A rank of every disk that holds a model folder."""
        return tuple(sorted(set(self.disk_holders)))

    @property
    def node_index(self) -> int:
        """The index of this rank's node in the results of `on_each_node`."""
        return self.nodes[self.rank] if self.nodes else 0

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace the tensor by its elementwise sum over all ranks; return it."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in the order of ranks. They are pickled."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, data: bytes | None, source: int) -> bytes:
        """The data of rank `source`, on every rank. The others pass None."""
        received = [data]
        if self.size > 1:
            dist.broadcast_object_list(received, src=source)
        assert received[0] is not None
        return received[0]

    @property
    def supervisor(self):
        return self.watchdog

    def broadcast_(self, tensor: Tensor, source: int) -> Tensor:
        if self.size > 1:
            dist.broadcast(tensor, source)
        return tensor

    def replicate(self, module: nn.Module, config: DistributedConfig) -> nn.Module:
        """The module in DDP: rank 0's weights, and gradients averaged over ranks in backward."""
        if self.size == 1:
            return module
        return DistributedDataParallel(
            module, bucket_cap_mb=config.bucket_cap_mb, gradient_as_bucket_view=True
        )

    def no_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        """Within it, forward *and* backward accumulate local gradients without an all-reduce."""
        is_replicated = isinstance(module, DistributedDataParallel)
        return module.no_sync() if is_replicated else nullcontext()

    def on_main(self, phase: str, work: Callable[[], T]) -> T:
        """The result of `work` on rank 0, on every rank. `work` may take any time.

        It must show progress (`runtime.heartbeat`) within the watchdog's timeout. The other ranks
        wait as long as it sends heartbeats. A `UserError` or `Stopped` of rank 0 is raised on every
        rank.
        """
        return self._on_ranks((0,), phase, work)[0]

    def on_each_node(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_main`, on the first rank of every node; the results in the order of nodes."""
        return self._on_ranks(self.node_leaders, phase, work)

    def on_nodes(self, nodes: Sequence[int], phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_each_node`, on these nodes only."""
        return self._on_ranks(tuple(self.node_leaders[node] for node in nodes), phase, work)

    def on_each_disk(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_each_node`, on one node of every disk that holds a model folder."""
        return self._on_ranks(self.disk_leaders, phase, work)

    def on_main_then_each_node(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_each_node`, but rank 0 first: nodes that share its disk find its work done."""
        results = self._on_ranks((0,), phase, work)
        others = tuple(rank for rank in self.node_leaders if rank != 0)
        return results + (self._on_ranks(others, phase, work) if others else [])

    def on_each_rank(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_main`, on every rank: the results in the order of ranks."""
        return self._on_ranks(tuple(range(self.size)), phase, work)

    def _on_ranks(self, ranks: tuple[int, ...], phase: str, work: Callable[[], T]) -> list[T]:
        self.watchdog.enter_phase(phase)
        if self.backend == "none":  # one process, or a plain value
            return [work()]
        outcome = None
        if self.rank in ranks:
            try:
                outcome = work()
            except (UserError, Stopped) as error:
                outcome = error
        # A collective, whose timeout is longer than any work. The store dies with torchrun, but the
        # ranks must still be able to save.
        with self.watchdog.waiting_for(ranks):
            outcomes = self.gather(outcome)
        self.watchdog.enter_phase(f"after {phase}")
        results: list[Any] = [outcomes[rank] for rank in ranks]
        for result in results:
            if isinstance(result, UserError):
                raise UserError(str(result))  # not `this_rank_only`: every rank raises it
        if any(isinstance(result, Stopped) for result in results):
            raise Stopped
        return results


@contextmanager
def open_world(config: DistributedConfig) -> Iterator[World]:
    """Join the other processes of this run; on an exit without error, leave the process group.

    Within it, the watchdog receives stop signals, and one rank reports the error that ends the run.
    Raises UserError if this machine does not fit the launcher's number of processes.
    """
    launch = read_launch(os.environ)
    device, backend = choose_device(launch, config)
    if device.type == "cpu":
        torch.set_num_threads(threads_per_process(launch))
    fix_cuda_kernels()
    with open_watchdog(launch) as watchdog:
        watchdog.timeout_seconds = 60 * config.timeout_minutes
        watchdog.preempted_exit_code = config.preempted_exit_code
        world = World(launch.rank, launch.size, device, watchdog=watchdog)
        with _report_errors(world):
            if launch.size > 1:
                world = _join(world, launch, backend)
            with explain_out_of_memory(device, lambda: watchdog.where, LOWER_MEMORY):
                yield world
        if launch.size > 1:
            dist.destroy_process_group()


@contextmanager
def _report_errors(world: World) -> Iterator[None]:
    """Let one rank report the error that ends the run."""
    watchdog = world.watchdog
    try:
        yield
    except Exception as error:
        if world.size == 1 and watchdog.exit.write_status is None:
            raise  # neither a run folder nor another rank needs it
        if isinstance(error, UserError):
            can_agree = error.this_rank_only or watchdog.exit.peers is not None
            rank = world.rank if can_agree else 0  # of ranks that are not connected, only rank 0
            termination = Termination("failed", str(error), ExitCode.USER_ERROR, rank)
            watchdog.exit.end(termination, error)
        is_gloo_error = type(error) is RuntimeError and LOST_PEER.search(str(error))
        if world.size > 1 and (is_gloo_error or isinstance(error, dist.DistError)):
            watchdog.end_after_lost_peer(error)
        message = f"Rank {world.rank} failed at {watchdog.where}: {type_and_line(error)}"
        watchdog.end("failed", message, ExitCode.FAILED, error)


def _join(world: World, launch: Launch, backend: str) -> World:
    """The world after all ranks of this start have met."""
    watchdog = world.watchdog
    watchdog.enter_phase("waiting for the other ranks", has_timeout=False)
    store, peers_store = meet(launch)
    watchdog.connect(Peers(peers_store, launch.rank, launch.size))
    check_same_device(store, launch.rank, world.device, backend)
    if "nccl" in backend:
        claim_gpu(dist.PrefixStore("gpus", store), launch.rank, world.device)
    check_interfaces(os.environ)
    raise_descriptor_limit()
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("group", store),
        rank=launch.rank,
        world_size=launch.size,
        timeout=NEVER,
        device_id=world.device if "nccl" in backend else None,
    )
    if "nccl" in backend:
        watchdog.exit.write_flight_recorder = lambda: write_flight_recorder(world.rank)
    world = replace(world, backend=backend.split(":")[-1])
    world = replace(world, nodes=number_nodes(world.gather((launch.local_rank, launch.node))))
    return replace(world, disk_holders=world.node_leaders)


def number_nodes(places: Sequence[tuple[int, int | None]]) -> tuple[int, ...]:
    """The node of each rank, numbered by first ranks, from its local rank and launcher's number.

    Where the launcher numbers no nodes, the ranks of a node follow each other.
    """
    begun = itertools.accumulate(local == 0 for local, _ in places)
    keys = [
        number if node is None else node for number, (_, node) in zip(begun, places, strict=True)
    ]
    order = list(dict.fromkeys(keys))
    return tuple(map(order.index, keys))


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as allowed: gloo opens some for each other rank."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS has a lower maximum than it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
