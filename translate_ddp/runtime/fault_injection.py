"""Injects faults at named points, for tests of recovery.

`TRANSLATE_DDP_FAULT` has a JSON list of faults, as `tests/faults.py` writes it. Without faults, a
point costs one check of an empty list.
"""

import errno
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "TRANSLATE_DDP_FAULT"


class Fault(NamedTuple):
    """A fault when a rank reaches a point for the `first` to the `last` time.

    `action` is a signal to this process (kill, stop, term), an error of the operating system
    (enospc, eio), raise, oom (out of memory), hang, sleep (for some `seconds`) or, at points with
    tensors, nan (fills them) or flip (inverts one bit of the first).
    """

    action: str
    point: str
    first: int = 1
    last: int = 1
    rank: int | None = None  # None: every rank
    seconds: float = 1e6


_faults: list[Fault] = []
_counts: Counter[str] = Counter()  # how often each point was reached


def configure_faults(environment: Mapping[str, str], rank: int) -> None:
    """Set the faults of this rank, unless torchrun or Slurm has restarted it."""
    restarts = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
    if all(environment.get(name, "0") == "0" for name in restarts):
        faults = [Fault(*values) for values in json.loads(environment.get(VARIABLE) or "[]")]
        _faults.extend(fault for fault in faults if fault.rank in (None, rank))


def fault_point(point: str, tensors: "Iterable[Tensor]" = ()) -> None:
    """Apply the faults set for this point; some of them change the tensors."""
    if not _faults:
        return
    _counts[point] += 1
    held = list(tensors)
    for fault in _faults:
        if fault.point == point and fault.first <= _counts[point] <= fault.last:
            _apply(fault, held)


def _apply(fault: Fault, tensors: "list[Tensor]") -> None:
    action, text = fault.action, f"injected fault at {fault.point!r}"
    if action in ("hang", "sleep"):
        time.sleep(fault.seconds)
    elif action == "raise":
        raise RuntimeError(text)
    elif action == "nan":
        for tensor in tensors:
            tensor.data.fill_(float("nan"))
    elif action in ("oom", "flip"):
        import torch  # here: commands that need no torch have fault points

        if action == "oom":
            raise torch.OutOfMemoryError(text)
        tensors[0].data.view(torch.int32).view(-1)[:1].bitwise_xor_(1 << 20)
    elif number := getattr(errno, action.upper(), None):
        raise OSError(number, os.strerror(number))
    else:
        os.kill(os.getpid(), signal.Signals[f"SIG{action.upper()}"])
