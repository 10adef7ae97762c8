"""Settings without the paths of this machine, which may hold the names of users."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from translate_ddp.settings import Config

# The settings that are or may be paths.
PATHS = (
    "dataset",
    "validation",
    "preload",
    "init_from",
    "model_folder",
    "tokenizer_file",
    "config",
)


def without_paths(config: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings, part by part; corpora have public names, other paths their defaults."""
    defaults = Config().to_dict()
    cleaned: dict[str, dict[str, Any]] = {}
    for part, settings in config.items():
        paths = {name: defaults[part][name] for name in PATHS if name in settings}
        cleaned[part] = settings | paths
    cleaned["corpus"]["dataset"] = list(map(public_name, dataset_names(config)))
    cleaned["corpus"]["validation"] = public_name(config["corpus"]["validation"])
    return cleaned


def dataset_names(config: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The datasets of a run."""
    return list(config["corpus"]["dataset"])


def public_name(corpus: str) -> str:
    """The name of a corpus, of a path its last part; numbers and shares of pairs are kept.

    ORGANISATION/NAME of the Hugging Face hub is kept, unless there is a folder ORGANISATION here.
    """
    path = Path(corpus).expanduser()
    is_hub_name = corpus.count(os.sep) == 1 and not path.is_absolute() and corpus[0] != "."
    return corpus if is_hub_name and not path.parent.exists() else path.name or corpus
