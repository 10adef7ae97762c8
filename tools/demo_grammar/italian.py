"""Italian word forms: plurals, agreement, articles, contractions, conjugation.

The past of stative verbs (`STATIVE_VERBS`) is the imperfetto, of all others the passato prossimo.
"""

from functools import cache
from typing import Literal, NamedTuple

from tools.demo_grammar.agreement import Agreement, Gender, Tense

VOWELS = "aeiouàèéìòù"

# Nouns, adjectives and possessives -------------------------------------------------------------

IRREGULAR_PLURALS = {"uomo": "uomini", "zio": "zii", "mio": "miei", "tuo": "tuoi", "suo": "suoi"}
INVARIABLE = {"cinema", "loro"}
# Plural in -ci, not in -chi
SOFT_PLURALS = {"amico", "medico", "simpatico"}


@cache
def plural(word: str, gender: Gender) -> str:
    """Plural of a singular noun or adjective of that gender."""
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    stem, ending = word[:-1], word[-1]
    if word in INVARIABLE or ending not in "aeo":
        return word
    if ending == "e" or (ending == "a" and gender == "m"):
        return stem + "i"
    if ending == "o":
        if stem.endswith("i"):
            return stem
        return stem + ("hi" if stem[-1] in "cg" and word not in SOFT_PLURALS else "i")
    if stem[-2:] in ("ci", "gi"):
        # The i stays only after a vowel: camicie, valigie, but arance, spiagge.
        return (stem if stem[-3] in VOWELS else stem[:-1]) + "e"
    return stem + ("he" if stem[-1] in "cg" else "e")


@cache
def inflect(adjective: str, agreement: Agreement) -> str:
    """Full form of an adjective, participle or possessive given in the masculine singular."""
    singular = adjective
    if agreement.gender == "f" and adjective.endswith("o") and adjective not in INVARIABLE:
        singular = adjective[:-1] + "a"
    return singular if agreement.number == "singular" else plural(singular, agreement.gender)


# Words whose form depends on the start of the next word ------------------------------------------


class Variants(NamedTuple):
    """The forms of a word before a noun; each field is named after a noun that requires it."""

    libro: str
    studente: str
    amico: str
    casa: str
    amica: str
    libri: str
    amici: str  # studenti too
    case: str


THE = Variants("il", "lo", "l'", "la", "l'", "i", "gli", "le")
SOME = Variants("del", "dello", "dell'", "della", "dell'", "dei", "degli", "delle")
THIS = Variants("questo", "questo", "quest'", "questa", "quest'", "questi", "questi", "queste")
THAT = Variants("quel", "quello", "quell'", "quella", "quell'", "quei", "quegli", "quelle")
A = Variants("un", "uno", "un", "una", "un'", "", "", "")
BEFORE_NOUN = {
    "bello": Variants("bel", "bello", "bell'", "bella", "bell'", "bei", "begli", "belle"),
    "buono": Variants("buon", "buono", "buon", "buona", "buona", "buoni", "buoni", "buone"),
}


def initial_sound(phrase: str) -> Literal["vowel", "cluster", "consonant"]:
    """The initial sound of a phrase; a cluster (z, gn, ps, s + consonant) requires lo, uno, gli."""
    start = phrase[:2].lower()
    if start[0] in VOWELS:
        return "vowel"
    if start[0] == "z" or start in ("gn", "ps") or (start[0] == "s" and start[1] not in VOWELS):
        return "cluster"
    return "consonant"


def prepend(variants: Variants, phrase: str, agreement: Agreement) -> str:
    """`phrase` with the matching variant in front, after a blank or an apostrophe."""
    start = initial_sound(phrase)
    if agreement.number == "plural":
        masculine = variants.libri if start == "consonant" else variants.amici
        form = masculine if agreement.gender == "m" else variants.case
    elif agreement.gender == "f":
        form = variants.amica if start == "vowel" else variants.casa
    else:
        form = {"vowel": variants.amico, "cluster": variants.studente}.get(start, variants.libro)
    return form + phrase if form.endswith("'") else f"{form} {phrase}"


def prepend_adjective(adjective: str, phrase: str, agreement: Agreement) -> str:
    """`phrase` with an adjective in front; bello and buono have short forms, as articles have."""
    if adjective in BEFORE_NOUN:
        return prepend(BEFORE_NOUN[adjective], phrase, agreement)
    return f"{inflect(adjective, agreement)} {phrase}"


# Prepositions ------------------------------------------------------------------------------------

CONTRACTING = {"di": "de", "a": "a", "da": "da", "in": "ne", "su": "su"}
AFTER_CONTRACTION = {
    "il ": "l ",
    "lo ": "llo ",
    "l'": "ll'",
    "la ": "lla ",
    "i ": "i ",
    "gli ": "gli ",
    "le ": "lle ",
}


def contract(preposition: str, phrase: str) -> str:
    """Preposition and noun phrase, with the definite article contracted where possible.

    Longer prepositions contract in their last word: "vicino a", "il muro" gives "vicino al muro".
    """
    if not preposition:
        return phrase
    *before, last = preposition.split()
    if last in CONTRACTING:
        for article, ending in AFTER_CONTRACTION.items():
            if phrase.startswith(article):
                return " ".join(
                    [*before, CONTRACTING[last] + ending + phrase.removeprefix(article)]
                )
    if last == "a" and phrase[0] in "aA":
        last = "ad"
    return " ".join([*before, last, phrase])


def join_with_and(first: str, second: str) -> str:
    """Both joined by `e`, which becomes `ed` before another e."""
    return f"{first} {'ed' if second[0] in 'eèE' else 'e'} {second}"


# Verbs -------------------------------------------------------------------------------------------

STATIVE_VERBS = {
    "essere",
    "esserci",
    "avere",
    "amare",
    "conoscere",
    "volere",
    "potere",
    "dovere",
    "abitare",
}
ESSERE_VERBS = {"andare", "arrivare", "cadere", "entrare", "partire", "restare", "tornare"}
ESSERE_VERBS |= {"uscire", "venire"}
ISC_VERBS = {"capire", "costruire", "pulire"}

IRREGULAR_PRESENT = {
    "andare": "vado vai va andiamo andate vanno",
    "avere": "ho hai ha abbiamo avete hanno",
    "bere": "bevo bevi beve beviamo bevete bevono",
    "dare": "do dai dà diamo date danno",
    "dovere": "devo devi deve dobbiamo dovete devono",
    "essere": "sono sei è siamo siete sono",
    "potere": "posso puoi può possiamo potete possono",
    "uscire": "esco esci esce usciamo uscite escono",
    "venire": "vengo vieni viene veniamo venite vengono",
    "volere": "voglio vuoi vuole vogliamo volete vogliono",
}
IRREGULAR_FUTURE_STEMS = {
    "andare": "andr",
    "avere": "avr",
    "bere": "berr",
    "cadere": "cadr",
    "dare": "dar",
    "essere": "sar",
    "vedere": "vedr",
    "venire": "verr",
    "volere": "vorr",
}
IRREGULAR_PARTICIPLES = {
    "aprire": "aperto",
    "bere": "bevuto",
    "chiudere": "chiuso",
    "correre": "corso",
    "leggere": "letto",
    "mettere": "messo",
    "offrire": "offerto",
    "perdere": "perso",
    "piangere": "pianto",
    "prendere": "preso",
    "ridere": "riso",
    "rispondere": "risposto",
    "rompere": "rotto",
    "scrivere": "scritto",
    "vedere": "visto",
    "venire": "venuto",
}
PRESENT_ENDINGS = {
    "are": ("o", "i", "a", "iamo", "ate", "ano"),
    "ere": ("o", "i", "e", "iamo", "ete", "ono"),
    "ire": ("o", "i", "e", "iamo", "ite", "ono"),
}
FUTURE_ENDINGS = ("ò", "ai", "à", "emo", "ete", "anno")
IMPERFECT_ENDINGS = ("vo", "vi", "va", "vamo", "vate", "vano")
IMPERFECT_OF_ESSERE = ("ero", "eri", "era", "eravamo", "eravate", "erano")
PARTICIPLE_ENDINGS = {"are": "ato", "ere": "uto", "ire": "ito"}


def _join_are(stem: str, ending: str) -> str:
    """Stem and ending of an -are verb, spelled to keep the sound of c and g: cerchi, mangi."""
    if ending[0] in "ie" and stem[-1] in "cg":
        return stem + "h" + ending
    if stem[-1] == "i" and (ending[0] == "i" or (ending[0] == "e" and stem[-2] in "cg")):
        return stem[:-1] + ending
    return stem + ending


@cache
def present(verb: str, slot: int) -> str:
    """Present tense of an infinitive for a conjugation slot (see `Agreement.slot`)."""
    if verb in IRREGULAR_PRESENT:
        return IRREGULAR_PRESENT[verb].split()[slot]
    stem, group = verb[:-3], verb[-3:]
    ending = PRESENT_ENDINGS[group][slot]
    if verb in ISC_VERBS and slot in (0, 1, 2, 5):
        stem += "isc"
    return _join_are(stem, ending) if group == "are" else stem + ending


@cache
def future(verb: str, slot: int) -> str:
    """Future tense of an infinitive for a conjugation slot."""
    if verb in IRREGULAR_FUTURE_STEMS:
        stem = IRREGULAR_FUTURE_STEMS[verb]
    elif verb.endswith("are"):
        stem = _join_are(verb[:-3], "er")
    else:
        stem = verb[:-1]
    return stem + FUTURE_ENDINGS[slot]


@cache
def imperfect(verb: str, slot: int) -> str:
    """Imperfect tense of an infinitive for a conjugation slot."""
    if verb == "essere":
        return IMPERFECT_OF_ESSERE[slot]
    return verb[:-2] + IMPERFECT_ENDINGS[slot]


@cache
def participle(verb: str) -> str:
    """Past participle of an infinitive, masculine singular."""
    return IRREGULAR_PARTICIPLES.get(verb, verb[:-3] + PARTICIPLE_ENDINGS[verb[-3:]])


@cache
def conjugate(verb: str, tense: Tense, agreement: Agreement) -> tuple[str, str]:
    """The finite verb, and the participle of a compound tense or "".

    With essere the participle agrees with the subject. `esserci` gives c'è, ci sono, c'era.
    """
    if verb == "esserci":
        finite, rest = conjugate("essere", tense, agreement)
        return ("c'" if finite[0] in "eè" else "ci ") + finite, rest
    slot = agreement.slot
    if tense == "present":
        return present(verb, slot), ""
    if tense == "future":
        return future(verb, slot), ""
    if verb in STATIVE_VERBS:
        return imperfect(verb, slot), ""
    if verb in ESSERE_VERBS:
        return present("essere", slot), inflect(participle(verb), agreement)
    return present("avere", slot), participle(verb)
