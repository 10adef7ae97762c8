"""Training steps on random ids until it is stopped: a line `seconds tokens` for each, in a file."""

import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from benchmarks.workbench import open_trainer, random_pairs, take_steps

LENGTH = 24  # tokens of every sentence
VOCABULARY = {"tiny": 4_000, "small": 8_000, "base": 32_000}
BATCH_TOKENS = {"tiny": 1_024, "small": 2_048, "base": 2_048}


@dataclass(frozen=True)
class Steps:
    write_to: Path
    """File that receives the lines."""
    preset: str = "tiny"
    """Shape of the model: tiny, small or base."""


def main() -> None:
    asked = tyro.cli(Steps, description=__doc__, use_underscores=True)
    vocabulary = VOCABULARY[asked.preset]
    flags = ["--preset", asked.preset, "--seq_len", "64", "--vocab_size", str(vocabulary)]
    flags += ["--batch_tokens", str(BATCH_TOKENS[asked.preset])]
    with open_trainer(flags, random_pairs(4096, LENGTH, vocabulary)) as trainer:
        trainer.warm_up()
        with asked.write_to.open("w", buffering=1) as file:
            for rows in take_steps(trainer):
                file.write(f"{time.monotonic()} {len(rows) * LENGTH}\n")


if __name__ == "__main__":
    main()
