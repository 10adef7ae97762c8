"""Memory that a process keeps for reuse, measured in new processes, as it is set once each."""

import ctypes
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

START = """
import os
from translate_ddp.runtime.environment import set_defaults
from translate_ddp.runtime.cpu_memory import keep_freed_memory
set_defaults(os.environ)
keep_freed_memory()
import torch

def resident_kib() -> int:
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0])
"""

MANY_SHAPES = """
weights_DD = torch.randn(256, 256).bfloat16()
for rows in range(100, 500):
    if rows == 350:
        before = resident_kib()
    torch.randn(rows, 256).bfloat16() @ weights_DD
print(resident_kib() - before)
"""

LARGE_BLOCK = """
block = torch.ones(6 * 2**20)
while_used = resident_kib()
del block
print(while_used - resident_kib())
"""


def printed(program: str) -> list[int]:
    command = [sys.executable, "-c", START + program]
    unset = {name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name}
    done = subprocess.run(command, env=unset, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_memory_stops_growing_with_the_number_of_shapes():
    (grown_kib,) = printed(MANY_SHAPES)
    assert grown_kib < 30_000  # one kernel takes 500 KiB or more


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_freed_large_block_is_kept_for_reuse():
    (returned_kib,) = printed(LARGE_BLOCK)
    assert returned_kib < 1024  # of 24 MiB
