"""`inspect`: corpora whose numbers are known by construction."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.inspected import VALIDATION, inspected, problem, sentences
from translate_ddp.apps.inspecting import inspection, tables
from translate_ddp.apps.inspecting.findings import find_problems, percent
from translate_ddp.apps.inspecting.inspection import inspect
from translate_ddp.apps.inspecting.strict import StrictCleaning
from translate_ddp.apps.inspecting.terminal import COLUMNS, report_lines
from translate_ddp.data.cleaning import CleanedRows
from translate_ddp.errors import UserError
from translate_ddp.settings import Config, CorpusConfig


def test_a_clean_corpus_has_no_problem(tmp_path: Path):
    found = inspected(tmp_path, sentences(600))
    assert find_problems(found) == []
    assert (found.pairs, found.validation_pairs) == (600, 100)
    assert found.strict is not None and found.strict.rows == 600


def test_dropped_rows_are_counted_with_examples(tmp_path: Path):
    pairs, held_out = sentences(600), VALIDATION
    rows = [*pairs, *pairs[:200], *held_out[:30], *[("", "leer")] * 20]
    found = inspected(tmp_path, rows, held_out)
    assert found.reports[0].dropped == {"duplicate": 200, "empty": 20, "also in validation": 30}
    assert found.pairs == 600
    duplicates = problem(found, "200 of 850 (24%)")
    assert "(duplicate)" in duplicates.what and duplicates.examples[0] == pairs[0]
    assert problem(found, "(also in validation)").examples[0] in held_out
    assert problem(found, "(empty)").examples[0] == ("", "leer")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("HTML tags", "ein <b>Haus</b>"),
        ("HTML tags", 'ein <a href="x" class=y>Haus'),
        ("HTML entities", "Haus &amp; Hof"),
        ("HTML entities", "Haus &#8211; Hof"),
        ("another encoding", "ein schÃ¶nes HÃ¤uschen"),
        ("another encoding", "das Haus â€“ hier"),
        ("another encoding", "дом Ð´Ð¾Ð¼"),
        ("another encoding", "это РґРѕРјР°"),
        ("private-use", "das \ue000 Haus"),
        ("another program", "das Hau@@ s"),
        ("another program", "ein @-@ zwei"),
        ("another program", "das Hau@@"),
        ("another program", "▁das ▁Haus"),
    ],
)
def test_defects_of_text_are_counted(tmp_path: Path, name: str, text: str):
    rows = [*sentences(500), *((src, f"{tgt} {text}") for src, tgt in sentences(7, seed=2))]
    finding = problem(inspected(tmp_path, rows), name)
    assert finding.what.startswith("7 of 507 (1.4%)") and finding.advice.endswith(".")
    assert all(text[-4:] in pair[1] for pair in finding.examples)


def test_text_without_defects_is_not_reported(tmp_path: Path):
    fine = [
        ("if a < b and c > d", "wenn a < b und c > d"),
        ("AT&T; R&D", "AT&T; F&E"),
        ("write to me@example.org", "schreib an me@example.org"),
        ("Groß“ and Spaß…", "„Groß“ und „Spaß“ … Café… ÄÖÜ–"),
        ("NÃO, São, DRÂC", "ÃO Âme Étoile"),
        ("a family 👨‍👩‍👧", "eine Familie 👨‍👩‍👧"),
        ("می‌روم", "Рига, Санкт-Петербург «Россия»"),
    ]
    rows = [*fine, *sentences(100)]
    assert not inspected(tmp_path, rows).texts.defects


def test_swapped_files_are_reported(tmp_path: Path):
    swapped = [(tgt, src) for src, tgt in sentences(300)]
    found = problem(inspected(tmp_path, swapped), "have de as source and en as target")
    assert "300 of 300 sampled pairs" in found.what and "names of the columns" in found.what


def test_letters_of_another_script_are_reported(tmp_path: Path):
    mixed = [*sentences(300), *((src, "маленький дом " + tgt) for src, tgt in sentences(100, 2))]
    finding = problem(inspected(tmp_path, mixed), "of the letters of de are CYRILLIC")
    assert "--lang_tgt" in finding.advice
    japanese = [(src, f"家 いえ {number} tgt") for number, (src, _) in enumerate(sentences(300))]
    found = inspected(tmp_path / "ja", japanese, japanese[:3], languages=("en", "ja"))
    assert not [each for each in find_problems(found) if "of the letters" in each.what]


def test_single_swapped_pairs_are_counted(tmp_path: Path):
    rows = [*sentences(300), *((tgt, src) for src, tgt in sentences(20, seed=2))]
    problem(inspected(tmp_path, rows), "20 of 320 sampled pairs have de as source")


def test_the_strict_rules_are_counted_for_kept_pairs(tmp_path: Path):
    same = [(src, src) for src, _ in sentences(30, seed=2)]
    near = [(f"{src}!", f"{tgt}!") for src, tgt in sentences(500)[:12]]
    rows = [*sentences(500), *same, *near]
    found = inspected(tmp_path, rows)
    assert found.strict is not None
    assert found.strict.dropped == {"source equals target": 30, "near duplicate": 12}
    assert found.strict.kept == 500 and found.pairs == 542
    assert problem(found, "30 of 542 (5.5%)").examples[0] in same
    folder = tmp_path / "strict"
    again = inspected(folder, rows, clean="strict")
    assert again.strict is None and again.pairs == 500


def test_a_corpus_of_copies_only_is_reported(tmp_path: Path):
    copies = [(src, src) for src, _ in sentences(300)]
    found = inspected(tmp_path, copies)
    assert problem(found, "300 of 300 (100%)").examples[0] in copies
    assert found.strict is not None and found.strict.kept == 0


def test_an_error_of_reading_is_not_taken_for_a_result_of_the_strict_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def killed(*_: object) -> Iterator[CleanedRows]:
        raise UserError("A worker process was killed.")

    monkeypatch.setattr(StrictCleaning, "_cleaned", killed)
    with pytest.raises(UserError, match="was killed"):
        inspected(tmp_path, sentences(300))


def test_uncleaned_duplicates_are_reported(tmp_path: Path):
    rows = sentences(300) + sentences(300)[:60]
    found = inspected(tmp_path, rows, clean="none")
    assert found.pairs == 360
    assert problem(found, "60 of 360 (17%)").advice == "Pass --clean safe."


def test_boilerplate_is_named_with_its_number(tmp_path: Path):
    rows = [*sentences(500), *(("terms of use", f"bedingungen {n}") for n in range(60))]
    rows += [(f"menu {n}", "zum inhalt springen") for n in range(40)]
    found = inspected(tmp_path, rows)
    assert problem(found, "One source sentence").what.endswith("60 of 600 (10%) pairs")
    target = problem(found, "One target sentence")
    assert "40 of 600" in target.what and target.examples[0][1] == "zum inhalt springen"


def test_lengths_and_scripts_are_those_of_the_text(tmp_path: Path):
    rows = [("aaaa bb", "ä"), ("cc", "дом да")]
    found = inspected(tmp_path, rows, [("x", "y")])
    assert sorted(found.texts.characters.tolist()) == [[2, 6], [7, 1]]
    assert sorted(found.texts.words.tolist()) == [[1, 2], [2, 1]]
    assert found.texts.scripts == ({"LATIN": 8}, {"LATIN": 1, "CYRILLIC": 5})
    assert tables.frequent_characters(found, 1)[0] == ("д", 2)


def test_coverage_counts_unknown_tokens_and_new_characters(tmp_path: Path):
    rows, validation = sentences(300), [("man ☃", "zzz mann")]
    found = inspected(tmp_path, rows, validation, tokenizer="word")
    source, target = found.vocabulary.coverage
    assert (source.unknown, target.unknown) == (0.5, 0.5)
    assert source.unseen == 1 / 5 and source.unseen_characters == "☃"
    problem(found, "en tokens of validation are unknown")
    folder = tmp_path / "bpe"
    source, _ = inspected(folder, rows, validation).vocabulary.coverage
    assert source.unknown == 0 and source.bytes > 0


def test_the_report_has_short_lines_without_controls(tmp_path: Path):
    hostile = [("\x1b[2J\x07 " + "x" * 9000, "\u202eright to left"), ("\x00", "</script>")]
    rows = [*sentences(300), *hostile, *[("a" * 9000, "b" * 9000)]]
    lines = list(report_lines(inspected(tmp_path, rows)))
    assert max(map(len, lines)) <= COLUMNS and len(lines) <= 80
    assert not [line for line in lines if "\x1b" in line or "\u202e" in line or "\x07" in line]


def test_shares_are_never_rounded_to_nothing_or_all():
    shown = [percent(n, 10_000) for n in (0, 1, 40, 999, 4000, 9970, 9999, 10_000)]
    assert shown == [*("0.0%", "under 0.1%", "0.4%", "10.0%", "40%", "99.7%", "over 99.9%", "100%")]


def test_lines_that_are_not_utf8_are_one_problem(tmp_path: Path):
    pairs = sentences(600)
    inspected(tmp_path, pairs)
    path = tmp_path / "train.de"
    path.write_bytes(path.read_bytes() + "Straße\n".encode("latin-1"))
    with (tmp_path / "train.en").open("a") as file:
        file.write("street\n")
    corpus = CorpusConfig(
        (str(tmp_path / "train"),), validation=str(tmp_path / "valid"), lang_tgt="de"
    )
    config = replace(Config(), corpus=corpus)
    (tmp_path / "again").mkdir()
    found = inspect(corpus, lambda _: (config, "small"), tmp_path / "again", 0, shown=False)
    (only,) = find_problems(found)
    assert "first line 601" in only.what and "iconv -f" in only.what
    assert found.reports[0].dropped == {"invalid unicode": 1}


def test_the_most_frequent_hash_is_found_across_parts():
    hashes = np.array([5, 2**63, 5, 7, 2**63, 5], dtype=np.uint64)
    assert list(inspection.largest_groups(hashes)) == [(3, 0)]
