"""Datasets of the Hugging Face hub, or local copies of its repositories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from translate_ddp.data.readers.corpus_files import READERS, find_table, is_table
from translate_ddp.data.readers.records import dataset_rows
from translate_ddp.data.rows import (
    Languages,
    Rows,
    Wanted,
    explain_read_errors,
    join_rows,
    list_names,
)
from translate_ddp.errors import NoSuchPair, UserError
from translate_ddp.runtime.long_calls import BackgroundThread
from translate_ddp.settings import SourceOptions

if TYPE_CHECKING:
    # `datasets` takes 0.6 s to import, and most sources do not need it.
    from datasets import Dataset

SAVED = ("dataset_dict.json", "state.json")  # in a folder of `save_to_disk`
COMMIT = re.compile("[0-9a-f]{40}")
# By default pandas reads "NA" as missing and 007 as a number.
CSV_AS_TEXT: dict[str, Any] = {
    "keep_default_na": False,
    "na_filter": False,
    "converters": dict.fromkeys(range(100), str),  # by column number; unused ones are ignored
}
HUB_TIMEOUT_SECONDS = 5.0
WAYS_OUT = (
    "Ways out: (1) run once on a machine with network, then here with a copy of its HF_HOME and"
    " HF_HUB_OFFLINE=1; (2) run there `hf download --repo-type dataset {name} --local-dir DIR` (if"
    " it is a dataset script add `--revision refs/convert/parquet`), copy DIR here and pass DIR in"
    " its place; (3) pass files of your own (docs/data.md)."
)


def read_hub(name: str, languages: Languages, options: SourceOptions) -> Mapping[str, Rows]:
    """The splits of a dataset of the hub, from the local cache if it is there.

    So restarts read the same rows and need no network. Raises UserError if the hub is needed and
    does not answer, or has no such dataset or pair of languages.
    """
    from datasets import load_dataset, load_dataset_builder

    silence_libraries()
    splits = _read_cache(name, languages, options.revision)
    if splits is None:
        _require_hub(name)
        with explain_read_errors(name, WAYS_OUT.format(name=name)):
            settings: dict[str, Any] = {"revision": options.revision} if options.revision else {}
            settings |= _repository_part(name, languages, **settings)
            builder = load_dataset_builder(name, **settings)
            if hasattr(builder.config, "keep_default_na"):
                settings |= CSV_AS_TEXT
            splits = cast("Mapping[str, Dataset]", load_dataset(name, **settings))
    return _table_rows(name, splits, Wanted.pair(languages, options))


def _table_rows(name: str, tables: Mapping[Any, Dataset], wanted: Wanted) -> Mapping[str, Rows]:
    wanted_of = {str(split): replace(wanted, split=str(split)) for split in tables}
    return {str(s): dataset_rows(name, table, wanted_of[str(s)]) for s, table in tables.items()}


def read_copy(
    folder: Path, languages: Languages, options: SourceOptions, advice: str
) -> Mapping[str, Rows]:
    """The splits of a copy of a repository, or of what `save_to_disk` writes, in a local folder.

    Nothing is left in a cache. Raises UserError, which ends in `advice`, if it is neither.
    """
    from datasets import load_dataset_builder, load_from_disk

    silence_libraries()
    if any((folder / name).exists() for name in SAVED):
        with explain_read_errors(folder, "It may be damaged or incomplete: save it again."):
            saved = load_from_disk(folder)
        tables = saved if isinstance(saved, dict) else {"train": saved}
        return _table_rows(str(folder), tables, Wanted.pair(languages, options))
    with explain_read_errors(folder, advice), TemporaryDirectory() as cache:
        part = _repository_part(str(folder), languages)
        builder = load_dataset_builder(str(folder), cache_dir=cache, **part)
        files = cast("Mapping[str, list[str]]", builder.config.data_files)
    splits: dict[str, Rows] = {}
    for split, paths in files.items():
        if not all(map(is_table, map(Path, paths))):
            raise UserError(f"{folder} is no corpus of files {list_names(READERS)}. {advice}")
        own = replace(options, split=str(split))
        parts = filter(None, (find_table(Path(path), languages, own) for path in paths))
        splits[str(split)] = join_rows(str(folder), [part.rows() for part in parts])
    return splits


def _read_cache(name: str, languages: Languages, revision: str) -> Mapping[str, Dataset] | None:
    # `load_dataset` reads its cache only after 23 s of attempts to reach the hub, unless it is
    # offline. This class reads it at once. It is not documented: without it, the hub is needed.
    if revision and not COMMIT.fullmatch(revision):
        return None  # a branch: only the hub knows which commit it is now
    bare_name = name.rpartition("/")[2]
    version, commit = ("0.0.0", revision) if revision else ("auto", "auto")
    pairs = ("-".join(languages), "-".join(languages[::-1]), "default")
    for pair, options in product(pairs, (CSV_AS_TEXT, {})):
        # The class is missing, or the pair is not cached or incomplete, or other arguments are due.
        with suppress(ImportError, ValueError, OSError, TypeError):
            from datasets.packaged_modules.cache.cache import Cache

            cache = Cache(
                repo_id=name,
                dataset_name=bare_name,
                config_name=pair,
                version=version,
                hash=commit,
                **options,
            )
            return cast("Mapping[str, Dataset]", cache.as_dataset())
    return None


def _require_hub(name: str) -> None:
    """Raise a UserError within seconds if the hub is out of reach.

    `load_dataset` takes from 23 s (refused) to more than 6 minutes (packets dropped) to raise.
    """
    from datasets import config

    endpoint = getattr(config, "HF_ENDPOINT", "https://huggingface.co")
    if getattr(config, "HF_HUB_OFFLINE", False):
        obstacle = "HF_HUB_OFFLINE is set"
    elif not _answers(endpoint):
        obstacle = f"the hub {endpoint} does not answer"
    else:
        return
    raise UserError(
        f"{name} is no local file or folder, it is not in the cache in HF_HOME, and {obstacle}."
        f" {WAYS_OUT.format(name=name)}"
    )


def _answers(url: str) -> bool:
    """Whether a response with a status below 500 arrives in time.

    The request runs in a thread, because a socket's timeout does not cover the name lookup, and
    starts again with each address of the host.
    """

    def request() -> bool:
        try:
            urlopen(Request(url, method="HEAD"), timeout=HUB_TIMEOUT_SECONDS).close()
        except HTTPError as error:
            error.close()
            return error.code < 500  # others are of the hub, or of a proxy in front of it
        return True

    with suppress(OSError, ValueError, HTTPException):
        return BackgroundThread("hub").result(request, HUB_TIMEOUT_SECONDS)
    return False


def _repository_part(place: str, languages: Languages, **settings: Any) -> dict[str, Any]:
    """The arguments of `load_dataset` that select the pair, in either direction."""
    from datasets import get_dataset_config_names

    configs = get_dataset_config_names(place, **settings)
    subfolders = sorted(path.name for path in Path(place).glob("*-*") if path.is_dir())
    for pair in ("-".join(languages), "-".join(languages[::-1])):
        if pair in configs:
            return {"name": pair}
        if pair in subfolders:
            return {"data_dir": pair}
    held = configs if len(configs) > 1 else subfolders
    if len(held) > 1:
        raise NoSuchPair(f"{place} has no pair {'-'.join(languages)}; it has {list_names(held)}.")
    return {"name": configs[0]}


def silence_libraries() -> None:
    """Turn off progress bars, warnings and download counts of the libraries that read."""
    import huggingface_hub
    from datasets import config, disable_progress_bars, logging

    disable_progress_bars()
    logging.set_verbosity(logging.CRITICAL)
    huggingface_hub.logging.set_verbosity_error()
    # Otherwise every reading of a local file sends a request and waits for the answer.
    config.HF_UPDATE_DOWNLOAD_COUNTS = False
