"""Datasets of the Hugging Face hub, or local copies of its repositories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from translate_ddp.corpus_settings import SourceOptions
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
from translate_ddp.errors import UserError
from translate_ddp.runtime.background import BackgroundThread

if TYPE_CHECKING:
    # `datasets` takes 0.6 s to import, and most sources do not need it.
    from datasets import Dataset

SAVED = ("dataset_dict.json", "state.json")  # in a folder of `save_to_disk`
COMMIT = re.compile("[0-9a-f]{40}")
# By default pandas reads "NA" as missing and 007 as a number.
CSV_AS_TEXT: dict[str, Any] = {
    "keep_default_na": False,
    "na_filter": False,
    "converters": dict.fromkeys(range(100), str),  # of columns by number; further ones are ignored
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
    silence_libraries()
    splits = _read_cache(name, languages, options.revision)
    if splits is None:
        _require_hub(name, options.revision)
        with explain_read_errors(name, WAYS_OUT.format(name=name)):
            revision = {"revision": options.revision} if options.revision else {}
            splits = _load(name, **_repository_part(name, languages, **revision), **revision)
    return _table_rows(name, splits, Wanted.pair(languages, options))


def _table_rows(name: str, tables: Mapping[Any, Dataset], wanted: Wanted) -> Mapping[str, Rows]:
    return {str(split): dataset_rows(name, table, wanted) for split, table in tables.items()}


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
        if builder.name == "text":  # files of lines, which have no columns
            raise UserError(f"{folder} is no corpus. {advice}")
        held = cast("Mapping[str, list[str]]", builder.config.data_files)
    return {
        str(split): _rows_of_files(folder, list(map(Path, held[split])), languages, options)
        for split in held
    }


def _rows_of_files(
    folder: Path, paths: list[Path], languages: Languages, options: SourceOptions
) -> Rows:
    """The rows of the files of a split. Raises UserError if one is of a format not read here."""
    if others := [path.name for path in paths if not is_table(path)]:
        raise UserError(
            f"{folder} has files of another format, {list_names(others)}. Convert them to one of"
            f" {list_names(READERS)}."
        )
    parts = (find_table(path, languages, options) for path in paths)
    return join_rows(str(paths[0].parent), [part.rows() for part in parts if part is not None])


def _read_cache(name: str, languages: Languages, revision: str) -> Mapping[str, Dataset] | None:
    # `load_dataset` reads its cache only after 23 s of attempts to reach the hub, unless it is
    # offline. This class reads it at once. It is not documented: without it, the hub is needed.
    if revision and not COMMIT.fullmatch(revision):
        return None  # a branch: only the hub knows which commit it is now
    bare_name = name.rpartition("/")[2]
    version = ("0.0.0", revision) if revision else ("auto", "auto")
    pairs = ("-".join(languages), "-".join(languages[::-1]), "default")
    for pair, options in product(pairs, (CSV_AS_TEXT, {})):
        # The class is missing, or the pair is not cached or incomplete, or other arguments are due.
        with suppress(ImportError, ValueError, OSError, TypeError):
            from datasets.packaged_modules.cache.cache import Cache

            cache = Cache(
                repo_id=name,
                dataset_name=bare_name,
                config_name=pair,
                version=version[0],
                hash=version[1],
                **options,
            )
            return cast("Mapping[str, Dataset]", cache.as_dataset())
    return None


def _cached_commits(name: str) -> list[str]:
    from datasets import config
    from datasets.naming import camelcase_to_snakecase

    *owner, bare_name = name.split("/")
    folder = "___".join([*owner, camelcase_to_snakecase(bare_name)])
    found = Path(config.HF_DATASETS_CACHE).glob(f"{folder}/*/*/*")
    return sorted({path.name for path in found if COMMIT.fullmatch(path.name)})


def _require_hub(name: str, revision: str) -> None:
    """Raise a UserError within seconds if the hub is out of reach.

    `load_dataset` takes from 23 s (refused) to more than 6 minutes (packets dropped) to raise.
    """
    from datasets import config

    endpoint = getattr(config, "HF_ENDPOINT", "https://huggingface.co")
    if getattr(config, "HF_HUB_OFFLINE", False):
        obstacle = "HF_HUB_OFFLINE is set"
    elif not _answers(endpoint, HUB_TIMEOUT_SECONDS):
        obstacle = f"the hub {endpoint} does not answer"
    else:
        return
    if revision and (commits := _cached_commits(name)):
        raise UserError(
            f"--revision {revision} of {name} is not in the cache, and {obstacle}. The cache has"
            f" {list_names(commits)}: pass one of these as --revision."
        )
    raise UserError(
        f"{name} is no local file or folder, it is not in the cache in HF_HOME, and {obstacle}."
        f" {WAYS_OUT.format(name=name)}"
    )


def _answers(url: str, timeout_seconds: float) -> bool:
    """Whether a response with a status below 500 arrives in time.

    The request runs in a thread, because a socket's timeout does not cover the name lookup, and
    starts again with each address of the host.
    """

    def request() -> bool:
        try:
            urlopen(Request(url, method="HEAD"), timeout=timeout_seconds).close()
        except HTTPError as error:
            error.close()
            return error.code < 500  # others are of the hub, or of a proxy in front of it
        return True

    with suppress(OSError, ValueError, HTTPException):
        return BackgroundThread("hub").result(request, timeout_seconds)
    return False


def _load(place: str, **settings: Any) -> Mapping[str, Dataset]:
    from datasets import load_dataset, load_dataset_builder

    builder = load_dataset_builder(place, **settings)
    options = CSV_AS_TEXT if hasattr(builder.config, "keep_default_na") else {}
    return cast("Mapping[str, Dataset]", load_dataset(place, **settings, **options))


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
        raise UserError(f"{place} has no pair {'-'.join(languages)}; it has {list_names(held)}.")
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
