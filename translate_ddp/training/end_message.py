"""The message at the end of a run, and its STATUS.json."""

import math
import shlex
import time

from translate_ddp.quantities import describe_seconds, number
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.training.due import has_no_patience
from translate_ddp.training.trainer import Trainer

NO_STEP_LEFT = (
    "This run has finished: raise --num_epochs, --max_steps or --patience to train longer, or pass "
    "--preload '' for a new run."
)
STOPPED_UPLOAD_SECONDS = 5.0  # for trackers: the launcher ends a stopped process soon


def report_end(trainer: Trainer, is_finished: bool, started: float) -> None:
    """Write STATUS.json, print how the run ended, and close the logbook. Every rank must call it.

    `started` is the time of the start on the monotonic clock.
    """
    world, position = trainer.world, trainer.position
    world.supervisor.begin_ending()
    # Other ranks may not have received the reason yet.
    reasons = [reason for reason in world.gather(world.supervisor.stop_reason or "") if reason]
    stop_reason = None if is_finished else reasons[0]
    if world.is_node_leader:
        trainer.saver.folder.write_status(
            "preempted" if stop_reason else "finished",
            stop_reason or early_end(trainer),
            epoch=position.current_epoch,
            step=trainer.saver.saved_step,
            checkpoint=trainer.saver.saved_name,
        )
    trainer.logbook.message(describe_end(trainer, stop_reason, started))
    trainer.logbook.close(STOPPED_UPLOAD_SECONDS if stop_reason else math.inf)


def describe_end(trainer: Trainer, stop_reason: str | None, started: float) -> str:
    """The last message: where and why the run ended, its duration, and the next command."""
    position, folder = trainer.position, trainer.saver.store.folder
    where = str(position)
    duration = describe_seconds(time.monotonic() - started)
    if stop_reason:
        saved = trainer.saver.saved_step == position.global_step
        outcome = "and saved" if saved else "not saved: loss or gradient was not finite"
        return (
            f"Stopped at {where}, on request ({stop_reason}), {outcome}, after {duration}. "
            "The same command resumes from the last checkpoint."
        )
    reason = f" ({early})" if (early := early_end(trainer)) else ""
    best = ""
    if position.best_epoch:
        score = number(position.best_score)
        best = f" Best finished epoch: {position.best_epoch}, {position.best_metric} {score}."
    options = ""
    if str(folder) != CheckpointConfig.model_folder:
        options += f" --model_folder {shlex.quote(str(folder))}"
    basename = trainer.saver.store.basename
    if basename != CheckpointConfig.model_basename:
        options += f" --model_basename {shlex.quote(basename)}"
    return (
        f"Finished at {where}{reason}, after {duration}.{best}\n"
        f'Translate with: python -m translate_ddp translate{options} "..."'
    )


def early_end(trainer: Trainer) -> str:
    """Why the run has finished before its last epoch, or ""."""
    position = trainer.position
    if position.epoch >= trainer.config.num_epochs or not has_no_patience(
        trainer.config, trainer.metric, position, trainer.last_stage
    ):
        return ""
    return f"no better {position.best_metric} since epoch {position.best_epoch}"
