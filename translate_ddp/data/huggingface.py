"""Sentence pairs of the Hugging Face hub, or of a local copy of one of its repositories."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from translate_ddp.data.columns import Languages, all_pair_columns, listing, reading
from translate_ddp.errors import UserError

if TYPE_CHECKING:
    from datasets import Dataset

HUB_PATIENCE_SECONDS = 5.0
WAYS_OUT = (
    "Ways out: (1) run once on a machine with network, then here with a copy of its HF_HOME and"
    " HF_HUB_OFFLINE=1; (2) run there `hf download --repo-type dataset {name} --local-dir DIR` (for"
    " one that is a script add `--revision refs/convert/parquet`), bring DIR here and pass"
    " --dataset DIR; (3) pass files of your own, such as --dataset data/train for data/train.en"
    " and data/train.it."
)


def read_hub(name: str, languages: Languages) -> Mapping[str, Dataset]:
    """A copy prepared before comes first: restarts read the same rows, and need no network."""
    prepared = _prepared_before(name, languages)
    if prepared is not None:
        return all_pair_columns(prepared, languages, name)
    _require_hub(name)
    return read_repository(name, languages, WAYS_OUT.format(name=name))


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


def read_repository(place: str, languages: Languages, advice: str) -> Mapping[str, Dataset]:
    """The splits of a dataset repository, on the hub or copied to a folder."""
    from datasets import load_dataset

    with reading(place, advice):
        splits = load_dataset(place, **_repository_part(place, languages))
    return all_pair_columns(cast("Mapping[str, Dataset]", splits), languages, place)


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


def _both_directions(languages: Languages) -> tuple[str, str]:
    return "-".join(languages), "-".join(reversed(languages))
