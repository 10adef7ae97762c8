"""Corpora written to a folder, and read back."""

import gzip
from pathlib import Path

import datasets
import pytest

from translate_ddp.data.corpus import read_corpus, read_pairs
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig


def write(path: Path, content: str | bytes) -> str:
    """The path of a new file, compressed if it ends in .gz."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def write_parallel(prefix: Path, pairs: list[tuple[str, str]]) -> str:
    """The common prefix of two new files of English and German."""
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


def error_of(source: Path | str, languages: tuple[str, str] = ("en", "de")) -> str:
    """The message of the UserError that reading the source raises."""
    with pytest.raises(UserError) as raised:
        read_corpus(CorpusConfig(str(source), "", *languages))
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
