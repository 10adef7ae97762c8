"""Stands in for the function that writes the report; files in the folder change what it does."""

import os
import time
from pathlib import Path


def write_report(folder: Path) -> None:
    """Write the events so far, or hang or fail if there is a file of that name."""
    with (folder / "processes").open("a") as file:
        file.write(f"{os.getpid()} {os.nice(0)}\n")
    if (folder / "hang").exists():
        time.sleep(3600)
    assert not (folder / "fail").exists()
    (folder / "report.html").write_text((folder / "events.jsonl").read_text())
