"""`python -m translate_ddp score`: the log-probabilities of given translations."""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from translate_ddp.apps.commands.output_file import (
    ROWS,
    check_one_process,
    on_every_rank,
    open_ranks,
    write_rows,
)
from translate_ddp.apps.commands.output_formats import (
    STDOUT,
    check_not_compressed,
    for_stdout,
    rounded,
    to_bytes,
    to_json,
)
from translate_ddp.apps.commands.saved_model import SavedModel
from translate_ddp.apps.commands.validation_sets import Pairs, PairsConfig, from_training
from translate_ddp.console import print_line
from translate_ddp.modeling.engine import ignore
from translate_ddp.quantities import counted
from translate_ddp.translator import Translator


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
        return write_file(config)
    check_one_process()
    translator = config.saved.open(config.reverse)
    pairs = read_pairs(config, translator)
    total, tokens = 0.0, 0
    for start in range(0, len(pairs.sources), ROWS):
        lines = scored_lines(translator, pairs, range(start, start + ROWS))
        sys.stdout.buffer.write(to_bytes(for_stdout(lines)))
        sys.stdout.flush()
        total, tokens = add(lines, total, tokens)
    describe(len(pairs.sources), total, tokens)


def write_file(config: ScoreConfig) -> None:
    """Write the scores to `--output`, on all ranks."""
    with open_ranks() as world:
        translator = on_every_rank(
            world, "opening the model", lambda: config.saved.open(config.reverse)
        )
        pairs = on_every_rank(world, "reading", lambda: read_pairs(config, translator))

        def compute(part: range, on_done: Callable[[int], None]) -> bytes:
            return to_bytes(scored_lines(translator, pairs, part, on_done))

        def identity() -> list[object]:
            digest = hashlib.sha256("\n".join(pairs.sources + pairs.references).encode())
            return ["score", *translator.identity, digest.hexdigest()]

        output = Path(config.output)
        write_rows(output, identity, len(pairs.sources), compute, world, "scores")
        if world.is_main:
            with output.open(encoding="utf-8") as lines:
                describe(len(pairs.sources), *add(lines))


def read_pairs(config: ScoreConfig, translator: Translator) -> Pairs:
    if not config.source:
        return from_training(config.saved, translator)
    return config.read((translator.lang_src, translator.lang_tgt))


def scored_lines(
    translator: Translator,
    pairs: Pairs,
    part: range,
    on_done: Callable[[int], None] = ignore,
) -> list[str]:
    """An object of each pair: its texts, log-probability and mean, and those of its tokens.

    `on_done` receives the number of pairs of each finished batch.
    """
    rows = slice(part.start, part.stop)
    texts = [side[rows] for side in (pairs.sources, pairs.references)]
    sources = translator.encode_sources(texts[0])
    targets = translator.tokenizer.encode(texts[1])
    log_probs = map(rounded, translator.engine.log_probs(sources, targets, on_done))
    return [
        to_json(
            {
                "source": source,
                "reference": reference,
                "log_prob": rounded([sum(values)])[0],
                "score": rounded([sum(values) / len(values)])[0],
                "tokens": [*translator.tokenizer.pieces(ids), ""],
                "log_probs": values,
            }
        )
        for source, reference, ids, values in zip(*texts, targets, log_probs, strict=True)
    ]


def add(lines: Iterable[str], total: float = 0.0, tokens: int = 0) -> tuple[float, int]:
    """The sum of the log-probabilities in the lines, and their number, added to the given ones."""
    for line in lines:
        values = json.loads(line)["log_probs"]
        total, tokens = total + sum(values), tokens + len(values)
    return total, tokens


def describe(pairs: int, total: float, tokens: int) -> None:
    loss = -total / max(tokens, 1)
    size = f"{counted(pairs, 'pair')}, {counted(tokens, 'token')}"
    print_line(f"{size}: {loss:.6f} nats/token", sys.stderr)
