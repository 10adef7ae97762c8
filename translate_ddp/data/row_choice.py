"""Which columns of a table are read, and which of its rows, where a column has languages or splits.

WMT24++ has the column `lp` (en-it_IT), SMOL `sl` and `tl`; others have `tgt_lang`, or `split`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from typing import Any

from translate_ddp.data.languages import folded, folded_names, is_language_code, variant_of
from translate_ddp.data.rows import Columns, NumberedRow, Reading, Remark, Wanted, list_names
from translate_ddp.errors import NoSuchPair, UserError

KindOf = Callable[[str], str | None]  # of a value: None for a row that is not wanted
SAMPLE_ROWS = 1000  # of the start of a table, which show what its columns hold
SHOWN_CHARACTERS = 100  # of a cell
# A dictionary, a list, a tuple or bytes with texts, as JSON, Python and NumPy write them.
OBJECT = re.compile(
    r"""(?xs)\s*(?:[\w.]*\(?[\[{][\s\[({]*b?(["']).*?\1\s*["':,\]})]  # ['a'], array([{'a': 1}])
        |\(b?(["']).*?\2\s*,                                          # ('a',)
        |b(["']).*\3\s*\Z)                                            # b'a'
    """
)
SPLIT_COLUMNS = ("split", "set", "subset", "partition")
SPLIT_STEMS = {  # the names of splits
    "train": ["train", "training"],
    "validation": ["validation", "valid", "val", "dev", "development"],
    "test": ["test", "test1"],
}
# Not the original language of a text that is translated.
LANGUAGE_COLUMN = re.compile(
    "(?!.*orig).*(lang|locale|dialect|(^| )(lp|[st]l|l[12]|from|to|pair|direction)( |$))"
)
SIDES = {
    "src": re.compile("(^| )(src|source|sl|from|l1)( |$|lang|locale)"),
    "tgt": re.compile("(^| )(tgt|trg|target|translation|tl|to|l2)( |$|lang|locale)"),
}
BETWEEN = re.compile(r"\s+to\s+|\W+|_")  # the codes of a pair


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
    for place, (name, values) in enumerate(zip(names, columns, strict=True)):
        texts = [text for text in values if isinstance(text, str) and text.strip()]
        kind_of = _by_split(wanted, name, texts) or _by_languages(wanted, name, texts, unnamed)
        if kind_of and place not in places:
            found[place] = RowChoice(name, kind_of)
    reading.choices[:] = found.values()
    return [*places, *found]


def _by_split(wanted: Wanted, name: str, texts: Sequence[str]) -> KindOf | None:
    """What selects rows by a column of splits, if it is one."""
    split = wanted.split if wanted.split in SPLIT_STEMS else "train"

    def kind_of(text: str) -> str | None:
        return split if folded(text) in SPLIT_STEMS[split] else None

    usual = {stem for stems in SPLIT_STEMS.values() for stem in stems}
    is_choice = folded(name) in SPLIT_COLUMNS and usual.intersection(map(folded, texts))
    return kind_of if is_choice else None


def _by_languages(
    wanted: Wanted, name: str, texts: Sequence[str], unnamed: Sequence[str]
) -> KindOf | None:
    """What selects rows by a column of languages, if it is one by its name and most values.

    `unnamed`: the sides whose languages no names of columns tell.
    """
    key = folded(re.sub("(?<=[a-z])(?=[A-Z])", " ", name))  # of sourceLang
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

    if not sides or not LANGUAGE_COLUMN.match(key):
        return None
    codes = sum(is_language_code(text) or kind_of(text) is not None for text in texts)
    return kind_of if 2 * codes > len(texts) else None


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
                " --lang_tgt, or write one code for all. If it has another meaning, rename it."
            )
        if None in kinds.values():
            reading.notices.append(Remark(f"{text}. Of these, {read} is read for {wanted}."))
