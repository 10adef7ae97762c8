"""Stands in for the function that writes the report; files in the folder change what it does."""

import os
import time
from pathlib import Path

UNKNOWN = -1  # niceness
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def write_report(folder: Path) -> None:
    """Write the events so far, or hang or fail if there is a file of that name."""
    adjustment = int(Path("/proc/self/oom_score_adj").read_text())
    groups = Path("/proc/self/autogroup")  # absent where the kernel does not have them
    is_set = groups.exists() and os.geteuid() == 0  # others may set few in a second
    shares = int(groups.read_text().split()[-1]) if is_set else UNKNOWN
    facts = (
        os.getpid(),
        shares,
        os.nice(0),
        os.getsid(0),
        adjustment,
        *map(os.environ.get, THREADS),
    )
    with (folder / "processes").open("a") as file:
        file.write(" ".join(map(str, facts)) + "\n")
    if (folder / "hang").exists():
        time.sleep(3600)
    assert not (folder / "fail").exists()
    (folder / "report.html").write_text((folder / "events.jsonl").read_text())
