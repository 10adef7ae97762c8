"""The prepared corpus: what it holds, when it is reused, and its fingerprint."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.corpora import corpus_of, write_parallel
from translate_ddp.data import pair_store
from translate_ddp.data.dataset import PreparedData, load_prepared
from translate_ddp.data.preparation import longest_source, prepare
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig, TokenizerConfig

Pairs = list[tuple[str, str]]
SMALL = TokenizerConfig(vocab_size=300)


def write_corpus(folder: Path, train: Pairs, validation: Pairs) -> CorpusConfig:
    train_prefix = write_parallel(folder / "train", train)
    return corpus_of(train_prefix, write_parallel(folder / "valid", validation))


@pytest.fixture
def pairs() -> Pairs:
    return [(f"number {n} is here", f"il numero {n} è qui") for n in range(40)]


@pytest.fixture
def config(tmp_path: Path, pairs: Pairs) -> CorpusConfig:
    return write_corpus(tmp_path, pairs, [("a new one", "uno nuovo"), ("two", "due")])


def prepare_and_load(config: CorpusConfig, folder: Path, seq_len: int = 100) -> PreparedData:
    return load_prepared(prepare(config, SMALL, seq_len, folder))


def test_prepared_data_equals_the_corpus_and_is_memory_mapped(
    config: CorpusConfig, tmp_path: Path, pairs: Pairs
):
    data = prepare_and_load(config, tmp_path / "data")
    assert len(data.train) == 40 and len(data.validation) == 2
    for own, side in enumerate((data.train.source, data.train.target)):
        texts = data.facts.tokenizer.decode([side[row].tolist() for row in range(40)])
        assert texts == [pair[own] for pair in pairs]
    assert data.validation_sources == ["a new one", "two"]
    assert data.validation_references == ["uno nuovo", "due"]
    assert data.dropped == {}
    tokens = data.train.source.tokens
    assert isinstance(tokens, np.memmap) and tokens.dtype == np.int32 and not tokens.flags.writeable


def test_longest_source_is_that_of_all_but_one_in_a_thousand(tmp_path: Path):
    data = prepare_and_load(write_corpus(tmp_path, [("a", "b")], [("c", "d")]), tmp_path / "data")
    assert longest_source(np.array([30] * 1998 + [90, 99])) == 30
    assert longest_source(np.array([30] * 1997 + [90, 90, 99])) == 90
    assert longest_source(np.array([30, 40])) == 40
    assert longest_source(np.array([3] * 2000)) == data.facts.longest_source == 20


def test_abbreviations_of_each_source_language_are_learnt(tmp_path: Path):
    pairs = [
        (f"We met Sen. Obama in {n}.", f"Wir sahen Abg. Obama in {n}.") for n in range(100, 140)
    ]
    config = replace(
        write_corpus(tmp_path, pairs, [("a new one", "ein neues")]),
        bidirectional=True,
        lang_src="en_US",
        src_column="en",
    )
    for side in ("train", "valid"):
        (tmp_path / f"{side}.en").rename(tmp_path / f"{side}.en_US")
    data = prepare_and_load(config, tmp_path / "data")
    assert data.facts.abbreviations == {"en": ["sen"], "de": ["abg"]}


def test_a_batch_of_stored_rows_may_have_no_training_pair(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pair_store, "BATCH_PAIRS", len(pairs))
    # As of a file that was appended to itself.
    config = write_corpus(tmp_path, pairs * 2, [("a new one", "uno nuovo")])
    assert len(prepare_and_load(config, tmp_path / "data").train) == len(pairs)


def test_prepared_corpus_is_reused_until_files_or_settings_change(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = prepare(config, SMALL, 100, tmp_path / "data")
    with monkeypatch.context() as patched:
        patched.delattr("translate_ddp.data.preparation.clean_corpus")
        assert prepare(config, SMALL, 100, tmp_path / "data") == first
    assert [path.name for path in (tmp_path / "data").iterdir()] == [first.name]
    assert prepare(config, SMALL, 99, tmp_path / "data") != first
    write_parallel(Path(config.dataset[0]), [("one", "uno"), ("one more", "uno in più")])
    assert prepare(config, SMALL, 100, tmp_path / "data") != first


def test_folder_with_a_known_tokenizer_is_found_whatever_the_settings(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data, gone = tmp_path / "data", str(tmp_path / "gone.model")
    first = prepare(config, SMALL, 100, data)
    texts = load_prepared(first).facts.tokenizer.text, train_tokenizer(["a b a b"], SMALL).text
    second = prepare(config, SMALL, 100, data, text=texts[1])
    assert load_prepared(second).facts.tokenizer.text == texts[1]
    monkeypatch.delattr("translate_ddp.data.preparation.clean_corpus")
    for settings in (SMALL, TokenizerConfig("word", 999), TokenizerConfig(tokenizer_file=gone)):
        found = [prepare(config, settings, 100, data, text=text) for text in texts]
        assert found == [first, second]
    assert prepare(config, SMALL, 100, data) == first  # which another run has not changed


def test_tokenizer_file_is_written_again_if_it_is_gone(config: CorpusConfig, tmp_path: Path):
    file = tmp_path / "tokenizer.json"
    given = TokenizerConfig(vocab_size=300, tokenizer_file=str(file))
    for _ in range(2):
        prepared = prepare(config, given, 100, tmp_path / "data")
        assert prepare(config, given, 100, tmp_path / "data") == prepared
        assert file.read_text() == load_prepared(prepared).facts.tokenizer.text
        file.unlink()


def test_fingerprint_changes_with_any_token(config: CorpusConfig, tmp_path: Path):
    # With the same tokenizer, one id changes and no length does.
    given = TokenizerConfig(vocab_size=300, tokenizer_file=str(tmp_path / "tokenizer.json"))
    before = load_prepared(prepare(config, given, 100, tmp_path / "data"))
    again = load_prepared(prepare(config, given, 100, tmp_path / "elsewhere"))
    assert again.fingerprint == before.fingerprint
    path = Path(f"{config.dataset[0]}.de")
    path.write_text(path.read_text().replace("numero 7 è", "numero 8 è"))
    after = load_prepared(prepare(config, given, 100, tmp_path / "data"))
    assert after.train.target.lengths.tolist() == before.train.target.lengths.tolist()
    assert after.fingerprint != before.fingerprint


def test_error_for_unreadable_tokenizer_file_names_it(config: CorpusConfig, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    given = TokenizerConfig(vocab_size=300, tokenizer_file=str(tmp_path / "folder"))
    with pytest.raises(UserError, match=r"--tokenizer_file .*folder cannot be read: Is a dir"):
        prepare(config, given, 100, tmp_path / "data")


def test_pairs_over_seq_len_are_dropped_and_counted(tmp_path: Path):
    short = [("a b", "c d"), ("e f", "g h")]
    train = [*short, ("word " * 50, "short"), ("short", "word " * 50)]
    validation = [("x", "y"), ("z " * 90, "z"), ("v", "w"), ("u", "t " * 90), ("s", "r")]
    config = write_corpus(tmp_path, train, validation)
    data = prepare_and_load(config, tmp_path / "data", seq_len=30)
    assert len(data.train) == 2 and data.dropped == {
        "over 30 tokens": 2,
        "over 30 tokens in validation": 2,
    }
    assert data.validation_sources == ["x", "v", "s"]
    assert data.validation_references == ["y", "w", "r"]
    for side, texts in (
        (data.validation.source, data.validation_sources),
        (data.validation.target, data.validation_references),
    ):
        ids = [side[row].tolist() for row in range(len(side))]
        assert data.facts.tokenizer.decode(ids) == texts
    with pytest.raises(UserError, match="No training pair of en-de fits --seq_len 2"):
        prepare(config, SMALL, 2, tmp_path / "data")


def test_replaced_tokenizer_file_is_used(config: CorpusConfig, tmp_path: Path, pairs: Pairs):
    file = tmp_path / "tokenizer.json"
    given = TokenizerConfig(vocab_size=300, tokenizer_file=str(file))
    before = prepare(config, given, 100, tmp_path / "data")
    other = train_tokenizer([source for source, _ in pairs] * 2, TokenizerConfig(vocab_size=320))
    file.write_text(other.text)
    after = prepare(config, given, 100, tmp_path / "data")
    assert after != before and load_prepared(after).facts.tokenizer.text == other.text


def test_tokenizer_is_trained_on_training_pairs_only(
    config: CorpusConfig, tmp_path: Path, pairs: Pairs
):
    data = prepare_and_load(config, tmp_path / "data")
    assert data.facts.tokenizer.text == train_tokenizer([*sum(pairs, ())], SMALL).text


def test_tokenizer_learns_upper_case_with_perturbed_sources(config: CorpusConfig, tmp_path: Path):
    pairs = [(f"number {n} is here", f"il numero {n} è qui") for n in range(400)]
    write_parallel(Path(config.dataset[0]), pairs)
    tokenizer, data = TokenizerConfig(vocab_size=400), tmp_path / "data"
    configs = [replace(config, perturb=is_perturbed) for is_perturbed in (False, True)]
    folders = [prepare(each, tokenizer, 100, data) for each in configs]
    plain, perturbed = (load_prepared(folder).facts.tokenizer for folder in folders)
    assert folders[0] != folders[1]
    assert folders[0] == prepare(config, tokenizer, 100, data)
    lengths = [len(t.encode(["NUMBER 7 IS HERE"])[0]) for t in (plain, perturbed)]
    assert lengths[0] > 10 and lengths[1] < 8


def test_error_for_full_disk_names_the_folder(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("translate_ddp.data.preparation.SyncedFile.write", refuse)
    with pytest.raises(UserError, match="Could not write .*data: No space left on device"):
        prepare(config, SMALL, 100, tmp_path / "data")
    assert not list((tmp_path / "data").glob(".preparing-*"))


def test_length_ratios_are_the_median_and_what_one_pair_in_a_thousand_exceeds(
    config: CorpusConfig, tmp_path: Path
):
    data = prepare_and_load(config, tmp_path / "data")
    source, target = data.train.source.lengths, data.train.target.lengths
    ((name, ratios),) = data.facts.length_ratios.items()
    assert name == "en-de" and ratios.median == pytest.approx(np.median(target / source))
    *_, second, largest = sorted(target / (source + 10))
    assert second < ratios.most <= largest * 1.001
