"""Everyday phrases: the fixed ones of everyday.toml, and sentence patterns that extend them."""

import re
from collections.abc import Callable

from tools.demo_grammar import italian, lexicon
from tools.demo_grammar.lexicon import COUNTRIES, LOCALITIES, PLACES, city_phrases, phrases
from tools.demo_grammar.phrases import EMPTY, NUMBERS, Pair, Phrase, join, noun_phrase, sentence
from tools.demo_grammar.sampling import Sampler
from tools.demo_grammar.tables import load, variants

_TABLE = load("everyday.toml")


def _table(text: str) -> list[Phrase]:
    """Every English variant of every line of a table with its Italian."""
    return [
        Phrase(variant, in_italian) for english, in_italian in variants(text) for variant in english
    ]


GREETINGS, FAREWELLS = _table(_TABLE["greetings"]), _table(_TABLE["farewells"])
BEFORE_STATEMENTS = _table(_TABLE["before_statements"])
BEFORE_QUESTIONS = _table(_TABLE["before_questions"])
STATEMENTS, QUESTIONS = (_table(_TABLE[name]["fixed"]) for name in ("statements", "questions"))
INTRODUCTIONS = _table(_TABLE["introductions"])
FILLED_STATEMENTS = _table(_TABLE["statements"]["filled"])
FILLED_QUESTIONS = _table(_TABLE["questions"]["filled"])
SIMPLE_STATEMENTS = [phrase for phrase in STATEMENTS if "," not in phrase.english]
ORDERED = [*phrases(_TABLE["slots"]["order"]), *phrases(_TABLE["slots"]["needed"])]
TODAY = Phrase("today", "oggi")
WEATHER = [
    Phrase(f"it is {phrase.english}", phrase.italian)
    for phrase in _table(_TABLE["statements"]["weather"])
]


def fixed_pairs() -> list[Pair]:
    """The phrases without slots, each as a sentence, and what is ordered or needed."""
    exclaimed = [*GREETINGS, *FAREWELLS]
    today = [join(phrase, TODAY) for phrase in WEATHER]
    stated = [*STATEMENTS, *WEATHER, *today, *BEFORE_STATEMENTS, *BEFORE_QUESTIONS]
    return [
        *(sentence(phrase, mark) for phrase in exclaimed for mark in ("!", ".")),
        *(sentence(phrase) for phrase in dict.fromkeys(stated)),
        *(sentence(phrase, "?") for phrase in QUESTIONS),
        *(phrase.pair for phrase in ORDERED),
    ]


def _entry_of(name: str) -> Callable[[Sampler], Phrase]:
    options = phrases(_TABLE["slots"][name])
    return lambda draw: draw.choice(options)


def _action(draw: Sampler) -> Phrase:
    frame = draw.choice(lexicon.ACTIONS)
    complements = draw.object_of(frame, "negatable") or draw.location(frame, 0.7)
    return join(frame.verb, *complements)


def _place(draw: Sampler) -> Phrase:
    return noun_phrase(draw.choice(SOUGHT).noun, "the")


def _digits(draw: Sampler) -> Phrase:
    number = str(draw.randint(2, 99))
    return Phrase(number, number)


def _hour(draw: Sampler) -> Phrase:
    digits = str(draw.randint(2, 12))
    word = draw.choice(tuple(NUMBERS))
    return Phrase(digits, digits) if draw.maybe(0.4) else Phrase(word, NUMBERS[word])


SOUGHT = [place for name, place in PLACES.items() if name not in ("city", "island", "room")]
ABROAD = (*COUNTRIES.values(), LOCALITIES["UnitedStates"])
SLOTS: dict[str, Callable[[Sampler], Phrase]] = {
    **{name: _entry_of(name) for name in _TABLE["slots"]},
    "person": lambda draw: draw.name(known_gender=False),
    "other": lambda draw: draw.name(known_gender=False),
    "city": Sampler.city,
    "abroad": lambda draw: draw.choice(ABROAD)["at"],
    "origin": lambda draw: draw.choice(ABROAD)["from"],
    "action": _action,
    "place": _place,
    "number": _digits,
    "hour": _hour,
}


def _filled(template: Phrase, draw: Sampler) -> Phrase:
    """The template with a drawn phrase in every slot."""
    names = dict.fromkeys(re.findall(r"\{(\w+)\}", template.english))
    drawn = {name: SLOTS[name](draw) for name in names}

    def in_italian(slot: re.Match[str]) -> str:
        return italian.contract(slot[1] or "", drawn[slot[2]].italian)

    return Phrase(
        template.english.format(**{name: phrase.english for name, phrase in drawn.items()}),
        re.sub(r"\{(?:(\w+) )?(\w+)\}", in_italian, template.italian),
    )


def _as_typed(draw: Sampler, pair: Pair) -> Pair:
    """Sometimes without the English commas."""
    in_english, in_italian = pair
    return (in_english.replace(",", "") if draw.maybe(0.3) else in_english), in_italian


def _any_statement(draw: Sampler) -> Phrase:
    if draw.maybe(0.5):
        return draw.choice((*SIMPLE_STATEMENTS, *WEATHER))
    return _filled(draw.choice(FILLED_STATEMENTS), draw)


def _any_question(draw: Sampler) -> Phrase:
    if draw.maybe(0.5):
        return draw.choice(QUESTIONS)
    return _filled(draw.choice(FILLED_QUESTIONS), draw)


def _after_comma(first: Phrase, second: Phrase) -> Phrase:
    return Phrase(f"{first.english}, {second.english}", f"{first.italian}, {second.italian}")


def greeting(draw: Sampler) -> Pair:
    """Good morning, Anna!"""
    greeted = _after_comma(draw.choice((*GREETINGS, *FAREWELLS)), draw.name(known_gender=False))
    return _as_typed(draw, sentence(greeted, "!" if draw.maybe(0.5) else "."))


def exchange(draw: Sampler) -> Pair:
    """Hi Anna, how are you?"""
    opener = draw.choice(GREETINGS)
    if draw.maybe(0.6):
        opener = _after_comma(opener, draw.name(known_gender=False))
    if draw.maybe(0.5):
        return _as_typed(draw, sentence(_after_comma(opener, _any_statement(draw))))
    return _as_typed(draw, sentence(_after_comma(opener, _any_question(draw)), "?"))


def self_introduction(draw: Sampler) -> Pair:
    """Hello, I am Anna."""
    opener = draw.choice(GREETINGS)
    phrase = _after_comma(opener, _filled(draw.choice(INTRODUCTIONS), draw))
    return _as_typed(draw, sentence(phrase))


def opened_statement(draw: Sampler) -> Pair:
    """Sorry, I do not understand."""
    phrase = _after_comma(draw.choice(BEFORE_STATEMENTS), _any_statement(draw))
    return _as_typed(draw, sentence(phrase))


def opened_question(draw: Sampler) -> Pair:
    """Excuse me, where is the station?"""
    phrase = _after_comma(draw.choice(BEFORE_QUESTIONS), _any_question(draw))
    return _as_typed(draw, sentence(phrase, "?"))


def filled_statement(draw: Sampler) -> Pair:
    """My name is Anna."""
    return _as_typed(draw, sentence(_filled(draw.choice(FILLED_STATEMENTS), draw)))


def filled_question(draw: Sampler) -> Pair:
    """Where does Anna live?"""
    return _as_typed(draw, sentence(_filled(draw.choice(FILLED_QUESTIONS), draw), "?"))


def weather(draw: Sampler) -> Pair:
    """It is cold in Rome today."""
    report = draw.choice(WEATHER)
    place = city_phrases(draw.city())["at"] if draw.maybe(0.6) else EMPTY
    day = TODAY if draw.maybe(0.6) else EMPTY
    return sentence(join(report, place, day))


PATTERNS = (
    *(greeting, exchange, self_introduction, opened_statement),
    *(opened_question, filled_statement, filled_question, weather),
)
