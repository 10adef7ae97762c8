"""Injects faults at named points, for tests of recovery.

`TRANSLATE_DDP_FAULT="gradients:3@1=kill"` kills rank 1 the third time it reaches that point; faults
are separated by spaces. Without faults, a point costs one lookup in an empty dict.
"""

import errno
import os
import re
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from translate_ddp.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

VARIABLE = "TRANSLATE_DDP_FAULT"

POINTS = (
    "tokenizing",  # before the tokenizer is trained
    "preparing",  # after the encoded corpus is written, before its rename
    "batch",  # after the batches of a step are read
    "loss",  # after the forward pass; has the loss
    "gradients",  # after the last backward pass; has the gradients, averaged over ranks
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
    r"=(?P<action>\w+?)(:(?P<seconds>[\d.]+))?"
)
ERRORS = {name.lower(): number for number, name in errno.errorcode.items()}
SIGNALS = {number.name[3:].lower(): number for number in signal.Signals}
ACTIONS = ("raise", "oom", "hang", "sleep", "nan", "flip", *ERRORS, *SIGNALS)


@dataclass
class Fault:
    """A fault from the `first` to the `last` time that a point is reached.

    `action` is a signal to this process (kill, stop, term), an error of the operating system
    (enospc, eio), raise, oom (out of memory), hang, sleep:SECONDS or, at points with tensors, nan
    (fills them) or flip (inverts one bit of the first).
    """

    first: int
    last: int
    action: str
    seconds: float
    count: int = 0  # of the times the point was reached

    def apply(self, point: str, tensors: "list[Tensor]") -> None:
        self.count += 1
        if not self.first <= self.count <= self.last:
            return
        if self.action in ("hang", "sleep"):
            time.sleep(self.seconds)
        elif self.action == "raise":
            raise RuntimeError(f"injected fault at {point!r}")
        elif self.action == "oom":
            import torch

            raise torch.OutOfMemoryError(f"injected fault at {point!r}")
        elif self.action == "nan":
            for tensor in tensors:
                tensor.data.fill_(float("nan"))
        elif self.action == "flip":
            import torch

            tensors[0].data.view(torch.int32).view(-1)[:1].bitwise_xor_(1 << 20)
        elif self.action in ERRORS:
            raise OSError(ERRORS[self.action], os.strerror(ERRORS[self.action]))
        else:
            os.kill(os.getpid(), SIGNALS[self.action])


_faults: dict[str, list[Fault]] = {}


def configure_faults(text: str, rank: int) -> None:
    """Set the faults that `text` has for this rank. Raises UserError if its syntax is wrong."""
    for word in text.split():
        match = FAULT.fullmatch(word)
        if match is None or match["point"] not in POINTS or match["action"] not in ACTIONS:
            raise UserError(
                f"{VARIABLE} has {word!r}: use point[:first[-last]][@rank]=action, where point "
                f"is one of {', '.join(POINTS)}."
            )
        if int(match["rank"] or rank) == rank:
            first = int(match["first"] or 1)
            last, seconds = int(match["last"] or first), float(match["seconds"] or 1e6)
            fault = Fault(first, last, match["action"], seconds)
            _faults.setdefault(match["point"], []).append(fault)


def fault_point(point: str, tensors: "Iterable[Tensor]" = ()) -> None:
    """Apply the faults set for this point; some of them change the tensors."""
    if faults := _faults.get(point, ()):
        held = list(tensors)
        for fault in faults:
            fault.apply(point, held)
