"""Names of persons and cities, real and invented, and the countries of names.toml."""

from random import Random

from tools.demo_grammar import italian
from tools.demo_grammar.agreement import Agreement, Gender
from tools.demo_grammar.phrases import Nominal, Phrase
from tools.demo_grammar.tables import Entry, entries, load

_TABLE = load("names.toml")
_PARTS = {name: parts.split() for name, parts in _TABLE["invented"].items()}
# Forms with an article, such as della and nello.
_ARTICLES = set(" ".join(italian.FORMS["contractions"].values()).split())
Locality = dict[str, Phrase]  # a place with a fixed phrase for each direction

_GENDERS: tuple[Gender, Gender] = ("f", "m")
NAMES = tuple(
    Nominal(name, name, Agreement(gender, "singular"))
    for gender in _GENDERS
    for name in _TABLE["persons"][gender].split()
)
CITIES = (
    *(Phrase(entry.english, entry.italian) for entry in entries(_TABLE["cities"]["translated"])),
    *(Phrase(name, name) for name in _TABLE["cities"]["same"].split()),
)


def city_phrases(city: Phrase) -> Locality:
    """The city with the preposition of each direction: "in Rome", "a Roma"."""
    at = Phrase(f"in {city.english}", italian.contract("a", city.italian))
    origin = Phrase(f"from {city.english}", italian.contract("da", city.italian))
    return {
        "at": at,
        "to": Phrase(f"to {city.english}", at.italian),
        "reaching": at,
        "from": origin,
    }


def country_phrases(entry: Entry) -> Locality:
    """The country with the preposition of each direction: "from Spain", "dalla Spagna"."""
    name, gender = entry.italian.split()
    assert gender in _GENDERS, f"The entry {entry.italian!r} has no gender."
    definite = italian.prepend("the", name, Agreement(gender, "singular"))
    at = Phrase(f"in {entry.english}", f"in {name}")
    origin = Phrase(f"from {entry.english}", italian.contract("da", definite))
    return {
        "at": at,
        "to": Phrase(f"to {entry.english}", at.italian),
        "reaching": at,
        "from": origin,
    }


COUNTRIES = {
    entry.english: country_phrases(entry) for entry in entries(_TABLE["countries"]["names"])
}


def invented(draw: Random, ends: str) -> str:
    """An invented name that is no article; `ends` is `person_ends` or `city_ends`."""
    syllables = [draw.choice(_PARTS["starts"]), draw.choice(_PARTS["vowels"])]
    if draw.random() < 0.3:
        syllables += [draw.choice(_PARTS["middles"]), draw.choice(_PARTS["vowels"])]
    name = "".join(syllables) + draw.choice(_PARTS["middles"]) + draw.choice(_PARTS[ends])
    return invented(draw, ends) if name in _ARTICLES else name.capitalize()


def invented_person(draw: Random, known_gender: bool) -> Nominal:
    """An invented person; with `known_gender` the name ends in a (a woman) or o (a man)."""
    name = invented(draw, "person_ends")
    while known_gender and name[-1] not in "ao":
        name = invented(draw, "person_ends")
    return Nominal(name, name, Agreement("f" if name[-1] == "a" else "m", "singular"))
