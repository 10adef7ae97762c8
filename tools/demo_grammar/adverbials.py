"""The adverbials of `words.toml`: locations, means of transport, manner, time and frequency."""

from dataclasses import dataclass

from tools.demo_grammar.agreement import Agreement, Tense
from tools.demo_grammar.italian import inflect
from tools.demo_grammar.lexicon import WORDS, nouns, read_noun, read_phrases, read_table
from tools.demo_grammar.phrases import NUMBERS, Nominal, Noun, Phrase, noun_phrase


@dataclass(frozen=True)
class Spot:
    """A preposition of place with the nouns that may follow it."""

    english: str
    italian: str
    nouns: tuple[Noun, ...]


SPOTS = tuple(
    Spot(entry.english, entry.italian, nouns(*entry.objects))
    for entry in read_table(WORDS["adverbials"]["spots"])
)
TRANSPORT = read_phrases(WORDS["adverbials"]["transport"])
MANNER = read_phrases(WORDS["adverbials"]["manner"])


def _day_times() -> dict[Tense, tuple[Phrase, ...]]:
    """ "every Monday", "last Monday", "next Monday", for all days of the week."""
    days = [read_noun(entry, "day") for entry in read_table(WORDS["adverbials"]["days"])]

    def with_adjective(day: Noun, adjective: str) -> str:
        return f"{day.italian} {inflect(adjective, Agreement(day.gender, 'singular'))}"

    return {
        "present": tuple(Phrase(f"every {d.english}", f"ogni {d.italian}") for d in days),
        "past": tuple(Phrase(f"last {d.english}", with_adjective(d, "scorso")) for d in days),
        "future": tuple(Phrase(f"next {d.english}", with_adjective(d, "prossimo")) for d in days),
    }


def _counted_times() -> dict[Tense, tuple[Phrase, ...]]:
    """ "at three o'clock", "three days ago", "in three days"."""

    def spans(tense: Tense) -> list[Nominal]:
        units = [read_noun(entry, "span") for entry in read_table(WORDS["time_spans"][tense])]
        return [noun_phrase(unit, number, "plural") for unit in units for number in NUMBERS]

    return {
        "present": tuple(Phrase(f"at {n} o'clock", f"alle {NUMBERS[n]}") for n in NUMBERS),
        "past": tuple(Phrase(f"{s.english} ago", f"{s.italian} fa") for s in spans("past")),
        "future": tuple(Phrase(f"in {s.english}", f"fra {s.italian}") for s in spans("future")),
    }


_TENSES: tuple[Tense, ...] = ("present", "past", "future")
_DAY_TIMES, _COUNTED_TIMES = _day_times(), _counted_times()
# No time expression serves two tenses: it distinguishes the present "I read" from the past.
TIMES = {
    tense: (read_phrases(WORDS["times"][tense]), _DAY_TIMES[tense], _COUNTED_TIMES[tense])
    for tense in _TENSES
}
FREQUENCY_ADVERBS = {tense: read_phrases(WORDS["frequency_adverbs"][tense]) for tense in _TENSES}
