"""A large output file: computed in chunks by all ranks, and continued after an interruption.

A chunk is a file of its own in the folder `OUTPUT.KEY.partial`, where the key is a hash of all that
the output depends on. A later start with the same key computes only the missing chunks.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from translate_ddp.errors import UserError
from translate_ddp.runtime.fault_injection import fault_point
from translate_ddp.runtime.files import (
    SyncedFile,
    check_new,
    explain_write_errors,
    write_atomically,
)
from translate_ddp.runtime.world import World

KEY_CHARACTERS = 12
ADVICE = (
    "Finished parts are kept: run the same command again to continue, with the --output in a "
    "folder that all processes share."
)


class ChunkedFile:
    """The file `output` of `count` chunks. Every rank calls the same methods in the same order."""

    def __init__(
        self, output: Path, identity: Callable[[], object], count: int, world: World
    ) -> None:
        """`identity` returns plain values on rank 0: equal ones must give equal bytes."""
        text = world.on_main("identifying the input", lambda: json.dumps(identity()))
        key = hashlib.sha256(text.encode()).hexdigest()[:KEY_CHARACTERS]
        self.output, self.count, self.world = output, count, world
        self.folder = output.with_name(f"{output.name}.{key}.partial")

    def missing(self) -> list[int]:
        """The chunks to compute, in order; the folder exists then.

        Raises UserError if the output exists or the folder cannot be made.
        """
        return self.world.on_main("looking for finished chunks", self._missing)

    def compute(self, missing: list[int], work: Callable[[list[int]], Iterable[bytes]]) -> None:
        """Compute this rank's part of the missing chunks and wait for the other ranks.

        `work` yields the data of given chunks, in order. Raises UserError if a chunk cannot be
        written, and what `work` raises.
        """

        def on_this_rank() -> None:
            chunks = self.of_this_rank(missing)
            for chunk, data in zip(chunks, work(chunks), strict=True):
                with explain_write_errors(self.output, ADVICE):
                    write_atomically(self._path(chunk), data)
                fault_point("chunk")

        self.world.on_each_rank("computing chunks", on_this_rank)

    def of_this_rank(self, missing: list[int]) -> list[int]:
        return missing[self.world.rank :: self.world.size]

    def publish(self) -> None:
        """Join the chunks, rename the result to the output, and delete the folder.

        Raises UserError if that fails; all finished chunks are then kept.
        """
        self.world.on_main("joining chunks", self._publish)

    def _missing(self) -> list[int]:
        if not self._is_published():
            check_new(self.output)
        with explain_write_errors(self.output, ADVICE):
            self.folder.mkdir(exist_ok=True)
        return [chunk for chunk in range(self.count) if not self._path(chunk).exists()]

    def _is_published(self) -> bool:
        """Whether the output has all chunks, so that only the folder is left to delete."""
        if not (self.folder.is_dir() and self.output.exists()):
            return False
        sizes = [path.stat().st_size for path in self.folder.glob("[0-9]*")]
        return len(sizes) == self.count and self.output.stat().st_size == sum(sizes)

    def _publish(self) -> None:
        if not self.output.exists():
            joined = self.folder / f"joined-{os.getpid()}"
            with explain_write_errors(self.output, ADVICE):
                joined.unlink(missing_ok=True)
                with SyncedFile(joined) as file:
                    for chunk in range(self.count):
                        file.write(self._path(chunk).read_bytes())
                    file.sync()
                fault_point("joined")
                joined.rename(self.output)
        elif not self._is_published():
            raise UserError(
                f"{self.output} was made by another program meanwhile: delete it and run the "
                f"same command again. The finished parts are kept in {self.folder}."
            )
        fault_point("published")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, chunk: int) -> Path:
        return self.folder / f"{chunk:08d}"
