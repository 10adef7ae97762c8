"""Faults on purpose, so that "nothing is lost" can be tried instead of believed.

`TRANSLATE_DDP_FAULT="gradients:3@1=kill"` kills rank 1 the third time it passes that point; faults
are separated by spaces. Where nothing is set, passing a point costs one look into an empty dict.
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
    "preparing",  # the encoded corpus is written, but not yet in its place
    "batch",  # a step's sentences are there
    "loss",  # has the loss of a pass
    "gradients",  # has the gradients, summed over ranks
    "updated",  # has the new weights
    "saving",  # before a checkpoint is begun
    "writing",  # before each of its pieces
    "syncing",  # it is written, but not yet safe on disk
    "renaming",  # it is safe, but has no name
    "published",
    "pruning",  # before an old checkpoint is deleted
    "metrics",  # before a line of metrics.jsonl
    "validating",  # after each batch of the validation set
)

FAULT = re.compile(
    r"(?P<point>\w+)(:(?P<first>\d+)(-(?P<last>\d+))?)?(@(?P<rank>\d+))?"
    r"=(?P<action>\w+?)(:(?P<seconds>[\d.]+))?"
)
OTHER_ACTIONS = ("raise", "oom", "hang", "sleep", "nan", "flip")  # beside signals and errors


@dataclass
class Fault:
    """What happens from the `first` to the `last` time a point is passed.

    `action` is the name of a signal to oneself (kill, stop, term, int, usr1), of an error of the
    operating system (enospc, eio), or one of: raise, oom (a device without memory left), hang,
    sleep:SECONDS, and for points that have tensors nan and flip (one bit).
    """

    first: int
    last: int
    action: str
    seconds: float
    passed: int = 0

    def strike(self, point: str, tensors: "list[Tensor]") -> None:
        self.passed += 1
        if not self.first <= self.passed <= self.last:
            return
        if self.action in ("hang", "sleep"):
            time.sleep(self.seconds)
        elif self.action == "raise":
            raise RuntimeError(f"a fault on purpose at {point!r}")
        elif self.action == "oom":
            import torch

            raise torch.OutOfMemoryError(f"a fault on purpose at {point!r}")
        elif self.action == "nan":
            for tensor in tensors:
                tensor.data.fill_(float("nan"))
        elif self.action == "flip":
            import torch

            tensors[0].data.view(torch.int32).view(-1)[:1].bitwise_xor_(1 << 20)
        elif hasattr(errno, self.action.upper()):
            number = getattr(errno, self.action.upper())
            raise OSError(number, os.strerror(number))
        else:
            os.kill(os.getpid(), signal.Signals[f"SIG{self.action.upper()}"])


_armed: dict[str, list[Fault]] = {}


def configure_faults(text: str, rank: int) -> None:
    """Set the faults that `text` plans for this rank. Raises UserError if it makes no sense."""
    for word in text.split():
        match = FAULT.fullmatch(word)
        if match is None or match["point"] not in POINTS or not _is_action(match["action"]):
            raise UserError(
                f"{VARIABLE} has {word!r}: write point[:first[-last]][@rank]=action, where point "
                f"is one of {', '.join(POINTS)}."
            )
        if int(match["rank"] or rank) == rank:
            first = int(match["first"] or 1)
            fault = Fault(
                first=first,
                last=int(match["last"] or first),
                action=match["action"],
                seconds=float(match["seconds"] or 1e6),
            )
            _armed.setdefault(match["point"], []).append(fault)


def fault_point(point: str, tensors: "Iterable[Tensor]" = ()) -> None:
    """Pass a point; what was planned for it happens, to the tensors if need be."""
    for fault in _armed.get(point, ()):
        fault.strike(point, list(tensors))


def _is_action(name: str) -> bool:
    code = name.upper()
    return (
        name in OTHER_ACTIONS or hasattr(errno, code) or f"SIG{code}" in signal.Signals.__members__
    )
