"""The control plane makes the same few requests with any number of ranks, without polling.

A real store in one process, and threads as ranks.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from translate_ddp.runtime import peers as module
from translate_ddp.runtime.launch import Launch
from translate_ddp.runtime.peers import Peers, Rendezvous
from translate_ddp.runtime.supervisor import Supervisor
from translate_ddp.runtime.world import raise_descriptor_limit

SIZE, HOST, TIMEOUT_SECONDS = 64, "127.0.0.1", 600.0
TIMEOUT = timedelta(seconds=TIMEOUT_SECONDS)


class CountingStore(dist.Store):
    """Passes requests on to a store, and counts them by method and first part of the key."""

    def __init__(self, store: dist.Store) -> None:
        super().__init__()
        self._store = store
        self.counts: Counter[str] = Counter()

    def _call(self, method: str, key: str | Sequence[str], *values: Any) -> Any:
        first = key if isinstance(key, str) else key[0]
        parts = [part for part in first.split("/") if not part.isdigit() and len(part) < 32]
        self.counts[f"{method} {parts[-1] if parts else 'name'}"] += 1
        return getattr(self._store, method)(key, *values)

    def set(self, key: str, value: str) -> None:
        self._call("set", key, value)

    def get(self, key: str) -> bytes:
        return self._call("get", key)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return self._call("multi_get", keys)

    def multi_set(self, keys: list[str], values: list[str]) -> None:
        self._call("multi_set", keys, values)

    def wait(self, keys: list[str], timeout: timedelta = TIMEOUT) -> None:
        self._call("wait", keys, timeout)


def requests_of(port: int, rank: int) -> tuple[Counter[str], Counter[str]]:
    """What a rank requests to meet the others, and for a heartbeat."""
    launch = Launch(rank, SIZE)
    first = CountingStore(dist.TCPStore(HOST, port, is_master=False))
    name = Rendezvous(launch, TIMEOUT_SECONDS).agree_on_name(first)
    second = dist.TCPStore(HOST, port, is_master=False)
    store = CountingStore(dist.PrefixStore(f"{name}/peers", second))
    Supervisor(launch).exchange_once(Peers(store, rank, SIZE))
    return first.counts, store.counts


@pytest.mark.slow
def test_ranks_meet_and_send_heartbeats_in_a_constant_number_of_requests(
    monkeypatch: pytest.MonkeyPatch,
):
    # On a slow machine, ranks would print notices, and make more requests.
    for name in ("CONFIRMATION_SECONDS", "KEY_WAIT_SECONDS", "REPLY_SECONDS"):
        monkeypatch.setattr(module, name, TIMEOUT_SECONDS)
    raise_descriptor_limit()
    server = dist.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    with ThreadPoolExecutor(SIZE) as pool:
        found = list(pool.map(lambda rank: requests_of(server.port, rank), range(SIZE)))
    (main, _), *others = found
    assert main == {
        "multi_set termination": 1,  # creates all keys
        "wait request": 1,
        "multi_get request": 1,
        "multi_set reply": 1,
        "wait confirmed": 1,
    }
    for met, _ in others:
        assert met == {"set request": 1, "wait reply": 1, "get reply": 1, "set confirmed": 1}
    for _, heartbeat in found:
        assert heartbeat == {"set heartbeat": 1, "multi_get termination": 1}
