"""Which columns of a table are read, and which of its rows, where a column has languages or splits.

WMT24++ has the column `lp` (en-it_IT), SMOL `sl` and `tl`; others have `tgt_lang`, or `split`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from typing import Any

from translate_ddp.data.languages import folded, folded_names, is_language, variant_of
from translate_ddp.data.rows import Columns, NumberedRow, Reading, Remark, Wanted, list_names
from translate_ddp.errors import NoSuchPair, UserError

KindOf = Callable[[str], str | None]  # the kind of a value; None: its row is not wanted
SAMPLE_ROWS = 1000  # at the start of a table; they show what its columns hold
SHOWN_CHARACTERS = 100  # shown of a cell in an error
# A dictionary, a list, a tuple or bytes with texts, as JSON, Python and NumPy write them.
OBJECT = re.compile(r"""(?s)\s*(?:[\w.]*\(?[\[{][\s\[({]*b?|\(b?|b)(["']).*?\1\s*(["':,\]})]|\Z)""")
SPLIT_STEMS = {  # the names of splits
    "train": ["train", "training"],
    "validation": ["validation", "valid", "val", "dev", "development"],
    "test": ["test", "test1"],
}
LANGUAGE_COLUMN = re.compile(
    "lang|locale|dialect|(^| )(lp|[st]l|l[12]|from|to|pair|direction)( |$)"
)
OTHER_COLUMN = re.compile("orig|countr|region|market")  # not of the language of a text
SIDES = {
    "src": re.compile("(^| )(src|source|sl|from|l1)( |$|lang|locale)"),
    "tgt": re.compile("(^| )(tgt|trg|target|translation|tl|to|l2)( |$|lang|locale)"),
}
BETWEEN = re.compile(r"\s+to\s+|\W+|_|2")  # the codes of a pair


@dataclass
class RowChoice:
    """A column whose values select rows, and the rows of one reading by value."""

    column: str
    kind_of: KindOf  # all rows that are read must be of one kind
    counts: Counter[str | None] = field(default_factory=Counter)


def find_columns(
    reading: Reading, names: Sequence[str], columns: Sequence[Sequence[Any]]
) -> list[str]:
    """The wanted columns, then those that select rows, given all names and first values.

    Raises NoSuchPair if one is missing, and UserError if its cells are no texts.
    """
    wanted = reading.wanted
    if (found := wanted.find(names)) is None:
        check_texts(reading, names, columns)
        raise NoSuchPair(
            f"{reading.path} has no {wanted.described}, but {list_names(names)}. {wanted.advice}"
        )
    places = choose_rows(reading, list(map(names.index, found)), names, columns)
    return [names[place] for place in places]


def check_texts(reading: Reading, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
    """Raise UserError if most cells of a column are dictionaries, lists, tuples or bytes."""
    for name, values in zip(names, columns, strict=True):
        filled = [value for value in values if value]
        found = [x for x in filled if isinstance(x, (dict, list)) or OBJECT.match(str(x))]
        if 2 * len(found) > len(filled):
            raise UserError(
                f"{reading.path}: each cell of column {name} is a dictionary, a list or bytes, not"
                f" a text: {str(found[0])[:SHOWN_CHARACTERS]}. Export one text per cell, a column"
                " for each language, or JSON lines whose values are objects. The library datasets"
                " writes them: dataset.flatten().to_csv(FILE), or dataset.to_json(FILE)."
            )


def choose_rows(
    reading: Reading, places: list[int], names: Sequence[str], columns: Sequence[Sequence[Any]]
) -> list[int]:
    """The places of the columns of text, then of those that select rows: `reading.choices`."""
    wanted = reading.wanted
    check_texts(reading, [names[n] for n in places], [columns[n] for n in places])
    if len(wanted.sides) == 1 or not all(wanted.both):
        return places
    # A column that names its language needs no other one that tells it.
    unnamed = [
        side
        for side, code, n in zip(wanted.sides, wanted.both, places, strict=True)
        if not any(f" {name} " in f" {folded(names[n])} " for name in folded_names(code))
    ]
    found: dict[int, RowChoice] = {}
    for place in (n for n in range(len(names)) if n not in places):
        name, values = names[place], columns[place]
        texts = [text for text in values if isinstance(text, str) and text.strip()]
        kind_of = _by_split(wanted, texts)
        if kind_of := kind_of or _by_languages(reading, name, texts, unnamed, len(values)):
            found[place] = RowChoice(name, kind_of)
    reading.choices[:] = found.values()
    return [*places, *found]


def _by_split(wanted: Wanted, texts: Sequence[str]) -> KindOf | None:
    """What selects rows by a column most of whose values are names of splits."""
    split = wanted.split if wanted.split in SPLIT_STEMS else "train"

    def kind_of(text: str) -> str | None:
        return split if folded(text) in SPLIT_STEMS[split] else None

    usual = {stem for stems in SPLIT_STEMS.values() for stem in stems}
    return kind_of if 2 * sum(folded(text) in usual for text in texts) > len(texts) else None


def _by_languages(
    reading: Reading, name: str, texts: Sequence[str], unnamed: Sequence[str], rows: int
) -> KindOf | None:
    """What selects rows by a column of languages: by its name and most values, or by all values.

    `unnamed`: the sides whose languages no names of columns tell. `rows`: of the sample, which may
    have no values yet. Adds a notice if it seems to have languages, but not the wanted ones.
    """
    wanted = reading.wanted
    key = folded(re.sub("(?<=[a-z])(?=[A-Z])", " ", name))  # sourceLang is two words
    own = [side for side, pattern in SIDES.items() if pattern.search(key)]
    sides = [side for side in unnamed if len(own) != 1 or side in own]

    def kind_of(text: str) -> str | None:
        for sign in BETWEEN.finditer(text) if len(own) != 1 else ():
            codes = text[: sign.start()], text[sign.end() :]
            kinds = list(map(variant_of, codes, wanted.both))
            if None not in kinds:
                return "-".join(map(str, kinds))
        found = ((side, variant_of(text, wanted.both[[*SIDES].index(side)])) for side in sides)
        return next((f"{side} {kind}" for side, kind in found if kind is not None), None)

    if not sides or OTHER_COLUMN.search(key):
        return None
    is_named = bool(LANGUAGE_COLUMN.search(key))
    chosen = {text for text in {*texts} if kind_of(text) is not None}
    firsts = {text: BETWEEN.split(text.strip())[0] for text in texts}  # en of en2it
    known = {*chosen, *(text for text, first in firsts.items() if is_language(first))}
    if is_named:  # also codes of three letters, which may be words
        known |= {text for text, first in firsts.items() if re.fullmatch("[A-Za-z]{3}", first)}
    are_known = sum(map(known.__contains__, texts)) > (0.5 if is_named else 0.9) * len(texts)
    if (are_known and (is_named or chosen)) or (is_named and not texts and rows == SAMPLE_ROWS):
        return kind_of
    if texts and (are_known or is_named):
        text = f"{reading.path}: column {name} has {list_names(dict.fromkeys(texts))}, which is not"
        reading.notices.append(
            Remark(f"{text} known as {'-'.join(wanted.both)}: all rows are read.")
        )
    return None


def chosen_rows(
    reading: Reading, name: str, batches: Iterable[Columns]
) -> Iterator[Iterator[NumberedRow]]:
    """The rows of batches of columns that are wanted, in the table or sheet `name`.

    No Python code runs for a single row. Raises UserError as `_chosen`.
    """
    for src, tgt in _chosen(reading, _counted(reading, batches)):
        yield zip(repeat(name, len(src)), reading.numbers, src, tgt, strict=True)


def _counted(reading: Reading, batches: Iterable[Columns]) -> Iterator[Columns]:
    """The batches, with `reading.numbers` where the reader leaves out no row and sets none."""
    last = 0
    for columns in batches:
        following = range(last + 1, last + 1 + len(columns[0]))
        reading.numbers[:] = reading.numbers or following
        last = following.stop - 1
        yield columns
        reading.numbers.clear()


def _chosen(reading: Reading, batches: Iterable[Columns]) -> Iterator[Columns]:
    """The wanted columns of the rows in the wanted languages and split; others are counted.

    Raises UserError at the end if rows of several kinds are wanted.
    """
    sides = len(reading.wanted.sides)
    for columns in batches:
        for place, choice in enumerate(reading.choices, sides):
            values = columns[place]
            choice.counts.update(values)
            kinds = {value: choice.kind_of(value or "") for value in {*values}}
            marks = [kinds[value] is not None for value in values]
            columns = [list(compress(column, marks)) for column in columns]  # noqa: PLW2901
            reading.numbers[:] = compress(reading.numbers, marks)
        yield columns[:sides]
    for choice in reading.choices:
        kinds = {value: choice.kind_of(value or "") for value in choice.counts}
        counts = choice.counts.most_common()
        values = list_names(f"{value or 'no value'} ({count:,})" for value, count in counts)
        read = list_names(str(value) for value, kind in kinds.items() if kind is not None)
        text = f"{reading.path}: column {choice.column} has {values}"
        wanted = "-".join(reading.wanted.both)
        if len({*kinds.values()} - {None}) > 1:
            raise UserError(
                f"{text}. Of these, {read} may be {wanted}: ask for one by --lang_src and"
                " --lang_tgt, or write one code for all. If it has another meaning, delete it."
            )
        if None in kinds.values():
            others = f" For validation on others: --validation {reading.path}."
            text = f"{text}. Of these, {read} is read for {wanted}."
            reading.notices.append(Remark(text + others * ("train" in kinds.values())))
