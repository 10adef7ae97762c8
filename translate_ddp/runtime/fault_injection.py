"""Injects faults at named points, for tests of recovery.

`TRANSLATE_DDP_FAULT="gradients:3@1=kill"` kills rank 1 the third time it reaches that point; faults
are separated by spaces. Without faults, a point costs one check of an empty list.
"""

import errno
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from translate_ddp.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "TRANSLATE_DDP_FAULT"

POINTS = (
    "tokenizing",  # before the tokenizer is trained
    "preparing",  # after the encoded corpus is written, before its rename
    "batch",  # after the batches of a step are read
    "loss",  # after forward; has the loss
    "gradients",  # after the last backward; has the gradients, averaged over ranks
    "updated",  # after the optimizer's step; has the weights
    "saving",  # before a checkpoint is opened
    "writing",  # before each write to it
    "syncing",  # before its fsync
    "renaming",  # after its fsync, before its rename
    "published",  # after its rename, or that of a large output file
    "pruning",  # before an old checkpoint is deleted
    "metrics",  # before a line of metrics.jsonl is written
    "record",  # before a part of the record of the report is written
    "validating",  # after each batch of the validation set
    "chunk",  # after a chunk of a large output file is written
    "joined",  # after its chunks are joined, before the rename
)

FAULT = re.compile(
    r"(?P<point>\w+)(:(?P<first>\d+)(-(?P<last>\d+))?)?(@(?P<rank>\d+))?"
    r"=(?P<action>\w+)(:(?P<seconds>[\d.]+))?"
)


class Fault(NamedTuple):
    """A fault when a point is reached for one of these `times`.

    `action` is a signal to this process (kill, stop, term), an error of the operating system
    (enospc, eio), raise, oom (out of memory), hang, sleep:SECONDS or, at points with tensors, nan
    (fills them) or flip (inverts one bit of the first).
    """

    point: str
    times: range
    action: str
    seconds: float


_faults: list[Fault] = []
_counts: Counter[str] = Counter()  # how often each point was reached


def configure_faults(text: str, rank: int) -> None:
    """Set the faults that `text` has for this rank. Raises UserError if its syntax is wrong."""
    for word in text.split():
        match = FAULT.fullmatch(word)
        if match is None or match["point"] not in POINTS:
            raise UserError(
                f"{VARIABLE} has {word!r}: use point[:first[-last]][@rank]=action, where point "
                f"is one of {', '.join(POINTS)}."
            )
        if int(match["rank"] or rank) == rank:
            first, seconds = int(match["first"] or 1), float(match["seconds"] or 1e6)
            times = range(first, int(match["last"] or first) + 1)
            _faults.append(Fault(match["point"], times, match["action"], seconds))


def fault_point(point: str, tensors: "Iterable[Tensor]" = ()) -> None:
    """Apply the faults set for this point; some of them change the tensors."""
    if not _faults:
        return
    _counts[point] += 1
    held = list(tensors)
    for fault in _faults:
        if fault.point == point and _counts[point] in fault.times:
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
