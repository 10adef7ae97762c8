"""The tables of an inspection, as the terminal and the page show them."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

import numpy as np

from translate_ddp.apps.inspecting.findings import of, percent
from translate_ddp.apps.inspecting.inspection import Inspection
from translate_ddp.apps.reporting.table import Table
from translate_ddp.quantities import counted
from translate_ddp.text import separates_words

SIDES = range(2)
FREQUENT_CHARACTERS = 20
QUANTILES = {"min": 0.0, "1%": 0.01, "25%": 0.25, "median": 0.5, "75%": 0.75, "99%": 0.99, "max": 1}


def rows_table(found: Inspection) -> Table:
    """Read, kept and dropped rows of each source."""
    rows = []
    for number, report in enumerate(found.reports):
        is_validation = number >= len(found.config.corpus.dataset)
        source = f"{report.source} (validation)" if is_validation else report.source
        dropped = ", ".join(f"{count:,} {why}" for why, count in _most(report.dropped))
        rows.append([source, f"{report.rows:,}", f"{report.kept:,}", dropped or "none"])
    return Table(["source", "rows", "kept", "dropped"], rows)


def strict_line(found: Inspection) -> str:
    """What strict cleaning would drop, in one sentence; '' if it is used."""
    if (strict := found.strict) is None:
        return ""
    total = sum(strict.dropped.values())
    if not total:
        return "--clean strict would drop nothing else."
    reasons = ", ".join(f"{count:,} {why}" for why, count in _most(strict.dropped))
    return f"--clean strict would also drop {of(total, strict.rows)} pairs: {reasons}."


def lengths_table(found: Inspection) -> Table:
    """Quantiles of characters, words and tokens per side, and of the ratio of the sides."""
    texts, dataset, rows = found.texts, found.vocabulary.dataset, []
    languages = found.config.corpus.languages
    for side, language in enumerate(languages):
        rows.append([f"{language} characters", *_quantiles(texts.characters[:, side])])
        if separates_words(language):
            rows.append([f"{language} words", *_quantiles(texts.words[:, side])])
        if len(dataset):
            tokens = (dataset.source, dataset.target)[side].lengths + 1  # as --seq_len counts
            rows.append([f"{language} tokens", *_quantiles(tokens)])
    ratio = f"{languages[1]} / {languages[0]} characters"
    rows.append([ratio, *_quantiles(texts.ratios, ".2f")])
    return Table(["", *QUANTILES, "mean"], rows)


def scripts_line(found: Inspection, side: int) -> str:
    """`LATIN 99.8%, GREEK 0.2%`: the scripts of the letters."""
    scripts = found.texts.scripts[side]
    total = scripts.total()
    return ", ".join(f"{name} {percent(n, total)}" for name, n in scripts.most_common(5)) or "none"


def frequent_characters(found: Inspection, side: int) -> list[tuple[str, int]]:
    """The most frequent characters other than ASCII."""
    others = ((c, n) for c, n in found.texts.counts[side].items() if not c.isascii())
    return sorted(others, key=lambda each: (-each[1], each[0]))[:FREQUENT_CHARACTERS]


def character_name(character: str) -> str:
    """`U+00E4 LATIN SMALL LETTER A WITH DIAERESIS`."""
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def visible(character: str) -> str:
    """The character, or its number if it shows nothing or joins others."""
    is_shown = character.isprintable() and unicodedata.category(character)[0] != "M"
    return character if is_shown else f"U+{ord(character):04X}"


def vocabulary_table(found: Inspection) -> Table:
    """Tokens per word and the coverage of validation, per side."""
    vocabulary, texts, rows = found.vocabulary, found.texts, []
    for side, language in enumerate(found.config.corpus.languages):
        coverage = vocabulary.coverage[side]
        has_words = separates_words(language) and len(vocabulary.dataset)
        rows.append(
            [
                language,
                f"{vocabulary.tokens_per(texts.words, side):.2f}" if has_words else "-",
                f"{vocabulary.tokens_per(texts.characters, side):.2f}",
                f"{coverage.unknown:.2%}",
                f"{coverage.bytes:.2%}",
                f"{coverage.unseen:.2%}",
                " ".join(map(visible, coverage.unseen_characters)),
            ]
        )
    columns = ["tokens per word", "per character", "unknown", "bytes", "new characters", ""]
    return Table(["", *columns], rows)


def vocabulary_line(found: Inspection) -> str:
    vocabulary, config = found.vocabulary, found.config.tokenizer
    origin = f"read from {config.tokenizer_file}"
    if vocabulary.is_trained:
        origin = f"{config.tokenizer}, trained on the same pairs"
    return f"{len(vocabulary.tokenizer):,} tokens, {origin}."


def training_rows(found: Inspection) -> list[tuple[str, str]]:
    """Names and values of the plan, the preset and the estimated time."""
    config, model = found.config, found.config.model
    about = "about " if found.is_sample else ""
    preset = config.run.preset
    if preset == found.suggested_preset:
        preset += f", which --preset auto chooses for {counted(found.pairs, 'training pair')}"
    else:
        preset += f"; --preset auto would choose {found.suggested_preset}"
    layers = f"{model.num_encoder_layers} + {model.num_decoder_layers} layers"
    rows = [("preset", preset), ("model", f"{layers}, width {model.d_model}")]
    if (pace := found.pace) is not None:
        rows[-1] = ("model", f"{layers}, width {model.d_model}, {pace.parameters:,} parameters")
    if (epoch := found.epoch) is not None:
        size = f"{config.batches.batch_tokens:,} tokens"
        if config.batches.batch_size:
            size = f"{config.batches.batch_size:,} sentences"
        rows.append(("epoch", f"{about}{epoch.steps:,} steps of at most {size}"))
        rows.append(("padding", f"{epoch.padding:.1%} of the positions"))
    if (seconds := found.training_seconds) is not None and pace is not None:
        epochs = config.train.num_epochs
        length = f"{counted(epochs, 'epoch')} of {duration(seconds / epochs)}"
        time = f"about {duration(seconds)} for {length}"
        steps = counted(pace.steps, "training step")
        rows.append(("time", f"{time}, without validation and saving"))
        rows.append(("", f"Estimate for one process on {pace.device} in {pace.precision}, from"))
        rows.append(("", f"{steps}: {pace.tokens_per_second:,.0f} tokens/s of both sides"))
    return rows


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            digits = 1 if unit == "h" and seconds < 36_000 else 0
            return f"{max(seconds / size, 1 if digits == 0 else 0):.{digits}f} {unit}"
    return f"{seconds / 86_400:,.1f} days"


def sample_line(found: Inspection) -> str:
    count = len(found.texts)
    if found.is_sample:
        return f"a sample of {count:,} of the {found.pairs:,} training pairs"
    return f"all {count:,} training pairs"


def _most(counts: dict[str, int]) -> Iterable[tuple[str, int]]:
    return Counter(counts).most_common()


def _quantiles(values: np.ndarray, form: str = ",.0f") -> list[str]:
    numbers = [*np.quantile(values, list(QUANTILES.values())), values.mean()]
    texts = [format(float(number), form) for number in numbers]
    if form == ",.0f":
        texts[-1] = f"{numbers[-1]:,.1f}"
    return texts
