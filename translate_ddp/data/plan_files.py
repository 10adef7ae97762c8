"""Plans on disk: computed by one process, read by the others of the same node.

Every process could compute the same plan itself. So nothing depends on these files: whatever
cannot be read, locked or written is computed instead.
"""

import fcntl
import hashlib
import io
import os
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path

import numpy as np

from translate_ddp.data.plan import ORDER, Lengths, Plan
from translate_ddp.runtime.files import write_atomically

LOCK_NAME = ".lock"
LOCK_SECONDS = 60.0  # then the holder hangs, or the disk's lock server
NAME = re.compile(r"\.?plan-[0-9a-f]+\.npz(\.[0-9a-f]{32})?")  # also of partial files
KEPT_PLANS = 2  # the newest, beside a new one: of the current and the last epoch


def plan_name(lengths: Lengths, *inputs: object) -> str:
    """A file name with a hash of everything that a plan depends on."""
    # A version of numpy may shuffle in another way.
    digest = hashlib.blake2b(repr((ORDER, np.__version__, *inputs)).encode(), digest_size=10)
    for side in (lengths.source, lengths.target):
        digest.update(np.ascontiguousarray(side).data)
    return f"plan-{digest.hexdigest()}.npz"


def load_or_compute(folder: Path, name: str, compute: Callable[[], Plan]) -> Plan:
    """The plan in the file, or the computed one, which is then stored under that name.

    One process computes while others wait for its lock, which the kernel releases if it dies.
    """
    if plan := _read(folder / name):
        return plan
    with _locked(folder) as is_locked:
        plan = _read(folder / name) or compute()
        if is_locked:
            with suppress(OSError):
                _delete_old(folder)
                _write(folder / name, plan)
    return plan


def _read(path: Path) -> Plan | None:
    """The plan in the file; None if it is missing or damaged."""
    try:
        # In memory: deleting a mapped file on a network disk would kill its readers on other nodes.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            # It raises BadZipFile if a checksum differs.
            return Plan(**{field.name: arrays[field.name] for field in fields(Plan)})
    # RuntimeError: damaged headers look like encrypted files or unknown compressions.
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile):
        return None


def _write(path: Path, plan: Plan) -> None:
    content = io.BytesIO()
    np.savez(content, **vars(plan))
    write_atomically(path, content.getvalue())


def _delete_old(folder: Path) -> None:
    """Delete all but the newest plans, also the partial files of killed processes."""
    files = [file for file in folder.iterdir() if NAME.fullmatch(file.name)]
    files.sort(key=lambda file: file.stat().st_mtime)
    for file in files[:-KEPT_PLANS]:
        file.unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock the folder; False if that is impossible or takes longer than `LOCK_SECONDS`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield False
        return
    try:
        yield _wait_for_lock(descriptor)
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int) -> bool:
    deadline = time.monotonic() + LOCK_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02)
        except OSError:  # the disk has no locks
            break
    return False
