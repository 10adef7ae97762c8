"""Datasets of the Hugging Face hub, or local copies of its repositories."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from translate_ddp.data.columns import Languages, sides_of, text_columns
from translate_ddp.data.read_errors import explain_read_errors, list_names
from translate_ddp.errors import UserError
from translate_ddp.runtime.background import BackgroundThread

if TYPE_CHECKING:
    from datasets import Dataset

HUB_TIMEOUT_SECONDS = 5.0
WAYS_OUT = (
    "Ways out: (1) run once on a machine with network, then here with a copy of its HF_HOME and"
    " HF_HUB_OFFLINE=1; (2) run there `hf download --repo-type dataset {name} --local-dir DIR` (if"
    " it is a dataset script add `--revision refs/convert/parquet`), copy DIR here and pass"
    " --dataset DIR; (3) pass files of your own, such as --dataset data/train for data/train.en"
    " and data/train.it."
)


def read_hub(name: str, languages: Languages) -> Mapping[str, Dataset]:
    """The splits of a dataset of the hub, from the local cache if it is there.

    So restarts read the same rows and need no network. Raises UserError if the hub is needed and
    does not answer, or has no such dataset or pair of languages.
    """
    if (cached := _read_cache(name, languages)) is not None:
        return {
            split: text_columns(table, sides_of(languages), name) for split, table in cached.items()
        }
    _require_hub(name)
    return read_repository(name, languages, WAYS_OUT.format(name=name))


def _read_cache(name: str, languages: Languages) -> Mapping[str, Dataset] | None:
    # `load_dataset` reads its cache only after 23 s of attempts to reach the hub, unless it is
    # offline. This class reads it at once. It is not documented: without it, the hub is needed.
    bare_name = name.rpartition("/")[2]
    for pair in ("-".join(languages), "-".join(languages[::-1]), "default"):
        # The class is missing, or the pair is not cached or incomplete, or other arguments are due.
        with suppress(ImportError, ValueError, OSError, TypeError):
            from datasets.packaged_modules.cache.cache import Cache

            cache = Cache(
                repo_id=name, dataset_name=bare_name, config_name=pair, version="auto", hash="auto"
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
    elif not _answers(endpoint, HUB_TIMEOUT_SECONDS):
        obstacle = f"the hub {endpoint} does not answer"
    else:
        return
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


def read_repository(place: str, languages: Languages, advice: str) -> Mapping[str, Dataset]:
    """The splits of a dataset repository: its name on the hub, or a folder with a copy."""
    from datasets import load_dataset

    with explain_read_errors(place, advice):
        loaded = load_dataset(place, **_repository_part(place, languages))
    splits = cast("Mapping[str, Dataset]", loaded)
    return {
        split: text_columns(table, sides_of(languages), place) for split, table in splits.items()
    }


def _repository_part(place: str, languages: Languages) -> dict[str, Any]:
    """The arguments of `load_dataset` that select the pair, in either direction."""
    from datasets import get_dataset_config_names

    configs = get_dataset_config_names(place)
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
