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
    EN_DE,
    corpus_error,
    corpus_of,
    error_of,
    numbered_pairs,
    read,
    read_corpus,
    write,
    write_parallel,
    write_parquet,
    write_repository,
)
from translate_ddp.data import hub_datasets
from translate_ddp.data import sources as sources_module
from translate_ddp.data.corpus import corpus_signature
from translate_ddp.data.rows import ignore_progress
from translate_ddp.data.sources import read_pairs, source_identity
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig, SourceOptions

EN_IT = ("en", "it")
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
    assert corpus.train == [("a dog", "un cane"), ("a cat", "un gatto")]
    assert corpus.validation == [("a fish", "un pesce")]
    assert corpus.dropped == {}
    corpus = read_corpus(CorpusConfig(lang_src=("it",), lang_tgt=("en",)))
    assert corpus.validation == [("un pesce", "a fish")]


@pytest.mark.usefixtures("demo")
def test_colon_selects_a_split():
    assert read("demo:test", EN_IT) == [("a bird", "un uccello")]
    corpus = read_corpus(CorpusConfig(validation="demo:test"))
    assert corpus.validation == [("a bird", "un uccello")]


@pytest.mark.usefixtures("demo")
def test_source_with_several_splits_requires_a_name():
    with pytest.raises(UserError, match="splits train, validation, test"):
        read("demo", EN_IT)
    with pytest.raises(UserError, match="no split 'dev'; it has train, validation, test"):
        read("demo:dev", EN_IT)


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
    corpus = read_corpus(corpus_of(str(folder)))
    assert corpus.train == numbered_pairs(9)
    assert corpus.validation == [("up", "auf")]


@pytest.mark.parametrize("with_readme", [True, False])
def test_copy_of_hub_dataset_is_read_in_both_directions(folder: Path, with_readme: bool):
    write_repository(folder, with_readme)
    corpus = read_corpus(corpus_of(str(folder)))
    assert corpus.train == [("one", "eins")]
    assert corpus.validation == [("up", "auf")]
    assert read(f"{folder}:train", ("de", "en")) == [("eins", "one")]
    assert read(folder, ("it", "en"))[0] == ("i0", "e0")
    assert "has no pair en-fr; it has de-en, en-it" in error_of(folder, ("en", "fr"))


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv"])
def test_copy_of_hub_dataset_is_read_as_text_and_leaves_nothing_in_caches(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
):
    # `load_dataset` keeps its own copy of all rows in HF_HOME.
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    kept = [("NA", "007"), ("", "null"), ('a "b", c', "1.50")]
    sides = (list(side) for side in zip(*kept, strict=True))
    table = datasets.Dataset.from_dict(dict(zip(("en", "de"), sides, strict=True)))
    (folder / "data").mkdir()
    save = {"parquet": table.to_parquet, "jsonl": table.to_json, "csv": table.to_csv}[ending]
    save(folder / f"data/train-00000.{ending}")
    write(folder / "README.md", README)
    rows = read_pairs(str(folder), ("en", "de"), SourceOptions())
    done: list[int] = []
    for _ in range(2):
        done.clear()
        assert list(rows.read(done.append)) == kept
        assert sum(done) == rows.size > 0
    stream = rows.read(ignore_progress)
    next(stream)
    del stream
    assert [
        path for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parents
    ] == []
    assert list(temporary.iterdir()) == []


README = """---
configs:
- config_name: default
  data_files:
  - {split: train, path: data/train-*}
---
"""


def test_error_for_folder_without_corpus_lists_its_files(folder: Path):
    write(folder / "train.fr", "un\n")
    write(folder / "notes", "x")
    assert "It holds notes, train.fr: neither train.en and train.de" in error_of(folder)


def test_folder_with_brackets_in_its_name_is_no_pattern(folder: Path):
    write_parallel(folder / "corpus[1]" / "train", numbered_pairs(3))
    assert read(folder / "corpus[1]") == numbered_pairs(3)


def test_test_set_of_a_folder_is_read_on_request_only(folder: Path):
    write_parallel(folder / "train", numbered_pairs(3))
    before = source_identity(str(folder), EN_DE, SourceOptions())
    write(folder / "test.en", "its translation is secret\n")
    assert read(folder) == numbered_pairs(3)
    assert source_identity(str(folder), EN_DE, SourceOptions()) == before
    assert f"there is only {folder / 'test.en'}" in error_of(f"{folder}:test")
    write(folder / "test.de", "it came\n")
    assert read(f"{folder}:test") == [("its translation is secret", "it came")]


def test_source_without_train_split_requires_a_name(folder: Path):
    for split in ("validation", "test"):
        write_parquet(folder / f"{split}.parquet", {"en": "one", "de": "eins"})
    text = corpus_error(folder)
    assert "has the splits " in text and "validation" in text and "test" in text


@pytest.mark.parametrize("missing", ["trian", "train.jsonl", "train.en.gz"])
def test_error_for_missing_path_lists_similar_names(folder: Path, missing: str):
    write_parallel(folder / "train", numbered_pairs(3))
    text = error_of(folder / missing)
    assert f"{folder / missing}.en" in text and "train.de" in text.partition("data holds ")[2]
    for number in range(30):
        (folder / f".a{number}").touch()
        (folder / f"Chapter {number}").touch()
    for near in (missing.title(), f'“{missing}"'):  # another case, a curly quote
        names = error_of(folder / near).partition("data holds ")[2].split(", ")
        assert {*names[:2]} == {"train.de", "train.en"} and names[2].startswith("Chapter")


def test_path_in_existing_folder_is_no_hub_dataset(folder: Path, monkeypatch: pytest.MonkeyPatch):
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
    monkeypatch.setattr(hub_datasets, "HUB_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("datasets.config.HF_ENDPOINT", url)
        assert f"{url} does not answer" in error_of("wmt/wmt14")


def test_offline_mode_sends_no_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub_datasets, "_answers", None)
    assert "HF_HUB_OFFLINE is set" in error_of("wmt/wmt14")


class Refusal(BaseHTTPRequestHandler):
    """A hub that answers and holds no dataset."""

    status = 404

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET


@pytest.mark.parametrize(
    ("status", "message"), [(404, "'wmt/wmt99' doesn't exist on the Hub"), (503, "does not answer")]
)
def test_unknown_dataset_and_a_hub_that_fails_raise(
    status: int, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Refusal, "status", status)
    with HTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(config, "HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        assert message in error_of("wmt/wmt99")
        server.shutdown()


def fill_cache(tmp_path: Path, commit: str, rows: int) -> None:
    """Add a commit of opus_books in which `rows` pairs differ from other commits."""
    cached = tmp_path / "hf_home/datasets/Helsinki-NLP___opus_books/en-it/0.0.0" / commit
    repository = write_repository(tmp_path / str(rows) / "opus_books")
    pairs = [{"en": f"e{n}", "it": f"i{n}"} for n in range(rows)]
    write_parquet(Path(repository, "data/en-it/train-0.parquet"), *pairs)
    datasets.load_dataset_builder(repository, "en-it").download_and_prepare(str(cached))


def test_cached_hub_dataset_needs_no_network(tmp_path: Path):
    # Without a hub, `load_dataset` retries for 23 s before it looks in its cache.
    fill_cache(tmp_path, "0123", 4)
    pairs = [(f"i{n}", f"e{n}") for n in range(4)]
    assert read("Helsinki-NLP/opus_books", ("it", "en")) == pairs
    assert read("opus_books", EN_IT, src_column="it", tgt_column="en") == pairs
    message = error_of("opus_books", EN_IT, src_column="id")
    assert "Helsinki-NLP/opus_books has no columns id and it, but en, it" in message


def test_revision_selects_a_commit_in_the_cache(tmp_path: Path):
    commits = {digit * 40: rows for rows, digit in enumerate("abc", 2)}
    for commit, rows in commits.items():
        fill_cache(tmp_path, commit, rows)
    for commit, rows in commits.items():
        assert len(read("opus_books", EN_IT, revision=commit)) == rows
    # A branch may be another commit now.
    message = error_of("opus_books", EN_IT, revision="main")
    assert "it is not in the cache in HF_HOME" in message and "does not answer" in message
    identities = {
        tuple(source_identity("opus_books", EN_IT, SourceOptions(revision=revision)))
        for revision in ("", "main", "a" * 40)
    }
    assert len(identities) == 3


@pytest.mark.parametrize("module", [None, object(), SimpleNamespace(Cache=lambda: None)])
def test_hub_is_used_where_the_cache_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, module: object | None
):
    # The class `Cache` is not documented: other versions of `datasets` may lack or change it.
    monkeypatch.setitem(sys.modules, "datasets.packaged_modules.cache.cache", module)
    assert "does not answer" in error_of("opus_books", ("en", "it"))
