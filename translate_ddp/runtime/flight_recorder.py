"""NCCL's flight recorder: the last collectives of each rank, which show where they differ."""

import os
from pathlib import Path

from torch._C import _distributed_c10d as c10d

# The first path of these variables is the prefix; else torch's own default.
PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
DEFAULT_PREFIX = "~/.cache/torch/comm_lib_trace_rank_"


def write_flight_recorder(rank: int) -> str:
    """Write the last collectives of this rank to a file that `torchfrtrace` reads.

    Returns its path, '' if this torch has no NCCL. It may block, as CUDA may.
    Raises OSError if the file cannot be written.
    """
    # NCCL itself writes the file at its own timeout, which is longer than that of the watchdog.
    dump = getattr(c10d, "_dump_nccl_trace", None)
    if dump is None:
        return ""
    prefix = next(filter(None, map(os.environ.get, PREFIXES)), DEFAULT_PREFIX)
    path = Path(f"{prefix}{rank}").expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump())
    return str(path)
