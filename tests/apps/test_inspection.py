"""Inspections of corpora whose numbers are known by construction."""

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.corpora import write_parallel
from tests.helpers.inspected import (
    ENGLISH,
    GERMAN,
    VALIDATION,
    inspected,
    problem,
    sentences,
)
from translate_ddp.apps.inspecting import inspection
from translate_ddp.apps.inspecting.inspection import Pace, inspect
from translate_ddp.apps.inspecting.inspection_report import (
    COLUMNS,
    find_problems,
    percent,
    report_lines,
)
from translate_ddp.data import pair_store
from translate_ddp.data.dataset import load_prepared
from translate_ddp.data.pair_store import Pair
from translate_ddp.data.preparation import prepare
from translate_ddp.errors import UserError
from translate_ddp.presets import with_values
from translate_ddp.settings import Config


def test_a_clean_corpus_has_no_problem(tmp_path: Path):
    found = inspected(tmp_path, sentences(600))
    assert find_problems(found) == [] and "DIRECTIONS" not in list(report_lines(found))
    assert (found.cleaned.sizes, found.cleaned.validation_sizes) == ([600], [100])
    assert (found.strict.rows, found.strict.dropped) == (600, {})


def test_dropped_rows_are_counted_with_examples(tmp_path: Path):
    pairs, held_out = sentences(600), VALIDATION
    rows = [*pairs, *pairs[:200], *held_out[:30], *[("", "leer")] * 20]
    found = inspected(tmp_path, rows, held_out)
    dropped = found.cleaned.reports[0].dropped
    assert dropped == {"duplicate": 200, "empty": 20, "also in validation": 30}
    assert sum(found.cleaned.sizes) == 600
    duplicates = problem(found, "200 of 850 (24%)")
    assert "(duplicate)" in duplicates.what and duplicates.examples[0] == pairs[0]
    assert problem(found, "(also in validation)").examples[0] in held_out
    assert problem(found, "(empty)").examples[0] == ("", "leer")


DEFECTS: dict[str, list[str]] = {
    "HTML tags": ["ein <b>Haus</b>", 'ein <a href="x" class=y>Haus'],
    "HTML entities": ["Haus &amp; Hof", "Haus &#8211; Hof"],
    "another encoding": [
        *("ein schÃ¶nes HÃ¤uschen", "das Haus â€“ hier", "дом Ð´Ð¾Ð¼", "это РґРѕРјР°")
    ],
    "private-use": ["das \ue000 Haus"],
    "another program": ["das Hau@@ s", "ein @-@ zwei", "das Hau@@", "▁das ▁Haus"],
}


def test_defects_of_text_are_counted_with_examples(tmp_path: Path):
    rows = sentences(300)
    for seed, texts in enumerate(DEFECTS.values(), 2):
        rows += [(src, f"{tgt} {text}") for text in texts for src, tgt in sentences(2, seed)]
    found = inspected(tmp_path, rows, clean="none")
    for name, texts in DEFECTS.items():
        finding = problem(found, name)
        assert finding.what.startswith(f"{2 * len(texts)} of {len(rows)}")
        assert finding.advice.endswith(".")
        assert all(any(text[-4:] in pair[1] for text in texts) for pair in finding.examples)


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


def test_letters_of_another_script_are_reported(tmp_path: Path):
    mixed = [*sentences(300), *((src, "маленький дом " + tgt) for src, tgt in sentences(100, 2))]
    finding = problem(inspected(tmp_path, mixed), "of the letters of de are CYRILLIC")
    assert "--lang_tgt" in finding.advice
    garbled = [(src, "маленький дом".encode("cp1251").decode("cp1252")) for src, _ in mixed]
    found = inspected(tmp_path / "ru", garbled, garbled[:3], languages=("en", "ru"))
    assert "converted to UTF-8" in problem(found, "100% of the letters of ru are LATIN").advice
    japanese = [(src, f"家 いえ {number} tgt") for number, (src, _) in enumerate(sentences(300))]
    found = inspected(tmp_path / "ja", japanese, japanese[:3], languages=("en", "ja"))
    assert not [each for each in find_problems(found) if "of the letters" in each.what]


@pytest.mark.parametrize("clean", ["none", "safe", "strict"])
def test_the_strict_rules_are_counted_for_kept_pairs(tmp_path: Path, clean: str):
    same = [(src, src) for src, _ in sentences(30, seed=2)]
    near = [(f"{src}!", f"{tgt}!") for src, tgt in sentences(500)[:12]]
    rows = [*sentences(500), *same, *near, *same[:9], *sentences(500)[:80], ("", "leer")]
    found = inspected(tmp_path, rows, clean=clean)
    dropped = {  # a repeated row is kept, and dropped for its first reason, with level none only
        "none": {"source equals target": 39, "duplicate": 80, "near duplicate": 12},
        "safe": {"source equals target": 30, "near duplicate": 12},
        "strict": {},
    }[clean]
    assert found.strict.dropped == dropped and found.strict.kept == 500
    assert found.strict.rows == sum(found.cleaned.sizes) == 500 + sum(dropped.values())
    if dropped:
        share = f"{dropped['source equals target']} of {found.strict.rows} "
        assert problem(found, share).examples[0] in same
    if clean == "none":
        assert problem(found, "80 of 631 (13%)").advice == "Pass --clean safe."


def test_a_corpus_of_which_strict_leaves_nothing_is_inspected(tmp_path: Path):
    rows = [(src, src) for src, _ in sentences(200, seed=2)]
    text = " ".join(" ".join(report_lines(inspected(tmp_path, rows, validation="5"))).split())
    assert "would also drop 200 of 200 (100%) pairs, and leave 0: source equals target" in text


def test_the_strict_rules_see_each_dataset_alone(tmp_path: Path):
    other = tmp_path / "other"
    inspected(other, sentences(300))
    datasets = (str(tmp_path / "train"), str(other / "train"))  # of the same pairs
    found = inspected(tmp_path, sentences(300), dataset=datasets)
    assert (found.strict.rows, found.strict.dropped) == (600, {})


def test_lengths_and_scripts_are_those_of_the_text(tmp_path: Path):
    rows = [("aaaa bb", "ä"), ("cc", "дом да")]
    found = inspected(tmp_path, rows, [("x", "y")], tokenizer="word")
    assert sorted(found.texts.characters.tolist()) == [[2, 6], [7, 1]]
    assert sorted(found.texts.words.tolist()) == [[1, 2], [2, 1]]
    assert found.texts.scripts == {"en": {"LATIN": 8}, "de": {"LATIN": 1, "CYRILLIC": 5}}
    text = "\n".join(report_lines(found))
    assert "CYRILLIC 83%, LATIN 17%" in text and "д 2,  " in text
    lengths = {" ".join(line.split()[:-8]): line.split()[-8:] for line in text.splitlines()}
    assert lengths["en tokens"][:7:6] == ["2", "3"]  # with the end marker
    assert lengths["de / en characters"][:7:6] == ["0.14", "3.00"]


def test_coverage_counts_unknown_tokens_and_new_characters(tmp_path: Path):
    rows, validation = sentences(300), [("man ☃", "zzz mann")]
    found = inspected(tmp_path, rows, validation, tokenizer="word")
    source, target = found.vocabulary.coverage.values()
    assert (source.unknown, target.unknown) == (0.5, 0.5)
    assert source.unseen == 1 / 5 and source.unseen_characters == "☃"
    problem(found, "en tokens of validation are unknown")
    folder = tmp_path / "bpe"
    source = inspected(folder, rows, validation).vocabulary.coverage["en"]
    assert 0 < source.unknown < 1  # the bytes of the new character


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
    source = write_parallel(tmp_path / "latin", [*sentences(600), ("street", "Stra?e")])
    path = tmp_path / "latin.de"
    path.write_bytes(path.read_bytes().replace(b"?", "ß".encode("latin-1")))
    found = inspected(tmp_path, [], dataset=(source,))
    (only,) = find_problems(found)
    assert "first line 601" in only.what and "iconv -f" in only.what
    assert found.cleaned.reports[0].dropped == {"invalid unicode": 1}


# --- several directions ---

FRENCH = "le chien voit une maison avec nos дом amis".split()


def write_table(file: Path, language: str, pairs: Iterable[Pair]) -> None:
    file.write_text("".join(f"{src}\t{tgt}\n" for src, tgt in [("en", language), *pairs]))


def test_each_direction_is_reported_and_what_they_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        pair_store, "BATCH_PAIRS", 150
    )  # so that a batch has no pair of a direction
    german, english = sentences(300), [src for src, _ in sentences(100)]
    words = random.Random(0).choices(FRENCH, k=5 * 140)
    french = [" ".join(words[n : n + 5]) for n in range(0, len(words), 5)]
    pairs = list(zip([*english, *(src for src, _ in sentences(40, seed=3))], french, strict=True))
    write_table(tmp_path / "train.de.tsv", "de", german)
    write_table(tmp_path / "train.fr.tsv", "fr", [*pairs[:100], *pairs[:7]])
    write_table(tmp_path / "valid.de.tsv", "de", [*VALIDATION, *sentences(20, seed=2)])
    write_table(tmp_path / "valid.fr.tsv", "fr", pairs[100:])
    write_table(tmp_path / "test.de.tsv", "de", german[290:])
    files = {name: str(tmp_path / f"{name}.{{tgt}}.tsv") for name in ("train", "valid", "test")}
    values = {"dataset": (files["train"],), "validation": files["valid"], "tokenizer": "word"}
    values |= {"exclude": (files["test"],), "lang_tgt": ("de", "fr"), "mix_temperature": 5.0}
    config = with_values(Config(), values)
    (tmp_path / "work").mkdir()
    found = inspect(config.corpus, lambda _: (config, "small"), tmp_path / "work", 0.01)
    lines = list(report_lines(found))
    assert lines[0].startswith("en to de, fr:") and max(map(len, lines)) <= COLUMNS
    rows = [line.split() for line in lines[lines.index("DIRECTIONS") :]]
    total = 4 + len({*ENGLISH, *GERMAN, *FRENCH})  # with the special tokens
    shares = [len({*ENGLISH, *other}) / total for other in (GERMAN, FRENCH)]
    assert rows[2] == ["en-de", "290", "10", "120", "8.0", "8.0", f"{shares[0]:.0%}"]
    assert rows[3] == ["en-fr", "100", "7", "40", "8.0", "5.0", f"{shares[1]:.0%}"]
    shared = "100 of 290 (34%) source sentences stand in several directions."
    assert shared in " ".join(" ".join(lines).split())
    assert [line for line in lines if "test.de.tsv (excluded)" in line]
    # By language, not by side: English stands in both directions.
    assert len(found.texts) == 390 and found.texts.counts["en"]["t"] == sum(
        src.count("t") for src, _ in [*german[:290], *pairs[:100]]
    )
    assert found.vocabulary.coverage["fr"].unknown == 0
    assert "CYRILLIC" in problem(found, "of the letters of fr").what
    assert not [each for each in find_problems(found) if "letters of de" in each.what]
    assert problem(found, "Validation of en-fr is small (40)")
    assert found.epoch is not None and found.pace is not None


# --- tokenizer, plan and estimated time ---


def test_long_pairs_are_reported_and_none_that_fits_ends_nothing(tmp_path: Path):
    found = inspected(tmp_path, sentences(200), seq_len=2)
    assert found.epoch is None
    assert problem(found, "No pair has fewer than 2 tokens").advice == "Raise --seq_len."
    assert any(line.startswith("TRAINING") for line in report_lines(found))


def test_a_sample_stands_for_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = inspected(tmp_path, sentences(2000))
    monkeypatch.setattr(inspection, "SAMPLE_PAIRS", 500)
    folder = tmp_path / "sample"
    part = inspected(folder, sentences(2000))
    assert (sum(part.cleaned.sizes), len(part.texts), part.is_sample) == (2000, 500, True)
    assert whole.epoch is not None and part.epoch is not None
    assert part.epoch.tokens == pytest.approx(whole.epoch.tokens, rel=0.05)
    assert part.epoch.steps == pytest.approx(whole.epoch.steps, rel=0.15)
    assert "a sample of 500 of the 2,000 training pairs" in "\n".join(report_lines(part)).lower()


def test_an_epoch_and_its_measured_steps_have_the_pairs_of_the_weights(tmp_path: Path):
    source = write_parallel(tmp_path / "one", sentences(200))
    other = write_parallel(tmp_path / "other", sentences(200, seed=2))
    plain = inspected(tmp_path / "plain", [], dataset=(source, source), clean="none").epoch
    weighted = {"dataset": (source, other), "dataset_weight": (2.0, 0.0)}
    double = inspected(tmp_path / "double", [], seconds=0.01, clean="none", **weighted)
    assert plain is not None and double.epoch is not None
    assert double.epoch.tokens == plain.tokens
    assert sum(double.cleaned.sizes) == 400 and double.pace is not None and double.pace.steps >= 1


def test_tokenizer_and_tokens_are_those_of_the_training(tmp_path: Path):
    found = inspected(tmp_path, sentences(300), bidirectional=True, perturb=True)
    config, folder = found.config, tmp_path / "prepared"
    seq_len = config.batches.seq_len
    prepared = prepare(config.corpus, config.tokenizer, seq_len, folder, shown=False)
    data = load_prepared(prepared)
    assert data.facts.tokenizer.text == found.vocabulary.tokenizer.text
    tokens = len(data.train.source.tokens) + len(data.train.target.tokens) + 2 * len(data.train)
    # Twice the first direction: the second differs by the words of the other language.
    assert found.epoch is not None and found.epoch.tokens == pytest.approx(tokens, rel=0.02)


def test_a_tokenizer_file_is_read_but_never_written(tmp_path: Path):
    file = tmp_path / "tokenizer.json"
    found = inspected(tmp_path, sentences(200), sentences(9, seed=1), tokenizer_file=str(file))
    assert found.vocabulary.is_trained and not file.exists()
    file.write_text("no tokenizer")
    folder = tmp_path / "second"
    with pytest.raises(UserError, match="cannot be used as tokenizer"):
        inspected(folder, sentences(200), sentences(9, seed=1), tokenizer_file=str(file))


def test_a_training_of_many_days_is_a_problem(tmp_path: Path):
    found = inspected(tmp_path, sentences(300))
    assert found.epoch is not None and found.training_seconds is None
    epochs = found.config.train.num_epochs
    per_second = found.epoch.tokens * epochs / (5 * 86_400)
    found = replace(found, pace=Pace(per_second, 1, 1000, "the CPU", "fp32"))
    assert "about 5 days on this machine" in problem(found, "The training would take").what
    assert "1 training step:" in " ".join(" ".join(report_lines(found)).split())
