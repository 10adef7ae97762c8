"""Preparation when its files change meanwhile, or when it was interrupted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.corpora import corpus_of, numbered_pairs, write_parallel
from translate_ddp.data import corpus, preparation
from translate_ddp.data.dataset import load_prepared
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig, TokenizerConfig

SMALL = TokenizerConfig(vocab_size=300)


@pytest.fixture
def config(tmp_path: Path) -> CorpusConfig:
    return corpus_of(write_parallel(tmp_path / "train", numbered_pairs(60)))


def prepare(config: CorpusConfig, folder: Path) -> Path:
    return preparation.prepare(config, SMALL, 100, folder, shown=False)


def change(config: CorpusConfig) -> None:
    write_parallel(Path(config.dataset[0]), numbered_pairs(30))


def and_then(function: Callable[..., Any], action: Callable[[], None]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        result = function(*args)
        action()
        return result

    return call


def test_files_that_change_while_they_are_read_are_an_error(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    changed = and_then(corpus.Cleaning.run, lambda: change(config))
    with monkeypatch.context() as patch:
        patch.setattr(corpus.Cleaning, "run", changed)
        with pytest.raises(UserError, match="changed while they were read"):
            prepare(config, tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())
    assert len(load_prepared(prepare(config, tmp_path / "data")).train) == 29


def test_files_that_change_later_do_not_name_what_was_read_before(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        written = and_then(preparation._write, lambda: change(config))
        patch.setattr(preparation, "_write", written)
        assert len(load_prepared(prepare(config, tmp_path / "data")).train) == 59
    assert len(load_prepared(prepare(config, tmp_path / "data")).train) == 29


def test_the_next_start_deletes_cleaned_text_that_an_interrupted_one_has_left(
    config: CorpusConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = tmp_path / "data"
    corpus.clean_corpus(config, data, shown=False)
    change(config)
    with monkeypatch.context() as patch:
        patch.setattr(preparation, "delete_cleaned", lambda folder: None)
        prepared = prepare(config, data)
    partial = data / f".preparing-{0:032x}"  # half deleted
    partial.mkdir()
    assert len(list(data.iterdir())) == 4
    assert prepare(config, data) == prepared
    assert list(data.iterdir()) == [prepared]
