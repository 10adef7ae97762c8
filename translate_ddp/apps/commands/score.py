"""`python -m translate_ddp score`: the log-probabilities of given translations."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from translate_ddp.apps.commands.model_commands import (
    DECIMALS,
    ROWS,
    STDOUT,
    PairsConfig,
    SavedModel,
    check_not_compressed,
    check_one_process,
    print_lines,
    rounded,
    to_json,
    write_file,
)
from translate_ddp.console import counted, print_line
from translate_ddp.modeling.engine import ignore
from translate_ddp.runtime.launch import is_first_process


@dataclass(frozen=True)
class ScoreConfig(PairsConfig):
    """Compute the log-probability of given translations, for each pair and token."""

    output: str = ""
    """New file for the scores, an object per pair (jsonl); '' or -: standard output."""
    saved: SavedModel = field(default_factory=SavedModel)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_compressed(self.output)


def run(config: ScoreConfig) -> None:
    if config.output not in STDOUT:
        write_file(config.output, partial(ScoredPairs, config), "scores")
        if is_first_process(os.environ):
            with Path(config.output).open(encoding="utf-8") as lines:
                describe(lines)
        return
    check_one_process()
    describe(printed(ScoredPairs(config)))


class ScoredPairs:
    """The pairs and the lines of their scores, as `write_file` writes them."""

    def __init__(self, config: ScoreConfig) -> None:
        self.translator = config.saved.open(config.reverse)
        self.pairs = config.read_for(self.translator, config.saved)

    def __len__(self) -> int:
        return len(self.pairs.sources)

    def lines(self, part: range, on_done: Callable[[int], None] = ignore) -> list[str]:
        """An object of each pair: its texts, tokens, log-probabilities, their sum and mean."""
        texts = [side[part.start : part.stop] for side in self.pairs[:2]]
        sources = self.translator.encode_sources(texts[0])
        targets = self.translator.tokenizer.encode(texts[1])
        log_probs = map(rounded, self.translator.engine.log_probs(sources, targets, on_done))
        return [
            to_json(
                {
                    "source": source,
                    "reference": reference,
                    "log_prob": round(sum(values), DECIMALS),
                    "score": round(sum(values) / len(values), DECIMALS),
                    "tokens": [*self.translator.tokenizer.pieces(ids), ""],
                    "log_probs": values,
                }
            )
            for source, reference, ids, values in zip(*texts, targets, log_probs, strict=True)
        ]

    def identity(self) -> list[object]:
        digest = hashlib.sha256("\n".join(self.pairs.sources + self.pairs.references).encode())
        return ["score", *self.translator.identity, digest.hexdigest()]


def printed(pairs: ScoredPairs) -> Iterator[str]:
    """The lines of all pairs, which are also written to standard output."""
    for start in range(0, len(pairs), ROWS):
        lines = pairs.lines(range(start, start + ROWS))
        print_lines(lines)
        yield from lines


def describe(lines: Iterable[str]) -> None:
    """Print the number of pairs and tokens, and the mean loss, on stderr."""
    pairs, tokens, total = 0, 0, 0.0
    for line in lines:
        log_probs = json.loads(line)["log_probs"]
        pairs, tokens, total = pairs + 1, tokens + len(log_probs), total + sum(log_probs)
    size = f"{counted(pairs, 'pair')}, {counted(tokens, 'token')}"
    print_line(f"{size}: {-total / max(tokens, 1):.6f} nats/token", sys.stderr)
