"""World: this process among all ranks, and their collectives.

With one process every collective is the identity, so no caller checks for other ranks. And
`World(rank=3, size=8)` is a plain value, with which sharding is tested without processes.
"""

import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.elastic.multiprocessing.errors import record as record
from torch.nn.parallel import DistributedDataParallel

from translate_ddp.errors import Stopped, UserError
from translate_ddp.runtime.device import choose_device, explain_out_of_memory, fix_cuda_kernels
from translate_ddp.runtime.environment import threads_per_process, unknown_interface
from translate_ddp.runtime.launch import Launch, read_launch
from translate_ddp.runtime.peers import check_same_device, claim_gpu, rendezvous
from translate_ddp.runtime.supervisor import Supervisor, supervise
from translate_ddp.settings import DistributedConfig

T = TypeVar("T")

LOWER_MEMORY = "lower --max_tokens, choose a smaller model (--preset), or end other programs"
# Timeout of collectives. The supervisor ends a hang, with a message that names the rank. Work
# before training, and a validation on rank 0, may take any time while others wait in a collective.
NO_TIMEOUT = timedelta(days=365)


@dataclass(frozen=True)
class World:
    """This process among the `size` processes of a run.

    Collectives must be entered by every rank, in the same order.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")
    backend: str = "none"
    node_index: int = 0  # the index of this rank's node
    node_leaders: tuple[int, ...] = (0,)  # the first rank of each node
    disk_holders: tuple[int, ...] = (0,)  # for each node, the rank that locked its model folder
    supervisor: Supervisor = field(default_factory=Supervisor, repr=False, compare=False)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    @property
    def is_node_leader(self) -> bool:
        return self.rank in self.node_leaders

    @property
    def disk_leaders(self) -> tuple[int, ...]:
        """A rank of every disk that holds a model folder."""
        return tuple(sorted(set(self.disk_holders)))

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace the tensor by its elementwise sum over all ranks; return it."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def broadcast_(self, tensor: Tensor, source: int) -> Tensor:
        """Replace the tensor by rank `source`'s tensor, of the same shape and dtype; return it."""
        if self.size > 1:
            dist.broadcast(tensor, source)
        return tensor

    def broadcast(self, value: T | None, source: int) -> T:
        """The value of rank `source`, on every rank. It is pickled. The others may pass None."""
        values: list[Any] = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, source)
        return values[0]

    def start_gather(self, tensor: Tensor) -> Callable[[], Tensor]:
        """Start to join the tensors of all ranks, of one shape, along the first dimension.

        Call the result to wait for the joined tensor, in the order of ranks.
        """
        if self.size == 1:
            return lambda: tensor
        joined = tensor.new_empty(self.size * len(tensor), *tensor.shape[1:])
        older = "all_gather_into_tensor"  # its name before torch 2.13
        all_gather = getattr(dist, "all_gather_single", None) or getattr(dist, older)
        work = all_gather(joined, tensor, async_op=True)

        def wait() -> Tensor:
            work.wait()
            return joined

        return wait

    def gather(self, value: T) -> list[T]:
        """The values of all ranks, in the order of ranks. They are pickled."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def replicate(self, module: nn.Module, config: DistributedConfig) -> nn.Module:
        """The module in DDP: rank 0's weights, and gradients averaged over ranks in backward."""
        if self.size == 1:
            return module
        replica = DistributedDataParallel(
            module, bucket_cap_mb=config.bucket_cap_mb, gradient_as_bucket_view=True
        )
        if config.gradient_compression == "bf16":
            replica.register_comm_hook(dist.group.WORLD, send_in_bf16)
        return replica

    def no_sync(self, module: nn.Module) -> AbstractContextManager[None]:
        """Within it, forward *and* backward accumulate local gradients without an all-reduce."""
        is_replicated = isinstance(module, DistributedDataParallel)
        return module.no_sync() if is_replicated else nullcontext()

    def on_main(self, phase: str, work: Callable[[], T]) -> T:
        """The result of `work` on rank 0, on every rank. `work` may take any time.

        It must show progress (`heartbeat`) within the supervisor's timeout. The other ranks wait as
        long as it does. A `UserError` or `Stopped` of rank 0 is raised on every rank.
        """
        return self.on_ranks((0,), phase, work)[0]

    def on_each_rank(self, phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_main`, on every rank: the results in the order of ranks."""
        return self.on_ranks(range(self.size), phase, work)

    def on_ranks(self, ranks: Sequence[int], phase: str, work: Callable[[], T]) -> list[T]:
        """As `on_main`, on these ranks: the results in their order."""
        self.supervisor.enter_phase(phase)
        if self.backend == "none":  # one process, or a plain value
            return [work()] if ranks else []
        outcome = None
        if self.rank in ranks:
            try:
                outcome = work()
            except (UserError, Stopped) as error:
                outcome = error
        self.supervisor.enter_phase(phase)  # again: this rank waits for others
        # Collectives, whose timeout is longer than any work. The store dies with torchrun, but the
        # ranks must still be able to save.
        results: list[Any]
        if len(ranks) == 1:
            results = [self.broadcast(outcome, ranks[0])]
        else:
            outcomes = self.gather(outcome)
            results = [outcomes[rank] for rank in ranks]
        self.supervisor.enter_phase(f"after {phase}")
        for result in results:
            if isinstance(result, UserError):
                raise UserError(str(result))  # not `this_rank_only`: every rank raises it
        if any(isinstance(result, Stopped) for result in results):
            raise Stopped
        return results


def send_in_bf16(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Average a bucket over the ranks in bf16. DDP itself takes torch's hook only with NCCL."""
    return bf16_compress_hook(group, bucket)


@contextmanager
def open_world(config: DistributedConfig) -> Iterator[World]:
    """Join the other processes of this run; on an exit without error, leave the process group.

    Within it, this process is supervised: it receives stop signals, and one rank reports the error
    that ends the run. Raises UserError if this machine does not fit the launcher's number of
    processes, or if a rank does not come.
    """
    launch = read_launch(os.environ)
    device, backend = choose_device(launch, config)
    if device.type == "cpu":
        torch.set_num_threads(threads_per_process(launch))
    fix_cuda_kernels()
    timeout_seconds = 60 * config.timeout_minutes
    with supervise(launch, timeout_seconds, config.preempted_exit_code) as supervisor:
        world = World(launch.rank, launch.size, device, supervisor=supervisor)
        if launch.size > 1:
            world = _join(world, launch, backend, config.timeout_minutes)
        with explain_out_of_memory(device, lambda: supervisor.where, LOWER_MEMORY):
            yield world
        if launch.size > 1:
            dist.destroy_process_group()


def _join(world: World, launch: Launch, backend: str, timeout_minutes: float) -> World:
    """The world after all ranks of this start have joined."""
    supervisor, has_nccl = world.supervisor, "nccl" in backend
    supervisor.enter_phase("waiting for the other ranks", has_timeout=False)
    store, peers = rendezvous(launch, timeout_minutes)
    supervisor.connect(peers)
    check_same_device(store, launch.rank, world.device, backend)
    if has_nccl:
        claim_gpu(dist.PrefixStore("gpus", store), launch.rank, world.device)
    if problem := unknown_interface(os.environ.get("GLOO_SOCKET_IFNAME", "")):
        raise UserError(problem, this_rank_only=True)
    raise_descriptor_limit()
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("group", store),
        rank=launch.rank,
        world_size=launch.size,
        timeout=NO_TIMEOUT,
        device_id=world.device if has_nccl else None,
    )
    nodes = world.gather(launch.node)
    order = list(dict.fromkeys(nodes))  # in the order of their first ranks
    leaders = tuple(map(nodes.index, order))
    return replace(
        world,
        backend=backend.split(":")[-1],
        node_index=order.index(launch.node),
        node_leaders=leaders,
        disk_holders=leaders,
    )


def raise_descriptor_limit() -> None:
    """Raise the limit of open files as far as allowed: gloo opens some for each other rank."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS has a lower maximum than it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
