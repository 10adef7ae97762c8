"""What communication costs: the same steps with DDP on one rank and on two.

With traces of `train.py --profile` (weights/.../profile-*.json.gz), their waiting instead.
"""

import argparse
import gzip
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile, record_function

from benchmarks.gpu.traces import covered
from lab import ranks

WIDTH, ROWS, STEPS = 512, 1024, 24  # the rows of a step are divided among the ranks


def measure_steps() -> dict[str, Any]:
    """What steps cost this rank, in words."""
    size = dist.get_world_size()
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(6)))
    replica = DistributedDataParallel(model, bucket_cap_mb=1) if size > 1 else model
    inputs = torch.randn(ROWS // size, WIDTH)

    def make_steps(number: int) -> None:
        for _ in range(number):
            with record_function("ProfilerStep#"):
                F.mse_loss(replica(inputs), inputs).backward()
                model.zero_grad()

    times = [(make_steps(1), time.monotonic())[1] for _ in range(STEPS)]
    fastest = min(end - start for start, end in pairwise(times[1:]))  # DDP makes buckets in the 1st
    with tempfile.TemporaryDirectory() as folder:
        with profile() as traced:
            make_steps(STEPS)
        traced.export_chrome_trace(f"{folder}/trace.json")
        found = read_trace(Path(folder, "trace.json"))
    sent = sum(parameter.nbytes for parameter in model.parameters()) if size > 1 else 0
    text = f"{size} rank(s): {found}, {sent:,} bytes sent, fastest step {1000 * fastest:.0f} ms"
    return {"text": text}


def read_trace(path: Path) -> str:
    """All-reduces of a step, and the share of its time when one is sent and nothing computed."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        events = [each for each in json.load(file)["traceEvents"] if each.get("ph") == "X"]
    steps = spans(events, "ProfilerStep#")
    sent, computed = spans(events, "gloo:all_reduce"), spans(events, "aten::", "autograd::")
    waiting = (covered(sent + computed) - covered(computed)) / covered(steps)
    return f"{len(sent) / len(steps):.0f} all-reduces in a step, {waiting:.0%} waiting"


def spans(events: list[dict[str, Any]], *prefixes: str) -> list[tuple[float, float]]:
    """Start and end of the events whose names begin with a prefix."""
    found = [each for each in events if each["name"].startswith(prefixes)]
    return [(each["ts"], each["ts"] + each["dur"]) for each in found]


def main() -> None:
    parser = argparse.ArgumentParser("python -m lab.measure", description=__doc__)
    parser.add_argument("trace", nargs="*", type=Path)
    traces: list[Path] = parser.parse_args().trace
    if missing := [str(path) for path in traces if not path.is_file()]:
        parser.error(f"no file {missing[0]}")
    for text in map(read_trace, traces):
        print(text)
    for size in () if traces else (1, 2):
        print(ranks.launch(measure_steps, size)[0]["text"], flush=True)


if __name__ == "__main__":
    ranks.CONTEXT.set_forkserver_preload(ranks.PRELOAD)
    ranks.HANG_SECONDS = 300  # its ranks report only the result
    main()
