"""Italian word forms: plurals, agreement, articles, contractions, conjugation.

italian.toml has the endings and the irregular forms. The past of stative verbs is the imperfetto,
of all others the passato prossimo.
"""

import re
from typing import Literal

from tools.demo_grammar.tables import Agreement, Gender, Tense, load

VOWELS = "aeiouàèéìòù"
FORMS = load("italian.toml")


def plural(word: str, gender: Gender) -> str:
    """Plural of a singular noun or adjective of that gender."""
    stem, ending = word[:-1], word[-1]
    if word in FORMS["plurals"] or ending not in "aeo":
        return FORMS["plurals"].get(word, word)
    if ending == "e" or (ending == "a" and gender == "m"):
        return stem + "i"
    if ending == "o":
        return stem if stem.endswith("i") else stem + ("hi" if stem[-1] in "cg" else "i")
    if stem[-2:] in ("ci", "gi"):
        # The i stays only after a vowel: camicie, valigie, but arance, spiagge.
        return (stem if stem[-3] in VOWELS else stem[:-1]) + "e"
    return stem + ("he" if stem[-1] in "cg" else "e")


def inflect(adjective: str, agreement: Agreement) -> str:
    """Full form of an adjective, participle or possessive given in the masculine singular."""
    singular = adjective
    if agreement.gender == "f" and adjective.endswith("o") and adjective != "loro":
        singular = adjective[:-1] + "a"
    return singular if agreement.number == "singular" else plural(singular, agreement.gender)


def initial_sound(phrase: str) -> Literal[0, 1, 2]:
    """0 for a consonant, 1 for a cluster (z, gn, ps, s + consonant), 2 for a vowel."""
    if re.match(f"[{VOWELS}]", phrase, re.IGNORECASE):
        return 2
    return 1 if re.match(f"z|gn|ps|s[^{VOWELS}]", phrase, re.IGNORECASE) else 0


def prepend(word: str, phrase: str, agreement: Agreement) -> str:
    """`phrase` with a word in front, in the form that fits the sound after it.

    The word is a key of `before_noun` in italian.toml, or an adjective with the same form before
    all sounds.
    """
    if word in FORMS["before_noun"]:
        forms = FORMS["before_noun"][word][agreement.gender][agreement.number]
        form = forms.split()[initial_sound(phrase)]
    else:
        form = inflect(word, agreement)
    return form + phrase if form.endswith("'") else f"{form} {phrase}"


def contract(preposition: str, phrase: str) -> str:
    """Preposition and noun phrase, with the definite article contracted where possible.

    Longer prepositions contract in their last word: "vicino a", "il muro" gives "vicino al muro".
    """
    if not preposition:
        return phrase
    *before, last = preposition.split()
    article = re.findall(r"\w+'?", phrase)[0]
    articles = FORMS["definite_articles"].split()
    if last in FORMS["contractions"] and article in articles:
        contracted = FORMS["contractions"][last].split()[articles.index(article)]
        return " ".join([*before, contracted + phrase.removeprefix(article)])
    if last == "a" and phrase[0] in "aA":
        last = "ad"
    return " ".join([*before, last, phrase])


def is_stative(verb: str) -> bool:
    """Whether the past of an infinitive is the imperfetto."""
    return verb in FORMS["verbs"]["stative"].split()


def _join_are(stem: str, ending: str) -> str:
    """Stem and ending of an -are verb, spelled to keep the sound of c and g: cerchi, mangi."""
    if ending[0] in "ie" and stem[-1] in "cg":
        return stem + "h" + ending
    if stem[-1] == "i" and (ending[0] == "i" or (ending[0] == "e" and stem[-2] in "cg")):
        return stem[:-1] + ending
    return stem + ending


def finite(verb: str, tense: Literal["present", "imperfect", "future"], slot: int) -> str:
    """A simple tense of an infinitive for a conjugation slot (see `Agreement.slot`)."""
    stem, group = verb[:-3], verb[-3:]
    if verb in FORMS.get(tense, {}):
        return FORMS[tense][verb].split()[slot]
    if tense == "imperfect":
        return verb[:-2] + FORMS["endings"]["imperfect"].split()[slot]
    if tense == "future":
        regular = _join_are(stem, "er") if group == "are" else verb[:-1]
        stem = FORMS["future_stems"].get(verb, regular)
        return stem + FORMS["endings"]["future"].split()[slot]
    ending = FORMS["endings"]["present"][group].split()[slot]
    if verb in FORMS["verbs"]["with_isc"].split() and slot in (0, 1, 2, 5):
        stem += "isc"
    return _join_are(stem, ending) if group == "are" else stem + ending


def participle(verb: str) -> str:
    """Past participle of an infinitive, masculine singular."""
    regular = verb[:-3] + FORMS["endings"]["participle"][verb[-3:]]
    return FORMS["participles"].get(verb, regular)


def gerund(verb: str) -> str:
    """Gerundio of an infinitive: mangiando, leggendo, bevendo."""
    return FORMS["gerunds"].get(verb) or verb[:-3] + ("ando" if verb.endswith("are") else "endo")


def imperative(verb: str) -> str:
    """Imperative of tu: mangia, leggi, vai."""
    return finite(
        verb, "present", 2 if verb.endswith("are") and verb not in FORMS["present"] else 1
    )


def clitic_before(pronoun: str, finite_verb: str) -> str:
    """Object pronoun and finite verb: "la vedo", "lo ama", "l'ho"."""
    elided = pronoun in ("lo", "la") and finite_verb.startswith(("h", "ab", "av"))
    return f"l'{finite_verb}" if elided else f"{pronoun} {finite_verb}"


def clitic_after(infinitive: str, pronoun: str) -> str:
    """Infinitive with its object pronoun: vederlo, aiutarmi."""
    return infinitive[:-1] + pronoun


def agree_with_clitic(participle: str, pronoun: str) -> str:
    """The participle after avere and an object pronoun: "l'ho vista", "li ho visti"."""
    endings = {"la": "a", "li": "i", "le": "e"}
    return participle[:-1] + endings[pronoun] if participle and pronoun in endings else participle


def conjugate(verb: str, tense: Tense, agreement: Agreement) -> tuple[str, str]:
    """The finite verb, and the participle or gerundio of a compound tense or "".

    With essere the participle agrees with the subject. `esserci` gives c'è, ci sono, c'era.
    """
    slot = agreement.slot
    if verb == "esserci":
        form, _ = conjugate("essere", tense, agreement)
        return ("c'" if form[0] in "eè" else "ci ") + form, ""
    if tense == "progressive":
        return finite("stare", "present", slot), gerund(verb)
    if tense in ("intention", "future"):
        return finite(verb, "future", slot), ""
    if tense == "present":
        return finite(verb, "present", slot), ""
    if is_stative(verb):
        return finite(verb, "imperfect", slot), ""
    if verb in FORMS["verbs"]["with_essere"].split():
        return finite("essere", "present", slot), inflect(participle(verb), agreement)
    return finite("avere", "present", slot), participle(verb)
