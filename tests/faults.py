"""Faults to inject into a run: each function returns a value for `TRANSLATE_DDP_FAULT`.

`at` is a point of `translate_ddp/runtime/fault_injection.py`. The fault occurs the first time that
a rank reaches the point; with `time=3` the third time, with `until=5` also at each later time up to
the fifth. It occurs on every rank, or with `rank=1` on rank 1 only.
"""

import json
from typing import Any

from translate_ddp.runtime.fault_injection import POINTS, Fault


def kill(at: str, time: int = 1, **where: int | None) -> str:
    """SIGKILL: the process ends at once."""
    return _fault("kill", at, time, **where)


def stop(at: str, time: int = 1, **where: int | None) -> str:
    """SIGSTOP: no thread of the process runs on, as on a machine that is lost."""
    return _fault("stop", at, time, **where)


def request(signal: str, at: str, time: int = 1, **where: int | None) -> str:
    """A signal that asks the run to stop: term, int, hup or usr1."""
    return _fault(signal, at, time, **where)


def hang(at: str, time: int = 1, **where: int | None) -> str:
    """The thread waits without an end."""
    return _fault("hang", at, time, **where)


def sleep(seconds: float, at: str, time: int = 1, **where: int | None) -> str:
    return _fault("sleep", at, time, seconds, **where)


def error(at: str, time: int = 1, **where: int | None) -> str:
    """A RuntimeError."""
    return _fault("raise", at, time, **where)


def out_of_memory(at: str, time: int = 1, **where: int | None) -> str:
    return _fault("oom", at, time, **where)


def full_disk(at: str, time: int = 1, **where: int | None) -> str:
    return _fault("enospc", at, time, **where)


def disk_error(name: str, at: str, time: int = 1, **where: int | None) -> str:
    """An error of the operating system by its name: eio, erofs, eacces."""
    return _fault(name, at, time, **where)


def nan(at: str, time: int = 1, **where: int | None) -> str:
    """All values of the tensors at this point become NaN."""
    return _fault("nan", at, time, **where)


def flip_bit(at: str, time: int = 1, **where: int | None) -> str:
    """One bit of the first tensor at this point is inverted."""
    return _fault("flip", at, time, **where)


def several(*faults: str) -> str:
    """All of these faults."""
    return _dumps([each for fault in faults for each in json.loads(fault)])


def _fault(
    action: str,
    at: str,
    time: int,
    seconds: float = 1e6,
    /,
    *,
    until: int | None = None,
    rank: int | None = None,
) -> str:
    assert at in POINTS
    return _dumps([Fault(action, at, time, until or time, rank, seconds)])


def _dumps(faults: list[Any]) -> str:
    return json.dumps(faults, separators=(",", ":"))  # without spaces: tests append flags
