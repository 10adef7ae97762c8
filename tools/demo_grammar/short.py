"""Patterns of short sentences and of fragments without a mark; each docstring is an example."""

from dataclasses import replace

from tools.demo_grammar import english, italian, lexicon
from tools.demo_grammar.lexicon import (
    ADJECTIVES,
    ADJECTIVES_OF,
    CITIES,
    NOUNS,
    city_phrases,
    nouns,
    select,
)
from tools.demo_grammar.phrases import (
    BE,
    EMPTY,
    NOT,
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    Clause,
    Nominal,
    Noun,
    Pair,
    Phrase,
    Verb,
    capitalized,
    conjoined,
    join,
    join_words,
    noun_phrase,
    predicative,
    sentence,
)
from tools.demo_grammar.sampling import NOT_OWNED, DeterminerSet, Sampler, weighted_determiners
from tools.demo_grammar.tables import Agreement, Tense, entries, load

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
    subject = draw.subject(0.6)
    tense: Tense = "past" if draw.maybe(0.2) else "present"
    if draw.maybe(0.35):
        feeling = draw.choice(tuple(lexicon.FEELINGS.values()))
        return draw.ask_or_state(
            Clause(subject, lexicon.FEEL, tense, (feeling,), draw.negation(0.2))
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
    be = english.be(subject.agreement)
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
    be = english.be(asked.agreement)
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
    subject = draw.subject(0.7)
    return draw.ask_or_state(Clause(subject, HAVE, "present", (owned,), draw.negation(0.2)))


_WORDS = load("function_words.toml")
OBJECT_PRONOUNS = {
    word: (clitic, PRONOUNS[subject])
    for word, (clitic, _, subject) in _WORDS["object_pronouns"].items()
}
DATIVES = {subject: dative for _, dative, subject in _WORDS["object_pronouns"].values()}
EATEN = nouns("fruit", "dish", "staple", "meal", "drink", "animals", "language", "music")
LIKE, HAVE = Verb("like", "piacere"), Verb("have", "avere")
CONSUMED = select(lexicon.TRANSITIVE, "eat", "drink", "cook", "buy")
HELPING = select(lexicon.WITH_HUMAN_OBJECT, "see", "call", "help", "meet", "wait for")
KNOWING = select(lexicon.TRANSITIVE, "love", "know")
REQUESTED = select(
    lexicon.ACTIONS,
    *("eat", "drink", "cook", "buy", "read", "write", "open", "close", "wash", "clean", "take"),
    *("call", "help", "wait for", "sing", "watch", "listen to", "use", "answer", "look for"),
    *("forget", "sleep", "work", "walk", "dance", "swim", "study", "run", "stay"),
)
PRICED = nouns("clothing", "tool", "fragile", "vehicle", "luggage", "fruit", "furniture", "ticket")
MODALS = Verb("can", "potere"), Verb("must", "dovere"), Verb("want to", "volere")
TENSES: tuple[Tense, ...] = ("present", "past", "future")
DAYS = Phrase("tomorrow", "domani"), Phrase("today", "oggi"), Phrase("tonight", "stasera")


def _bare(noun: Noun) -> Nominal:
    """The noun without an article, as of food in general; Italian has none either."""
    return noun_phrase(noun, "", "plural" if "plural" in noun.numbers else "singular")


def consumption(draw: Sampler) -> Pair:
    """My brother does not eat meat."""
    frame = draw.choice(CONSUMED)
    noun = draw.choice(frame.objects)
    subject = draw.subject(0.6)
    clause = Clause(subject, frame.verb, "present", (_bare(noun),), draw.negation(0.35))
    if draw.maybe(0.2):
        verb = draw.choice((Verb("want to", "volere"), Verb("can", "potere")))
        clause = Clause(subject, verb, "present", (frame.verb, _bare(noun)), clause.adverb)
    return draw.ask_or_state(clause)


def liking(draw: Sampler) -> Pair:
    """I like coffee."""
    if draw.maybe(0.25):
        frame = draw.choice(lexicon.ACTIONS)
        activity = join(frame.verb, *draw.object_of(frame, "negatable"))
        liked = Nominal(f"to {activity.english}", activity.italian, Agreement("m", "singular"))
    elif draw.maybe(0.5):
        noun = draw.choice(EATEN)
        number = "plural" if "plural" in noun.numbers else "singular"
        definite = noun_phrase(noun, "the", number)
        liked = replace(definite, english=noun_phrase(noun, "", number).english)
    else:
        liked = draw.definite(
            nouns("clothing", "vehicle", "text", "show", "building", "pet", "place")
        )
    word = draw.choice(tuple(DATIVES))
    person, dative, clitic = PRONOUNS[word], "", DATIVES[word]
    if draw.maybe(0.3):
        person = draw.name() if draw.maybe(0.5) else draw.nominal(nouns("family"), "definite")
        dative, clitic = italian.contract("a", person.italian), ""
    negation = draw.negation(0.25)
    clause = Clause(person, LIKE, "present", (liked,), negation)
    pleases = Clause(liked, LIKE, "present", adverb=negation, clitic=clitic).predicate()
    in_italian = join_words(dative, pleases.italian, liked.italian)
    if negation != NOT and draw.maybe(0.4):
        return sentence(Phrase(clause.question().english, in_italian), "?")
    return sentence(Phrase(clause.statement().english, in_italian))


def pronoun_object(draw: Sampler) -> Pair:
    """I do not know him."""
    word = draw.choice(tuple(OBJECT_PRONOUNS))
    clitic, referent = OBJECT_PRONOUNS[word]
    subject = draw.subject(0.75)
    while subject.agreement.person == referent.agreement.person != 3:
        subject = draw.pronoun()
    frame = draw.choice((*HELPING, *KNOWING))
    if frame in HELPING and draw.maybe(0.35):
        modal = draw.choice(MODALS)
        infinitive = italian.clitic_after(frame.verb.italian, clitic)
        action = Phrase(f"{frame.verb.english} {word}", infinitive)
        return draw.ask_or_state(
            Clause(subject, modal, "present", (action,), draw.negation(0.2)), 0.5
        )
    tense = "present" if frame in KNOWING else draw.choices(TENSES, (5, 3, 2))[0]
    english_object = Phrase(word, "")  # in Italian it is the clitic
    clause = Clause(subject, frame.verb, tense, (english_object,), draw.negation(0.25), clitic)
    return draw.ask_or_state(clause)


def request(draw: Sampler) -> Pair:
    """Open the window, please."""
    frame = draw.choice(REQUESTED)
    verb = frame.verb
    complements = draw.object_of(frame, "negatable") or draw.location(frame, 1.0)
    number = draw.random()
    if number < 0.25:
        asked = join(Phrase(f"do not {verb.english}", f"non {verb.italian}"), *complements)
    elif number < 0.5:
        ours = italian.finite(verb.italian, "present", PRONOUNS["we"].agreement.slot)
        asked = join(Phrase(f"let us {verb.english}", ours), *complements)
    else:
        asked = join(Phrase(verb.english, italian.imperative(verb.italian)), *complements)
        if draw.maybe(0.4):
            asked = Phrase(f"{asked.english}, please", f"{asked.italian}, per favore")
    return sentence(asked, "!" if draw.maybe(0.3) else ".")


def action(draw: Sampler) -> Pair:
    """The children are playing in the garden."""
    tense = draw.choices(("progressive", "perfect", "intention"), (5, 3, 3))[0]
    frame = draw.choice(lexicon.PROGRESSIVE if tense == "progressive" else lexicon.ACTIONS)
    subject = draw.subject(0.6)
    objects = draw.object_of(frame, "negatable")
    complements = (*objects, *draw.location(frame, 0.2 if objects else 0.8))
    return draw.ask_or_state(
        Clause(subject, frame.verb, tense, complements, draw.negation(0.15)), 0.25
    )


def simple_action(draw: Sampler) -> Pair:
    """My sister works in Rome."""
    frame = draw.choice((*lexicon.TRANSITIVE, *lexicon.INTRANSITIVE))
    subject = draw.subject(0.6)
    objects = draw.object_of(frame, "negatable")
    complements = (*objects, *(() if objects else draw.location(frame, 0.8)))
    tense = draw.tense(frame.verb)
    return draw.ask_or_state(Clause(subject, frame.verb, tense, complements, draw.negation(0.25)))


def trip(draw: Sampler) -> Pair:
    """We are going to the beach tomorrow."""
    place = draw.place(lexicon.ANYWHERE, "to")
    subject = draw.subject(0.7)
    day = draw.choice(DAYS) if draw.maybe(0.5) else EMPTY
    be = english.be(subject.agreement)
    in_italian = italian.finite("andare", "present", subject.agreement.slot)
    verb = Phrase(f"{be} going", in_italian)
    return sentence(join(subject, verb, place, day))


def price(draw: Sampler) -> Pair:
    """How much does this jacket cost?"""
    thing = draw.nominal(PRICED, "definite", described=0.2)
    singular = thing.agreement.number == "singular"
    do, cost = ("does", "costa") if singular else ("do", "costano")
    be = "is" if singular else "are"
    if draw.maybe(0.5):
        return sentence(
            Phrase(f"how much {do} {thing.english} cost", f"quanto {cost} {thing.italian}"), "?"
        )
    return sentence(Phrase(f"how much {be} {thing.english}", f"quanto {cost} {thing.italian}"), "?")


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
    for frame in (*lexicon.ACTIONS, *lexicon.JOURNEYS, *lexicon.GIVING):
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
    return phrase.pair


def owned(draw: Sampler) -> Pair:
    """Anna's dog"""
    phrase = draw.possessive(draw.choice(OWNABLE))
    return phrase.pair


def joined(draw: Sampler) -> Pair:
    """bread and wine"""
    first, second = draw.sample(FOOD, 2)
    phrase = conjoined(_bare(first), _bare(second))
    if draw.maybe(0.4):
        phrase = conjoined(draw.name(), draw.name())
    return phrase.pair


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
        phrase = draw.place(lexicon.ANYWHERE, draw.choice(("at", "to", "from")))
    return phrase.pair


def named(draw: Sampler) -> Pair:
    """Anna"""
    return draw.name(known_gender=False).pair


IDENTITIES = (
    *(description, state, whereabouts, identity, introduction, identity_question, profession),
    possession,
)
DIALOGUE = consumption, liking, pronoun_object, request, action, simple_action, trip, price
FRAGMENTS = listed, described, owned, joined, located, named
