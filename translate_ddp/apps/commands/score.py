"""`translate-ddp score`: the log-probabilities of given translations."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from translate_ddp.apps.commands.model_commands import (
    DECIMALS,
    STDOUT,
    PairsConfig,
    SavedModel,
    check_lines,
    check_one_process,
    computed,
    parts_of,
    print_lines,
    rounded,
    to_json,
    write_file,
)
from translate_ddp.console import counted, print_line
from translate_ddp.modeling.engine import OnDone, ignore
from translate_ddp.runtime.launch import is_first_process
from translate_ddp.translator import Translator


@dataclass(frozen=True)
class ScoreConfig(PairsConfig):
    """Compute the log-probability of given translations, for each pair and token."""

    output: str = ""
    """New file for the scores, an object per pair (jsonl); '' or -: standard output."""
    saved: SavedModel = field(default_factory=SavedModel)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_lines(self.output)

    def open(self) -> Translator:
        return self.direction.choose(self.saved.open())

    def compute(
        self, translator: Translator, item: list[list[str]], on_done: OnDone = ignore
    ) -> list[str]:
        """An object of each pair: its texts, tokens, log-probabilities, their sum and mean."""
        sources = translator.encode_sources(item[0])
        targets = translator.tokenizer.encode(item[1])
        log_probs = map(rounded, translator.engine.log_probs(sources, targets, on_done))
        return [
            to_json(
                {
                    "source": source,
                    "reference": reference,
                    "log_prob": round(sum(values), DECIMALS),
                    "score": round(sum(values) / len(values), DECIMALS),
                    "tokens": [*translator.tokenizer.pieces(ids), ""],
                    "log_probs": values,
                }
            )
            for source, reference, ids, values in zip(*item, targets, log_probs, strict=True)
        ]


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
    """The pairs, whose scores `computed` yields."""

    def __init__(self, config: ScoreConfig) -> None:
        self.config, self.translator = config, config.open()
        self.pairs = config.read_for(self.translator, config.saved)

    def __len__(self) -> int:
        return len(self.pairs.sources)

    def item(self, part: range) -> list[list[str]]:
        return [side[part.start : part.stop] for side in self.pairs[:2]]

    def identity(self) -> list[object]:
        digest = hashlib.sha256("\n".join(self.pairs.sources + self.pairs.references).encode())
        return ["score", *self.translator.identity, digest.hexdigest()]


def printed(pairs: ScoredPairs) -> Iterator[str]:
    """The lines of all pairs, which are also written to standard output."""
    for lines in computed(pairs, parts_of(pairs)):
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
