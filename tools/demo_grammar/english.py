"""English word forms: plurals, a or an, verb forms, comparatives; english.toml has irregular ones.

Of verbs of several words ("look for") the first one is inflected.
"""

import re

from tools.demo_grammar.tables import Agreement, Tense, load

VOWELS = "aeiou"
FORMS = load("english.toml")
_CONTRACTIONS = {re.compile(long): short for long, short in FORMS["contractions"].items()}


def _with_ending(word: str, ending: str) -> str:
    """The word with -s, -ed or -er in regular spelling: boxes, cherries, closed, easier."""
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ie" + ending.removeprefix("e")
    if ending == "s":
        return word + ("es" if word.endswith(("s", "sh", "ch", "x", "o")) else "s")
    return word.removesuffix("e") + ending


def plural(noun: str) -> str:
    return FORMS["plurals"].get(noun) or _with_ending(noun, "s")


def with_a(phrase: str) -> str:
    """`phrase` with a or an in front."""
    takes_an = phrase[0].lower() in VOWELS and phrase.split()[0] not in FORMS["consonant_sound"]
    return f"{'an' if takes_an else 'a'} {phrase}"


def _with_head(verb: str, head: str) -> str:
    """The verb with another form of its first word."""
    return " ".join([head, *verb.split()[1:]])


def third_person(verb: str) -> str:
    head = verb.split()[0]
    return _with_head(verb, FORMS["third_persons"].get(head) or _with_ending(head, "s"))


def past(verb: str) -> str:
    head = verb.split()[0]
    return _with_head(verb, FORMS["pasts"].get(head) or _with_ending(head, "ed"))


def participle(verb: str) -> str:
    """Past participle: eaten, looked for."""
    head = verb.split()[0]
    return _with_head(verb, FORMS["participles"].get(head) or past(head))


def gerund(verb: str) -> str:
    """Form in -ing: eating, writing, running, looking for."""
    head = verb.split()[0]
    if head in FORMS["gerunds"]["doubled_consonant"]:
        return _with_head(verb, head + head[-1] + "ing")
    return _with_head(verb, (head if head.endswith("ee") else head.removesuffix("e")) + "ing")


def contracted(sentence: str, verb_first: bool) -> str:
    """The sentence with every contraction of english.toml: "I'm", "don't", "where's".

    Of "he is not", `verb_first` contracts the verb and `not` (he isn't), otherwise "he's not".
    """
    rules = _CONTRACTIONS.items()
    for long, short in rules if verb_first else reversed(rules):
        sentence = long.sub(short, sentence)
    return sentence


def be(agreement: Agreement) -> str:
    """The present of `be`: am, is, are."""
    return FORMS["be"]["present"].split()[agreement.slot]


def verb_group(verb: str, tense: Tense, agreement: Agreement, do: bool) -> tuple[str, str]:
    """Auxiliary and main part: ("", "eats"), ("does", "eat"), ("will", "eat"), ("is", "").

    `do` adds the auxiliary of negations and questions. Modals have only a present.
    """
    is_third_singular = agreement.slot == 2
    if tense == "future":
        return "will", verb
    if tense == "perfect":
        return "has" if is_third_singular else "have", participle(verb)
    if tense in ("progressive", "intention"):
        return be(agreement), gerund(verb) if tense == "progressive" else f"going to {verb}"
    if verb == "be":
        return FORMS["be"][tense].split()[agreement.slot], ""
    if verb in FORMS["modals"]:
        assert tense == "present", f"The modal {verb!r} has no {tense}."
        return verb, ""
    if tense == "past":
        return ("did", verb) if do else ("", past(verb))
    if do:
        return "does" if is_third_singular else "do", verb
    return "", third_person(verb) if is_third_singular else verb


def comparative(adjective: str) -> str:
    """`taller`, `bigger`, `heavier`, `more famous`."""
    if adjective not in FORMS["comparatives"]["short"].split():
        return f"more {adjective}"
    doubled = adjective[-1] if adjective in FORMS["comparatives"]["doubled_consonant"] else ""
    return _with_ending(adjective + doubled, "er")
