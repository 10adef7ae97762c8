"""Several directions of translation in one corpus: which pairs they have, and what they share."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.corpora import read_corpus, write
from translate_ddp.data.corpus import clean_corpus
from translate_ddp.data.dataset import PreparedData, load_prepared
from translate_ddp.data.identifier import Identifier
from translate_ddp.data.preparation import prepare
from translate_ddp.data.tagged_corpus import TaggedCorpus
from translate_ddp.data.tokenizer import ExtraTokens
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig, TokenizerConfig

Pair = tuple[str, str]
TAGS = ExtraTokens((">>de<<", ">>fr<<"))
VALIDATION = {"de": [("held out", "zurückgehalten")], "fr": [("spared", "épargné")]}


def numbered(language: str, count: int = 8, first: int = 0) -> list[Pair]:
    return [(f"{language} source {n}", f"{language} target {n}") for n in range(first, count)]


def write_pairs(folder: Path, name: str, of: dict[str, list[Pair]], src: str = "en") -> str:
    """A table for each target language, as en-de.train.tsv; the name of all of them."""
    for tgt, pairs in of.items():
        rows = [(src, tgt), *pairs]
        write(folder / f"{src}-{tgt}.{name}.tsv", "".join(f"{a}\t{b}\n" for a, b in rows))
    return str(folder / f"{src}-{{tgt}}.{name}.tsv")


def config_of(folder: Path, train: dict[str, list[Pair]], **settings: Any) -> CorpusConfig:
    """Directions out of English, each with a validation set of its own."""
    given: dict[str, Any] = {
        "dataset": (write_pairs(folder, "train", train),),
        "validation": write_pairs(folder, "dev", {tgt: VALIDATION[tgt] for tgt in VALIDATION}),
        "lang_tgt": ("de", "fr"),
    }
    return CorpusConfig(**given | settings)


def prepared(config: CorpusConfig, folder: Path, vocab_size: int = 300) -> PreparedData:
    tokenizer = TokenizerConfig(vocab_size=vocab_size)
    return load_prepared(prepare(config, tokenizer, 60, folder / "data", shown=False, extra=TAGS))


def test_each_direction_has_its_pairs_its_validation_and_its_tag(tmp_path: Path):
    train = {"de": numbered("de", 8), "fr": numbered("fr", 5)}
    data = prepared(config_of(tmp_path, train), tmp_path)
    size = len(data.facts.tokenizer)
    assert data.facts.directions == [("en", "de"), ("en", "fr")]
    assert data.blocks == [(0, 0, 8), (1, 0, 5)] and data.validation_sizes == [1, 1]
    assert data.validation_references == ["zurückgehalten", "épargné"]
    sources = [data.train.source[row].tolist() for row in range(13)]
    assert [ids[0] for ids in sources] == [size] * 8 + [size + 1] * 5
    texts = data.facts.tokenizer.decode([ids[1:] for ids in sources])
    assert texts == [source for source, _ in train["de"] + train["fr"]]
    assert [data.validation.source[row].tolist()[0] for row in range(2)] == [size, size + 1]
    for side in (data.train.target, data.validation.target):
        assert side.tokens.max() < size


def test_text_that_looks_like_a_tag_is_text(tmp_path: Path):
    text = ">>fr<< source"
    data = prepared(config_of(tmp_path, {"de": [(text, text)], "fr": numbered("fr")}), tmp_path)
    ids = data.train.source[0].tolist()
    assert ids[0] == len(data.facts.tokenizer) and max(ids[1:]) < len(data.facts.tokenizer)
    assert data.facts.tokenizer.decode([ids[1:]]) == [text]


def test_reverse_direction_with_pairs_of_its_own_has_only_these(tmp_path: Path):
    train = {"de": numbered("de", 4), "fr": numbered("fr", 3)}
    write_pairs(tmp_path, "train", train)
    write_pairs(tmp_path, "train", {"en": numbered("en", 5)}, src="de")
    name, two = str(tmp_path / "{src}-{tgt}.train.tsv"), (("en", "de"), ("de", "en"))
    corpus = CorpusConfig((name,), "1", directions=(*two, ("en", "fr")), bidirectional=True)
    data = prepared(corpus, tmp_path)
    assert data.facts.directions == [*two, ("en", "fr"), ("fr", "en")]
    assert [size for *_, size in data.blocks] == [3, 4, 2, 2]


def test_table_with_a_column_for_each_language_gives_every_direction(tmp_path: Path):
    rows = [{"en": f"e{n}", "de": f"d{n}", "fr": f"f{n}"} for n in range(6)]
    table = write(tmp_path / "all.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    directions = (("de", "fr"), ("fr", "en"))
    corpus = read_corpus(CorpusConfig((table,), "1", directions=directions))
    assert set(corpus.train) <= {(f"d{n}", f"f{n}") for n in range(6)} | {
        (f"f{n}", f"e{n}") for n in range(6)
    }
    # A sentence that is held out in one direction is in none of the other.
    held_out = {text for pair in corpus.validation for text in pair}
    assert len(corpus.validation) == 2 and not held_out & {t for pair in corpus.train for t in pair}


def test_combinations_without_data_are_left_out_and_named(tmp_path: Path):
    write_pairs(tmp_path, "train", {"de": numbered("de")})
    write_pairs(tmp_path, "train", {"de": numbered("fr")}, src="fr")
    name = str(tmp_path / "{src}-{tgt}.train.tsv")
    corpus = CorpusConfig((name,), "1", lang_src=("en", "fr"), lang_tgt=("de", "fr"))
    found = read_corpus(corpus)
    assert {text.split()[0] for text, _ in found.train} == {"de", "fr"}
    [notice] = [line for line in found.reports[0].notices if "No pairs of" in line]
    assert notice.startswith(f"No pairs of en-fr in {name}: There is no file")
    assert "en-fr.train.tsv" in notice


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lang_tgt": ("de", "fr", "it")}, "There is no file or folder .*en-it.train.tsv"),
        ({"directions": (("en", "de"), ("de", "fr"))}, "en-fr.train.tsv has no columns de and fr"),
        ({"validation": "{dir}/en-de.dev.tsv"}, "en-de.dev.tsv has no columns en and fr"),
        ({"exclude": ("{dir}/en-{tgt}.test.tsv",)}, "There is no file or folder .*test.tsv"),
        ({"dataset": ("{dir}/any.tsv",)}, "has the same pairs for en-de and en-fr: name its"),
    ],
)
def test_data_that_a_direction_lacks_are_one_message(
    tmp_path: Path, settings: dict[str, Any], message: str
):
    corpus = config_of(tmp_path, {"de": numbered("de"), "fr": numbered("fr")})
    write(tmp_path / "any.tsv", "src\ttgt\n" + "".join(f"a{n}\tb{n}\n" for n in range(9)))

    def filled(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{dir}", str(tmp_path))
        return tuple(map(filled, value))

    given = {name: filled(value) for name, value in settings.items()}
    with pytest.raises(UserError, match=message):
        read_corpus(replace(corpus, **given))


def test_name_of_many_languages_fits_a_folder():
    assert CorpusConfig().languages_name == "en-it"
    assert (
        CorpusConfig(lang_src=("en", "de"), lang_tgt=("de", "fr")).languages_name == "en+de-de+fr"
    )
    many = tuple(f"a{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60))
    assert CorpusConfig(lang_src=many, lang_tgt=("en",)).languages_name == "60-languages-en"


def test_no_sentence_of_any_validation_or_excluded_set_is_trained_on(tmp_path: Path):
    train = {
        "de": [*numbered("de"), ("spared", "other"), ("other", "épargné"), ("test", "x")],
        "fr": [*numbered("fr"), ("held out", "autre"), ("zurückgehalten", "y"), ("z", "Probe")],
    }
    test = write_pairs(tmp_path, "test", {"de": [("test", "Probe")]})
    found = read_corpus(config_of(tmp_path, train, exclude=(test,)))
    assert f"--exclude {test} lacks a direction: There is no" in str(found.reports[0].notices)
    assert found.train == numbered("de") + numbered("fr")
    assert found.dropped == {"also in validation": 4, "also in --exclude": 2}


def test_excluded_set_also_serves_one_direction(tmp_path: Path):
    train = {"de": [*numbered("de"), ("test", "x"), ("y", "Probe"), ("spared", "z")]}
    test = write_pairs(tmp_path, "test", {"de": [("test", "Probe")]})
    found = read_corpus(config_of(tmp_path, train, exclude=(test,), lang_tgt="de"))
    assert found.train == [*numbered("de"), ("spared", "z")]


def test_direction_without_training_pairs_is_an_error(tmp_path: Path):
    train = {"de": numbered("de"), "fr": VALIDATION["fr"]}
    with pytest.raises(UserError, match="Every usable pair of en-fr in .* also in validation or"):
        read_corpus(config_of(tmp_path, train))
    excluded = config_of(tmp_path, {"fr": numbered("fr")}, validation="1", lang_tgt="fr")
    with pytest.raises(UserError, match="Every usable pair of en-fr .* --exclude"):
        read_corpus(replace(excluded, exclude=(str(tmp_path / "en-fr.train.tsv"),)))
    long = {"de": numbered("de"), "fr": [("long " * 60, "x")]}
    with pytest.raises(UserError, match="No training pair of en-fr fits --seq_len 60"):
        prepared(config_of(tmp_path, long), tmp_path)


def test_direction_in_some_files_of_a_dataset_gives_no_pair_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("translate_ddp.data.pair_store.BATCH_PAIRS", 2)
    for name, columns in (("part-1", ["en", "de", "fr"]), ("part-2", ["en", "fr"])):
        rows = [columns, *([f"{column} {n} {name}" for column in columns] for n in range(100))]
        write(tmp_path / f"{name}.tsv", "".join("\t".join(row) + "\n" for row in rows))
    german = write(tmp_path / "german.tsv", "en\tde\nhello\thallo\nthanks\tdanke\n")
    given = (str(tmp_path / "part-*.tsv"), german)
    with pytest.raises(UserError, match="part-2.tsv has no columns de and fr"):
        read_corpus(CorpusConfig(given, "1", lang_src=("de", "en"), lang_tgt=("fr", "de")))


def test_held_out_pairs_are_a_share_of_each_direction(tmp_path: Path):
    train = {"de": numbered("de", 300), "fr": numbered("fr", 100)}
    data = prepared(config_of(tmp_path, train, validation="10%"), tmp_path)
    assert data.validation_sizes == [30, 10]
    assert [size for *_, size in data.blocks] == [270, 90]


def test_tokenizer_sees_small_languages_more_often_by_the_temperature(tmp_path: Path):
    words = {"de": "ä ö ü ß", "fr": "é è ê ç"}
    train = {
        tgt: [(f"{tgt} {n}", f"{word}{n}") for n in range(count) for word in words[tgt].split()]
        for tgt, count in (("de", 300), ("fr", 30))
    }
    corpus = config_of(tmp_path, train, clean="none")
    lines: dict[float, Counter[str]] = {}
    for temperature in (1.0, 5.0):
        settings = replace(corpus, mix_temperature=temperature)
        tagged = TaggedCorpus(clean_corpus(settings, tmp_path / "data", shown=False), settings)
        found = tagged.lines(tagged.sample(), perturb=False)
        lines[temperature] = Counter("fr" if line[0] in words["fr"] else line[0] for line in found)
    assert lines[1.0]["fr"] == 120
    # Lines of English, German and French: 1,320, 1,200 and 120.
    power = [size ** (1 / 5) for size in (1320, 1200, 120)]
    expected = 2640 * power[2] / sum(power)
    assert lines[5.0]["fr"] == pytest.approx(expected, rel=0.05)


def test_regions_of_a_language_share_their_abbreviations(tmp_path: Path):
    for region, short in (("en_US", "Sen."), ("en_GB", "Hon.")):
        pairs = [(f"We met {short} Obama in {n}.", f"Wir waren da {n}") for n in range(100, 140)]
        write_pairs(tmp_path, "train", {"de": pairs}, src=region)
    name = str(tmp_path / "{src}-{tgt}.train.tsv")
    corpus = CorpusConfig((name,), "2", lang_src=("en_US", "en_GB"), lang_tgt=("de",))
    assert prepared(corpus, tmp_path).facts.abbreviations == {"en": ["hon", "sen"]}


def test_identifier_counts_the_tokens_of_each_language(tmp_path: Path):
    train = {"de": [("a", "b b"), ("c", "b")], "fr": [("a", "d")]}
    data = prepared(config_of(tmp_path, train, clean="none"), tmp_path)
    counts_LV = np.zeros((3, len(data.facts.tokenizer)))
    ids = {letter: data.facts.tokenizer.encode([letter])[0][0] for letter in "abcd"}
    for letter, expected in {
        "a": [2, 0, 0],
        "b": [0, 3, 0],
        "c": [1, 0, 0],
        "d": [0, 0, 1],
    }.items():
        counts_LV[:, ids[letter]] = expected
    expected, found = Identifier.of(["en", "de", "fr"], counts_LV), data.facts.identifier
    assert found is not None and found.to_dict() == expected.to_dict()
