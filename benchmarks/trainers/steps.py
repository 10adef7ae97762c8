"""Training steps on random ids until the process is killed; one line `seconds tokens` per step."""

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import as_flags, read_settings
from benchmarks.random_pairs import random_pairs
from benchmarks.workbench import open_training, take_steps

LENGTH = 24  # tokens of every sentence
VOCABULARY = {"tiny": 4_000, "small": 5_000, "base": 32_000}
BATCH_TOKENS = {"tiny": 1_024, "small": 2_048, "base": 2_048}


@dataclass(frozen=True)
class Steps:
    write_to: Path
    """File that receives the lines."""
    preset: str = "tiny"
    """Model shape: tiny, small or base."""


def main() -> None:
    settings = read_settings(Steps, __doc__)
    vocabulary = VOCABULARY[settings.preset]
    sizes = {"seq_len": 64, "vocab_size": vocabulary, "batch_tokens": BATCH_TOKENS[settings.preset]}
    flags = as_flags({"preset": settings.preset} | sizes)
    with open_training(flags, random_pairs(4096, vocabulary, LENGTH)) as training:
        training.warm_up()
        with settings.write_to.open("w", buffering=1) as file:
            for rows in take_steps(training):
                file.write(f"{time.monotonic()} {len(rows) * LENGTH}\n")


if __name__ == "__main__":
    main()
