"""English word forms: plurals, a or an, verb forms, comparatives."""

from functools import cache

from tools.demo_grammar.agreement import Agreement, Tense

VOWELS = "aeiou"

IRREGULAR_PLURALS = {
    "child": "children",
    "knife": "knives",
    "man": "men",
    "mouse": "mice",
    "shelf": "shelves",
    "wolf": "wolves",
    "woman": "women",
    "piano": "pianos",
}
CONSONANT_SOUND = {"university", "useful"}  # written with a vowel, but with `a`

IRREGULAR_PASTS = {
    "break": "broke",
    "build": "built",
    "buy": "bought",
    "come": "came",
    "drink": "drank",
    "eat": "ate",
    "fall": "fell",
    "find": "found",
    "forget": "forgot",
    "give": "gave",
    "go": "went",
    "have": "had",
    "know": "knew",
    "leave": "left",
    "lose": "lost",
    "meet": "met",
    "put": "put",
    "read": "read",
    "run": "ran",
    "see": "saw",
    "sell": "sold",
    "send": "sent",
    "sing": "sang",
    "sleep": "slept",
    "swim": "swam",
    "take": "took",
    "tell": "told",
    "think": "thought",
    "understand": "understood",
    "wear": "wore",
    "write": "wrote",
}
TO_BE = {
    "present": ("am", "are", "is", "are", "are", "are"),
    "past": ("was", "were", "was", "were", "were", "were"),
}
MODALS = {"can", "must"}
# Words of one syllable, or of two in -y, take -er; all others take `more`.
SHORT_ADJECTIVES = {
    *("big", "clean", "cold", "dirty", "easy", "fast", "fresh", "happy", "heavy", "hot", "kind"),
    *("lazy", "long", "new", "nice", "old", "quiet", "sad", "small", "strong", "sweet", "tall"),
    "young",
}


def _ends_in_consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in VOWELS


def _with_s(word: str) -> str:
    if _ends_in_consonant_y(word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "sh", "ch", "x", "o")) else "s")


@cache
def plural(noun: str) -> str:
    """Plural of a noun; of several words the last one is inflected."""
    *before, last = noun.split()
    return " ".join([*before, IRREGULAR_PLURALS.get(last) or _with_s(last)])


def with_a(phrase: str) -> str:
    """`phrase` with a or an in front."""
    takes_an = phrase[0].lower() in VOWELS and phrase.split()[0] not in CONSONANT_SOUND
    return f"{'an' if takes_an else 'a'} {phrase}"


@cache
def third_person(verb: str) -> str:
    """Third person singular of the present; of several words the first one is inflected."""
    head, *rest = verb.split()
    return " ".join(["has" if head == "have" else _with_s(head), *rest])


@cache
def past(verb: str) -> str:
    """The simple past; of several words the first one is inflected."""
    head, *rest = verb.split()
    if head in IRREGULAR_PASTS:
        form = IRREGULAR_PASTS[head]
    elif head.endswith("e"):
        form = head + "d"
    else:
        form = head[:-1] + "ied" if _ends_in_consonant_y(head) else head + "ed"
    return " ".join([form, *rest])


@cache
def verb_group(verb: str, tense: Tense, agreement: Agreement, do: bool) -> tuple[str, str]:
    """Auxiliary and main part: ("", "eats"), ("does", "eat"), ("will", "eat"), ("is", "").

    `do` adds the auxiliary of negations and questions. Modals have only a present.
    """
    slot = agreement.slot
    if tense == "future":
        return "will", verb
    if verb == "be":
        return TO_BE[tense][slot], ""
    if verb in MODALS:
        assert tense == "present", f"The modal {verb!r} has no {tense}."
        return verb, ""
    if do:
        return ("did" if tense == "past" else "does" if slot == 2 else "do"), verb
    if tense == "past":
        return "", past(verb)
    return "", third_person(verb) if slot == 2 else verb


@cache
def comparative(adjective: str) -> str:
    """`taller`, `bigger`, `heavier`, `more famous`."""
    if adjective not in SHORT_ADJECTIVES:
        return f"more {adjective}"
    if adjective.endswith("e"):
        return adjective + "r"
    if _ends_in_consonant_y(adjective):
        return adjective[:-1] + "ier"
    if adjective in ("big", "hot", "sad"):
        return adjective + adjective[-1] + "er"
    return adjective + "er"
