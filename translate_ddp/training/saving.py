"""Saves the state of a run: checks it, counts failed saves, deletes old files."""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from translate_ddp.errors import NotSaved, UserError
from translate_ddp.quantities import rank_names
from translate_ddp.run_record import METRICS_FILE
from translate_ddp.runtime.run_folder import LOCK_FILE, RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.state import RunState

MAX_FAILED_SAVES = 3  # in a row
RETRY_SECONDS = 5.0  # after a failed save of an epoch


class RunSaver:
    """Writes the checkpoints of one run; every rank calls it at the same steps."""

    def __init__(
        self,
        store: CheckpointStore,
        folder: RunFolder,
        world: World,
        message: Callable[[str], None],
    ) -> None:
        self.store, self.folder, self.world = store, folder, world
        self.saved_step, self.saved_name = -1, ""  # of the last file in the folder
        self._message = message
        self._failures = 0  # in a row
        self._saved_at = time.monotonic()

    def is_due(self, minutes: float) -> bool:
        """Whether the last save is at least `minutes` ago; 0: never. True on rank 0 only."""
        return self.world.is_main and 0 < minutes <= (time.monotonic() - self._saved_at) / 60

    def resume(self, step: int, name: str) -> None:
        """The run continues from the file `name`, saved at `step`, maybe in another folder."""
        path = self.store.folder / name
        if self.world.on_main("looking for the checkpoint", path.exists):
            self.saved_step, self.saved_name = step, name

    def save(
        self, state: Callable[[], RunState], step: int, epoch: int | None, *, is_last: bool
    ) -> str:
        """Save what `state` returns on rank 0 at `step`; `epoch` is the epoch that it ends, if any.

        Returns the name of the new file, or "" if it could not be written. The save of an epoch is
        tried again, as its weights are gone later. Raises UserError on every rank after
        `MAX_FAILED_SAVES` failures in a row, after one if `is_last`, or if the folder is a new one.
        """
        while True:
            name, problem = self.world.on_main(
                "saving a checkpoint", lambda: self._write(state, epoch)
            )
            self._saved_at = time.monotonic()
            if not problem:
                self._failures = 0
                self.saved_step, self.saved_name = step, name
                return name
            self._failures += 1
            if is_last or self._failures == MAX_FAILED_SAVES:
                raise UserError(problem)
            self._message(
                f"{problem} The run ends if this fails {MAX_FAILED_SAVES} times in a row."
            )
            if epoch is None:
                return ""
            time.sleep(RETRY_SECONDS)

    def _write(self, get_state: Callable[[], RunState], epoch: int | None) -> tuple[str, str]:
        """The name of the new file, and why there is none."""
        self._check_owner()
        try:
            state = get_state()
            # Again: writing may take minutes.
            path = self.store.save(state, epoch=epoch, before_publish=self._check_owner)
        except NotSaved as error:
            return "", str(error)
        if self.folder.is_gone():
            raise UserError(
                f"{self.folder.path} or its {LOCK_FILE} was deleted or moved during the run, which "
                f"ends here. {path} and {METRICS_FILE} were saved in its place, and the same "
                "command resumes from them."
            )
        names, position = [*state.run.history, path.name], state.position
        self.store.prune(names, best_epochs={position.best_epoch, *position.kept_epochs})
        return path.name, ""

    def _check_owner(self) -> None:
        if not self.folder.is_mine():
            problem = f"Another run has taken over {self.folder.path}: nothing was saved."
            raise UserError(f"{problem} Pass another --model_folder.")


def check_weights(
    parameters: Sequence[Tensor], optimizer: torch.optim.Optimizer, world: World, step: int
) -> None:
    """Raise UserError on every rank if the weights differ between ranks or are not finite.

    Call it before a save, which deletes older checkpoints.
    """
    moments = [t for state in optimizer.state.values() for t in state.values()]
    if odd := outliers(world.gather(checksum([*parameters, *moments]))):
        raise UserError(
            f"{odd} at step {step}, which a memory fault can cause: this step was not saved. "
            "The same command resumes from the last checkpoint."
        )
    # The weights are equal on all ranks here, so all of them raise.
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise UserError(
            f"The weights are not finite at step {step}: it was not saved. "
            "Resume with a lower --lr or more --warmup_steps."
        )


def checksum(tensors: Iterable[Tensor]) -> str:
    """A digest that changes with any single bit of the tensors."""
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    sums = [t.detach().reshape(-1).view(words[t.element_size()]).sum() for t in tensors]
    return hashlib.sha256(str([int(total) for total in sums]).encode()).hexdigest()


def outliers(sums: Sequence[str]) -> str:
    """Which ranks' weights differ from those of most ranks, or from each other; "" if none do."""
    usual = max(sums, key=sums.count)
    odd = [rank for rank, value in enumerate(sums) if value != usual]
    if not odd:
        return ""
    if 2 * len(odd) < len(sums):
        return f"Weights or optimizer of {rank_names(odd)} differ from those of the other ranks"
    return f"Weights or optimizer of {rank_names(range(len(sums)))} differ from each other"
