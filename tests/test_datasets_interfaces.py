"""Undocumented parts of `datasets` that the package uses: a failure names the version without them.

The package runs without each of them, but slower or with more requests to the hub.
"""

import importlib
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
from datasets import config

from tests.helpers.corpora import error_of, read, write

VERSION = f"datasets {datasets.__version__}"
CACHE_MODULE = "datasets.packaged_modules.cache.cache"


@pytest.mark.parametrize("name", ["HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_UPDATE_DOWNLOAD_COUNTS"])
def test_config_has_the_settings_of_the_hub(name: str):
    assert hasattr(config, name), f"{VERSION} has no datasets.config.{name}"


def test_cache_can_be_read_without_the_hub():
    try:
        cache_class = importlib.import_module(CACHE_MODULE).Cache
    except (ImportError, AttributeError) as error:
        pytest.fail(f"{VERSION}: {error}; a cached hub dataset now needs the hub")
    used = {"repo_id", "dataset_name", "config_name", "version", "hash"}
    missing = used - set(inspect.signature(cache_class).parameters)
    assert not missing, f"{VERSION}: the class Cache has no {missing}"


def test_json_rows_of_unequal_types_are_read_as_dicts(folder: Path):
    rows = '{"translation": {"en": "a", "de": "b"}}\n{"translation": {"en": 5}}\n'
    assert read(write(folder / "x.jsonl", rows)) == [("a", "b"), (None, None)], VERSION


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("module", [None, object(), SimpleNamespace(Cache=lambda: None)])
def test_hub_is_used_where_the_cache_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, module: object | None
):
    monkeypatch.setitem(sys.modules, CACHE_MODULE, module)
    assert "does not answer" in error_of("opus_books", ("en", "it"))
