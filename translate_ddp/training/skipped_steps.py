"""Counts and reports skipped steps, those whose loss or gradient was not finite."""

from collections.abc import Sequence

from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.plan import Plan
from translate_ddp.errors import UserError
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.state import Position

MAX_SKIPPED_STEPS = 10  # in a row
SENTENCES_SHOWN = 3  # of a skipped step


def count_skipped(
    position: Position,
    skipped: Sequence[bool],
    plan: Plan,
    data: PreparedData,
    logbook: Logbook,
) -> None:
    """Count the skipped ones of the last steps up to `position`, and report each.

    `plan` is that of the current epoch. Raises UserError after
    `MAX_SKIPPED_STEPS` in a row.
    """
    for place, is_skipped in enumerate(skipped):
        before = len(skipped) - place  # this step is that many before the position
        position.skipped_in_a_row = position.skipped_in_a_row + 1 if is_skipped else 0
        if not is_skipped:
            continue
        position.skipped_steps += 1
        step = position.global_step - before + 1
        rows = plan[position.step_in_epoch - before].tolist()
        logbook.message(
            f"Skipped step {step}: its loss or gradient was not finite. Its sentences: "
            + _sentences(rows, data)
        )
        if position.skipped_in_a_row == MAX_SKIPPED_STEPS:
            raise UserError(
                f"Loss or gradient was not finite in {MAX_SKIPPED_STEPS} steps in a row, the last "
                f"of them {step}. Resume with a lower --lr or more --warmup_steps."
            )


def _sentences(rows: Sequence[int], data: PreparedData) -> str:
    ids = [data.train.source[row].tolist() for row in rows[:SENTENCES_SHOWN]]
    texts = data.tokenizer.decode(ids)
    more = len(rows) - len(texts)
    return " | ".join(texts) + (f" | and {more} more" if more else "")
