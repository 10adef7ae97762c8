"""Models that translate in both directions (`--bidirectional`), and their commands."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.runs import records
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.data.tokenizer import Tokenizer, train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.settings import SourceOptions, TokenizerConfig
from translate_ddp.translator import Translator


class EchoEngine:
    """Translates each source into itself."""

    fingerprint = "echo"

    def translate(
        self, sources: Sequence[Any], config: Any, on_done: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        self.sources = [list(source) for source in sources]
        return [[Hypothesis(source, None)] for source in self.sources]

    def log_probs(self, sources: Sequence[Any], targets: Sequence[Any]) -> list[np.ndarray]:
        return [np.zeros(len(target) + 1) for target in targets]


def tokenizer() -> Tokenizer:
    lines = [">>it<< sun moon tree", ">>en<< sole luna albero, sole"] * 3
    return train_tokenizer(lines, TokenizerConfig(vocab_size=320))


def echo(longest: int = 59, is_bidirectional: bool = True) -> Translator:
    engine: Any = EchoEngine()
    return Translator(engine, tokenizer(), ("en", "it"), longest, None, is_bidirectional)


def test_sources_have_the_tag_of_the_target_language():
    translator = echo()
    assert translator.translate(["sun. moon"]) == [">>it<< sun. >>it<< moon"]
    back = translator.reverse()
    assert (back.lang_src, back.lang_tgt) == ("it", "en")
    assert back.translate(["sole"]) == [">>en<< sole"]
    assert back.reverse().translate(["sun"]) == [">>it<< sun"]
    assert echo(is_bidirectional=False).translate(["sun. moon"]) == ["sun. moon"]


def test_scored_sentences_have_their_source_without_the_tag():
    (translation,) = echo().translate(["sun moon"], n_best=1)[0]
    assert [sentence.source for sentence in translation.sentences] == ["sun moon"]


def test_each_part_of_a_long_sentence_has_the_tag():
    translator = echo(longest=14)  # tokens of the longest parts
    messages: list[str] = []
    text = ", ".join(["sun moon tree"] * 9)
    (found,) = translator.translate([text], report=lambda row, message: messages.append(message))
    parts = translator.engine.sources  # pyright: ignore[reportAttributeAccessIssue]
    assert len(parts) > 2 and all(len(part) <= 14 for part in parts)
    assert found.count(">>it<<") == len(parts)
    assert found.replace(">>it<< ", "") == text
    assert f"is translated in {len(parts)} parts" in messages[0]


def test_directions_have_identities_of_their_own():
    assert echo().identity != echo().reverse().identity


def test_model_of_one_direction_has_no_other():
    with pytest.raises(UserError, match="translates en to it only: .* train with --bidirectional"):
        echo(is_bidirectional=False).reverse()


def test_commands_use_the_other_direction(both: Path):
    flags = ["--model_folder", str(both)]
    code, output = translate_ddp(both, "translate", *flags, "--format", "jsonl", "sun moon")
    assert code == 0
    forward = json.loads(output.splitlines()[-1])
    assert forward["source"] == "sun moon" == forward["translation"]["en"]
    words = ("translate", *flags, "--reverse", "--format", "jsonl", "MOON SUN")
    code, output = translate_ddp(both, *words)
    assert code == 0
    back = json.loads(output.splitlines()[-1])
    assert back["translation"] == {"it": "MOON SUN", "en": back["translations"][0]["text"]}


def test_written_translations_are_a_corpus(both: Path, tmp_path: Path):
    """As lines beside the input, and as jsonl: the pairs of a back-translation."""
    texts = ["MOON SUN", "FISH, TREE"]
    (tmp_path / "mono.it").write_text("".join(f"{text}\n" for text in texts))
    words = ("--model_folder", str(both), "--reverse", "--input", str(tmp_path / "mono.it"))
    for output in ("mono.en", "mono.jsonl"):
        form = "jsonl" if output.endswith("l") else "text"
        flags = ("--format", form, "--output", str(tmp_path / output))
        assert translate_ddp(both, "translate", *words, *flags)[0] == 0
    found = [
        list(read_pairs(str(tmp_path / name), ("en", "it"), SourceOptions()).read(ignore_progress))
        for name in ("mono", "mono.jsonl")
    ]
    assert [tgt for _, tgt in found[0]] == texts
    assert found[0] == found[1]


def test_other_direction_is_scored_on_the_swapped_validation_set(both: Path):
    flags = ["--model_folder", str(both)]
    lines = {
        side: Path(f"{both.parent}/valid.{side}").read_text().splitlines() for side in ("en", "it")
    }
    for option, (src, tgt) in {"--no_reverse": ("en", "it"), "--reverse": ("it", "en")}.items():
        output = both.parent / f"scores{option}.jsonl"
        code, printed = translate_ddp(both, "score", *flags, option, "--output", str(output))
        assert code == 0, printed
        found = list(map(json.loads, output.read_text().splitlines()))
        assert [pair["source"] for pair in found] == lines[src]
        assert [pair["reference"] for pair in found] == lines[tgt]
        code, validated = translate_ddp(both, "validate", *flags, option)
        assert code == 0
        total = sum(sum(pair["log_probs"]) for pair in found)
        tokens = sum(len(pair["log_probs"]) for pair in found)
        loss = float(validated.split("loss ")[-1].split(" ")[0])
        assert loss == pytest.approx(-total / tokens, rel=1e-3)
        if option == "--no_reverse":  # as during the training
            recorded = [r["validation/loss"] for r in records(both) if "validation/loss" in r]
            assert loss == pytest.approx(recorded[-1], rel=1e-3)


def test_info_names_both_directions(both: Path):
    assert "en to it, both directions" in translate_ddp(both, "info", str(both))[1]


def test_model_of_one_direction_rejects_reverse(trained: Path, tmp_path: Path):
    words = ("translate", "--model_folder", str(trained), "--reverse", "sun")
    code, output = translate_ddp(tmp_path, *words)
    assert code == 2 and "error: The model translates en to it only" in output


def test_reverse_needs_a_model(tmp_path: Path):
    words = ("--hypothesis", "a", "--source", "b", "--lang_src", "en", "--lang_tgt", "it")
    code, output = translate_ddp(tmp_path, "validate", "--reverse", *words)
    assert code == 2 and "--reverse is for models" in output
