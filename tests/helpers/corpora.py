"""Corpora written to a folder, and read back."""

import gzip
import lzma
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import pyarrow as pa
import pytest

from translate_ddp.data.cleaned_corpus import Report
from translate_ddp.data.corpus import clean_corpus
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.rows import Row, ignore_progress
from translate_ddp.data.sources import find_splits, read_pairs
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig, SourceOptions


def compress_zstandard(data: bytes) -> bytes:
    output = pa.BufferOutputStream()
    with pa.CompressedOutputStream(output, "zstd") as file:
        file.write(data)
    return output.getvalue().to_pybytes()


COMPRESS = {
    ".gz": partial(gzip.compress, compresslevel=1),  # fast
    ".xz": partial(lzma.compress, preset=0),
    ".zst": compress_zstandard,
}


def write(path: Path, content: str | bytes) -> str:
    """The path of a new file, compressed if it ends in .gz, .xz or .zst."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(COMPRESS.get(path.suffix, bytes)(data))
    return str(path)


def write_parallel(prefix: Path, pairs: list[tuple[str, str]], lang_tgt: str = "de") -> str:
    """The common prefix of two new files, of English and another language."""
    for side, language in enumerate(("en", lang_tgt)):
        write(Path(f"{prefix}.{language}"), "".join(f"{pair[side]}\n" for pair in pairs))
    return str(prefix)


def write_parquet(path: Path, *translations: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    features = datasets.Features({"translation": datasets.Translation(sorted(translations[0]))})
    table = datasets.Dataset.from_dict({"translation": list(translations)}, features=features)
    table.to_parquet(path)


@dataclass(frozen=True)
class Corpus:
    """What `clean_corpus` has stored."""

    train: list[Pair]
    validation: list[Pair]
    dropped: dict[str, int]
    reports: list[Report]


def read_corpus(config: CorpusConfig) -> Corpus:
    with TemporaryDirectory() as folder:
        corpus = clean_corpus(config, Path(folder), shown=False)
        train = [pair for _, pairs, _ in corpus.batches(corpus.is_train) for pair in pairs]
        return Corpus(train, corpus.validation(), corpus.dropped, corpus.reports)


def corpus_of(
    dataset: str, validation: str = "", lang_src: str = "en", lang_tgt: str = "de"
) -> CorpusConfig:
    return CorpusConfig((dataset,), validation, (lang_src,), (lang_tgt,))


EN_DE = ("en", "de")


def read(source: Path | str, languages: tuple[str, str] = EN_DE, **options: Any) -> list[Row]:
    """All rows of the source, as they are stored."""
    rows = read_pairs(str(source), languages, SourceOptions(**options))
    return list(rows.read(ignore_progress))


def notices_of(source: Path | str) -> list[str]:
    rows = read_pairs(str(source), EN_DE)
    for _ in rows.read(ignore_progress):
        pass
    return rows.notices


def error_of(source: Path | str, languages: tuple[str, str] = EN_DE, **options: Any) -> str:
    """The message of the UserError that reading the source raises."""
    with pytest.raises(UserError) as raised:
        for rows in find_splits(str(source), languages, SourceOptions(**options)).values():
            list(rows.read(ignore_progress))
    return str(raised.value)


def corpus_error(source: Path | str, languages: tuple[str, str] = EN_DE) -> str:
    """The message of the UserError that the choice of usable pairs raises."""
    with pytest.raises(UserError) as raised:
        read_corpus(corpus_of(str(source), "", *languages))
    return str(raised.value)


def numbered_pairs(count: int) -> list[tuple[str, str]]:
    return [(f"source {number}", f"target {number}") for number in range(count)]


def write_repository(folder: Path, with_readme: bool = True) -> str:
    """The path of a copy of a hub dataset: English-Italian, and German-English with validation.

    A README.md names the files of each pair; without it, the names of the folders do.
    """
    data = folder / "data" if with_readme else folder
    if with_readme:
        write(folder / "README.md", README)
    en_it = [{"en": f"e{n}", "it": f"i{n}"} for n in range(4)]
    write_parquet(data / "en-it/train-0.parquet", *en_it)
    write_parquet(data / "de-en/train-0.parquet", {"de": "eins", "en": "one"})
    write_parquet(data / "de-en/validation-0.parquet", {"de": "auf", "en": "up"})
    return str(folder)


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
