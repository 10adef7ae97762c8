import gzip
import json
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import datasets
import pytest

from translate_ddp.data import corpus as corpus_module
from translate_ddp.data import huggingface as hub_module
from translate_ddp.data import sources as sources_module
from translate_ddp.data.corpus import Corpus, corpus_signature, read_corpus, read_pairs
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig

REFUSING = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _caches_of_its_own_and_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = tmp_path / "hf_home"
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", cache / "datasets")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache / "hub"))
    monkeypatch.setattr("datasets.config.HF_ENDPOINT", REFUSING)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write(path: Path, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def write_parallel(prefix: Path, pairs: list[tuple[str, str]]) -> str:
    for side, language in enumerate(("en", "de")):
        write(Path(f"{prefix}.{language}"), "".join(f"{pair[side]}\n" for pair in pairs))
    return str(prefix)


def write_parquet(path: Path, *translations: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    features = datasets.Features({"translation": datasets.Translation(sorted(translations[0]))})
    table = datasets.Dataset.from_dict({"translation": list(translations)}, features=features)
    table.to_parquet(path)


def pairs_of(table: datasets.Dataset) -> list[tuple[str | None, str | None]]:
    assert table.features == datasets.Features(
        src=datasets.Value("string"), tgt=datasets.Value("string")
    )
    return list(zip(table["src"], table["tgt"], strict=True))


def read(source: Path | str) -> list[tuple[str | None, str | None]]:
    return pairs_of(read_pairs(str(source), "en", "de"))


def complaint(source: Path | str, languages: tuple[str, str] = ("en", "de")) -> str:
    with pytest.raises(UserError) as raised:
        read_corpus(CorpusConfig(str(source), "", *languages))
    return str(raised.value)


def numbered(count: int) -> list[tuple[str, str]]:
    return [(f"source {number}", f"target {number}") for number in range(count)]


# ---- Settings ----


@pytest.mark.parametrize("code", ["en", "pt_BR", "zh-Hans", "ckb", "sr-Latn-RS"])
def test_language_codes_of_every_common_form_are_accepted(code: str):
    assert CorpusConfig(lang_src=code, lang_tgt="fi").lang_src == code


@pytest.mark.parametrize("code", ["", "e", "en/de", "../en", "en-", "e n", "en\n"])
def test_a_language_that_could_not_be_part_of_a_file_name_is_refused(code: str):
    with pytest.raises(ValueError, match="no language code"):
        CorpusConfig(lang_tgt=code)


def test_a_language_is_not_translated_into_itself():
    with pytest.raises(ValueError, match="must differ"):
        CorpusConfig(lang_src="it", lang_tgt="it")


def test_settings_are_read_without_waiting_for_the_datasets_library():
    code = "import sys, translate_ddp.data.corpus; sys.exit('datasets' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)


# ---- The demo ----


@pytest.fixture
def demo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "train\ta dog\tun cane\ntrain\ta cat\tun gatto\n"
    rows += "validation\ta fish\tun pesce\ntest\ta bird\tun uccello\n"
    monkeypatch.setattr(sources_module, "DEMO", folder / "demo.tsv")
    write(folder / "demo.tsv", f"split\ten\tit\n{rows}")


@pytest.mark.usefixtures("demo")
def test_the_demo_is_the_default_and_brings_its_own_validation():
    corpus = read_corpus(CorpusConfig())
    assert pairs_of(corpus.train) == [("a dog", "un cane"), ("a cat", "un gatto")]
    assert pairs_of(corpus.validation) == [("a fish", "un pesce")]
    assert corpus.dropped == {}


@pytest.mark.usefixtures("demo")
def test_the_demo_serves_the_other_direction():
    corpus = read_corpus(CorpusConfig(lang_src="it", lang_tgt="en"))
    assert pairs_of(corpus.validation) == [("un pesce", "a fish")]


@pytest.mark.usefixtures("demo")
def test_a_split_is_named_after_a_colon():
    assert pairs_of(read_pairs("demo:test", "en", "it")) == [("a bird", "un uccello")]
    corpus = read_corpus(CorpusConfig(validation="demo:test"))
    assert pairs_of(corpus.validation) == [("a bird", "un uccello")]


@pytest.mark.usefixtures("demo")
def test_a_source_of_several_splits_is_not_guessed_from():
    with pytest.raises(UserError, match="splits train, validation, test"):
        read_pairs("demo", "en", "it")
    with pytest.raises(UserError, match="no split 'dev'; it has train, validation, test"):
        read_pairs("demo:dev", "en", "it")


def test_the_demo_names_its_languages_when_asked_for_others():
    assert "en-it or it-en" in complaint("demo")


# ---- Parallel text ----


def test_parallel_text_is_read_by_its_common_start_plain_or_compressed(folder: Path):
    write(folder / "train.en.gz", "one\ntwo\n")
    write(folder / "train.de", "eins\nzwei\n")
    assert read(folder / "train") == [("one", "eins"), ("two", "zwei")]


def test_a_blank_line_keeps_its_place_so_that_the_rest_stays_aligned(folder: Path):
    write(folder / "train.en", "one\n\nthree\nfour\n")
    write(folder / "train.de", "eins\nzwei\ndrei\nvier\n")
    corpus = read_corpus(CorpusConfig(str(folder / "train"), "", "en", "de"))
    both = pairs_of(corpus.train) + pairs_of(corpus.validation)
    assert sorted(both) == [("four", "vier"), ("one", "eins"), ("three", "drei")]
    assert corpus.dropped == {"empty": 1}


def test_only_line_ends_end_a_line(folder: Path):
    # str.splitlines would also break at these, and shift all that follows on one side only.
    write(folder / "train.en", "a\x85b\u2028c\x0cd\ne\n")
    write(folder / "train.de", "a\nb\n")
    assert len(read(folder / "train")) == 2


def test_parallel_files_of_unequal_length_are_named_with_their_counts(folder: Path):
    write(folder / "train.en", "one\ntwo\nthree\n")
    write(folder / "train.de", "eins\nzwei\n")
    text = complaint(folder / "train")
    assert "train.en has 3 lines" in text and "train.de 2" in text


def test_a_missing_side_of_parallel_text_is_named(folder: Path):
    write(folder / "train.en", "one\n")
    assert "only" in complaint(folder / "train") and "train.en" in complaint(folder / "train")


def test_a_side_given_for_the_common_start_is_told_what_to_give(folder: Path):
    write_parallel(folder / "train", numbered(3))
    assert f"such as {folder / 'train'}." in complaint(folder / "train.en")


# ---- One file ----

TWO = [("one", "eins"), ("two", "zwei")]
FILES = {
    "nested.jsonl": '{"translation": {"en": "one", "de": "eins"}, "id": 1}\n'
    '{"translation": {"en": "two", "de": "zwei"}, "id": 2}\n',
    "named.jsonl.gz": '{"de": "eins", "en": "one"}\n{"de": "zwei", "en": "two"}\n',
    "sides.json": '[{"src": "one", "tgt": "eins"}, {"src": "two", "tgt": "zwei"}]',
    "header.tsv": "id\tde\ten\n1\teins\tone\n2\tzwei\ttwo\n",
    "sides.tsv.gz": "tgt\tsrc\neins\tone\nzwei\ttwo\n",
    "headless.tsv": "one\teins\ntwo\tzwei\n",
    "header.csv.gz": '"en","de"\n"one",eins\ntwo,"zwei"\n',
    "headless.csv": "one,eins\ntwo,zwei\n",
    "byte_order_mark.csv": "\ufeffen,de\none,eins\ntwo,zwei\n",
    "odd[name].tsv": "en\tde\none\teins\ntwo\tzwei\n",
}


@pytest.mark.parametrize("name", FILES)
def test_one_file_of_any_kind_gives_the_same_pairs(folder: Path, name: str):
    assert read(write(folder / name, FILES[name])) == TWO


def test_parquet_is_read_in_either_direction(folder: Path):
    write_parquet(folder / "x.parquet", *({"en": en, "de": de} for en, de in TWO))
    assert read(folder / "x.parquet") == TWO
    reverse = read_pairs(str(folder / "x.parquet"), "de", "en")
    assert pairs_of(reverse) == [(de, en) for en, de in TWO]


@pytest.mark.parametrize("header", ["en\tde\n", ""])
@pytest.mark.parametrize(
    "pairs", [[("NA", "null"), ("None", "nan"), ("true", "-")], [("12", "0.50"), ("007", "1e5")]]
)
def test_words_that_look_like_nothing_or_numbers_stay_text(
    folder: Path, header: str, pairs: list[tuple[str | None, str | None]]
):
    rows = header + "".join(f"{en}\t{de}\n" for en, de in pairs)
    assert read(write(folder / "x.tsv", rows)) == pairs
    assert read(write(folder / "x.csv", rows.replace("\t", ","))) == pairs


def test_a_quote_is_a_character_in_tsv_and_a_quote_in_csv(folder: Path):
    tsv = write(folder / "x.tsv", 'en\tde\n"a\tb\n"c" d\te"\n')
    assert read(tsv) == [('"a', "b"), ('"c" d', 'e"')]
    csv = write(folder / "x.csv", 'en,de\n"a, ""b""","c\nd"\n')
    assert read(csv) == [('a, "b"', "c\nd")]


@pytest.mark.parametrize("line", [2, 3])
def test_a_row_with_too_many_fields_is_named_by_its_line(folder: Path, line: int):
    # In the row after the header pandas took the first field for a row label: ("b", "c"), no error.
    rows = ["en\tde", "a\tb", "d\te"]
    rows[line - 1] += "\tc"
    text = complaint(write(folder / "x.tsv", "\n".join(rows) + "\n"))
    assert f"Expected 2 fields in line {line}, saw 3" in text


def test_rows_without_text_on_both_sides_are_counted_not_guessed(folder: Path):
    rows = [{"en": f"s{n}", "de": f"t{n}"} for n in range(3)]
    rows += [{"en": 5, "de": "five"}, {"en": None, "de": "none"}, {"de": "missing"}]
    nested = "".join(json.dumps({"translation": row}) + "\n" for row in rows)
    flat = "".join(json.dumps(row) + "\n" for row in rows)
    for source in (write(folder / "nested.jsonl", nested), write(folder / "flat.jsonl", flat)):
        assert read(source)[2:] == [("s2", "t2"), (None, "five"), (None, "none"), (None, "missing")]
        corpus = read_corpus(CorpusConfig(source, "", "en", "de"))
        assert corpus.dropped == {"not text": 3}


def test_a_column_of_numbers_is_not_text(folder: Path):
    source = write(folder / "x.jsonl", '{"en": 1, "de": "eins"}\n')
    assert complaint(source).endswith("has 0 usable pairs of 1: 1 not text.")


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("x.jsonl", '{"translation": {"fr": "un", "es": "uno"}}\n', "fr, es"),
        ("x.jsonl", '{"id": 1, "text": "one"}\n', "id, text"),
        ("x.tsv", "en\tfr\none\tun\n", "en, fr"),
        ("x.tsv", "one\teins\tun\n", "one, eins, un"),
        ("x.csv", "one\teins\n", "one\teins"),
    ],
)
def test_a_file_without_the_languages_tells_what_it_has(
    folder: Path, name: str, content: str, found: str
):
    text = complaint(write(folder / name, content))
    assert "en and de" in text and found in text


@pytest.mark.parametrize("name", ["x.jsonl", "x.tsv", "x.parquet"])
def test_an_empty_file_is_named(folder: Path, name: str):
    assert complaint(write(folder / name, "")) == f"{folder / name} is empty."


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", '{"en": "one", "de": "eins"}\n{"en": "two", "de\n'),
        ("x.parquet", "no parquet at all"),
        ("x.tsv", b"en\tde\ncaf\xe9\tx\n"),
        ("x.jsonl", b'{"en": "caf\xe9", "de": "x"}\n'),
    ],
)
def test_an_unreadable_file_is_named(folder: Path, name: str, content: str | bytes):
    text = complaint(write(folder / name, content))
    assert text.startswith(str(folder / name)) and "cannot be read: " in text


def test_a_compressed_file_cut_short_is_named(folder: Path):
    write(folder / "x.tsv.gz", "".join(f"{number}\tx\n" for number in range(9999)))
    whole = (folder / "x.tsv.gz").read_bytes()
    (folder / "x.tsv.gz").write_bytes(whole[: len(whole) // 2])
    assert "ended before the end-of-stream" in complaint(folder / "x.tsv.gz")


def test_reading_leaves_nothing_beside_the_files(folder: Path):
    write_parallel(folder / "train", numbered(9))
    write(folder / "val.jsonl.gz", '{"en": 1, "de": "a"}\n{"en": "b", "de": "b"}\n')
    before = sorted(folder.rglob("*"))
    read_corpus(CorpusConfig(str(folder / "train"), str(folder / "val.jsonl.gz"), "en", "de"))
    assert sorted(folder.rglob("*")) == before


def test_reading_local_files_asks_no_network(folder: Path, monkeypatch: pytest.MonkeyPatch):
    # The library counts every use of its readers by a request, 5 s each where no answer comes.
    asked: list[object] = []
    monkeypatch.setattr("datasets.config.HF_UPDATE_DOWNLOAD_COUNTS", True)
    monkeypatch.setattr("socket.getaddrinfo", lambda *address, **_: asked.append(address))
    write_parquet(folder / "train.parquet", {"en": "one", "de": "eins"})
    write_parallel(folder / "val", numbered(9))
    read_corpus(CorpusConfig(str(folder), str(folder / "val"), "en", "de"))
    assert asked == []


def test_a_changed_file_is_read_anew(folder: Path):
    # A cache keyed by the reading function once returned the rows of yesterday's file.
    source = write(folder / "x.jsonl", '{"en": "old", "de": "alt"}\n{"en": 5, "de": "x"}\n')
    assert read(source)[0] == ("old", "alt")
    write(folder / "x.jsonl", '{"en": "new", "de": "neu"}\n{"en": 5, "de": "x"}\n')
    assert read(source)[0] == ("new", "neu")


# ---- Folders ----


def test_a_folder_of_files_named_train_and_val_gives_both_splits(folder: Path):
    write_parallel(folder / "train", numbered(9))
    write(folder / "val.tsv", "en\tde\nup\tauf\n")
    corpus = read_corpus(CorpusConfig(str(folder), "", "en", "de"))
    assert pairs_of(corpus.train) == numbered(9)
    assert pairs_of(corpus.validation) == [("up", "auf")]


def write_repository(folder: Path, data: str = "") -> None:
    """A copy of a hub dataset with two pairs, of which German-English has a validation split."""
    en_it = [{"en": f"e{n}", "it": f"i{n}"} for n in range(4)]
    write_parquet(folder / data / "en-it/train-0.parquet", *en_it)
    write_parquet(folder / data / "de-en/train-0.parquet", {"de": "eins", "en": "one"})
    write_parquet(folder / data / "de-en/validation-0.parquet", {"de": "auf", "en": "up"})


README = """---
configs:
- config_name: de-en
  data_files:
  - {split: train, path: data/de-en/train-*}
  - {split: validation, path: data/de-en/validation-*}
- config_name: en-it
  data_files:
  - {split: train, path: data/en-it/train-*}
---
"""


@pytest.mark.parametrize("described", [True, False])
def test_a_copy_of_a_hub_dataset_is_read_in_both_directions(folder: Path, described: bool):
    if described:
        write_repository(folder, "data")
        write(folder / "README.md", README)
    else:
        write_repository(folder)
    corpus = read_corpus(CorpusConfig(str(folder), "", "en", "de"))
    assert pairs_of(corpus.train) == [("one", "eins")]
    assert pairs_of(corpus.validation) == [("up", "auf")]
    assert pairs_of(read_pairs(f"{folder}:train", "de", "en")) == [("eins", "one")]
    assert pairs_of(read_pairs(str(folder), "it", "en"))[0] == ("i0", "e0")
    assert "has no pair en-fr; it has de-en, en-it" in complaint(folder, ("en", "fr"))


def test_a_folder_without_a_corpus_tells_what_it_holds(folder: Path):
    write(folder / "train.fr", "un\n")
    write(folder / "notes", "x")
    assert "It holds notes, train.fr: neither train.en and train.de" in complaint(folder)


def test_training_data_is_not_guessed_among_other_splits(folder: Path):
    for split in ("validation", "test"):
        write_parquet(folder / f"{split}.parquet", {"en": "one", "de": "eins"})
    text = complaint(folder)
    assert "no split 'train', but" in text and "validation" in text and "test" in text


# ---- The hub ----


def test_a_hub_that_refuses_is_answered_with_three_ways_out():
    text = complaint("opus_books", ("en", "it"))
    assert "Helsinki-NLP/opus_books" in text and f"{REFUSING} does not answer" in text
    assert "HF_HUB_OFFLINE=1" in text and "hf download" in text and "files of your own" in text


def test_a_hub_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch):
    # Behind a firewall that drops packets the library itself hangs for minutes.
    monkeypatch.setattr(hub_module, "HUB_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("datasets.config.HF_ENDPOINT", url)
        assert f"{url} does not answer" in complaint("wmt/wmt14")


def test_offline_mode_asks_no_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub_module, "_answers", None)
    assert "HF_HUB_OFFLINE is set" in complaint("wmt/wmt14")


@pytest.fixture
def empty_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that answers, and knows no dataset."""

    class NothingFound(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), NothingFound) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr("datasets.config.HF_ENDPOINT", url)
        yield
        server.shutdown()


@pytest.mark.usefixtures("empty_hub")
def test_a_name_that_the_hub_does_not_know_is_told_so():
    assert "'wmt/wmt99' doesn't exist on the Hub" in complaint("wmt/wmt99")


def test_a_dataset_prepared_before_needs_no_network(tmp_path: Path):
    # With the hub out of reach the library would retry for 23 s before it looked in its cache.
    copy = tmp_path / "opus_books"
    write_repository(copy, "data")
    write(copy / "README.md", README)
    prepared = tmp_path / "hf_home/datasets/Helsinki-NLP___opus_books/en-it/0.0.0/0123"
    builder = datasets.load_dataset_builder(str(copy), "en-it")
    builder.download_and_prepare(str(prepared))
    pairs = read_pairs("Helsinki-NLP/opus_books", "it", "en")
    assert pairs_of(pairs) == [(f"i{n}", f"e{n}") for n in range(4)]


@pytest.mark.parametrize("missing", ["trian", "train.jsonl", "train.en.gz"])
def test_a_mistyped_path_is_answered_with_near_names(folder: Path, missing: str):
    write_parallel(folder / "train", numbered(3))
    text = complaint(folder / missing)
    assert f"{folder / missing}.en" in text and "train.de" in text.partition("data holds ")[2]


def test_a_path_in_a_folder_that_exists_is_not_sought_on_the_hub(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    write_parallel(folder / "train", numbered(3))
    monkeypatch.chdir(folder.parent)
    assert "no file or folder data/valid" in complaint("data/valid")
    assert "no folder elsewhere" in complaint("elsewhere/train.tsv")


# ---- Rules ----


def test_unusable_pairs_are_dropped_and_counted_by_reason(folder: Path):
    bad = [("", "leer"), ("blank", " \t"), ("nul\0", "x"), ("x", "\ufffd"), ("x" * 10_001, "y")]
    good = [("y" * 10_000, "long enough"), *numbered(5)]
    source = write_parallel(folder / "train", bad + good)
    validation = write_parallel(folder / "val", [("", "x"), ("up", "auf")])
    corpus = read_corpus(CorpusConfig(source, validation, "en", "de"))
    assert pairs_of(corpus.train) == good
    assert corpus.dropped == {"empty": 3, "invalid unicode": 2, "over 10,000 characters": 1}


def test_a_changed_rule_applies_to_files_read_before(folder: Path, monkeypatch: pytest.MonkeyPatch):
    # The cache of `map` knows a function by its name, and would answer with the old rule.
    config = CorpusConfig(write_parallel(folder / "train", numbered(20)), "", "en", "de")
    assert read_corpus(config).dropped == {}
    monkeypatch.setattr(corpus_module, "MAX_CHARACTERS", len("target 9"))
    assert read_corpus(config).dropped == {"over 8 characters": 10}


def test_kept_text_is_one_stripped_line(folder: Path):
    rows = [{"en": " a\tb\r\nc  d ", "de": "\ufeff\u3000x\u2028y\n"}, {"en": "e", "de": "f"}]
    source = write(folder / "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    validation = write_parallel(folder / "val", [("up", "auf")])
    corpus = read_corpus(CorpusConfig(source, validation, "en", "de"))
    assert pairs_of(corpus.train) == [("a b c  d", "x y"), ("e", "f")]


def test_a_pair_of_the_validation_set_never_trains(folder: Path):
    train = [("a", "1"), ("b", "2"), ("a", "1"), ("a", "another translation"), ("c ", "3")]
    source = write_parallel(folder / "train", train)
    validation = write_parallel(folder / "val", [("a", "1"), ("c", "3"), ("z", "9"), ("a", "1")])
    corpus = read_corpus(CorpusConfig(source, validation, "en", "de"))
    assert pairs_of(corpus.train) == [("b", "2"), ("a", "another translation")]
    assert pairs_of(corpus.validation) == [("a", "1"), ("c", "3"), ("z", "9")]
    assert corpus.dropped == {"also in validation": 3, "repeated in validation": 1}


def test_validating_on_all_of_the_training_data_is_refused(folder: Path):
    source = write_parallel(folder / "train", numbered(3))
    with pytest.raises(UserError, match="also in validation"):
        read_corpus(CorpusConfig(source, source, "en", "de"))


def test_a_corpus_with_nothing_usable_says_why(folder: Path):
    source = write_parallel(folder / "train", [("", "x"), ("y", ""), ("\0", "z")])
    assert complaint(source).endswith("0 usable pairs of 3: 2 empty, 1 invalid unicode.")


# ---- Splitting validation off ----


def split_of(folder: Path, pairs: list[tuple[str, str]]) -> Corpus:
    return read_corpus(CorpusConfig(write_parallel(folder / "train", pairs), "", "en", "de"))


def smallest_hashes(pairs: list[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    def key(pair: tuple[str, str]) -> tuple[bytes, tuple[str, str]]:
        return blake2b(pair[0].encode(), digest_size=8, salt=b"translate_ddp").digest(), pair

    return sorted(set(pairs), key=key)[:count]


def test_two_percent_with_the_smallest_hashes_validate(folder: Path):
    # Another choice changes every score in print and lets old checkpoints validate on pairs they
    # trained on: update this only together with a note to users.
    corpus = split_of(folder, numbered(300))
    assert pairs_of(corpus.validation) == smallest_hashes(numbered(300), 6)
    assert len(corpus.train) == 294 and corpus.dropped == {}


def test_the_split_does_not_depend_on_the_order_of_the_rows(folder: Path):
    pairs = [(f"source {number % 40}", f"target {number % 90}") for number in range(400)]
    shuffled = random.Random(0).sample(pairs, len(pairs))
    one, other = split_of(folder, pairs), split_of(folder, shuffled)
    assert pairs_of(one.validation) == pairs_of(other.validation)
    assert sorted(pairs_of(one.train)) == sorted(pairs_of(other.train))


def test_a_source_sentence_is_on_one_side_only(folder: Path):
    pairs = [(f"source {number % 30}", f"target {number % 120}") for number in range(360)]
    corpus = split_of(folder, pairs)
    validation = pairs_of(corpus.validation)
    assert validation == smallest_hashes(pairs, 7)
    assert not set(corpus.train["src"]) & set(corpus.validation["src"])
    others = 360 - len(corpus.train) - len(validation)
    assert corpus.dropped == {"also in validation": others} and others == 24 - 7


def test_at_most_two_thousand_pairs_validate(folder: Path):
    assert len(split_of(folder, numbered(110_000)).validation) == 2_000


def test_something_is_left_to_train_on_however_few_sources_there_are(folder: Path):
    (rare, _), (common, _) = smallest_hashes([("a", ""), ("b", "")], 2)
    pairs = [(rare, "1"), *((common, str(number)) for number in range(199))]
    corpus = split_of(folder, pairs)
    assert pairs_of(corpus.validation) == [(rare, "1")]
    assert len(corpus.train) == 199


def test_a_single_source_sentence_cannot_be_split(folder: Path):
    text = complaint(write_parallel(folder / "train", [("a", "1"), ("a", "2")]))
    assert "only one source sentence" in text and "--validation" in text


# ---- The signature ----


def test_the_signature_changes_with_whatever_would_be_read(folder: Path):
    source = write_parallel(folder / "train", numbered(3))
    validation = write_parallel(folder / "val", numbered(3))
    config = CorpusConfig(source, "", "en", "de")
    signatures = [
        corpus_signature(config),
        corpus_signature(CorpusConfig(source, validation, "en", "de")),
        corpus_signature(CorpusConfig(validation, source, "en", "de")),
        corpus_signature(CorpusConfig(source, "", "de", "en")),
        corpus_signature(CorpusConfig(str(folder), "", "en", "de")),
        corpus_signature(CorpusConfig(f"{folder}:train", "", "en", "de")),
    ]
    assert corpus_signature(config) == signatures[0]
    write_parallel(folder / "train", numbered(3))  # the same bytes, written later
    signatures.append(corpus_signature(config))
    assert len(set(signatures)) == len(signatures)


def test_the_signature_of_what_is_no_file_of_the_user_knows_name_and_languages():
    signatures = [
        corpus_signature(CorpusConfig(dataset, "", src, tgt))
        for dataset in ("demo", "opus_books", "wmt/wmt14")
        for src, tgt in (("en", "it"), ("it", "en"))
    ]
    assert len(set(signatures)) == 6
    same = CorpusConfig("Helsinki-NLP/opus_books", "", "en", "it")
    assert corpus_signature(same) == signatures[2]


def test_the_signature_of_the_demo_is_that_of_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sources_module, "DEMO", tmp_path / "demo.tsv")
    signatures = set()
    for row in ("train\ta dog\tun cane", "train\ta cat\tun gatto"):
        write(tmp_path / "demo.tsv", f"split\ten\tit\n{row}\n")
        signatures.add(corpus_signature(CorpusConfig()))
    assert len(signatures) == 2


def test_the_signature_of_nothing_complains_like_reading(folder: Path):
    missing = str(folder / "missing")
    with pytest.raises(UserError) as raised:
        corpus_signature(CorpusConfig(missing, "", "en", "de"))
    assert str(raised.value) == complaint(missing)
