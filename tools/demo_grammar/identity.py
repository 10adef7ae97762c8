"""Sentence patterns that say who or what somebody or something is; each docstring is an example."""

from tools.demo_grammar import frames, italian
from tools.demo_grammar.clauses import BE, Clause, Pair, Verb, sentence
from tools.demo_grammar.english import verb_group
from tools.demo_grammar.lexicon import ADJECTIVES, ADJECTIVES_OF, NOUNS, nouns
from tools.demo_grammar.phrases import (
    POSSESSIVES,
    PRONOUNS,
    Nominal,
    Phrase,
    join,
    noun_phrase,
    predicative,
)
from tools.demo_grammar.sampling import NOT_OWNED, Sampler, weighted_determiners
from tools.demo_grammar.tables import Agreement, Tense

DESCRIBED = tuple(n for n in NOUNS.values() if len(ADJECTIVES_OF[n]) > 2 and n.kind != "family")
STATES = [a for a in ADJECTIVES_OF[NOUNS["cook"]] if a.english not in ("good", "beautiful")]
THINGS = nouns("things", "text", "press", "luggage", "vehicle", "clothing", "opening", "furniture")
LOCATED = nouns(
    "family", "spouse", "friend", "pet", "place", "school", "baby", "bottle", "party", "street"
)
IT = Nominal("it", "", Agreement("m", "singular"))
# "It is cold" is said of the weather.
OF_THINGS = [a for a in ADJECTIVES.values() if a.english not in ("cold", "hot")]
KIN = {"family", "spouse"}
COUNTS = ("two", "three", "four", "many")
SHOWN = (nouns("family", "spouse", "acquaintance"), THINGS, nouns("place", "fruit", "pet"))
RELATIVES = tuple(
    noun for noun in nouns("family", "spouse", "friend") if "singular" in noun.numbers
)
OWNED = (
    *(noun for noun in RELATIVES if noun.kind != "spouse"),
    *nouns("pet", "things", "luggage", "vehicle", "clothing", "house", "job"),
)
LIKE, HAVE = Verb("like", "piacere"), Verb("have", "avere")


def description(draw: Sampler) -> Pair:
    """The red house is small."""
    noun = draw.choice(DESCRIBED)
    number = draw.choice(noun.numbers)
    colours = [a for a in ADJECTIVES_OF[noun] if a.position == "classifying"]
    attributes = (draw.choice(colours),) if colours and draw.maybe(0.6) else ()
    determiner = draw.choice(("the", "the", "this", "that"))
    subject = noun_phrase(noun, determiner, number, attributes)
    complement = predicative(
        draw.choice([a for a in ADJECTIVES_OF[noun] if not (attributes and a in colours)]), subject
    )
    tense: Tense = "past" if draw.maybe(0.2) else "present"
    return draw.ask_or_state(Clause(subject, BE, tense, (complement,), draw.negation(0.2)))


def state(draw: Sampler) -> Pair:
    """She is tired."""
    subject = draw.pronoun() if draw.maybe(0.6) else draw.person()
    tense: Tense = "past" if draw.maybe(0.2) else "present"
    if draw.maybe(0.35):
        feeling = draw.choice(tuple(frames.FEELINGS.values()))
        return draw.ask_or_state(
            Clause(subject, frames.FEEL, tense, (feeling,), draw.negation(0.2))
        )
    adjective = draw.choice(STATES)
    if draw.maybe(0.15):
        subject, adjective = IT, draw.choice(OF_THINGS)
    complement = predicative(adjective, subject)
    if adjective.gradable and draw.maybe(0.25):
        complement = Phrase(f"very {complement.english}", f"molto {complement.italian}")
    return draw.ask_or_state(Clause(subject, BE, tense, (complement,), draw.negation(0.25)))


def whereabouts(draw: Sampler) -> Pair:
    """Where is my mother?"""
    subject = draw.definite(LOCATED if draw.maybe(0.5) else THINGS)
    where_is = "dov'è" if subject.agreement.number == "singular" else "dove sono"
    be, _ = verb_group("be", "present", subject.agreement, do=True)
    return sentence(join(Phrase(f"where {be}", where_is), subject), "?")


def identity(draw: Sampler) -> Pair:
    """This is my brother."""
    noun = draw.choice(draw.choice(SHOWN))
    number = draw.choice(noun.numbers)
    if noun.kind in NOT_OWNED or (noun.kind not in KIN and draw.maybe(0.4)):
        determiner = "a" if number == "singular" and draw.maybe(0.7) else "the"
        shown = noun_phrase(noun, determiner, number, draw.adjectives(noun, 0.3))
    elif noun.kind != "spouse" and draw.maybe(0.3):
        shown = draw.possessive(noun)
    else:
        possessives = weighted_determiners(noun, number, "definite")
        shown = noun_phrase(noun, draw.choice([d for d in possessives if d in POSSESSIVES]), number)
    return draw.ask_or_state(
        Clause(_pointer(draw, shown.agreement), BE, "present", (shown,), draw.negation(0.15))
    )


def _pointer(draw: Sampler, agreement: Agreement) -> Nominal:
    """A pronoun for what is pointed at: this, those; `it`, which Italian drops."""
    if agreement.number == "plural":
        word, this = draw.choice((("these", "questo"), ("those", "quello")))
    else:
        word, this = draw.choice((("this", "questo"), ("that", "quello"), ("it", "")))
    return Nominal(word, italian.inflect(this, agreement) if this else "", agreement)


def introduction(draw: Sampler) -> Pair:
    """This is Anna."""
    person = draw.name()
    if draw.maybe(0.5):
        word = italian.inflect("questo", person.agreement)
        this = Nominal("this", word, person.agreement)
        return draw.ask_or_state(Clause(this, BE, "present", (person,)))
    fitting = [noun for noun in RELATIVES if noun.gender == person.agreement.gender]
    relation = noun_phrase(draw.choice(fitting), draw.choice(("my", "your", "his", "her")))
    return draw.ask_or_state(Clause(person, BE, "present", (relation,), draw.negation(0.15)))


def identity_question(draw: Sampler) -> Pair:
    """Who is that woman?"""
    if draw.maybe(0.6):
        noun = draw.choice(nouns("person", "acquaintance"))
        asked = noun_phrase(
            noun,
            draw.choice(("this", "that")),
            draw.choice(noun.numbers),
            draw.adjectives(noun, 0.2),
        )
    else:
        asked = (
            draw.name() if draw.maybe(0.4) else draw.nominal(nouns("people", "family"), "definite")
        )
    be, _ = verb_group("be", "present", asked.agreement, do=True)
    is_or_are = "è" if asked.agreement.number == "singular" else "sono"
    if draw.maybe(0.25):
        stare = italian.finite("stare", "present", asked.agreement.slot)
        return sentence(join(Phrase(f"how {be}", f"come {stare}"), asked), "?")
    return sentence(join(Phrase(f"who {be}", f"chi {is_or_are}"), asked), "?")


def profession(draw: Sampler) -> Pair:
    """My father is a doctor."""
    noun = draw.choice(nouns("person", "acquaintance"))
    person = draw.name()
    if person.agreement.gender != noun.gender or draw.maybe(0.6):
        person = PRONOUNS[draw.choice(("he", "I", "you")) if noun.gender == "m" else "she"]
    complement = noun_phrase(noun, "a", "singular", draw.adjectives(noun, 0.2))
    return draw.ask_or_state(Clause(person, BE, "present", (complement,), draw.negation(0.15)))


def possession(draw: Sampler) -> Pair:
    """I have two brothers."""
    noun = draw.choice(OWNED)
    owned = draw.indefinite(noun)
    if noun.kind in KIN:
        number = draw.choice(noun.numbers)
        owned = noun_phrase(noun, "a" if number == "singular" else draw.choice(COUNTS), number)
    subject = draw.pronoun() if draw.maybe(0.7) else draw.person()
    return draw.ask_or_state(Clause(subject, HAVE, "present", (owned,), draw.negation(0.2)))
