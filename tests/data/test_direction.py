"""Pairs whose sides are in each other's languages, found before training."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.corpora import read_corpus, write, write_parallel
from tests.helpers.inspected import sentences
from translate_ddp.data.languages import Direction
from translate_ddp.data.pair_store import Pair
from translate_ddp.errors import UserError
from translate_ddp.settings import CorpusConfig

SWAPPED = [(de, en) for en, de in sentences(120)]


def config(source: str, languages: tuple[str, str] = ("en", "de"), **settings: str) -> CorpusConfig:
    src, tgt = languages
    given = CorpusConfig((source,), "5", (src,), (tgt,))
    return replace(given, **settings)


def notices(source: str, src: str = "en", tgt: str = "de", **settings: str) -> str:
    found = config(source, (src, tgt), **settings)
    return " ".join(line for report in read_corpus(found).reports for line in report.notices)


def tsv(path: Path, pairs: list[Pair], header: str = "") -> str:
    return write(path, header + "".join(f"{src}\t{tgt}\n" for src, tgt in pairs))


@pytest.mark.parametrize(
    ("languages", "pair"),
    [
        (("en", "de"), ("How are you today?", "Wie geht es dir heute?")),
        (("en", "ru"), ("a small house", "маленький дом")),
        (("pt_BR", "en-GB"), ("Onde fica a minha casa?", "Where is my house?")),
    ],
)
def test_both_sides_must_clearly_be_in_the_languages(languages: tuple[str, str], pair: Pair):
    direction = Direction(languages)
    assert direction(pair) == 1 and direction((pair[1], pair[0])) == -1
    assert not direction((pair[0], pair[0])) and not direction(("OK", "123"))
    unknown = Direction((languages[0], "tw"))
    assert unknown.unknown == ["tw"] and not unknown(pair) and not unknown((pair[1], pair[0]))


def test_swapped_columns_without_a_header_are_an_error_that_the_user_can_overrule(tmp_path: Path):
    source = tsv(tmp_path / "x.tsv", SWAPPED)
    with pytest.raises(UserError, match="120 of 120 sampled .* --src_column 2 --tgt_column 1"):
        read_corpus(config(source))
    assert not notices(source, src_column="1", tgt_column="2")
    assert not notices(source, src_column="2", tgt_column="1")
    assert not notices(source, "de", "en")
    valid = tsv(tmp_path / "valid.tsv", SWAPPED)
    right = tsv(tmp_path / "y.tsv", sentences(300)[150:])
    with pytest.raises(UserError, match="valid.tsv: 120 of 120"):
        read_corpus(config(right, validation=valid))


def test_named_columns_and_files_that_seem_swapped_are_a_notice(tmp_path: Path):
    table = tsv(tmp_path / "x.tsv", SWAPPED, "en\tde\n")
    for source in (table, write_parallel(tmp_path / "train", SWAPPED)):
        assert "120 of 120 sampled pairs have de as source" in notices(source)
    some = [*sentences(300)[150:], *SWAPPED[:20]]
    assert "20 of 170 sampled pairs" in notices(write_parallel(tmp_path / "some", some))


def test_order_that_is_not_confirmed_is_a_notice(tmp_path: Path):
    few = tsv(tmp_path / "few.tsv", SWAPPED[:40])
    assert "40 of 40 sampled pairs have de as source" in notices(few)
    source = tsv(tmp_path / "x.tsv", SWAPPED)
    assert "columns 1 and 2 are read as en and tw, but tw is unknown" in notices(source, "en", "tw")
    numbers = tsv(tmp_path / "numbers.tsv", [(f"{n} %", f"{n} €") for n in range(200)])
    assert "are read as en and de, but they are not clear" in notices(numbers)
