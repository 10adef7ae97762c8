"""Any source of sentence pairs -> one table with columns `src` and `tgt`; every row as it stands.

A source is one string, tried in this order:

    demo                     the embedded corpus, English and Italian
    data/train.tsv           one file: .jsonl .json .csv .tsv (.gz of them) or .parquet
    data/train               parallel text: data/train.en and data/train.de, plain or .gz
    data                     a folder with such files named train and, say, val,
                             or a local copy of a hub dataset
    Helsinki-NLP/opus_books  a dataset of the Hugging Face hub

`NAME:SPLIT` is one of its splits: `demo:test`, `wmt/wmt14:validation`.
"""

from __future__ import annotations

import csv
import errno
import glob
import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from translate_ddp.errors import UserError

if TYPE_CHECKING:
    # At run time the functions import it: 0.6 s that reading the command line need not wait for.
    from datasets import Dataset, Features

Languages = tuple[str, str]  # source, target

BUILDERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
SPLIT_STEMS = {
    "train": ["train"],
    "validation": ["validation", "valid", "val", "dev"],
    "test": ["test"],
}
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
HUB_ID = re.compile(r"\w[\w-]*|\w[\w.-]*/\w[\w.-]*")
HUB_ALIASES = {"opus_books": "Helsinki-NLP/opus_books"}
HUB_PATIENCE_SECONDS = 5.0
WAYS_OUT = (
    "Ways out: (1) run once on a machine with network, then here with a copy of its HF_HOME and"
    " HF_HUB_OFFLINE=1; (2) run there `hf download --repo-type dataset {name} --local-dir DIR` (for"
    " one that is a script add `--revision refs/convert/parquet`), bring DIR here and pass"
    " --dataset DIR; (3) pass files of your own, such as --dataset data/train for data/train.en"
    " and data/train.it."
)


@dataclass(frozen=True)
class _Source:
    """Where pairs were found, not yet read."""

    identity: list[str]  # changes with what is there
    read: Callable[[], Mapping[str, Dataset]]  # split -> columns src and tgt


def read_splits(source: str, languages: Languages) -> Mapping[str, Dataset]:
    """The splits of a source by name, with columns `src` and `tgt`, null where there is no text."""
    _quieten_libraries()
    name, split = _name_and_split(source)
    splits = _locate(name, languages).read()
    if not split:
        return splits
    if split not in splits:
        raise UserError(f"{name} has no split {split!r}; it has {listing(splits)}.")
    return {split: splits[split]}


def source_identity(source: str, languages: Languages) -> list[str]:
    """What changes when the source would read otherwise: of files path, size and time, of a hub
    dataset the name. Raises UserError if there is no such source."""
    name, split = _name_and_split(source)
    return [split, *_locate(name, languages).identity]


def _name_and_split(source: str) -> tuple[str, str]:
    name, _, split = source.rpartition(":")
    return (name, split) if name and split.isidentifier() else (source, "")


def _locate(name: str, languages: Languages) -> _Source:
    path = Path(name).expanduser()
    with reading(name, "Check the name and the permissions."):
        found = (
            _demo(name, languages)
            or _file(path, languages)
            or _parallel_text(path, languages)
            or _folder(path, languages)
            or _hub(name, languages)
        )
        if found is None:
            raise UserError(_nothing_there(path, languages))
    return found


def _nothing_there(path: Path, languages: Languages) -> str:
    sides = " and ".join(f"{path}.{language}" for language in languages)
    missing = f"There is no file or folder {path}, nor the two files {sides} (plain or .gz)."
    if not path.parent.is_dir():
        return f"{missing} There is no folder {path.parent} either."
    names = sorted(entry.name for entry in path.parent.iterdir())
    near = get_close_matches(path.name, names) or names
    return f"{missing} In {path.parent} there is {listing(near)}."


def _demo(name: str, languages: Languages) -> _Source | None:
    if name != "demo":
        return None
    if set(languages) != {"en", "it"}:
        raise UserError(
            f"The demo corpus is English and Italian (en-it or it-en), not {'-'.join(languages)}:"
            f" choose these languages, or another dataset."
        )
    modules = sorted(Path(__file__).with_name("demo").glob("*.py"))
    digest = hashlib.blake2b(b"".join(module.read_bytes() for module in modules))
    return _Source([digest.hexdigest()], lambda: _read_demo(languages))


def _read_demo(languages: Languages) -> dict[str, Dataset]:
    from datasets import Dataset

    from translate_ddp.demo import demo_corpus

    corpus = demo_corpus()
    splits = {"train": corpus.train, "validation": corpus.validation, "test": corpus.test}
    src, tgt = (("en", "it").index(language) for language in languages)
    return {
        name: Dataset.from_dict(
            {"src": [pair[src] for pair in pairs], "tgt": [pair[tgt] for pair in pairs]},
            features=_text_features("src", "tgt"),
        )
        for name, pairs in splits.items()
    }


def _file(path: Path, languages: Languages) -> _Source | None:
    if not path.is_file():
        return None
    if _ending(path) not in BUILDERS:
        raise UserError(
            f"{path} does not end in {listing(BUILDERS)} (or .gz of them). To read parallel text,"
            f" give what both file names start with, such as {path.with_suffix('')}."
        )
    return _Source([_file_identity(path)], lambda: {"train": _read_file(path, languages)})


def _read_file(path: Path, languages: Languages) -> Dataset:
    if _ending(path) in (".csv", ".tsv"):
        return _pair_columns(_read_csv(path, languages), languages, path)
    return _pair_columns(_load(BUILDERS[_ending(path)], path), languages, path)


def _read_csv(path: Path, languages: Languages) -> Dataset:
    """Every field as the text it is, columns named by the header if it names the languages."""
    dialect: dict[str, Any] = {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL}
    if _ending(path) == ".tsv":
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    first_row = _load("csv", path, header=None, nrows=1, **dialect)[0]
    cells = [str(cell).strip() for cell in first_row.values()]
    has_header = set(languages) <= set(cells) or {"src", "tgt"} <= set(cells)
    if not has_header and (len(cells) != 2 or set(languages) & set(cells)):
        raise UserError(
            f"{path} names no columns {' and '.join(languages)} (or src and tgt): its first row is"
            f" {listing(cells)}. Name them there, or give two columns without a header."
        )
    # The header is read as a row: pandas then rejects rows that are longer than it. Told of a
    # header, it would take the first field of such a row for a row label, and shift the others.
    table = _load(
        "csv",
        path,
        header=None,
        column_names=cells if has_header else ["src", "tgt"],
        features=_text_features(*(cells if has_header else ["src", "tgt"])),
        keep_default_na=False,
        **dialect,
    )
    return table.select(range(1, len(table))) if has_header else table


def _parallel_text(prefix: Path, languages: Languages) -> _Source | None:
    found: list[Path] = []
    for language in languages:
        plain = prefix.parent / f"{prefix.name}.{language}"
        found += [path for path in (plain, Path(f"{plain}.gz")) if path.is_file()][:1]
    if not found:
        return None
    if len(found) == 1:
        raise UserError(
            f"Of the parallel text {prefix} there is only {found[0]}: the other language of"
            f" {'-'.join(languages)} is missing (plain or .gz)."
        )
    return _Source(
        [_file_identity(path) for path in found], lambda: {"train": read_parallel(*found)}
    )


def read_parallel(src_path: Path, tgt_path: Path) -> Dataset:
    """Two files of as many lines, plain or .gz, side by side; columns `src` and `tgt`.

    Raises UserError if they cannot be read or do not match.
    """
    from datasets import concatenate_datasets

    _quieten_libraries()
    src = _load("text", src_path, features=_text_features("src"))
    tgt = _load("text", tgt_path, features=_text_features("tgt"))
    if len(src) != len(tgt):
        raise UserError(
            f"{src_path} has {len(src):,} lines and {tgt_path} {len(tgt):,}:"
            f" line by line they must be translations of each other."
        )
    return concatenate_datasets([src, tgt], axis=1)


def _folder(folder: Path, languages: Languages) -> _Source | None:
    if not folder.is_dir():
        return None
    parts = {split: _folder_part(folder, split, languages) for split in SPLIT_STEMS}
    held = {split: part for split, part in parts.items() if part is not None}
    if "train" in held:
        identity = [line for part in held.values() for line in part.identity]
        return _Source(identity, lambda: {name: held[name].read()["train"] for name in held})
    src, tgt = languages
    advice = (
        f"It holds {listing(sorted(path.name for path in folder.iterdir()))}: neither train.{src}"
        f" and train.{tgt}, nor another file named train, nor a whole copy of a hub dataset."
    )
    identity = [_file_identity(path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return _Source(identity, lambda: _read_repository(str(folder.resolve()), languages, advice))


def _folder_part(folder: Path, split: str, languages: Languages) -> _Source | None:
    for stem in SPLIT_STEMS[split]:
        files = (folder / f"{stem}{ending}{gz}" for ending in BUILDERS for gz in ("", ".gz"))
        for path in files:
            if found := _file(path, languages):
                return found
        if found := _parallel_text(folder / stem, languages):
            return found
    return None


def _hub(name: str, languages: Languages) -> _Source | None:
    """A name the hub could know; `data/train` is none where there is a folder data."""
    owner = name.partition("/")[0]
    if not HUB_ID.fullmatch(name) or Path(name).suffix in (*BUILDERS, ".gz"):
        return None
    if owner != name and Path(owner).exists():
        return None
    full_name = HUB_ALIASES.get(name, name)
    return _Source([full_name], lambda: _read_hub(full_name, languages))


def _read_hub(name: str, languages: Languages) -> Mapping[str, Dataset]:
    """A copy prepared before comes first: restarts read the same rows, and need no network."""
    prepared = _prepared_before(name, languages)
    if prepared is not None:
        return _all_pair_columns(prepared, languages, name)
    _require_hub(name)
    return _read_repository(name, languages, WAYS_OUT.format(name=name))


def _prepared_before(name: str, languages: Languages) -> Mapping[str, Dataset] | None:
    from datasets.packaged_modules.cache.cache import Cache

    bare_name = name.rpartition("/")[2]
    for pair in (*_both_directions(languages), "default"):
        try:
            copy = Cache(
                repo_id=name,
                dataset_name=bare_name,
                config_name=pair,
                version="auto",
                hash="auto",
            )
            return cast("Mapping[str, Dataset]", copy.as_dataset())
        except (ValueError, OSError):  # there is none of this pair, or one broken off
            continue
    return None


def _require_hub(name: str) -> None:
    """Raise within seconds what the library takes 23 s to several minutes to find out."""
    from datasets import config

    if config.HF_HUB_OFFLINE:
        obstacle = "HF_HUB_OFFLINE forbids to ask the hub"
    elif not _answers(config.HF_ENDPOINT, HUB_PATIENCE_SECONDS):
        obstacle = f"the hub {config.HF_ENDPOINT} does not answer"
    else:
        return
    raise UserError(
        f"{name} is no local file or folder, was not prepared in HF_HOME before, and {obstacle}."
        f" {WAYS_OUT.format(name=name)}"
    )


def _answers(url: str, patience_seconds: float) -> bool:
    """Whether anything comes back in time, were it a refusal.

    The whole is timed from outside: a socket's timeout does not cover the name look-up, and starts
    again with each address that the name stands for.
    """
    answered = threading.Event()

    def knock() -> None:
        try:
            urlopen(Request(url, method="HEAD"), timeout=patience_seconds).close()
        except HTTPError as refusal:
            refusal.close()
            if refusal.code >= 500:  # it, or a proxy before it, is out of order
                return
        except (OSError, ValueError, HTTPException):
            return
        answered.set()

    knocking = threading.Thread(target=knock, daemon=True)
    knocking.start()
    knocking.join(patience_seconds)
    return answered.is_set()


def _read_repository(place: str, languages: Languages, advice: str) -> Mapping[str, Dataset]:
    """The splits of a dataset repository, on the hub or copied to a folder."""
    from datasets import load_dataset

    with reading(place, advice):
        splits = load_dataset(place, **_repository_part(place, languages))
    return _all_pair_columns(cast("Mapping[str, Dataset]", splits), languages, place)


def _repository_part(place: str, languages: Languages) -> dict[str, Any]:
    """What makes `load_dataset` take the pair, in whichever direction the repository names it."""
    from datasets import get_dataset_config_names

    configs = get_dataset_config_names(place)
    subfolders = sorted(path.name for path in Path(place).glob("*-*") if path.is_dir())
    for pair in _both_directions(languages):
        if pair in configs:
            return {"name": pair}
        if pair in subfolders:
            return {"data_dir": pair}
    held = configs if len(configs) > 1 else subfolders
    if len(held) > 1:
        raise UserError(f"{place} has no pair {'-'.join(languages)}; it has {listing(held)}.")
    return {"name": configs[0]}


def _load(builder: str, path: Path, **settings: Any) -> Dataset:
    from datasets import load_dataset

    files = {"train": glob.escape(str(path.resolve()))}
    with reading(path, "It may be damaged, not UTF-8, or not what its name says."):
        loaded = load_dataset(builder, data_files=files, split="train", **settings)
    return cast("Dataset", loaded)


@contextmanager
def reading(what: str | Path, advice: str) -> Iterator[None]:
    """Say in a sentence what a reading library raised; what it may raise is written nowhere."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            raise UserError(
                f"No room to read {what} into the cache of `datasets`: {cause.strerror}. Free "
                "some, or set HF_HOME to a folder on another disk."
            ) from error
        first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise UserError(f"{what} cannot be read: {first_line.rstrip('.')}. {advice}") from error


def _quieten_libraries() -> None:
    import huggingface_hub
    from datasets import config, disable_progress_bars, logging

    disable_progress_bars()
    logging.set_verbosity(logging.CRITICAL)
    huggingface_hub.logging.set_verbosity_error()
    # Else every reading of a local file is reported, and waits for an answer from the network.
    config.HF_UPDATE_DOWNLOAD_COUNTS = False


def _file_identity(path: Path) -> str:
    found = path.stat()
    return f"{path.resolve()} {found.st_size} {found.st_mtime_ns}"


def _ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _both_directions(languages: Languages) -> tuple[str, str]:
    return "-".join(languages), "-".join(reversed(languages))


def listing(names: Iterable[str], at_most: int = 20) -> str:
    names = list(names)
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return (", ".join(names[:at_most]) or "nothing") + more


# ---- Columns: from any table to src and tgt ----


def _all_pair_columns(
    splits: Mapping[str, Dataset], languages: Languages, source: str
) -> dict[str, Dataset]:
    return {name: _pair_columns(table, languages, source) for name, table in splits.items()}


def _pair_columns(table: Dataset, languages: Languages, source: str | Path) -> Dataset:
    if "translation" in table.column_names:
        table = _unnested(table.select_columns("translation"), languages)
    for names in (languages, ("src", "tgt")):
        if set(names) <= set(table.column_names):
            src, tgt = names
            pairs = table.select_columns([src, tgt]).rename_columns({src: "src", tgt: "tgt"})
            plain = pairs.features == _text_features("src", "tgt")
            return pairs if plain else mapped_text(pairs, _only_text, ("src", "tgt"))
    raise UserError(
        f"{source} does not hold {' and '.join(languages)}, but {listing(table.column_names)}."
        f" Choose languages that are there, or name the columns so (or src and tgt)."
    )


def _unnested(table: Dataset, languages: Languages) -> Dataset:
    """The languages inside the column `translation` as columns of their own."""
    from datasets.features import Json

    if isinstance(table.features["translation"], Json):  # rows that differ in keys or types
        return mapped_text(table, _looked_up, languages, languages=languages)
    flat = table.flatten()
    return flat.rename_columns({name: name.rpartition(".")[2] for name in flat.column_names})


def _looked_up(batch: dict[str, list[Any]], languages: Languages) -> dict[str, list[str | None]]:
    rows = [row if isinstance(row, dict) else {} for row in batch["translation"]]
    return _only_text({language: [row.get(language) for row in rows] for language in languages})


def _only_text(batch: dict[str, list[Any]]) -> dict[str, list[str | None]]:
    return {
        name: [value if isinstance(value, str) else None for value in values]
        for name, values in batch.items()
    }


def mapped_text(
    table: Dataset, function: Callable[..., Any], columns: tuple[str, ...], **settings: Any
) -> Dataset:
    """Text `columns` made by `function` from batches of the table, on disk if the table is.

    Never from the cache of `map`: it knows a function of a module by its name alone, so what an
    older version of the function made would outlive it.
    """
    return table.map(
        function,
        batched=True,
        fn_kwargs=settings,
        features=_text_features(*columns),
        remove_columns=table.column_names,
        load_from_cache_file=False,
    )


def _text_features(*columns: str) -> Features:
    from datasets import Features, Value

    return Features({column: Value("string") for column in columns})
