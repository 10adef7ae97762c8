"""Environment and fixtures of all tests.

pytest imports this file as `conftest`, so an import of `tests.conftest` would run it again.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import gpus as gpus  # hides them
from tests.helpers.nodes import Nodes, two_nodes
from tests.helpers.tiny_run import TINY_RUN, write_corpus
from translate_ddp.data.languages import language_identifier
from translate_ddp.runtime.environment import set_defaults

set_defaults(os.environ)  # as train.py does, before torch is imported
# A run releases the memory of the model, which takes 0.7 s to load, after each corpus.
setattr(language_identifier, "cache_clear", lambda: None)  # noqa: B010
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the other cores have tests of their own
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell ignores it in background processes, and commands started here would, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "tests.helpers.faults",
    "tests.helpers.mixes",
    "tests.helpers.options",
    "tests.helpers.wandb_server",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests wait for processes come first: the last ones would keep one worker busy."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/runtime", "tests/training")))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def tiny_run(corpus: str, tmp_path: Path) -> list[str]:
    """The flags of a run of about 30 steps that writes to `tmp_path / "model"`."""
    return [*TINY_RUN, "--dataset", corpus, "--model_folder", str(tmp_path / "model")]


@pytest.fixture(scope="session")
def undisturbed(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model folder of a finished tiny run on two nodes with one rank each, without faults."""
    folder = tmp_path_factory.mktemp("undisturbed")
    flags = [*TINY_RUN, "--dataset", corpus, "--model_folder", str(folder)]
    with two_nodes() as nodes:
        nodes.train([flags, flags], folder).succeed()
    return folder


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for data. `datasets` has an empty cache, and no hub answers."""
    cache = tmp_path / "hf_home"
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", cache / "datasets")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache / "hub"))
    monkeypatch.setattr("datasets.config.HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def disk_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of each file when it is synced, and `old -> new` when it is renamed, in order."""
    calls: list[str] = []
    sync, rename = os.fsync, Path.rename

    def record_sync(descriptor: int) -> None:
        calls.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    def record_rename(path: Path, target: Path) -> Path:
        calls.append(f"{path.name} -> {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "rename", record_rename)
    return calls
