"""Copies a file from one node to the nodes that lack it."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import torch
import torch.distributed as dist

from translate_ddp.runtime.files import explain_write_errors
from translate_ddp.runtime.long_calls import heartbeat, library_call
from translate_ddp.runtime.world import NEVER, World

CHUNK_BYTES = 16 * 2**20


def copy_to_nodes(
    source: Path, owner: int, receivers: Sequence[int], target: Path, world: World
) -> None:
    """Copy the file `source` of rank `owner` to `target` on the ranks `receivers`, replacing it.

    Both are first ranks of nodes. Every rank must call it. Raises UserError if a receiver cannot
    write the file, after it has removed it.
    """
    if not receivers:
        return
    # On ranks outside of the group a number, which is not used.
    ranks = sorted({owner, *receivers})
    group = cast("dist.ProcessGroup", dist.new_group(ranks, timeout=NEVER, backend="gloo"))

    def work() -> None:
        if world.rank == owner:
            _send(source, owner, group)
        if world.rank in receivers:
            with _explain_errors(target):
                if world.rank == owner:
                    with library_call():
                        shutil.copyfile(source, target)
                else:
                    _receive(target, owner, group)

    world.on_each_node("copying the checkpoint to other nodes", work)
    dist.destroy_process_group(group)


@contextmanager
def _explain_errors(target: Path) -> Iterator[None]:
    with explain_write_errors(f"The copy of another node's checkpoint at {target}"):
        try:
            yield
        except OSError:
            with suppress(OSError):
                target.unlink(missing_ok=True)
            raise


def _send(source: Path, owner: int, group: dist.ProcessGroup) -> None:
    with source.open("rb") as file:
        left = os.fstat(file.fileno()).st_size
        dist.broadcast(torch.tensor([left]), owner, group)
        while left:
            chunk = torch.empty(min(left, CHUNK_BYTES), dtype=torch.uint8)
            if file.readinto(chunk.numpy().data) != len(chunk):
                raise OSError(f"{source} became shorter while it was read.")
            dist.broadcast(chunk, owner, group)
            left -= len(chunk)
            heartbeat()


def _receive(target: Path, owner: int, group: dist.ProcessGroup) -> None:
    chunks = _chunks(owner, group)
    try:
        target.unlink(missing_ok=True)  # of a start that was killed
        with target.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
    finally:
        for _ in chunks:  # the sender sends all of them, also after an error here
            pass


def _chunks(owner: int, group: dist.ProcessGroup) -> Iterator[memoryview]:
    size = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(size, owner, group)
    left = int(size)
    while left:
        chunk = torch.empty(min(left, CHUNK_BYTES), dtype=torch.uint8)
        dist.broadcast(chunk, owner, group)
        left -= len(chunk)
        heartbeat()
        yield chunk.numpy().data
