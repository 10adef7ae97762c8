"""Sources as people type them: which changes, how often, and what stays."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from translate_ddp.data.augmentation import (
    LOWER,
    UPPER,
    Perturbation,
    add_noise,
    add_typos,
    draw,
    perturb,
    remove_end_punctuation,
)
from translate_ddp.data.dataset import Lengths, Ragged
from translate_ddp.data.sources import DEMO
from translate_ddp.data.tokenizer import Tokenizer, train_tokenizer
from translate_ddp.settings import TokenizerConfig
from translate_ddp.text import normalize

LINES = ["The old Doctor reads the letter.", "il dottore legge", "Здравствуй, мир!"] * 3
NEVER = 0.999


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, TokenizerConfig(vocab_size=300))


def changed(
    tokenizer: Tokenizer, lines: Sequence[str], seq_len: int = 256, epoch: int = 0
) -> dict[int, str]:
    """The perturbed lines, by their place."""
    source, rows = Ragged.of(tokenizer.encode(lines)), np.arange(len(lines))
    found = Perturbation(tokenizer, seq_len, 0, {"": "en"}).apply(source, rows, epoch)
    return dict(zip(found, tokenizer.decode(list(found.values())), strict=True))


def test_rates_are_those_of_the_modifiers(tokenizer: Tokenizer):
    text, count = "the Bird has four small Feathers.", 20_000
    found = list((dict.fromkeys(range(count), text) | changed(tokenizer, [text] * count)).values())

    def assert_rate(kind: str, rate: float, hits: list[bool]) -> None:
        bound = 4.5 * (rate * (1 - rate) * count) ** 0.5
        assert abs(sum(hits) - rate * count) <= bound, f"{kind}: {sum(hits)} of {count}"

    lower = [line == line.lower() for line in found]
    ends = [not line.endswith(".") for line in found]
    assert_rate("lower", 0.15, lower)
    assert_rate("upper", 0.07, [line == line.upper() for line in found])
    assert_rate("title", 0.05, ["The" in line and "Has" in line for line in found])
    assert_rate("no full stop", 0.2, ends)
    both = [one and other for one, other in zip(lower, ends, strict=True)]
    assert_rate("both", 0.15 * 0.2, both)
    letters = ["".join(filter(str.isalpha, line.lower())) for line in found]
    assert_rate("typos", 0.05, [line != "thebirdhasfoursmallfeathers" for line in letters])
    other = [not line.rstrip(".").replace(" ", "").isalpha() for line in found]
    assert_rate("noise", 0.0005, other)
    assert any(other)


def test_epochs_and_seeds_perturb_other_rows(tokenizer: Tokenizer):
    lines = ["the Bird sings."] * 300
    assert changed(tokenizer, lines, epoch=1) == changed(tokenizer, lines, epoch=1)
    assert changed(tokenizer, lines, epoch=1) != changed(tokenizer, lines, epoch=2)
    source, rows = Ragged.of(tokenizer.encode(lines)), np.arange(300)
    one, other = (
        Perturbation(tokenizer, 256, seed, {"": "en"}).apply(source, rows, 0) for seed in (1, 2)
    )
    assert one.keys() != other.keys()


def test_epochs_and_seeds_choose_other_places_and_letters():
    rows = np.arange(50)
    keys = [draw(seed, epoch, rows)[1] for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert (keys[0] == keys[3]).all()
    assert len({*keys[0].tolist(), *keys[1].tolist(), *keys[2].tolist()}) == 150


def test_row_is_perturbed_alike_among_any_other_rows(tokenizer: Tokenizer):
    source = Ragged.of(tokenizer.encode([f"the Bird number {n} sings." for n in range(200)]))
    perturbation, some = (
        Perturbation(tokenizer, 256, 0, {"": "en"}),
        np.array([150, 3, 77, 4, 120, 9]),
    )
    whole = perturbation.apply(source, np.arange(200), 5)
    part = perturbation.apply(source.take(some), some, 5)
    assert part and part == {n: whole[row] for n, row in enumerate(some.tolist()) if row in whole}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello.", "Hello"),
        ("Really?!", "Really"),
        ("Wait …", "Wait"),
        ("你好。", "你好"),
        ("本当？！", "本当"),
        ("क्या हाल है।", "क्या हाल है"),
        ("كيف حالك؟", "كيف حالك"),
        ("Τι κάνεις;", "Τι κάνεις"),
        ("မင်္ဂလာပါ။", "မင်္ဂလာပါ"),
        ("no change", "no change"),
        ("3.5 or e.g. this", "3.5 or e.g. this"),
        ('He said "yes."', 'He said "yes."'),
        ("...", "..."),  # an empty source is no sentence
    ],
)
def test_end_punctuation_of_any_script_is_removed(text: str, expected: str):
    assert remove_end_punctuation(text) == expected
    assert perturb(text, (NEVER, 0.0, NEVER, NEVER), 0, "en") == expected


@pytest.mark.parametrize(
    ("language", "text", "lower", "upper", "titled"),
    [
        ("en", "The Straße", "the straße", "THE STRASSE", "The Straße"),
        ("en", "don't go", "don't go", "DON'T GO", "Don't Go"),  # not Don'T
        ("en", "ΟΔΟΣ οδος", "οδος οδος", "ΟΔΟΣ ΟΔΟΣ", "ΟΔΟΣ Οδος"),  # a final sigma
        ("en", "Привет мир", "привет мир", "ПРИВЕТ МИР", "Привет Мир"),
        ("en", "你好 世界", "你好 世界", "你好 世界", "你好 世界"),
        ("en", "हिन्दी भाषा", "हिन्दी भाषा", "हिन्दी भाषा", "हिन्दी भाषा"),
        ("en", "مرحبا", "مرحبا", "مرحبا", "مرحبا"),
        ("tr", "Işık İyi diyor", "ışık iyi diyor", "IŞIK İYİ DİYOR", "Işık İyi Diyor"),
        ("az_Latn", "it", "it", "İT", "İt"),
        ("ka", "ეს არის", "ეს არის", "ᲔᲡ ᲐᲠᲘᲡ", "ეს არის"),  # only whole words have upper case
        ("en", "ﬁsh", "ﬁsh", "FISH", "Fish"),
        ("en", "ΐ", "ΐ", "Ϊ́", "Ϊ́"),  # composed again as far as Unicode can
    ],
)
def test_case_follows_unicode_and_the_language(
    language: str, text: str, lower: str, upper: str, titled: str
):
    cases = (0.0, LOWER, LOWER + UPPER, NEVER)
    found = [perturb(text, (case, NEVER, NEVER, NEVER), 0, language) for case in cases]
    assert found == [normalize(line) for line in (lower, upper, titled, text)]


def test_typos_swap_omit_or_double_a_letter_of_one_or_two_long_words():
    text = "the 12345 bird of http sings"  # three words of four letters or more
    kinds: set[str] = set()
    for key in range(300):
        words = add_typos(text, Random(key)).split(" ")
        pairs = list(zip(text.split(" "), words, strict=True))
        assert all(old == new for old, new in pairs if old in ("the", "12345", "of"))
        edits = [(old, new) for old, new in pairs if old != new]
        assert len(edits) <= 2
        for old, new in edits:
            omitted = {old[:n] + old[n + 1 :] for n in range(len(old))}
            doubled = {old[:n] + old[n] + old[n:] for n in range(len(old))}
            kind = "omitted" if new in omitted else "doubled" if new in doubled else "swapped"
            assert kind != "swapped" or sorted(new) == sorted(old)
            kinds.add(kind)
        kinds.add(f"{len(edits)} words")
    assert kinds >= {"omitted", "doubled", "swapped", "1 words", "2 words"}
    assert add_typos("a b c 1234", Random(0)) == "a b c 1234"


def test_noise_adds_one_group_of_characters():
    for key in range(50):
        words = add_noise("one two", Random(key)).split(" ")
        assert len(words) == 3 and [word for word in words if word.isalpha()] == ["one", "two"]


def test_source_that_would_be_too_long_is_not_changed(tokenizer: Tokenizer):
    lines = ["the old doctor reads"] * 400
    (plain,) = {len(ids) for ids in tokenizer.encode(lines)}
    longer = [text for text in changed(tokenizer, lines).values() if text.isupper()]
    assert longer
    found = changed(tokenizer, lines, seq_len=plain + 1)
    assert found and not [text for text in found.values() if text.isupper()]
    assert max(len(ids) for ids in tokenizer.encode(list(found.values()))) <= plain


def test_source_with_an_unknown_word_is_not_changed():
    tokenizer = train_tokenizer(LINES, TokenizerConfig(tokenizer="word"))
    found = changed(tokenizer, ["The old Doctor", "The young Doctor"] * 100)
    assert found and not [place for place in found if place % 2]


def test_lengths_of_an_epoch_are_estimated_with_its_cases_and_typos():
    lines = [
        row.split("\t")[1] for row in DEMO.read_text(encoding="utf-8").splitlines()[10_001:18_001]
    ]
    tokenizer = train_tokenizer(lines, TokenizerConfig(vocab_size=2000))
    source, rows = Ragged.of(tokenizer.encode(lines)), np.arange(len(lines))
    plain = Lengths(*[(source.lengths + 1).astype(np.int32)] * 2)
    perturbation = Perturbation(tokenizer, 40, 0, {"": "en"})
    estimated = perturbation.lengths(source, plain, epoch=3)
    exact = plain.source.copy()
    for row, ids in perturbation.apply(source, rows, epoch=3).items():
        exact[row] = len(ids) + 1
    assert np.array_equal(estimated.target, plain.target)
    assert exact.sum() > 1.05 * plain.source.sum()
    assert estimated.source.sum() == pytest.approx(exact.sum(), rel=0.1)
    before, after = (
        np.maximum(exact - found, 0).sum() for found in (plain.source, estimated.source)
    )
    assert after < before / 4  # what is longer than planned pads others
    assert estimated.source.max() <= 40
