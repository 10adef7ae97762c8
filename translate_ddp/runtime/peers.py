"""The store of the ranks, for their rendezvous, heartbeats and agreement on why the run ends.

A store may never reply over a cut link. So a caller that cannot wait gets None after a timeout. No
method makes more requests with more ranks.
"""

import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from translate_ddp.console import print_line, rank_names
from translate_ddp.errors import UserError, first_line
from translate_ddp.runtime.launch import Launch, first_slurm_host
from translate_ddp.runtime.long_calls import try_for
from translate_ddp.runtime.run_folder import RunStatus

T = TypeVar("T")

MIN_RENDEZVOUS_SECONDS = 60.0  # in which launchers start processes, whatever the timeout is
NOTICE_SECONDS = 10.0  # until a rank prints which ranks it waits for
KEY_WAIT_SECONDS = 5.0  # timeout of a request for a key that another rank will write
CONFIRMATION_SECONDS = 0.5  # until rank 0 looks for requests that replaced older ones
HEARTBEAT_SECONDS = 0.5  # between the heartbeats of a rank, with few ranks
HEARTBEATS_PER_SECOND = 500  # that the store receives at most, with many ranks
REPLY_SECONDS = 5.0  # timeout for a reply of the store when the run ends, with few ranks
SURVEY_HEARTBEATS = 3  # each rank's in a survey
REPLY_HEARTBEATS = 10  # in which the store replies: more than a survey takes


@dataclass(frozen=True)
class Termination:
    """Why a run ends early. The first one that a rank claims in the store is the one reported."""

    status: RunStatus
    message: str
    exit_code: int  # for every rank
    rank: int  # that claims it


@dataclass(frozen=True)
class Heartbeat:
    """The progress of a rank; every rank enters the same phases in the same order."""

    number: int  # another one in each heartbeat of a rank
    phases: int  # entered so far
    idle: float  # seconds without progress; 0 in a phase without timeout
    where: str


def slowest(heartbeats: dict[int, Heartbeat]) -> list[int]:
    """The ranks that the others wait for."""
    fewest = min(heartbeat.phases for heartbeat in heartbeats.values())
    return [rank for rank, heartbeat in heartbeats.items() if heartbeat.phases == fewest]


class Peers:
    """The store as seen by one rank. All methods but `try_call` block until it replies."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        """`create_keys` has prepared the store for `size` ranks."""
        self.rank, self.size = rank, size
        self.heartbeat_seconds = max(HEARTBEAT_SECONDS, size / HEARTBEATS_PER_SECOND)
        self.reply_seconds = max(REPLY_SECONDS, REPLY_HEARTBEATS * self.heartbeat_seconds)
        self._is_reachable = True
        self._store = store

    def try_call(self, call: Callable[[], T]) -> T | None:
        """The result of a call of the methods below, or None if the store is lost or too slow."""
        result = try_for(self.reply_seconds, call) if self._is_reachable else None
        self._is_reachable = result is not None  # the next call would time out too
        return result

    def send_heartbeat(self, heartbeat: Heartbeat) -> None:
        self._store.set(f"heartbeat/{self.rank}", json.dumps(asdict(heartbeat)))

    def read_requests(self) -> tuple[Termination | None, str]:
        """The termination that a rank has claimed, and the reason of a stop request, '' if none."""
        termination, reason = self._store.multi_get(["termination", "stop"])
        return (Termination(**json.loads(termination)) if termination else None), reason.decode()

    def request_stop(self, reason: str) -> None:
        self._store.set("stop", reason)

    def survey(
        self, next_heartbeat: Callable[[], Heartbeat]
    ) -> tuple[dict[int, Heartbeat], list[int]]:
        """The last heartbeat of each rank, and the ranks that send no new ones.

        Waits for a few heartbeats, and sends some itself, as other ranks may survey this one.
        """
        before = self._heartbeats()
        for _ in range(SURVEY_HEARTBEATS):
            time.sleep(self.heartbeat_seconds)
            self.send_heartbeat(next_heartbeat())
        now = self._heartbeats()
        others = (rank for rank in range(self.size) if rank != self.rank)
        return now, [rank for rank in others if now.get(rank) == before.get(rank)]

    def claim(self, termination: Termination) -> Termination:
        """The first termination of the run: this one, or another rank's."""
        mine = json.dumps(asdict(termination))
        return Termination(**json.loads(self._store.compare_set("termination", "", mine)))

    def _heartbeats(self) -> dict[int, Heartbeat]:
        """The last heartbeat of each rank that ever sent one."""
        found = self._store.multi_get([f"heartbeat/{rank}" for rank in range(self.size)])
        return {rank: Heartbeat(**json.loads(text)) for rank, text in enumerate(found) if text}


def create_keys(store: dist.Store, size: int) -> None:
    """Create the keys that `Peers` reads, empty. The store would wait for missing ones.

    One rank calls it before any other uses the store.
    """
    keys = ["termination", "stop", *(f"heartbeat/{rank}" for rank in range(size))]
    store.multi_set(keys, [""] * len(keys))  # pyright: ignore  # missing in torch's stubs


def rendezvous(launch: Launch, timeout_minutes: float) -> tuple[dist.Store, Peers]:
    """The store that the ranks of this start share, and a second connection for the supervisor.

    Prints who is awaited after 10 seconds. Raises UserError if the store cannot be reached, or if a
    rank does not come within the timeout, or a minute if that is shorter.
    """
    point = Rendezvous(launch, max(60 * timeout_minutes, MIN_RENDEZVOUS_SECONDS))
    # torchrun serves a store of its own, which it keeps over all restarts.
    has_agents_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = point.connect(is_server=launch.rank == 0 and not has_agents_store)
    name = point.agree_on_name(store)
    # A request that waits for its reply blocks its connection.
    peers = Peers(dist.PrefixStore(f"{name}/peers", point.connect()), launch.rank, launch.size)
    return dist.PrefixStore(name, store), peers


class Rendezvous:
    """All ranks of a start, in a store that no rank of another start shares."""

    def __init__(self, launch: Launch, timeout_seconds: float) -> None:
        self.launch, self.timeout_seconds = launch, timeout_seconds
        self.host, self.port = address(os.environ)
        self._started_at, self._has_notice = time.monotonic(), False
        self._problem = ""  # in the last attempt to connect

    def connect(self, is_server: bool = False) -> dist.Store:
        """A connection to the store; `is_server`: this process serves it. Raises UserError."""
        if not is_server:  # torch's own attempts print raw lines, and end long after the timeout
            self._await(self._is_served, lambda: "rank 0")
        try:
            return dist.TCPStore(
                "localhost" if is_server else self.host,
                self.port,
                is_master=is_server,
                wait_for_workers=False,
                timeout=timedelta(seconds=self.timeout_seconds),
            )
        except dist.DistError as error:
            raise UserError(
                f"Rank {self.launch.rank} cannot connect to {self.host}:{self.port}: "
                f"{first_line(error)}. Check the address, free the port, or choose another with "
                "MASTER_ADDR, MASTER_PORT or torchrun's --rdzv-endpoint.",
                this_rank_only=self.launch.local_rank == 0 < self.launch.rank,
            ) from error

    def agree_on_name(self, store: dist.Store) -> str:
        """A name that all ranks of this start share, and no rank of an earlier one.

        A store of torchrun has keys that dead ranks wrote. So each rank requests the name under a
        new random key, and rank 0 replies until all have confirmed. Raises UserError if a rank does
        not come in time.
        """
        rank, size, own = self.launch.rank, self.launch.size, uuid.uuid4().hex
        if rank != 0:
            store.set(f"request/{rank}", own)
            self._await(lambda: _wait(store, [f"reply/{own}"], KEY_WAIT_SECONDS), lambda: "rank 0")
            name = store.get(f"reply/{own}").decode()
            store.set(f"{name}/confirmed/{rank}", "")
            return name
        create_keys(dist.PrefixStore(f"{own}/peers", store), size)
        requests = [f"request/{n}" for n in range(1, size)]
        confirmations = [f"{own}/confirmed/{n}" for n in range(1, size)]

        def have_confirmed() -> bool:
            if not _wait(store, requests, KEY_WAIT_SECONDS):
                return False
            replies = [f"reply/{request.decode()}" for request in store.multi_get(requests)]
            store.multi_set(replies, [own] * len(replies))  # pyright: ignore
            return _wait(store, confirmations, CONFIRMATION_SECONDS)

        def absent() -> str:
            return rank_names(
                [n for n, key in enumerate(confirmations, start=1) if not store.check([key])]
            )

        self._await(have_confirmed, absent)
        return own

    def _is_served(self) -> bool:
        try:
            socket.create_connection((self.host, self.port), timeout=NOTICE_SECONDS).close()
            self._problem = ""
        except OSError as error:
            self._problem = f" ({error.strerror or first_line(error)})"
            time.sleep(0.2)
        return not self._problem

    def _await(self, have_come: Callable[[], bool], names: Callable[[], str]) -> None:
        """Call it until it returns True, and print who is awaited, once for the ranks of a node.

        Raises UserError after the timeout.
        """
        place, rank = f"{self.host}:{self.port}", self.launch.rank
        is_first = self.launch.local_rank == 0
        while not have_come():
            seconds = time.monotonic() - self._started_at
            if seconds > self.timeout_seconds:
                raise UserError(
                    f"{names().capitalize()} of {self.launch.size} ranks did not come to {place} "
                    f"within {self.timeout_seconds:g} s{self._problem}: check that every node was "
                    "started, with the same number of nodes and the same address.",
                    this_rank_only=is_first and rank > 0,
                )
            if seconds > NOTICE_SECONDS and is_first and not self._has_notice:
                print_line(f"Rank {rank} waits at {place} for {names()}{self._problem}.")
                self._has_notice = True


def address(environment: "os._Environ[str] | dict[str, str]") -> tuple[str, int]:
    """Host and port of the store: torchrun's, or under `srun` the first host and a port by job."""
    host = environment.get("MASTER_ADDR") or first_slurm_host(
        environment.get("SLURM_STEP_NODELIST", "127.0.0.1")
    )
    port = 20000 + int(environment.get("SLURM_JOB_ID", "0")) % 10000
    return host, int(environment.get("MASTER_PORT") or port)


def _wait(store: dist.Store, keys: list[str], seconds: float) -> bool:
    """Whether the store has all keys within this time."""
    with suppress(dist.DistStoreError):
        store.wait(keys, timedelta(seconds=seconds))
        return True
    return False


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
