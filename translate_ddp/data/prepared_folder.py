"""Folders of prepared data: complete or absent on disk, and verified before they are used.

A folder is written beside its place, synced, and published by one rename. Its summary holds the
sha256 of every 16 MiB of each file. It is computed from the finished files, so it does not depend
on how these were written.
"""

import fcntl
import hashlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from translate_ddp.console import print_line
from translate_ddp.data.rows import NO_SPACE
from translate_ddp.errors import UserError
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import read_chunks, sync_file, sync_folder

SUMMARY_FILE = "prepared.json"
LOCK_FILE = ".lock"  # in a folder that is being written
CHUNK_BYTES = 2**24  # of one digest; another size needs another format of the folders
ABANDONED_SECONDS = 86_400.0  # without a change, on a disk without locks

Summary = dict[str, Any]


def is_usable(folder: Path) -> bool:
    """Whether the folder exists and has the bytes that were written to it.

    One that differs is moved aside, with a message; it is not deleted, because another process may
    have mapped it into memory. Raises UserError if it cannot be moved.
    """
    if not folder.is_dir():
        return False
    problem = damage(folder)
    if problem is None:
        return True
    aside = folder.with_name(f".damaged-{folder.name}-{uuid.uuid4().hex[:8]}")
    try:
        folder.rename(aside)
    except FileNotFoundError:
        return False  # another process has moved it
    except OSError as error:
        raise UserError(
            f"{folder} is damaged ({problem}) and cannot be moved: {error.strerror}. Delete it."
        ) from error
    print_line(
        f"{folder} is damaged: {problem}. It is prepared again. The damaged folder is now {aside}: "
        "delete it when no run uses it."
    )
    return False


def damage(folder: Path) -> str | None:
    """The first difference from what was written, or None. All files are read."""
    try:
        written = read_summary(folder)["files"]
    except OSError as error:
        return f"{SUMMARY_FILE} cannot be read ({error.strerror})"
    except (ValueError, KeyError):
        return f"{SUMMARY_FILE} is damaged"
    differences = (_difference(folder / name, **expected) for name, expected in written.items())
    return next(filter(None, differences), None)


def read_summary(folder: Path) -> Summary:
    """What `publish` has stored. Raises OSError or ValueError if it cannot be read."""
    summary = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    if not isinstance(summary, dict):
        raise ValueError("not a summary")
    if summary.pop("sha256", None) != _digest(summary):
        raise ValueError("its digest differs")
    return summary


def publish(folder: Path, write: Callable[[Path], tuple[Path, Summary]]) -> Path:
    """The new folder below `folder`: `write` fills a partial one, and returns its path and summary.

    Raises UserError if the disk is full or not writable.
    """
    partial = folder / f".preparing-{uuid.uuid4().hex}"
    try:
        remove_abandoned(folder)
        with _create_locked(partial):
            published, summary = write(partial)
            _seal(partial, summary)
            fault_point("preparing")
            (partial / LOCK_FILE).unlink()
            try:
                partial.rename(published)
            except OSError:
                # Another process may have published the same data first.
                if not (published / SUMMARY_FILE).exists():
                    raise
            sync_folder(folder)
    except OSError as error:
        advice = " Free some space there, and start again." if error.errno in NO_SPACE else ""
        raise UserError(
            f"Could not write the prepared corpus to {folder}: {error.strerror or error}.{advice}"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return published


def abandon(folder: Path) -> None:
    """Make a folder one that `remove_abandoned` deletes, now or after an interruption."""
    with suppress(OSError):  # another process may have deleted it
        (folder / LOCK_FILE).touch()
        folder.rename(folder.with_name(f".preparing-{uuid.uuid4().hex}"))


def remove_abandoned(folder: Path) -> None:
    """Delete the partial folders of processes that have died, on this or another machine."""
    for partial in folder.glob(".preparing-*"):
        if _is_abandoned(partial):
            shutil.rmtree(partial, ignore_errors=True)


def _seal(folder: Path, summary: Summary) -> None:
    """Sync all files, and write the summary with their digests."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != LOCK_FILE)
    written = {}
    for path in files:
        sync_file(path)
        digests = [hashlib.sha256(chunk).hexdigest() for chunk in read_chunks(path, CHUNK_BYTES)]
        name = path.relative_to(folder).as_posix()
        written[name] = {"size": path.stat().st_size, "digests": digests}
    sealed = summary | {"files": written}
    text = json.dumps(sealed | {"sha256": _digest(sealed)}, indent=1)
    (folder / SUMMARY_FILE).write_text(text, encoding="utf-8")
    sync_file(folder / SUMMARY_FILE)
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        sync_folder(path)


def _digest(summary: Summary) -> str:
    return hashlib.sha256(json.dumps(summary, sort_keys=True).encode()).hexdigest()


def _difference(path: Path, size: int, digests: list[str]) -> str | None:
    try:
        if (found := path.stat().st_size) != size:
            return f"{path.name} has {found:,} bytes instead of {size:,}"
        for number, (chunk, digest) in enumerate(
            zip(read_chunks(path, CHUNK_BYTES), digests, strict=True)
        ):
            if hashlib.sha256(chunk).hexdigest() != digest:
                start = number * CHUNK_BYTES
                return f"{path.name} differs in the bytes {start:,} to {start + len(chunk) - 1:,}"
    except FileNotFoundError:
        return f"{path.name} is missing"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"
    return None


@contextmanager
def _create_locked(folder: Path) -> Iterator[None]:
    """Create the folder, with a file in it that is locked until this process ends."""
    folder.mkdir(parents=True)
    lock = folder / LOCK_FILE
    unlocked = lock.with_suffix(".new")
    with unlocked.open("wb") as file:
        with suppress(OSError):  # the disk has no locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlocked.rename(lock)  # only now: another process must not lock it first
        yield


def _is_abandoned(partial: Path) -> bool:
    """Whether its lock is free: the kernel releases it with its process. Otherwise, by its age."""
    try:
        with (partial / LOCK_FILE).open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:  # no lock file yet, or a disk without locks
        with suppress(OSError):
            changed_at = max(path.stat().st_mtime for path in [partial, *partial.rglob("*")])
            return time.time() - changed_at > ABANDONED_SECONDS
    return False
