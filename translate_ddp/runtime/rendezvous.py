"""The meeting of all ranks of a start, in a store that no rank of another start shares."""

import os
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist

from translate_ddp.errors import UserError, first_line
from translate_ddp.runtime.launcher import Launch, first_slurm_host
from translate_ddp.runtime.peers import create_keys

TIMEOUT = timedelta(minutes=10)
CONFIRMATION = timedelta(seconds=0.5)  # until rank 0 looks for requests that replaced older ones
PEERS = "peers"  # prefix of the watchdog's keys


def meet(launch: Launch) -> tuple[dist.Store, dist.Store]:
    """The store that the ranks of this start share, and a second connection for the watchdog.

    Raises UserError if the store cannot be reached, or if a rank does not come within 10 minutes.
    """
    _set_variables(launch)
    try:
        store, rank, size = next(dist.rendezvous("env://", timeout=TIMEOUT))
    except dist.DistNetworkError as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise UserError(
            f"The ranks cannot connect to {address}: {first_line(error)} "
            "Free the port, or choose another with MASTER_PORT or torchrun's --rdzv-endpoint.",
            this_rank_only=launch.local_rank == 0 < launch.rank,
        ) from error
    name = _agree_on_name(store, rank, size)
    # A request that waits for its reply blocks its connection.
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    second = dist.TCPStore(host, port, is_master=False, timeout=TIMEOUT)
    return dist.PrefixStore(name, store), dist.PrefixStore(f"{name}/{PEERS}", second)


def _set_variables(launch: Launch) -> None:
    """Set what `env://` reads and `srun`, unlike torchrun, does not set."""
    environment = os.environ
    if "RANK" in environment:
        return
    environment["RANK"], environment["WORLD_SIZE"] = str(launch.rank), str(launch.size)
    host = first_slurm_host(environment.get("SLURM_STEP_NODELIST", "127.0.0.1"))
    environment.setdefault("MASTER_ADDR", host)
    port = 20000 + int(environment.get("SLURM_JOB_ID", "0")) % 10000
    environment.setdefault("MASTER_PORT", str(port))


def _agree_on_name(store: dist.Store, rank: int, size: int) -> str:
    """A name that all ranks of this start share, and no rank of an earlier one.

    torchrun keeps one store over all restarts, with the keys that dead ranks wrote. So each rank
    requests the name under a new random key, and rank 0 replies until all have confirmed.
    """
    if rank == 0:
        name = uuid.uuid4().hex
        create_keys(dist.PrefixStore(f"{name}/{PEERS}", store), size)
        _reply(store, name, range(1, size))
        return name
    mine = uuid.uuid4().hex
    store.set(f"request/{rank}", mine)
    store.wait([f"reply/{mine}"], TIMEOUT)
    name = store.get(f"reply/{mine}").decode()
    store.set(f"{name}/confirmed/{rank}", "")
    return name


def _reply(store: dist.Store, name: str, ranks: Sequence[int]) -> None:
    """Reply to the requests of all ranks. Raises UserError if one does not come in time."""
    requests = [f"request/{rank}" for rank in ranks]
    confirmations = [f"{name}/confirmed/{rank}" for rank in ranks]
    deadline = time.monotonic() + TIMEOUT.total_seconds()
    while ranks and time.monotonic() < deadline:
        with suppress(dist.DistStoreError):  # a timeout
            store.wait(requests, timedelta(seconds=max(1.0, deadline - time.monotonic())))
            replies = [f"reply/{request.decode()}" for request in store.multi_get(requests)]
            store.multi_set(replies, [name] * len(replies))  # pyright: ignore
            store.wait(confirmations, CONFIRMATION)
            return
    missing = [r for r, key in zip(ranks, confirmations, strict=True) if not store.check([key])]
    if missing:
        raise UserError(
            f"Ranks {missing} of {len(ranks) + 1} did not connect within 10 minutes: check that "
            "every node was started, with the same number of nodes and the same address."
        )


def check_same_device(store: dist.Store, rank: int, device: torch.device, backend: str) -> None:
    """Raise UserError if another rank has another kind of device or backend: they would hang."""
    mine = f"{device.type} with {backend}"
    first = store.compare_set("device", "", mine).decode()
    if first != mine:
        raise UserError(
            f"Rank {rank} uses {mine}, another rank {first}: run nvidia-smi on every node, give "
            "all ranks the same --backend, or set CUDA_VISIBLE_DEVICES='' on all nodes for CPUs.",
            this_rank_only=True,
        )


def claim_gpu(store: dist.Store, rank: int, device: torch.device) -> None:
    """Raise UserError if another rank has this rank's GPU: NCCL would hang or fail obscurely."""
    gpu = str(torch.cuda.get_device_properties(device).uuid)
    owner = store.compare_set(f"gpu/{gpu}", "", str(rank)).decode()
    if owner != str(rank):
        raise UserError(
            f"Ranks {owner} and {rank} would share one GPU: start as many processes as there are "
            "GPUs (--nproc_per_node), set LOCAL_RANK or let each process see a GPU of its own, or "
            "set CUDA_VISIBLE_DEVICES='' for CPUs.",
            this_rank_only=True,
        )
