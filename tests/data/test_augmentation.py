"""Variants of training pairs: which sentences change, how often, and what stays."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from translate_ddp.data.augmentation import (
    LOWER,
    UPPER,
    add_noise,
    add_typos,
    count_variants,
    perturb,
    perturb_some,
)
from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.data.preparation import Encoder
from translate_ddp.data.tagged_corpus import TaggedPairs
from translate_ddp.data.tokenizer import Tokenizer, train_tokenizer
from translate_ddp.directions import LanguagePair
from translate_ddp.settings import TokenizerConfig
from translate_ddp.text import normalize, remove_end_punctuation

NEVER = 0.999
LINES = ["The old Doctor reads the letter, 中文 😀.", "il dottore legge così! हिन्दी"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES * 3, TokenizerConfig(vocab_size=400))


def variants(
    tokenizer: Tokenizer,
    sources: list[str],
    targets: list[str] | None = None,
    seq_len: int = 256,
    count: int = 3,
    first_row: int = 0,
    tags: str = "",
) -> list[ParallelDataset]:
    """The pairs in each of the variants."""
    pairs = list(zip(sources, targets or sources, strict=True))
    encoder = Encoder(tokenizer.text, seq_len, count)
    found = encoder(TaggedPairs(pairs, tags, LanguagePair("en", "it"), (), first_row)).variants
    assert found is not None
    return [found.take(range(k, len(found), count)) for k in range(count)]


def texts(tokenizer: Tokenizer, pairs: ParallelDataset) -> tuple[list[str], list[str]]:
    source, target = (
        tokenizer.decode([side[row].tolist() for row in range(len(side))])
        for side in (pairs.source, pairs.target)
    )
    return source, target


def test_number_of_variants_falls_with_the_number_of_pairs():
    counts = [count_variants(pairs) for pairs in (1, 60_000, 125_000, 1_000_000, 50_000_000)]
    assert counts == [8, 8, 4, 1, 1]


# --- perturbed sources ---


def test_rates_are_those_of_the_modifiers():
    text, count = "the Bird has four small Feathers.", 20_000
    found = list((dict.fromkeys(range(count), text) | perturb_some([text] * count, "en")).values())

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


def test_row_is_perturbed_alike_in_any_batch_and_otherwise_in_another_variant():
    lines = [f"the Bird number {n} sings." for n in range(200)]
    whole = perturb_some(lines, "en", number=1)
    part = perturb_some(lines[120:], "en", first_row=120, number=1)
    assert part and {place + 120: text for place, text in part.items()} == {
        place: text for place, text in whole.items() if place >= 120
    }
    assert perturb_some(lines, "en", number=2).keys() != whole.keys()


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
        ("សួស្តី។", "សួស្តី"),
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
    counts: set[int] = set()
    kinds: set[int] = set()
    for key in range(300):
        words = add_typos(text, Random(key)).split(" ")
        edits = [(a, b) for a, b in zip(text.split(" "), words, strict=True) if a != b]
        counts.add(len(edits))
        for old, new in edits:
            assert old in ("bird", "http", "sings")
            kinds.add(len(new) - len(old))
            added, missing = Counter(new) - Counter(old), Counter(old) - Counter(new)
            assert (added.total(), missing.total()) in ((0, 0), (0, 1), (1, 0))
            assert added.keys() <= {*old}
    assert kinds == {-1, 0, 1} and counts >= {1, 2} and max(counts) == 2
    assert add_typos("a b c 1234", Random(0)) == "a b c 1234"


def test_noise_adds_one_group_of_characters():
    for key in range(50):
        words = add_noise("one two", Random(key)).split(" ")
        assert len(words) == 3 and [word for word in words if word.isalpha()] == ["one", "two"]


@pytest.mark.parametrize("tags", ["", ">>it<< <bt> "])
def test_only_sources_are_perturbed_and_tags_stay(tokenizer: Tokenizer, tags: str):
    sources = [f"The old Doctor number {n} reads." for n in range(200)]
    targets = [f"Il vecchio Dottore numero {n} legge." for n in range(200)]
    for number, found in enumerate(variants(tokenizer, sources, targets, tags=tags, first_row=7)):
        changed = perturb_some(sources, "en", first_row=7, number=number)
        expected = [tags + changed.get(n, text) for n, text in enumerate(sources)]
        assert texts(tokenizer, found) == (expected, targets)
        assert 50 < len(changed) < 130
        assert [found.source[n].tolist() for n in changed] == tokenizer.encode(
            [expected[n] for n in changed]
        )


def test_sentence_whose_variant_would_be_too_long_is_plain(tokenizer: Tokenizer):
    lines = ["the old doctor reads"] * 200
    plain = tokenizer.encode(lines)[0]
    lengths = np.concatenate([rows.source.lengths for rows in variants(tokenizer, lines)])
    limit = len(plain) + 1  # of the tokens; [EOS] counts, too
    found = variants(tokenizer, lines, seq_len=limit + 1)
    limited = np.concatenate([rows.source.lengths for rows in found])
    assert lengths.max() > limit
    assert np.array_equal(limited, np.where(lengths > limit, len(plain), lengths))
    rows = np.flatnonzero(lengths > limit).tolist()
    assert all(found[n // 200].source[n % 200].tolist() == plain for n in rows)
