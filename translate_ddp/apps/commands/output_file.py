"""Writes the rows that a command computes to a file, in chunks, on all ranks."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from translate_ddp import __version__
from translate_ddp.apps.commands.command_line import silence
from translate_ddp.console import print_line
from translate_ddp.errors import Stopped, UserError
from translate_ddp.progress import Progress
from translate_ddp.run_settings import DistributedConfig
from translate_ddp.runtime.chunked_file import ChunkedFile
from translate_ddp.runtime.launch import read_launch
from translate_ddp.runtime.world import World, open_world

T = TypeVar("T")
ROWS = 1000  # of a chunk: read and computed together
TIMEOUT_MINUTES = 60.0  # without progress; a large input takes minutes to read
Compute = Callable[[range, Callable[[int], None]], bytes]  # of rows; it reports numbers of them


def check_one_process(
    advice: str = "Several processes write one file together: pass --output FILE.",
) -> None:
    """Raise UserError, with the advice, if a launcher has started several processes."""
    if read_launch(os.environ).size > 1:
        raise UserError(advice)


@contextmanager
def open_ranks() -> Iterator[World]:
    """The world of a command. Stop signals end it when `write_rows` finishes a batch of rows."""
    with open_world(DistributedConfig(timeout_minutes=TIMEOUT_MINUTES)) as world:
        world.supervisor.begin_training()
        yield world


def on_every_rank(world: World, phase: str, work: Callable[[], T]) -> T:
    """The result of `work` on this rank; rank 0 first, so that others find files it has cached.

    Rank 0 prints. Raises a UserError of any rank on all of them.
    """
    results: list[T] = []

    def once() -> None:
        if not results:
            with nullcontext() if world.is_main else silence():
                results.append(work())

    world.on_main(phase, once)
    world.on_each_rank(phase, once)
    return results[0]


def write_rows(
    output: Path,
    identity: Callable[[], list[object]],
    num_rows: int,
    compute: Compute,
    world: World,
    label: str,
) -> None:
    """Write what `compute` returns for all rows, in order, to a new file.

    An interrupted call is continued by the next one with an equal `identity`, which has plain
    values. Raises UserError if the file exists or cannot be written, or at a request to stop.
    """
    file = ChunkedFile(
        output,
        lambda: [__version__, ROWS, num_rows, *identity()],
        math.ceil(num_rows / ROWS),
        world,
    )

    def rows_of(chunk: int) -> range:
        return range(chunk * ROWS, min((chunk + 1) * ROWS, num_rows))

    def count(chunks: list[int]) -> int:
        return sum(len(rows_of(chunk)) for chunk in chunks)

    missing = file.missing()
    if world.is_main and len(missing) < file.count:
        done = num_rows - count(missing)
        print_line(f"Continues: {done:,} of {num_rows:,} rows are done.", sys.stderr)

    def on_done(rows: int) -> None:
        progress.advance(rows)
        world.supervisor.heartbeat()
        if world.supervisor.stop_reason is not None:
            raise Stopped

    total = count(file.of_this_rank(missing))
    try:
        with closing(Progress(label, total, shown=world.is_main, lines_to=sys.stderr)) as progress:
            file.compute(missing, lambda chunk: compute(rows_of(chunk), on_done))
    except Stopped:
        reason = world.supervisor.stop_reason or "on another rank"
        raise UserError(
            f"Stopped ({reason}) before {output} was complete: run the same command to continue."
        ) from None
    file.publish()
