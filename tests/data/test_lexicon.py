"""The lexicon of a corpus: words that stand in the same pairs, and no others."""

from random import Random

import pytest

from translate_ddp.data import span_pairs
from translate_ddp.data.span_pairs import learn_lexicon


def test_lexicon_is_the_dictionary_from_which_a_corpus_was_made():
    random = Random(3)
    words = [f"s{n}" for n in range(200)]
    translation = {word: f"t{n * 7 % 200}" for n, word in enumerate(words)}
    pairs = list[tuple[str, str]]()
    for _ in range(2000):
        source = random.sample(words, 6)
        target = [translation[word] for word in source if random.random() < 0.9]
        random.shuffle(target)
        pairs.append((f"The {' '.join(source).title()}.", f"«{' '.join(target)}»!"))
    found = learn_lexicon(pairs)
    assert {word: found[word] for word in words} == translation
    assert {*found} - {*words} <= {"the"}
    assert len({*found.values()}) == len(found)
    # Neither the order of the pairs nor the order of the sides matters.
    assert learn_lexicon(reversed(pairs)) == found
    swapped = learn_lexicon((target, source) for source, target in pairs)
    assert swapped == {target: source for source, target in found.items()}


def test_chance_makes_no_translation(monkeypatch: pytest.MonkeyPatch):
    rare = [("a dog", "ein Hund")] * 2
    assert learn_lexicon(rare) == {}  # in two pairs only
    assert learn_lexicon([*rare, ("the dog", "der Hund")]) == {"dog": "hund"}
    # In a third of the pairs with either of them: a coefficient of 0.33.
    apart = [("x", "y")] * 3 + [("x", "")] * 6 + [("", "y")] * 6
    assert learn_lexicon(apart) == {}
    monkeypatch.setattr(span_pairs, "MIN_DICE", 1 / 3)
    assert learn_lexicon(apart) == {"x": "y"}


def test_pairs_without_words_and_of_whole_pages_say_nothing():
    assert learn_lexicon([]) == learn_lexicon([("", ""), ("...", "?")] * 5) == {}
    page = " ".join(f"w{n}" for n in range(51))
    assert learn_lexicon([(f"{page}", "wort")] * 5) == {}
    assert learn_lexicon([("Ünter-Über it's", "ÜNTER-ÜBER")] * 3) == {"ünter-über": "ünter-über"}
