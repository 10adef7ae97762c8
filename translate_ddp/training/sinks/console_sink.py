"""The console: sample translations, and one line for each validation."""

import math
from collections.abc import Mapping, Sequence

from translate_ddp.console import print_line, printable
from translate_ddp.training.logbook import Sample, Sink, shown_samples
from translate_ddp.training.metrics import with_units

SAMPLE_CHARACTERS = 200  # shown of a sentence
WITH_VALIDATION = ("loss", "tokens_per_second")  # of training, in the line of a validation


class ConsoleSink(Sink):
    """Prints validations; the training scalars between them are in the progress bar."""

    def __init__(self) -> None:
        self._training: dict[str, float] = {}  # the latest training scalars

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        training, validation = (
            {
                name.removeprefix(f"{group}/"): value
                for name, value in scalars.items()
                if name.startswith(f"{group}/")
            }
            for group in ("train", "validation")
        )
        self._training |= training
        if validation:
            shown = {n: self._training[n] for n in WITH_VALIDATION if n in self._training}
            print_line(validation_line(step, scalars.get("epoch"), validation, shown))

    def validated(self, step: int, rows: Sequence[Sample]) -> None:
        for line in sample_lines(shown_samples(rows)):
            print_line(line)


def validation_line(
    step: int, epoch: float | None, validation: Mapping[str, float], training: Mapping[str, float]
) -> str:
    """`epoch 3, step 801: validation loss 2.1 nats/token, BLEU 34.5; training loss ...`."""
    where = f"step {step:,}" if epoch is None else f"epoch {math.ceil(epoch)}, step {step:,}"
    line = f"{where}: validation {with_units(validation)}"
    return f"{line}; training {with_units(training)}" if training else line


def sample_lines(rows: Sequence[Sample]) -> list[str]:
    """Source, target and prediction of each row, one per line, with blank lines between rows."""
    lines = [""]
    for row in rows:
        for name, text in row._asdict().items():
            cut = text if len(text) <= SAMPLE_CHARACTERS else f"{text[: SAMPLE_CHARACTERS - 1]}…"
            lines.append(f"{name.upper():>11}: {printable(cut)}")
        lines.append("")
    return lines
