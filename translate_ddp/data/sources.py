"""One source of sentence pairs -> its splits, as streams of rows of text.

A source is one string. These are tried in this order:

    demo                     the embedded corpus of English and Italian (demo.tsv)
    data/train.tsv           one file: .jsonl .json .csv .tsv .tmx .parquet .xlsx or .ods
    data/train               parallel text: data/train.en and data/train.de, train.en.txt and
                             train.de.txt, train-en.txt and train-de.txt, or train-src.en.sgm and
                             train-ref.de.sgm
    data/part-*.tsv          all these files; of parallel text, data/part-*.en or data/part-*
    data                     a folder with such files named train and, say, val; or with en.txt and
                             de.txt; or what `mtdata get` or `save_to_disk` writes; or a copy
                             of a hub dataset
    Helsinki-NLP/opus_books  a dataset of the Hugging Face hub

Files but parquet and spreadsheets may be compressed: .gz, .zst or .xz. `NAME:SPLIT` is one split of
a source: `demo:test`, `wmt/wmt14:validation`; the splits of a spreadsheet are its sheets. `en` is
also found as `eng` in names of files and columns, `pt_BR` as `pt-BR`.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from glob import escape, has_magic
from itertools import islice
from pathlib import Path
from shlex import quote

from translate_ddp.data.hub_datasets import read_copy, read_hub
from translate_ddp.data.languages import Direction
from translate_ddp.data.pair_store import SAMPLE_PAIRS, Pair
from translate_ddp.data.readers.corpus_files import (
    READERS,
    Located,
    check_file,
    file_identity,
    find_parallel,
    find_shards,
    find_table,
    table_rows,
)
from translate_ddp.data.readers.spreadsheet import is_spreadsheet, sheet_names
from translate_ddp.data.readers.streams import COMPRESSIONS, LOCK, spooled
from translate_ddp.data.row_choice import SPLIT_STEMS
from translate_ddp.data.rows import (
    BY_POSITION,
    Languages,
    Rows,
    Wanted,
    explain_read_errors,
    list_names,
)
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import NoSuchPair, UserError
from translate_ddp.runtime.long_calls import library_call
from translate_ddp.settings import SourceOptions

DEMO = Path(__file__).with_name("demo.tsv")  # columns split, en, it
HUB_ID = re.compile(r"\w[\w-]*|\w[\w.-]*/\w[\w.-]*")
HUB_ALIASES = {"opus_books": "Helsinki-NLP/opus_books"}
NO_OPTIONS = SourceOptions()
MIN_PAIRS = 100  # fewer do not show that columns are swapped
MIN_SHARE = 0.01  # share of swapped pairs; single pairs may look swapped by chance


@dataclass(frozen=True)
class Source:
    """Where the splits of a source were found; they are not read yet."""

    identity: list[str]  # changes when they would have other rows
    splits: Callable[[], Mapping[str, Rows]]


def find_splits(source: str, languages: Languages, options: SourceOptions) -> Mapping[str, Rows]:
    """The splits of a source by name. Datasets of the hub are downloaded, unless they are cached.

    Raises NoSuchPair if there is no such source, or it has no such split, columns or languages, and
    UserError if it cannot be read.
    """
    name, split = name_and_split(source)
    with library_call():
        splits = _locate(name, split, languages, options).splits()
    if split and split not in splits:
        has = f"{name} has no {_splits_of(name)[:-1]} {split!r}"
        raise NoSuchPair(f"{has}; it has {list_names(splits)}.")
    return {split: splits[split]} if split else splits


def read_pairs(
    source: str, languages: Languages, options: SourceOptions = NO_OPTIONS, split: str = "test"
) -> Rows:
    """All rows of one source; with a column of splits, the rows of `split`.

    Raises UserError if it is not found, or has several splits and `source` does not name one.
    """
    return choose_split(source, find_splits(source, languages, replace(options, split=split)))


def validation_split(splits: Mapping[str, Rows]) -> Rows | None:
    """The split for validation, whatever its usual name. None if there is none."""
    return next((splits[name] for name in SPLIT_STEMS["validation"] if name in splits), None)


def choose_split(source: str, splits: Mapping[str, Rows], default: str = "") -> Rows:
    """The only split, or the one named `default`. Raises UserError if there is neither."""
    if len(splits) == 1:
        return next(iter(splits.values()))
    if default not in splits:
        raise UserError(
            f"{source} has the {_splits_of(source)} {list_names(splits)}: name one, as in"
            f" {quote(f'{source}:{min(splits)}')}."
        )
    return splits[default]


def check_direction(
    options: SourceOptions, languages: LanguagePair, rows: Rows, sample: Iterable[Pair]
) -> list[str]:
    """A notice if the sides of these pairs of a source seem swapped or, without names, may be.

    Raises UserError if only their order tells which is the source, and it is wrong in most of 100
    pairs or more. Names of columns and files are not doubted, nor columns that the user gives.
    """
    pairs = list(islice(dict.fromkeys(sample), SAMPLE_PAIRS))
    is_by_position = BY_POSITION in rows.remarks
    if (options.src_column and options.tgt_column) or rows.name.startswith("demo:"):
        return []
    if len(pairs) < MIN_PAIRS and not is_by_position:
        return []
    (src, tgt), direction = languages, Direction(languages)
    found = Counter(map(direction, pairs))
    swapped = (
        f"{rows.name}: {found[-1]:,} of {len(pairs):,} sampled pairs have {tgt} as source and {src}"
        " as target"
    )
    if is_by_position and 2 * found[-1] > len(pairs) >= MIN_PAIRS:
        raise UserError(
            f"{swapped}. Add a first line that names the columns, {tgt} and {src}, or pass"
            " --src_column 2 --tgt_column 1. If the order is right: --src_column 1 --tgt_column 2."
        )
    if found[-1] > MIN_SHARE * len(pairs):
        return [f"{swapped}. Swap the sides of these pairs, or the names of columns or files."]
    if not is_by_position or 2 * found[1] > len(pairs):
        return []
    why = f"{direction.unknown[0]} is unknown" if direction.unknown else "they are not clear"
    return [f"{rows.name} has no header: columns 1 and 2 are read as {src} and {tgt}, but {why}."]


def _splits_of(source: str) -> str:
    return "sheets" if is_spreadsheet(Path(source)) else "splits"


def source_identity(source: str, languages: Languages, options: SourceOptions) -> list[str]:
    """Texts that change with the content: path, size and time of files, the name of a hub dataset.

    Raises UserError if there is no such source.
    """
    name, split = name_and_split(source)
    return [split, *_locate(name, split, languages, options).identity]


def name_and_split(source: str) -> tuple[str, str]:
    """`NAME:SPLIT` in its parts; '' for none. A sheet may have any name."""
    name, _, split = source.rpartition(":")
    is_split = split.isidentifier() or (split and is_spreadsheet(Path(name)))
    return (name, split) if name and is_split else (source, "")


def _locate(name: str, split: str, languages: Languages, options: SourceOptions) -> Source:
    if "://" in name:
        raise UserError(
            f"{name} is an address. Download the file and pass its path; a dataset of the hub is"
            " passed by its name, such as Helsinki-NLP/opus_books."
        )
    with explain_read_errors(name, "Check the name and the permissions."):
        path = Path(name) if LOCK.match(name) else spooled(Path(name).expanduser())
        found = (
            _demo(name, languages)
            or _find_sheets(path, languages, options)
            or _one_split(find_table(path, languages, options))
            or _one_split(find_parallel(path.parent, path.name, languages))
            or _find_shards(path, languages, options)
            or _find_folder(path, split, languages, options)
            or _find_on_hub(name, languages, options)
        )
        if found is None:
            raise NoSuchPair(_describe_missing(path, languages))
    return found


def _one_split(located: Located | None) -> Source | None:
    return located and Source(located.identity, lambda: {"train": located.rows()})


def _find_sheets(path: Path, languages: Languages, options: SourceOptions) -> Source | None:
    if not (is_spreadsheet(path) and path.is_file()):
        return None
    wanted = Wanted.pair(languages, options)

    def splits() -> Mapping[str, Rows]:
        check_file(path)
        return {name: table_rows(path, wanted, name) for name in sheet_names(path)}

    return Source([file_identity(path)], splits)


def _describe_missing(path: Path, languages: Languages) -> str:
    sides = " and ".join(f"{path}.{language}" for language in languages)
    if "," in path.name:
        return f"There is no file or folder {path}. Several datasets have spaces between them."
    endings = list_names(COMPRESSIONS)
    missing = f"There is no file or folder {path}, nor the two files {sides} (plain or {endings})."
    if not path.parent.is_dir():
        return f"{missing} There is no folder {path.parent} either."
    names = sorted(each.name for each in path.parent.iterdir() if not each.name.startswith("."))
    wanted = path.name.lower()  # similar ones come first: all are not shown
    names.sort(key=lambda name: -SequenceMatcher(None, name.lower(), wanted).ratio())
    folder = "The current folder" if path.parent == Path() else path.parent
    return f"{missing} {folder} holds {list_names(names)}."


def _demo(name: str, languages: Languages) -> Source | None:
    if name != "demo":
        return None
    if set(languages) != {"en", "it"}:
        raise NoSuchPair(
            f"The demo corpus is English and Italian (en-it or it-en), not {'-'.join(languages)}:"
            f" choose these languages, or another dataset."
        )

    def rows(split: str) -> Rows:
        found = table_rows(DEMO, replace(Wanted.pair(languages, NO_OPTIONS), split=split))
        return replace(found, name=f"demo:{split}", remarks=[])  # its splits need no notice

    digest = hashlib.blake2b(DEMO.read_bytes()).hexdigest()
    return Source([digest], lambda: {split: rows(split) for split in SPLIT_STEMS})


def _find_shards(path: Path, languages: Languages, options: SourceOptions) -> Source | None:
    if not has_magic(str(path)) or path.exists():
        return None
    if found := find_shards(str(path), languages, options):
        return _one_split(found)
    raise NoSuchPair(f"No file matches {path}.")


def _find_folder(
    folder: Path, split: str, languages: Languages, options: SourceOptions
) -> Source | None:
    if not folder.is_dir():
        return None
    # A training reads no test set: one may have its sources only.
    names = [name for name in SPLIT_STEMS if name != "test" or name == split]
    found = ((name, _find_split(folder, name, languages, options)) for name in names)
    held = {name: part for name, part in found if part is not None}
    if "train" in held:
        identity = [line for part in held.values() for line in part.identity]
        return Source(identity, lambda: {name: part.rows() for name, part in held.items()})
    src, tgt = languages
    advice = (
        f"It holds {list_names(sorted(path.name for path in folder.iterdir()))}: neither"
        f" train.{src} and train.{tgt}, nor another file named train, nor a whole copy of a hub"
        f" dataset. Pass one of its files, a pattern such as '{folder}/*.tsv', or the start of the"
        " names of parallel text."
    )
    identity = [file_identity(path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return Source(identity, lambda: read_copy(folder.resolve(), languages, options, advice))


def _find_split(
    folder: Path, split: str, languages: Languages, options: SourceOptions
) -> Located | None:
    options = replace(options, split=split)
    for stem in SPLIT_STEMS[split]:
        names = (f"{stem}{ending}{comp}" for ending in READERS for comp in ("", *COMPRESSIONS))
        tables = filter(None, (find_table(folder / name, languages, options) for name in names))
        if found := next(tables, None) or find_parallel(folder, stem, languages):
            return found
    if split != "train":
        return None
    parts = f"{escape(str(folder))}/train-parts/*"  # as `mtdata get` without --merge names it
    return find_parallel(folder, "", languages) or find_shards(parts, languages, options)


def _find_on_hub(name: str, languages: Languages, options: SourceOptions) -> Source | None:
    """The dataset of a name that is valid on the hub and, as a path, starts in no local folder."""
    owner, slash, _ = name.partition("/")
    is_file_name = Path(name).suffix in (*READERS, *COMPRESSIONS)
    if not HUB_ID.fullmatch(name) or is_file_name or (slash and Path(owner).exists()):
        return None
    full_name = HUB_ALIASES.get(name, name)
    identity = [*filter(None, (full_name, options.revision))]
    return Source(identity, lambda: read_hub(full_name, languages, options))
