"""The language of a text, by the tokens of each language in a model's training text."""

import json
from collections import Counter

import numpy as np
import pytest

from translate_ddp.data import identifier
from translate_ddp.data.identifier import Identifier, count_tokens

SHARED, OWN = 500, 3000  # tokens that all languages use, and further ones of each language
SIZES = {"large": 500_000, "middle": 50_000, "small": 10_000}  # tokens of training text
VOCABULARY = SHARED + OWN * len(SIZES)
UNSEEN = VOCABULARY  # and the ids after it, up to the size of the counts


def language(place: int) -> np.ndarray:
    """The probability of each token: 3 of 10 are shared, in both parts by Zipf's law."""
    probs_V = np.zeros(VOCABULARY)
    probs_V[:SHARED] = 0.3 * zipf(SHARED)
    start = SHARED + place * OWN
    probs_V[start : start + OWN] = 0.7 * zipf(OWN)
    return probs_V


def zipf(size: int) -> np.ndarray:
    weights = 1 / np.arange(1, size + 1)
    return weights / weights.sum()


def trained() -> Identifier:
    rng = np.random.default_rng(0)
    counts = [rng.multinomial(size, language(i)) for i, size in enumerate(SIZES.values())]
    return Identifier.of(tuple(SIZES), np.pad(counts, [(0, 0), (0, 100)]))


def of_two(a: list[int], b: list[int]) -> Identifier:
    return Identifier.of(["a", "b"], np.array([a, b]))


@pytest.mark.parametrize("place", range(len(SIZES)))
def test_short_texts_are_identified_however_much_text_their_language_has(place: int) -> None:
    rng = np.random.default_rng(place + 1)
    # Words of other languages are in each text, such as names: two tokens of eight.
    noise = sum(language(other) for other in range(len(SIZES)) if other != place) / 2
    texts = [
        [*rng.choice(VOCABULARY, 6, p=language(place)), *rng.choice(VOCABULARY, 2, p=noise)]
        for _ in range(500)
    ]
    right = Counter(trained().identify(texts))[[*SIZES][place]]
    assert right > 0.94 * len(texts)


def test_tokens_of_no_training_text_say_nothing() -> None:
    known = trained()
    text = [0, 1, SHARED + 2 * OWN]
    others = [UNSEEN, UNSEEN + 99, UNSEEN + 100, 2**31 - 1]  # the last two are not in the counts
    assert known.probabilities([*others, *text, *others]) == known.probabilities(text)
    assert known.identify([others, [], text]) == ["", "", "small"]
    assert known.probabilities(others) == pytest.approx(dict.fromkeys(SIZES, 1 / 3))


def test_a_loop_of_one_token_does_not_decide() -> None:
    small = [SHARED + 2 * OWN + i for i in range(6)]
    loop = [SHARED + 5] * 200
    assert trained().identify([small + loop, loop]) == ["small", "large"]


def test_probabilities_are_those_of_bayes_for_one_token_and_grow_slowly_with_the_text() -> None:
    counts = np.full((2, 117), 10**9)
    counts[0, :17], counts[1, 17:34] = 20 * 10**9, 20 * 10**9  # both have the same total
    known = Identifier.of(["a", "b"], counts)
    # One token in 20 of each text is of the average language, which has 10.5 for 20 and 1.
    odds = (0.95 * 20 + 0.05 * 10.5) / (0.95 * 1 + 0.05 * 10.5)
    assert known.probabilities([0]) == pytest.approx(
        {"a": odds / (odds + 1), "b": 1 / (odds + 1)}, rel=0.01
    )
    assert known.probabilities([*range(16)])["b"] == pytest.approx(odds**-8, rel=0.05)
    assert known.probabilities([0, 17]) == pytest.approx({"a": 0.5, "b": 0.5})


def test_a_token_that_little_text_lacks_says_less_than_one_that_much_text_lacks() -> None:
    def probability(tokens_of_b: int) -> float:
        return of_two([10**6, 0, 10**5], [0, tokens_of_b, 0]).probabilities([2])["b"]

    shares = [probability(tokens) for tokens in (10, 100, 1000, 10**6)]
    assert 0.3 < shares[0] < 0.5
    assert shares == sorted(shares, reverse=True)
    assert 0.02 < shares[3] < 0.03  # 1 / 41: a token in 20 is of any language


def test_a_language_without_text_is_never_the_answer() -> None:
    counts = np.array([[0, 0, 0, 0], [90, 1, 9, 0], [1, 90, 9, 0]])
    known = Identifier.of(["none", "a", "b"], counts)
    assert known.identify([[0], [1], [2], [3]]) == ["a", "b", "a", ""]
    assert known.probabilities([2]) == pytest.approx({"none": 0, "a": 0.5, "b": 0.5})


def test_the_stored_identifier_is_small_and_gives_the_same_answers() -> None:
    counts = np.random.default_rng(0).poisson(2, (9, 8000))
    known = Identifier.of([f"l{i}" for i in range(9)], counts)
    text = json.dumps(known.to_dict())
    assert len(text) <= 200_000
    loaded = Identifier.from_dict(json.loads(text))
    texts = np.random.default_rng(1).integers(8000, size=(50, 10)).tolist()
    assert loaded.languages == known.languages
    assert [*map(loaded.probabilities, texts)] == [*map(known.probabilities, texts)]
    assert loaded.identify(texts) == known.identify(texts)


def test_sixty_languages_of_a_large_vocabulary_and_long_texts_do_not_overflow() -> None:
    counts = np.zeros((60, 64_000), dtype=np.int64)
    for place in range(60):
        counts[place, place * 1000 : (place + 1) * 1000] = 10**7
    known = Identifier.of([str(i) for i in range(60)], counts)
    assert np.isfinite(known.log_probs_LV).all()
    # Of each language all tokens; of one and the language before it 1,000 and 900 once more.
    texts = [[*range(64_000), *range(i * 1000 - 900, i * 1000 + 1000)] for i in (1, 30, 59)]
    assert known.identify(texts) == ["1", "30", "59"]
    assert sum(known.probabilities(texts[0]).values()) == pytest.approx(1)


def test_tokens_of_the_vocabulary_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identifier, "CHUNK", 4)
    ids = np.random.default_rng(0).integers(20, size=42)
    expected = Counter(ids.tolist())
    assert count_tokens(ids, 15).tolist() == [expected[i] for i in range(15)]
