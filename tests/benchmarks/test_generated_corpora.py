"""Corpora that the benchmarks generate: their sizes, shares and defects."""

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.dirty_corpora import (
    BOILERPLATE,
    BOILERPLATE_COPIES,
    DEFECTS,
    LONG_LINE_BYTES,
    DirtyCorpora,
    write_corpora,
)
from benchmarks.generate_corpus import GeneratedCorpus, write_corpus
from benchmarks.generated_text import CHUNK_PAIRS, generate

PAIRS = 2 * CHUNK_PAIRS


def pairs_of(pairs: int, seed: int = 0, duplicates: float = 0.0) -> list[tuple[str, str]]:
    return [
        (source.decode(), target.decode())
        for chunk in generate(pairs, seed, duplicates)
        for source, target in zip(*chunk, strict=True)
    ]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return pairs_of(PAIRS)


def test_equal_seeds_give_equal_pairs_and_others_do_not(pairs: list[tuple[str, str]]):
    assert pairs_of(PAIRS) == pairs
    assert pairs_of(PAIRS, seed=1) != pairs


def test_duplicates_are_the_share_that_was_requested(pairs: list[tuple[str, str]]):
    copied = pairs_of(PAIRS, duplicates=0.4)
    assert len(pairs) == len(copied) == PAIRS
    assert len(set(pairs)) > 0.999 * PAIRS  # few repeat by chance
    assert abs(len(set(copied)) / PAIRS - 0.6) < 0.001
    assert Counter(copied).most_common(1)[0][1] > 100  # a few are copied very often


def test_each_size_is_exact_at_any_share_of_duplicates():
    for count in (1, 3, CHUNK_PAIRS + 1):
        assert len(pairs_of(count, duplicates=0.99)) == count


def test_sentences_are_as_long_and_as_varied_as_web_text(pairs: list[tuple[str, str]]):
    lengths = sorted(len(source.split()) for source, _ in pairs)
    assert 18 < sum(lengths) / PAIRS < 22
    assert lengths[0] >= 1 and lengths[PAIRS // 2] < 17 and lengths[-1] > 100
    words = Counter(word for source, _ in pairs for word in re.findall(r"\w+", source.lower()))
    frequencies = [count for _, count in words.most_common()]
    assert 0.03 < frequencies[0] / sum(frequencies) < 0.08
    assert len(frequencies) > 50_000  # of 200,000 types, in 400,000 words
    # Zipf: the hundredth word is about ten times as rare as the tenth.
    assert 6 < frequencies[9] / frequencies[99] < 14


def test_sources_are_ascii_and_targets_are_not(pairs: list[tuple[str, str]]):
    emoji = re.compile("[\U0001f600-\U0001f63f]|€")  # are equal on both sides
    assert all(emoji.sub("", source).isascii() for source, _ in pairs)
    assert sum(not target.isascii() for _, target in pairs) > 0.95 * PAIRS
    assert not any(set(text) & set("\0\r\n\t") or not text for pair in pairs for text in pair)


def test_numbers_are_equal_on_both_sides(pairs: list[tuple[str, str]]):
    numbers = [[re.findall(r"\d+", text) for text in pair] for pair in pairs]
    assert sum(bool(source) for source, _ in numbers) > 0.1 * PAIRS
    assert all(source == target for source, target in numbers)


def test_text_and_compressed_table_hold_the_same_pairs(tmp_path: Path):
    write_corpus(GeneratedCorpus(tmp_path / "a", 500))
    write_corpus(GeneratedCorpus(tmp_path / "a.gz", 500, lang_src="x", lang_tgt="y"))
    write_corpus(GeneratedCorpus(tmp_path / "a.tsv.gz", 500))
    expected = pairs_of(500)
    texts = [(tmp_path / f"a.{side}").read_text().splitlines() for side in ("en", "de")]
    assert list(zip(*texts, strict=True)) == expected
    packed = [gzip.decompress((tmp_path / f"a.{side}.gz").read_bytes()) for side in "xy"]
    assert [text.decode().splitlines() for text in packed] == texts
    rows = gzip.decompress((tmp_path / "a.tsv.gz").read_bytes()).decode().splitlines()
    assert [tuple(row.split("\t")) for row in rows] == expected


def test_compressed_files_are_the_same_at_any_time_and_place(tmp_path: Path):
    files = [tmp_path / "a.tsv.gz", tmp_path / "b.tsv.gz"]
    for file in files:
        write_corpus(GeneratedCorpus(file, 100))
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dirty")
    assert write_corpora(DirtyCorpora(folder, 200)) == list(DEFECTS)
    return folder


def lines_of(folder: Path, language: str = "en") -> list[bytes]:
    return (folder / f"train.{language}").read_bytes().split(b"\n")[:-1]


def test_dirty_corpora_are_the_same_each_time(dirty: Path, tmp_path: Path):
    write_corpora(DirtyCorpora(tmp_path, 200))
    files = sorted(path.relative_to(dirty) for path in dirty.rglob("train*"))
    assert len({file.parent for file in files}) == len(DEFECTS)
    assert all((dirty / file).read_bytes() == (tmp_path / file).read_bytes() for file in files)


def test_boilerplate_and_copies_have_their_share(dirty: Path):
    lines = lines_of(dirty / "boilerplate-10000-times")
    assert lines.count(BOILERPLATE[0].encode()) == BOILERPLATE_COPIES
    folder = dirty / "duplicates-40-percent"
    pairs = list(zip(lines_of(folder), lines_of(folder, "de"), strict=True))
    assert abs(1 - len(set(pairs)) / len(pairs) - 0.4) < 0.02


def test_long_lines_have_five_megabytes(dirty: Path):
    long = [line for line in lines_of(dirty / "lines-of-5-mb") if len(line) > 10_000]
    assert len(long) == 3 and all(abs(len(line) - LONG_LINE_BYTES) < 5 for line in long)


@pytest.mark.parametrize("name", ["mixed-encodings-some-lines", "latin-1", "utf-16"])
def test_wrong_encodings_are_no_utf_8(dirty: Path, name: str):
    with pytest.raises(UnicodeDecodeError):
        (dirty / name / "train.de").read_text(encoding="utf-8")


def test_truncated_file_ends_early(dirty: Path):
    with pytest.raises(EOFError):
        gzip.decompress((dirty / "truncated-gz" / "train.tsv.gz").read_bytes())


def test_some_columns_are_swapped(dirty: Path):
    rows = (dirty / "swapped-columns-of-two-scripts" / "train.tsv").read_text().splitlines()
    cyrillic = [bool(re.search("[а-я]{3}", row.split("\t")[0])) for row in rows]
    assert len(rows) == 200 and 20 < sum(cyrillic) < 60


def test_unknown_defect_is_reported(tmp_path: Path):
    with pytest.raises(ValueError, match="'absent', which is none of: no-defect"):
        DirtyCorpora(tmp_path, only=("absent",))
