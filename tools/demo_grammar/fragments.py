"""Single words, and patterns of short phrases that are not sentences: in lower case, no mark."""

from tools.demo_grammar import frames, lexicon
from tools.demo_grammar.clauses import Pair, capitalized
from tools.demo_grammar.lexicon import ADJECTIVES, CITIES, NOUNS, city_phrases, nouns
from tools.demo_grammar.phrases import NUMBERS, Nominal, Noun, conjoined, noun_phrase
from tools.demo_grammar.sampling import DeterminerSet, Sampler
from tools.demo_grammar.tables import entries

ALL_NOUNS = tuple(NOUNS.values())
OWNABLE = nouns("family", "pet", "things", "luggage", "vehicle", "clothing", "house", "room", "job")
FOOD = nouns("fruit", "dish", "staple", "meal", "drink")
WORDS = {name: entries(table) for name, table in lexicon.WORDS["words"].items()}


def single_words() -> list[Pair]:
    """Nouns of both numbers, adjectives, infinitives, numbers and others: "house", "casa".

    An English word with several translations has the first.
    """
    words: dict[str, str] = {}
    for noun in NOUNS.values():
        for number in noun.numbers:
            phrase = noun_phrase(noun, "", number)
            words.setdefault(phrase.english, phrase.italian)
        words.setdefault(noun.english, noun.italian)
    for adjective in ADJECTIVES.values():
        words.setdefault(adjective.english, adjective.italian)
    for group in WORDS.values():
        words.update((entry.english, entry.italian.replace("_", " ")) for entry in group)
    words.update(NUMBERS)
    words.update((city.english, city.italian) for city in CITIES)
    for frame in (*frames.ACTIONS, *frames.JOURNEYS, *frames.GIVING):
        words.setdefault(f"to {frame.verb.english}", frame.verb.italian)
    return list(words.items())


SINGLE_WORDS = single_words()


def listed(draw: Sampler) -> Pair:
    """house / red / to eat, sometimes each with a capital"""
    sides = zip(*draw.sample(SINGLE_WORDS, draw.choice((2, 3))), strict=True)
    if draw.maybe(0.4):
        sides = (map(capitalized, words) for words in sides)
    in_english, in_italian = map(" / ".join, sides)
    return in_english, in_italian


def described(draw: Sampler) -> Pair:
    """my old house"""
    noun = draw.choice(ALL_NOUNS)
    if noun.kind not in ("family", "language", "subject") and draw.maybe(0.3):
        number = draw.choice(noun.numbers)
        phrase = noun_phrase(noun, "", number, draw.adjectives(noun, 1.0))
    else:
        allowed: DeterminerSet = "definite" if noun.kind == "unique" else "any"
        phrase = draw.nominal((noun,), allowed, described=0.35)
    return phrase.english, phrase.italian


def owned(draw: Sampler) -> Pair:
    """Anna's dog"""
    phrase = draw.possessive(draw.choice(OWNABLE))
    return phrase.english, phrase.italian


def joined(draw: Sampler) -> Pair:
    """bread and wine"""
    first, second = draw.sample(FOOD, 2)
    phrase = conjoined(_general(first), _general(second))
    if draw.maybe(0.4):
        phrase = conjoined(draw.name(), draw.name())
    return phrase.english, phrase.italian


def located(draw: Sampler) -> Pair:
    """in the kitchen"""
    choice = draw.random()
    if choice < 0.3:
        phrase = draw.spot()
    elif choice < 0.45:
        phrase = draw.company()
    elif choice < 0.65:
        phrase = city_phrases(draw.city())[draw.choice(("at", "to", "from"))]
    elif choice < 0.8:
        phrase = draw.choice(draw.choice(draw.choice(list(lexicon.TIMES.values()))))
    else:
        phrase = draw.place(frames.ANYWHERE, draw.choice(("at", "to", "from")))
    return phrase.english, phrase.italian


def person(draw: Sampler) -> Pair:
    """Anna"""
    name = draw.name(known_gender=False)
    return name.english, name.italian


def _general(noun: Noun) -> Nominal:
    return noun_phrase(noun, "", "plural" if "plural" in noun.numbers else "singular")
