"""How a model translates input as people type it: other case, no end punctuation, single words."""

from collections import Counter
from collections.abc import Callable, Sequence

from translate_ddp.data.augmentation import END_PUNCTUATION, remove_end_punctuation
from translate_ddp.text import lower, separates_words, upper
from translate_ddp.training.metrics import score_texts, with_units

# Functions of a source and its language.
VARIANTS: dict[str, Callable[[str, str], str]] = {
    "unchanged": lambda text, _: text,
    "lower case": lower,
    "upper case": upper,
    "no end punctuation": lambda text, _: remove_end_punctuation(text),
}
NUM_WORDS = 200  # the most frequent ones of the sources
PUNCTUATION = END_PUNCTUATION + ",:()[]\"'‘’“”„«»¿¡"  # around a word
MORE_CHARACTERS = 30  # than a single word: a longer translation of it is hardly one
# A repetition: the longest unit, and how often it occurs in a row. In languages without spaces
# between words, units are characters, and tripled ones may be words.
OF_WORDS, OF_CHARACTERS = (4, 3), (12, 5)


def describe_robustness(
    translate: Callable[[Sequence[str]], list[str]],
    sources: list[str],
    references: list[str],
    languages: tuple[str, str],
) -> list[str]:
    """A line for each kind of input, with the scores against the unchanged references.

    Single words have no references. Reported are the shares of their translations that repeat
    themselves, and of those that are more than `MORE_CHARACTERS` longer than the word. A source
    language without spaces between words has none.
    """
    lang_src, lang_tgt = languages

    def repeating(sources: Sequence[str], predictions: Sequence[str]) -> str:
        """The share of predictions that repeat themselves where their source does not."""
        count = sum(
            repeats_itself(new, lang_tgt) and not repeats_itself(old, lang_src)
            for old, new in zip(sources, predictions, strict=True)
        )
        return f"{count / max(len(predictions), 1):.1%} repeat themselves"

    lines = []
    for name, change in VARIANTS.items():
        changed = [change(source, lang_src) for source in sources]
        predictions = translate(changed)
        scores = with_units(score_texts(changed, predictions, references, lang_tgt))
        lines.append(f"{name}: {scores}, {repeating(changed, predictions)}")
    if not separates_words(lang_src):
        return lines
    words = frequent_words(sources, lang_src)
    predictions = translate(words)
    pairs = zip(words, predictions, strict=True)
    long = sum(len(prediction) > len(word) + MORE_CHARACTERS for word, prediction in pairs)
    lines.append(
        f"{len(words)} single words: {repeating(words, predictions)}, "
        f"{long / max(len(words), 1):.1%} more than {MORE_CHARACTERS} characters longer"
    )
    return lines


def frequent_words(sources: Sequence[str], language: str) -> list[str]:
    """The most frequent words of the sources between spaces, in lower case, without numbers."""
    words = (word.strip(PUNCTUATION) for line in sources for word in lower(line, language).split())
    counts = Counter(word for word in words if any(map(str.isalpha, word)))
    return [word for word, _ in counts.most_common(NUM_WORDS)]


def repeats_itself(text: str, language: str) -> bool:
    """Whether up to four words occur three times in a row, as in "no no no".

    In languages without spaces between words: up to twelve characters, five times in a row.
    """
    units, (longest, times) = text.split(), OF_WORDS
    if not separates_words(language):
        units, (longest, times) = [*"".join(units)], OF_CHARACTERS
    return any(
        units[start : start + size] * times == units[start : start + size * times]
        for size in range(1, longest + 1)
        for start in range(len(units) - size * times + 1)
    )
