"""Faults to inject into a run: each function returns a value for `TRANSLATE_DDP_FAULT`.

`at` is the name in a call of `fault_point` in the package. The fault occurs the first time that
a rank reaches the point; with `time=3` the third time, with `until=5` also at each later time up to
the fifth. It occurs on every rank, or with `rank=1` on rank 1 only.
"""

import json
import re
from functools import partial
from typing import Any

from tests.helpers.commands import ROOT
from translate_ddp.runtime.fault_injection import Fault

FILES = (ROOT / "translate_ddp").rglob("*.py")
POINTS = {name for file in FILES for name in re.findall(r'fault_point\("(\w+)"', file.read_text())}


def _fault(
    action: str,
    at: str,
    time: int = 1,
    *,
    seconds: float = 1e6,
    until: int | None = None,
    rank: int | None = None,
) -> str:
    assert at in POINTS
    return _dumps([Fault(action, at, time, until or time, rank, seconds)])


def _dumps(faults: list[Any]) -> str:
    return json.dumps(faults, separators=(",", ":"))  # without spaces: tests append flags


kill = partial(_fault, "kill")  # SIGKILL: the process ends at once
stop = partial(_fault, "stop")  # SIGSTOP: no thread runs on, as on a machine that is lost
hang = partial(_fault, "hang")  # the thread waits without an end
error = partial(_fault, "raise")  # a RuntimeError
out_of_memory = partial(_fault, "oom")
full_disk = partial(_fault, "enospc")
nan = partial(_fault, "nan")  # all values of the tensors at this point become NaN
flip_bit = partial(_fault, "flip")  # one bit of the first tensor at this point is inverted
request = _fault  # of a signal that asks the run to stop: term, int, hup or usr1
disk_error = _fault  # an error of the operating system by its name: eio, erofs, eacces


def sleep(seconds: float, at: str, time: int = 1, **where: int | None) -> str:
    return _fault("sleep", at, time, seconds=seconds, **where)


def stop_after_save() -> str:
    """Ranks 0 and 1 stop once the first checkpoint is in the folder."""
    return several(stop("published", rank=0), stop("batch", 5, rank=1))


def several(*faults: str) -> str:
    """All of these faults."""
    return _dumps([each for fault in faults for each in json.loads(fault)])
