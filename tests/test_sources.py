"""What the name of a source selects: the demo, a split, a folder or a dataset of the hub."""

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
from datasets import config

from tests.helpers.corpora import (
    error_of,
    numbered_pairs,
    pairs_of,
    write,
    write_parallel,
    write_parquet,
    write_repository,
)
from translate_ddp.data import huggingface
from translate_ddp.data import sources as sources_module
from translate_ddp.data.corpus import corpus_signature, read_corpus, read_pairs
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig

pytestmark = pytest.mark.usefixtures("folder")  # an empty cache, and no hub


@pytest.fixture
def demo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "train\ta dog\tun cane\ntrain\ta cat\tun gatto\n"
    rows += "validation\ta fish\tun pesce\ntest\ta bird\tun uccello\n"
    file = write(folder / "demo.tsv", f"split\ten\tit\n{rows}")
    monkeypatch.setattr(sources_module, "DEMO", Path(file))


@pytest.mark.usefixtures("demo")
def test_demo_is_default_in_both_directions_with_validation_split():
    corpus = read_corpus(CorpusConfig())
    assert pairs_of(corpus.train) == [("a dog", "un cane"), ("a cat", "un gatto")]
    assert pairs_of(corpus.validation) == [("a fish", "un pesce")]
    assert corpus.dropped == {}
    corpus = read_corpus(CorpusConfig(lang_src="it", lang_tgt="en"))
    assert pairs_of(corpus.validation) == [("un pesce", "a fish")]


@pytest.mark.usefixtures("demo")
def test_colon_selects_a_split():
    assert pairs_of(read_pairs("demo:test", "en", "it")) == [("a bird", "un uccello")]
    corpus = read_corpus(CorpusConfig(validation="demo:test"))
    assert pairs_of(corpus.validation) == [("a bird", "un uccello")]


@pytest.mark.usefixtures("demo")
def test_source_with_several_splits_requires_a_name():
    with pytest.raises(UserError, match="splits train, validation, test"):
        read_pairs("demo", "en", "it")
    with pytest.raises(UserError, match="no split 'dev'; it has train, validation, test"):
        read_pairs("demo:dev", "en", "it")


def test_error_for_other_languages_names_those_of_demo():
    assert "en-it or it-en" in error_of("demo")


def test_signature_of_demo_changes_with_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sources_module, "DEMO", tmp_path / "demo.tsv")
    signatures = set()
    for row in ("train\ta dog\tun cane", "train\ta cat\tun gatto"):
        write(tmp_path / "demo.tsv", f"split\ten\tit\n{row}\n")
        signatures.add(corpus_signature(CorpusConfig()))
    assert len(signatures) == 2


def test_folder_with_train_and_val_gives_both_splits(folder: Path):
    write_parallel(folder / "train", numbered_pairs(9))
    write(folder / "val.tsv", "en\tde\nup\tauf\n")
    corpus = read_corpus(CorpusConfig(str(folder), "", "en", "de"))
    assert pairs_of(corpus.train) == numbered_pairs(9)
    assert pairs_of(corpus.validation) == [("up", "auf")]


@pytest.mark.parametrize("with_readme", [True, False])
def test_copy_of_hub_dataset_is_read_in_both_directions(folder: Path, with_readme: bool):
    write_repository(folder, with_readme)
    corpus = read_corpus(CorpusConfig(str(folder), "", "en", "de"))
    assert pairs_of(corpus.train) == [("one", "eins")]
    assert pairs_of(corpus.validation) == [("up", "auf")]
    assert pairs_of(read_pairs(f"{folder}:train", "de", "en")) == [("eins", "one")]
    assert pairs_of(read_pairs(str(folder), "it", "en"))[0] == ("i0", "e0")
    assert "has no pair en-fr; it has de-en, en-it" in error_of(folder, ("en", "fr"))


def test_error_for_folder_without_corpus_lists_its_files(folder: Path):
    write(folder / "train.fr", "un\n")
    write(folder / "notes", "x")
    assert "It holds notes, train.fr: neither train.en and train.de" in error_of(folder)


def test_source_without_train_split_requires_a_name(folder: Path):
    for split in ("validation", "test"):
        write_parquet(folder / f"{split}.parquet", {"en": "one", "de": "eins"})
    text = error_of(folder)
    assert "has the splits " in text and "validation" in text and "test" in text


@pytest.mark.parametrize("missing", ["trian", "train.jsonl", "train.en.gz"])
def test_error_for_missing_path_lists_similar_names(folder: Path, missing: str):
    write_parallel(folder / "train", numbered_pairs(3))
    text = error_of(folder / missing)
    assert f"{folder / missing}.en" in text and "train.de" in text.partition("data holds ")[2]


def test_path_in_existing_folder_is_not_a_hub_dataset(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write_parallel(folder / "train", numbered_pairs(3))
    monkeypatch.chdir(folder.parent)
    assert "no file or folder data/valid" in error_of("data/valid")
    assert "no folder elsewhere" in error_of("elsewhere/train.tsv")


def test_error_for_unreachable_hub_gives_three_ways_out():
    text = error_of("opus_books", ("en", "it"))
    assert "Helsinki-NLP/opus_books" in text and f"{config.HF_ENDPOINT} does not answer" in text
    assert "HF_HUB_OFFLINE=1" in text and "hf download" in text and "files of your own" in text


def test_silent_hub_times_out(monkeypatch: pytest.MonkeyPatch):
    # Behind a firewall that drops packets, `load_dataset` hangs for minutes.
    monkeypatch.setattr(huggingface, "HUB_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("datasets.config.HF_ENDPOINT", url)
        assert f"{url} does not answer" in error_of("wmt/wmt14")


def test_offline_mode_sends_no_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface, "_answers", None)
    assert "HF_HUB_OFFLINE is set" in error_of("wmt/wmt14")


class NothingFound(BaseHTTPRequestHandler):
    """A hub that answers and holds no dataset."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET


def test_unknown_hub_dataset_raises(monkeypatch: pytest.MonkeyPatch):
    with HTTPServer(("127.0.0.1", 0), NothingFound) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(config, "HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        assert "'wmt/wmt99' doesn't exist on the Hub" in error_of("wmt/wmt99")
        server.shutdown()


def test_cached_hub_dataset_needs_no_network(tmp_path: Path):
    # Without a hub, `load_dataset` retries for 23 s before it looks in its cache.
    cached = tmp_path / "hf_home/datasets/Helsinki-NLP___opus_books/en-it/0.0.0/0123"
    builder = datasets.load_dataset_builder(write_repository(tmp_path / "opus_books"), "en-it")
    builder.download_and_prepare(str(cached))
    pairs = read_pairs("Helsinki-NLP/opus_books", "it", "en")
    assert pairs_of(pairs) == [(f"i{n}", f"e{n}") for n in range(4)]


@pytest.mark.parametrize("module", [None, object(), SimpleNamespace(Cache=lambda: None)])
def test_hub_is_used_where_the_cache_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, module: object | None
):
    # The class `Cache` is not documented: other versions of `datasets` may lack or change it.
    monkeypatch.setitem(sys.modules, "datasets.packaged_modules.cache.cache", module)
    assert "does not answer" in error_of("opus_books", ("en", "it"))
