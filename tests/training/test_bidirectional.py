"""Models that translate in both directions (`--bidirectional`), and their commands."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.states import make_facts
from translate_ddp.apps.commands.model_commands import PairsConfig, SavedModel
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs
from translate_ddp.data.tokenizer import ExtraTokens, Tokenizer, train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.settings import SourceOptions, TokenizerConfig
from translate_ddp.translator import Translator


class EchoEngine:
    """Translates each source into itself, with tags as text, so that they can be seen."""

    fingerprint = "echo"

    def __init__(self, tokenizer: Tokenizer, extra: ExtraTokens) -> None:
        self.spelled = [(i,) for i in range(len(tokenizer))] + tokenizer.encode(extra.names)

    def translate(
        self, sources: Sequence[Any], config: Any, on_done: Callable[[int], None]
    ) -> list[list[Hypothesis]]:
        self.sources = [list(source) for source in sources]
        on_done(len(sources))
        rows = [[each for i in source for each in self.spelled[i]] for source in self.sources]
        return [[Hypothesis(row, None)] for row in rows]

    def log_probs(self, sources: Sequence[Any], targets: Sequence[Any]) -> list[np.ndarray]:
        return [np.zeros(len(target) + 1) for target in targets]


def tokenizer() -> Tokenizer:
    lines = [">>it<< sun moon tree", ">>en<< sole luna albero, sole"] * 3
    return train_tokenizer(lines, TokenizerConfig(vocab_size=320))


def echo(longest: int = 59, *directions: tuple[str, str]) -> Translator:
    directions = directions or (("en", "it"), ("it", "en"))
    extra = ExtraTokens.of([tgt for _, tgt in directions] * (len(directions) > 1), ExtraTokens())
    engine: Any = EchoEngine(tokenizer(), extra)
    facts = make_facts(tokenizer(), *directions, longest_source=longest, extra=extra)
    return Translator(engine, facts)


def test_sources_have_the_tag_of_the_target_language():
    translator = echo()
    assert translator.translate(["sun. moon"]) == [">>it<< sun. >>it<< moon"]
    back = translator.to("en")
    assert (back.lang_src, back.lang_tgt) == ("it", "en")
    assert back.translate(["sole"]) == [">>en<< sole"] and back.identity != translator.identity
    assert echo(59, ("en", "it")).translate(["sun. moon"]) == ["sun. moon"]


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


MANY = (("en", "it"), ("en", "deu"), ("it", "en"), ("deu", "en"))


def test_direction_is_chosen_by_call_or_by_method():
    model = echo(59, *MANY)
    assert model.translate(["sun"], to="it") == [">>it<< sun"]
    assert model.translate(["sun"], to="de") == [">>deu<< sun"]  # one language, by another code
    assert model.translate(["sun"], source="it") == [">>en<< sun"]
    chosen = model.to("en", "deu")
    assert (chosen.lang_src, chosen.lang_tgt) == ("deu", "en")
    assert chosen.translate(["sun"], to="it", source="en") == [">>it<< sun"]


def test_error_lists_the_directions_of_a_model():
    with pytest.raises(UserError, match="does not translate from it to en, but en-it"):
        echo(59, ("en", "it")).to("en", "it")
    model = echo(59, *MANY)
    choices: list[tuple[dict[str, Any], str]] = [
        ({}, "translates en-it, en-deu, it-en, deu-en: choose one by --to and --from"),
        ({"to": "en"}, "translates it-en, deu-en: choose one"),
        ({"to": "fr"}, "does not translate to fr, but en-it, en-deu, it-en, deu-en.$"),
        ({"to": "it", "source": "de"}, "Pass --pivot en for a translation .* de-en and en-it.$"),
        ({"to": "it", "source": "en", "pivot": "deu"}, "does not translate from deu to it"),
    ]
    for choice, message in choices:
        with pytest.raises(UserError, match=message):
            model.translate(["sun"], **choice)


def test_pivot_translates_in_two_steps():
    model = echo(59, *MANY)
    done: list[int] = []
    how: Any = {"to": "it", "source": "deu", "pivot": "en", "on_done": done.append}
    assert model.translate(["sun moon"], **how) == [">>it<< >>en<< sun moon"]
    assert sum(done) == 1
    ((best,),) = model.translate(["sun"], **how, n_best=1)
    assert [each.source for each in best.sentences] == [">>en<< sun"]
    chosen = model.to("it", "deu", "en")
    assert (chosen.lang_src, chosen.lang_tgt) == ("deu", "it")
    assert len({str(each.identity) for each in (model, model.to("it"), chosen)}) == 3


@pytest.mark.slow
def test_written_translations_are_a_corpus(both: Path, tmp_path: Path):
    """As lines beside the input, and as jsonl: the pairs of a back-translation."""
    texts = ["MOON SUN", "FISH, TREE"]
    (tmp_path / "mono.it").write_text("".join(f"{text}\n" for text in texts))
    words = ("--model_folder", str(both), "--to", "en", "--input", str(tmp_path / "mono.it"))
    for output in ("mono.en", "mono.jsonl"):
        form = "jsonl" if output.endswith("l") else "text"
        flags = ("--format", form, "--output", str(tmp_path / output))
        assert translate_ddp(both, "translate", *words, *flags)[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "mono.jsonl").read_text().splitlines()]
    assert [line["translation"]["it"] for line in lines] == texts
    found = [
        list(read_pairs(str(tmp_path / name), ("en", "it"), SourceOptions()).read(ignore_progress))
        for name in ("mono", "mono.jsonl")
    ]
    assert [tgt for _, tgt in found[0]] == texts
    assert found[0] == found[1]


@pytest.mark.slow
def test_validation_without_a_direction_has_a_row_for_each_and_their_mean(
    both: Path, tmp_path: Path
):
    flags, rows = ["--model_folder", str(both)], list[list[float]]()
    for target, is_foreign in (("it", str.islower), ("en", str.isupper)):
        output = tmp_path / target
        words = ("validate", *flags, "--to", target, "--output", str(output))
        printed = translate_ddp(tmp_path, *words)[1]
        scores = re.search(r"BLEU (\S+), chrf (\S+),", printed)
        assert scores, printed
        texts = output.read_text().splitlines()
        foreign = 100 * sum(map(is_foreign, texts)) / len(texts)
        rows.append([float(scores[2]), float(scores[1]), foreign])
    rows.append([sum(column) / 2 for column in zip(*rows, strict=True)])
    printed = translate_ddp(tmp_path, "validate", *flags)[1]
    names = ("en-it, 10 sentences", "it-en, 10 sentences", "mean")
    for name, row in zip(names, rows, strict=True):
        (line,) = [each for each in printed.splitlines() if each.startswith(name)]
        assert list(map(float, line.removeprefix(name).split())) == pytest.approx(row, abs=0.01)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("{src}-{tgt}", {}),
        ("en-it.{src}", {"reference": "en-it.{tgt}"}),
        ("{src}-{tgt}.{src}", {"reference": "{src}-{tgt}.{tgt}"}),
        ("{src}-{tgt}.tsv", {}),
        ("{src}-{tgt}.csv", {}),
        ("en-it.it", {"reference": "en-it.en"}),
    ],
)
def test_pairs_of_a_swapped_direction_are_found(
    both: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    options: Any,
):
    Path(tmp_path, "en-it.csv").write_text("Italian,English\nil cane,the dog\n")
    for ending, text in (("en", "the dog"), ("it", "il cane"), ("tsv", "the dog\til cane")):
        Path(tmp_path, f"en-it.{ending}").write_text(f"{text}\n")
    monkeypatch.chdir(tmp_path)
    model, config, saved = Translator.open(str(both)), PairsConfig(source, **options), SavedModel()
    swapped = config.read_for(model.to("en"), saved)
    assert swapped == (["il cane"], ["the dog"], model.to("en").direction)
    columns = PairsConfig("{src}-{tgt}.csv", src_column="Italian", tgt_column="English")
    with pytest.raises(UserError, match="it-en: name one file, as --source"):
        columns.read_for(model.to("en"), saved)
    if "{" in source:  # otherwise the user has chosen the files
        assert config.read_for(model.to("it"), saved)[:2] == (swapped[1], swapped[0])


def test_glossary_is_for_one_direction(both: Path, tmp_path: Path):
    (tmp_path / "terms.tsv").write_text("en\tit\nsun\tmulta\n")
    flags = ("--model_folder", str(both), "--glossary", str(tmp_path / "terms.tsv"))
    code, printed = translate_ddp(tmp_path, "validate", *flags)
    assert code == 0 and " terms of the sources are in " in printed and "it-en" not in printed
    pytest.importorskip("starlette")
    code, printed = translate_ddp(tmp_path, "serve", "--port", "0", *flags)
    assert code == 2 and "--glossary is for models of one direction" in printed


def test_info_names_both_directions_and_their_tags(both: Path):
    output = translate_ddp(both, "info", str(both))[1]
    assert "en to it, it to en" in output and ">>it<< >>en<<" in output
    assert ", the mean of 2 directions" in output
