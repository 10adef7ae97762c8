"""Sentence patterns of short statements, questions and requests; each docstring is an example."""

from dataclasses import replace

from tools.demo_grammar import frames, italian
from tools.demo_grammar.clauses import NOT, Clause, Pair, Verb, sentence
from tools.demo_grammar.english import verb_group
from tools.demo_grammar.lexicon import nouns
from tools.demo_grammar.phrases import (
    EMPTY,
    PRONOUNS,
    Nominal,
    Noun,
    Phrase,
    join,
    join_words,
    noun_phrase,
)
from tools.demo_grammar.sampling import Sampler
from tools.demo_grammar.tables import Agreement, Tense, load

_WORDS = load("function_words.toml")
OBJECT_PRONOUNS = {
    word: (clitic, PRONOUNS[subject])
    for word, (clitic, _, subject) in _WORDS["object_pronouns"].items()
}
DATIVES = {subject: dative for _, dative, subject in _WORDS["object_pronouns"].values()}
EATEN = nouns("fruit", "dish", "staple", "meal", "drink", "animals", "language", "music")
LIKE, HAVE = Verb("like", "piacere"), Verb("have", "avere")
CONSUMED = frames.select(frames.TRANSITIVE, "eat", "drink", "cook", "buy")
HELPING = frames.select(frames.WITH_HUMAN_OBJECT, "see", "call", "help", "meet", "wait for")
KNOWING = frames.select(frames.TRANSITIVE, "love", "know")
REQUESTED = frames.select(
    frames.ACTIONS,
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
    subject = draw.pronoun() if draw.maybe(0.6) else draw.person()
    clause = Clause(subject, frame.verb, "present", (_bare(noun),), draw.negation(0.35))
    if draw.maybe(0.2):
        verb = draw.choice((Verb("want to", "volere"), Verb("can", "potere")))
        clause = Clause(subject, verb, "present", (frame.verb, _bare(noun)), clause.adverb)
    return draw.ask_or_state(clause)


def liking(draw: Sampler) -> Pair:
    """I like coffee."""
    if draw.maybe(0.25):
        frame = draw.choice(frames.ACTIONS)
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
    subject = draw.pronoun() if draw.maybe(0.75) else draw.person()
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
    frame = draw.choice(frames.PROGRESSIVE if tense == "progressive" else frames.ACTIONS)
    subject = draw.pronoun() if draw.maybe(0.6) else draw.person()
    objects = draw.object_of(frame, "negatable")
    complements = (*objects, *draw.location(frame, 0.2 if objects else 0.8))
    return draw.ask_or_state(
        Clause(subject, frame.verb, tense, complements, draw.negation(0.15)), 0.25
    )


def simple_action(draw: Sampler) -> Pair:
    """My sister works in Rome."""
    frame = draw.choice((*frames.TRANSITIVE, *frames.INTRANSITIVE))
    subject = draw.pronoun() if draw.maybe(0.6) else draw.person()
    objects = draw.object_of(frame, "negatable")
    complements = (*objects, *(() if objects else draw.location(frame, 0.8)))
    tense = draw.tense(frame.verb)
    return draw.ask_or_state(Clause(subject, frame.verb, tense, complements, draw.negation(0.25)))


def trip(draw: Sampler) -> Pair:
    """We are going to the beach tomorrow."""
    place = draw.place(frames.ANYWHERE, "to")
    subject = draw.pronoun() if draw.maybe(0.7) else draw.person()
    day = draw.choice(DAYS) if draw.maybe(0.5) else EMPTY
    be, _ = verb_group("be", "present", subject.agreement, do=True)
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
