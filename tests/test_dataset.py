"""The prepared corpus: made once, found again, the same for everybody."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from translate_ddp.data.dataset import PreparedData, Ragged, load_prepared, prepare
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig, TokenizerConfig

SMALL = TokenizerConfig(vocab_size=300)


def write(prefix: Path, pairs: list[tuple[str, str]]) -> CorpusConfig:
    for side, language in enumerate(("en", "it")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        Path(f"{prefix}.{language}").write_text(text, encoding="utf-8")
    return CorpusConfig(str(prefix), str(prefix))


@pytest.fixture
def pairs() -> list[tuple[str, str]]:
    return [(f"number {n} is here", f"il numero {n} è qui") for n in range(40)]


@pytest.fixture
def config(tmp_path: Path, pairs: list[tuple[str, str]]) -> CorpusConfig:
    write(tmp_path / "train", pairs)
    write(tmp_path / "valid", [("a new one", "uno nuovo"), ("two", "due")])
    return CorpusConfig(str(tmp_path / "train"), str(tmp_path / "valid"))


def made(config: CorpusConfig, folder: Path, seq_len: int = 100) -> PreparedData:
    return load_prepared(prepare(config, SMALL, seq_len, folder))


def test_what_was_written_comes_back(
    config: CorpusConfig, tmp_path: Path, pairs: list[tuple[str, str]]
):
    data = made(config, tmp_path / "data")
    assert len(data.train) == 40 and len(data.validation) == 2
    decoded = [
        tuple(data.tokenizer.decode([ids.tolist() for ids in data.train[row]])) for row in range(40)
    ]
    assert decoded == pairs
    assert data.validation_sources == ["a new one", "two"]
    assert data.validation_references == ["uno nuovo", "due"]
    assert data.dropped == {}


def test_ids_are_mapped_into_memory_rather_than_read(config: CorpusConfig, tmp_path: Path):
    data = made(config, tmp_path / "data")
    assert isinstance(data.train.source.tokens, np.memmap)
    assert data.train.source.tokens.dtype == np.int32
    assert not data.train.source.tokens.flags.writeable


def test_a_prepared_corpus_is_found_again_without_work(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = prepare(config, SMALL, 100, tmp_path / "data")
    monkeypatch.delattr("translate_ddp.data.dataset.read_corpus")
    assert prepare(config, SMALL, 100, tmp_path / "data") == first
    assert [path.name for path in (tmp_path / "data").iterdir()] == [first.name]


def test_changed_files_and_settings_are_prepared_anew(config: CorpusConfig, tmp_path: Path):
    first = prepare(config, SMALL, 100, tmp_path / "data")
    assert prepare(config, SMALL, 99, tmp_path / "data") != first
    with open(f"{config.dataset}.en", "a") as en, open(f"{config.dataset}.it", "a") as it:
        en.write("one more\n")
        it.write("uno in più\n")
    assert prepare(config, SMALL, 100, tmp_path / "data") != first


def test_the_fingerprint_knows_every_sentence(config: CorpusConfig, tmp_path: Path):
    again = made(config, tmp_path / "elsewhere").fingerprint
    assert made(config, tmp_path / "data").fingerprint == again
    path = Path(f"{config.dataset}.it")
    path.write_text(path.read_text().replace("numero 7 è", "numero 7 era"))
    assert made(config, tmp_path / "data").fingerprint != again


def test_the_fingerprint_knows_every_token(config: CorpusConfig, tmp_path: Path):
    # With a given tokenizer nothing but one id changes, not even a length.
    given = TokenizerConfig(vocab_size=300, tokenizer_file=str(tmp_path / "tokenizer.json"))
    before = load_prepared(prepare(config, given, 100, tmp_path / "data"))
    path = Path(f"{config.dataset}.it")
    path.write_text(path.read_text().replace("numero 7 è", "numero 8 è"))
    after = load_prepared(prepare(config, given, 100, tmp_path / "data"))
    assert after.train.target.lengths.tolist() == before.train.target.lengths.tolist()
    assert after.fingerprint != before.fingerprint


def test_a_tokenizer_file_that_cannot_be_read_is_named(config: CorpusConfig, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    given = TokenizerConfig(vocab_size=300, tokenizer_file=str(tmp_path / "folder"))
    with pytest.raises(UserError, match=r"--tokenizer_file .*folder cannot be read"):
        prepare(config, given, 100, tmp_path / "data")


def test_pairs_that_do_not_fit_are_dropped_and_counted(tmp_path: Path):
    short = [("a b", "c d"), ("e f", "g h")]
    config = write(tmp_path / "train", [*short, ("word " * 50, "short"), ("short", "word " * 50)])
    valid = write(tmp_path / "valid", [("x", "y"), ("z " * 90, "z")])
    both = CorpusConfig(config.dataset, valid.dataset)
    data = load_prepared(prepare(both, SMALL, 30, tmp_path / "data"))
    assert len(data.train) == 2 and len(data.validation) == 1
    assert data.dropped == {"over 30 tokens": 3}
    assert data.validation_sources == ["x"]
    with pytest.raises(UserError, match=r"None of the 4 train pairs fits --seq_len 2"):
        prepare(both, SMALL, 2, tmp_path / "data")


def test_the_longest_pair_that_fits_is_kept(tmp_path: Path):
    # seq_len counts the end marker.
    config = write(tmp_path / "train", [("a b", "c d"), ("abcdefgh", "x"), ("abcdefghi", "y")])
    valid = write(tmp_path / "valid", [("q", "r")])
    data = load_prepared(
        prepare(CorpusConfig(config.dataset, valid.dataset), SMALL, 9, tmp_path / "data")
    )
    lengths = {len(data.train[row][0]) for row in range(len(data.train))}
    assert max(lengths) <= 8


def test_the_tokenizer_learns_from_training_alone(config: CorpusConfig, tmp_path: Path):
    data = made(config, tmp_path / "data")
    alone = train_tokenizer(
        [
            *Path(f"{config.dataset}.en").read_text().splitlines(),
            *Path(f"{config.dataset}.it").read_text().splitlines(),
        ],
        SMALL,
    )
    assert data.tokenizer.text == alone.text


def test_a_killed_preparation_leaves_nothing_that_counts(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("translate_ddp.data.dataset._publish", die)
    with pytest.raises(KeyboardInterrupt):
        prepare(config, SMALL, 100, tmp_path / "data")
    monkeypatch.undo()
    assert len(made(config, tmp_path / "data").train) == 40


def test_a_disk_that_refuses_is_named(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("translate_ddp.data.dataset.np.save", refuse)
    with pytest.raises(UserError, match="Could not write .*data: No space left on device"):
        prepare(config, SMALL, 100, tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_rows_of_any_length_fit_a_flat_array(tmp_path: Path):
    rows = [[5, 6, 7], [], [8]]
    Ragged.of(rows).save(tmp_path / "x")
    again = Ragged.open(tmp_path / "x")
    assert [again[row].tolist() for row in range(3)] == rows
    assert again.lengths.tolist() == [3, 0, 1]
