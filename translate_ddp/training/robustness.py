"""How a model translates input as people type it: other case, no end punctuation, single words."""

from collections import Counter
from collections.abc import Callable, Sequence

from translate_ddp.data.perturbation import END_PUNCTUATION, remove_end_punctuation
from translate_ddp.training.metrics import score_texts
from translate_ddp.training.sinks.console_sink import with_units

VARIANTS: dict[str, Callable[[str], str]] = {
    "unchanged": str,
    "lower case": str.lower,
    "upper case": str.upper,
    "no end punctuation": remove_end_punctuation,
}
NUM_WORDS = 200  # the most frequent ones of the sources
PUNCTUATION = END_PUNCTUATION + ",:()[]\"'‘’“”„«»¿¡"  # around a word
MORE_CHARACTERS = 30  # than a single word: a longer translation of it is hardly one
LONGEST_UNIT = 4  # in words, of a repetition
TIMES = 3  # in a row


def describe_robustness(
    translate: Callable[[Sequence[str]], list[str]],
    sources: list[str],
    references: list[str],
    lang_tgt: str,
) -> list[str]:
    """A line for each kind of input, with the scores against the unchanged references.

    Single words have no references. Reported are the shares of their translations that repeat
    themselves, and of those that are more than `MORE_CHARACTERS` longer than the word.
    """
    lines = []
    for name, change in VARIANTS.items():
        changed = [change(source) for source in sources]
        predictions = translate(changed)
        scores = with_units(score_texts(changed, predictions, references, lang_tgt))
        lines.append(f"{name}: {scores}, {_repeating(changed, predictions)}")
    words = frequent_words(sources)
    predictions = translate(words)
    pairs = zip(words, predictions, strict=True)
    long = sum(len(prediction) > len(word) + MORE_CHARACTERS for word, prediction in pairs)
    lines.append(
        f"{len(words)} single words: {_repeating(words, predictions)}, "
        f"{long / max(len(words), 1):.1%} more than {MORE_CHARACTERS} characters longer"
    )
    return lines


def frequent_words(sources: Sequence[str]) -> list[str]:
    """The most frequent words of the sources between blanks, in lower case, without numbers."""
    words = (word.strip(PUNCTUATION) for line in sources for word in line.lower().split())
    counts = Counter(word for word in words if any(map(str.isalpha, word)))
    return [word for word, _ in counts.most_common(NUM_WORDS)]


def repeats_itself(text: str) -> bool:
    """Whether up to `LONGEST_UNIT` words occur `TIMES` times in a row, as in "no no no"."""
    words = text.split()
    return any(
        words[start : start + size] * TIMES == words[start : start + size * TIMES]
        for size in range(1, LONGEST_UNIT + 1)
        for start in range(len(words) - size * TIMES + 1)
    )


def _repeating(sources: Sequence[str], predictions: Sequence[str]) -> str:
    """The share of predictions that repeat themselves where their source does not."""
    pairs = zip(sources, predictions, strict=True)
    count = sum(repeats_itself(new) and not repeats_itself(old) for old, new in pairs)
    return f"{count / max(len(predictions), 1):.1%} repeat themselves"
