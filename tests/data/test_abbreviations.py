"""Abbreviations: what is learnt from a corpus, and that a run keeps it."""

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.sentences import split_sentences
from tests.helpers.states import TOKENIZER, make_facts
from translate_ddp.data.sentences import learn_abbreviations

# Abbreviations and ordinals of a language in sentences, and what is learnt from them.
ABBREVIATED = {
    "es": (["Los EE. UU. ganaron {}.", "El Lic. Pérez habló de {}."], ["ee", "lic", "uu"]),
    "en": (["I met Sen. Obama at the {}.", "The Hon. Lee saw a {}."], ["hon", "sen"]),
    "cs": (["Včera Ing. Novák viděl {}.", "Přišel 3. Března {}."], ["0", "ing"]),
    "uk": (["Живе на вул. Шевченка, де {}.", "Площа пл. Ринок має {}."], ["вул", "пл"]),
    "hi": (["मि. शर्मा के पास {}।", "कु. सीता के पास {}।"], ["कु", "मि"]),
    "de": (["Sie mögen z. B. Hunde, d. h. {}.", "Am 29. September kam {}."], ["0"]),
    "tr": (["Bugün Av. Yılmaz bir {} gördü.", "Orada 5. Kat {} oldu."], ["0", "av"]),
}


def write_sentences(language: str, count: int, abbreviated: float, seed: int) -> list[str]:
    """Sentences of random words, some of them with abbreviations."""
    templates, _ = ABBREVIATED[language]
    choose = random.Random(seed)
    letters = sorted({letter.lower() for text in templates for letter in text if letter.isalpha()})
    words = ["".join(choose.choices(letters, k=choose.randint(2, 7))) for _ in range(300)]
    stops = ["।" if language == "hi" else "."] * 4 + ["?"]

    def sentence() -> str:
        if choose.random() < abbreviated:
            return choose.choice(templates).format(choose.choice(words))
        text = " ".join(choose.choices(words, k=choose.randint(3, 8)))
        return text[0].upper() + text[1:] + choose.choice(stops)

    return [sentence() for _ in range(count)]


@pytest.mark.parametrize("language", ABBREVIATED)
@pytest.mark.parametrize("joined", [0.0, 0.8])  # the share of lines with two sentences
def test_abbreviations_are_learnt_from_lines_that_are_sentences(language: str, joined: float):
    texts = write_sentences(language, 3000, 0.1, seed=1)
    choose = random.Random(2)
    lines = [
        f"{a} {b}" if choose.random() < joined else a
        for a, b in zip(texts, texts[1:], strict=False)
    ]
    learnt = learn_abbreviations(lines)
    assert learnt == ABBREVIATED[language][1]
    held_out = write_sentences(language, 2000, 0.3, seed=1)[1000:]
    cut_ = [text for text in held_out if len(split_sentences(text, "", learnt)) > 1]
    assert len(cut_) <= 0.02 * len(held_out)
    pairs = list(zip(held_out[::2], held_out[1::2], strict=True))
    apart = [split_sentences(f"{a} {b}", "xx", learnt) == [a, b] for a, b in pairs]
    assert sum(apart) >= 0.95 * len(pairs)


def test_frequent_words_and_ends_of_sentences_are_not_learnt():
    lines = ["She said it to him.", "To him she left it.", "It was him to whom she said it"] * 30
    assert learn_abbreviations([*lines, *["So he said. He left him."] * 10, "They said."]) == []
    assert learn_abbreviations([*lines, *(f"{n}. Go home." for n in range(1, 40))]) == []
    assert learn_abbreviations([*lines, *["I am 25.", "I am 25. She is 30."] * 9]) == []
    assert learn_abbreviations([*lines, *["Am 25. Mai.", "I am 25."] * 9, "7 or 8 of 9"]) == []
    assert learn_abbreviations([*lines, *["Am 25. Mai.", "7 or 8 of 9"] * 9]) == ["0"]
    assert learn_abbreviations([]) == learn_abbreviations(["", ". .", "...", "a" * 10**6]) == []
    # Long words that are twice before the end of a line, in a corpus where others are so, too.
    rare = ["We saw the attacker. He left us.", "Was it the attacker. No it was."]
    assert learn_abbreviations([*lines, *rare]) == []
    assert learn_abbreviations([*lines, "We saw at. He left us."]) == []
    assert learn_abbreviations([*lines, *(each.replace("attacker", "atk") for each in rare)]) == [
        "atk"
    ]


def test_letter_that_ends_sentences_is_learnt_as_a_word():
    lines = ["Ihe a na ndị a bụ nke a.", "O mere ya n'oge a na afọ Obi", "C. A. Obi hụrụ a."]
    assert learn_abbreviations(lines * 3) == ["a."]
    assert split_sentences("Ihe a. Onye A. Obi.", "ig", ["a."]) == ["Ihe a.", "Onye A. Obi."]
    assert split_sentences("Ihe a. Onye A. Obi.", "ig") == ["Ihe a. Onye A. Obi."]


def test_learnt_abbreviations_are_found_in_any_case_and_beside_the_known_ones():
    line = "I met Zrb. Obama and Dr. Lee. ZRB. LEE LEFT"
    assert split_sentences(line, "en", ["zrb"]) == [line[:29], line[30:]]
    assert split_sentences("i met zrb. obama. he left", "en", ["zrb"])[0] == "i met zrb. obama."
    assert (
        len(split_sentences("Am 3. Mai", "xx", ["0"]))
        == 1
        < len(split_sentences("Am 3. Mai", "xx"))
    )


def test_a_model_keeps_the_abbreviations_and_the_longest_source_of_its_first_weights():
    def continued(known: Any, own: Any, longest: int) -> tuple[object, int]:
        first, own = (make_facts(TOKENIZER, abbreviations=each) for each in (known, own))
        found = replace(own, longest_source=longest).continued(first)
        return found.abbreviations, found.longest_source

    assert continued({}, {"en": ["sen"]}, 40) == ({"en": ["sen"]}, 50)
    assert continued({"en": ["sen"]}, {"en": ["rep", "sen"]}, 60) == ({"en": ["rep", "sen"]}, 60)
    both = {"en": ["sen"], "de": ["abg"]}
    assert continued(both, {"en": []}, 50) == (both, 50)
