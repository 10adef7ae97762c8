"""Nodes that share a disk: work is done once, and old listings of the disk do no harm."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import faults
from tests.helpers import processes
from tests.helpers.nodes import Nodes
from tests.helpers.runs import assert_same_run
from tests.helpers.states import make_state
from tests.helpers.tiny_run import TINY_RUN
from translate_ddp.errors import UserError
from translate_ddp.runtime.world import open_world
from translate_ddp.settings import CheckpointConfig, DistributedConfig
from translate_ddp.training import checkpoint
from translate_ddp.training.checkpoint import CheckpointStore, verify_file
from translate_ddp.training.checkpoint_name import Checkpoint
from translate_ddp.training.run import find_preload, lock_run_folder


class StaleStore(CheckpointStore):
    """Its listing lacks some files, and has others that are gone, as may be on a network disk."""

    def __init__(self, config: CheckpointConfig, lacks: int = 0, gone: str = "") -> None:
        super().__init__(config)
        self.lacks, self.gone = lacks, gone

    def list(self):
        gone = [Checkpoint(self.folder / self.gone, 99, None)] if self.gone else []
        return gone + super().list()[self.lacks :]


GONE = "tmodel_step_00000099-01234567.pt"


@pytest.fixture
def config(tmp_path: Path) -> CheckpointConfig:
    return CheckpointConfig(str(tmp_path / "model"), keep_last=1)


def resume_on_three_nodes(folder: str, lacks: list[int], gone: list[str]) -> None:
    """Each rank is a node; all share the disk. Prints which files it verifies and what it loads."""
    os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"] = "0", "1"

    def print_and_verify(path: Path) -> None:
        print("verifies", path.name, flush=True)
        verify_file(path)

    checkpoint.verify_file = print_and_verify
    with open_world(DistributedConfig()) as world:
        _, world = lock_run_folder(folder, world)
        store = StaleStore(CheckpointConfig(folder), lacks[world.rank], gone[world.rank])
        try:
            start = find_preload(store, "latest", world)
            step, name = None, store.folder.name
            if start.found is not None:
                step, name = start.found.state.position.global_step, start.found.path.name
            print("loaded", step, name, len(start.messages), flush=True)
        except UserError as error:
            print("error", error, flush=True)


def lines_of(job: processes.Job) -> list[list[str]]:
    """The lines that each rank has printed."""
    job.succeed()
    return [path.read_text().splitlines() for path in job.outputs]


@pytest.fixture
def resume(config: CheckpointConfig, tmp_path: Path) -> Callable[..., list[list[str]]]:
    def start(lacks: list[int], gone: list[str]) -> list[list[str]]:
        work = resume_on_three_nodes
        job = processes.start(work, tmp_path, 3, None, config.model_folder, lacks, gone)
        return lines_of(job)

    return start


NONE = ["", "", ""]


@pytest.mark.slow
def test_newest_checkpoint_is_used_that_any_node_lists_and_one_node_verifies_it(
    config: CheckpointConfig, resume: Callable[..., list[list[str]]]
):
    store = CheckpointStore(config)
    store.save(make_state(1))
    newest = store.save(make_state(2)).name
    loaded = f"loaded 2 {newest} 1"
    verifies = f"verifies {newest}"
    assert resume([1, 0, 0], NONE) == [[loaded], [verifies, loaded], [loaded]]
    assert resume([2, 2, 0], NONE) == [[loaded], [loaded], [verifies, loaded]]


def test_damaged_checkpoint_is_passed_over_by_all_nodes_with_one_message(
    config: CheckpointConfig, resume: Callable[..., list[list[str]]]
):
    store = CheckpointStore(config)
    older, newest = store.save(make_state(1)).name, store.save(make_state(2))
    newest.write_bytes(newest.read_bytes()[:-1])
    first, *others = resume([0, 0, 0], NONE)
    loaded = f"loaded 1 {older} 2"
    assert first == [f"verifies {newest.name}", f"verifies {older}", loaded]
    assert others == [[loaded]] * 2


def test_listed_file_that_is_gone_is_left_out(
    config: CheckpointConfig, resume: Callable[..., list[list[str]]]
):
    for gone in (["", GONE, GONE], [GONE] * 3):  # nothing is there: a new run
        assert {lines[-1] for lines in resume([0, 0, 0], gone)} == {"loaded None model 1"}
    newest = CheckpointStore(config).save(make_state(2)).name
    assert {lines[-1] for lines in resume([0, 0, 0], [GONE, "", ""])} == {f"loaded 2 {newest} 1"}


def test_archive_of_an_old_listing_moves_what_is_there_and_leaves_no_empty_folder(
    config: CheckpointConfig,
):
    store = StaleStore(config, gone=GONE)
    kept, later = store.save(make_state(1)).name, store.save(make_state(2)).name
    (store.folder / "metrics.jsonl").touch()
    assert store.archive([kept]) == str(store.folder / "earlier-001")
    archived = sorted(path.name for path in (store.folder / "earlier-001").iterdir())
    assert archived == ["metrics.jsonl", later]
    assert store.archive([kept]) is None  # a second node, which still lists the file
    assert not (store.folder / "earlier-002").exists()


def test_archive_that_is_missing_in_the_listing_is_not_overwritten(
    config: CheckpointConfig, monkeypatch: pytest.MonkeyPatch
):
    store = CheckpointStore(config)
    store.save(make_state(1))
    (store.folder / "earlier-001").mkdir()
    monkeypatch.setattr(store, "count_archives", lambda: 0)
    assert store.archive([]) == str(store.folder / "earlier-002")


@pytest.mark.parametrize("error", [OSError(116, "Stale file handle"), FileNotFoundError(2, "gone")])
def test_old_listing_does_not_end_a_run_that_deletes_checkpoints(
    config: CheckpointConfig, monkeypatch: pytest.MonkeyPatch, error: OSError
):
    store = StaleStore(config, gone=GONE)
    names = [store.save(make_state(step)).name for step in (1, 2)]
    store.prune([*names, GONE], best_epoch=0)

    def refuse(_: Any) -> None:
        raise error

    monkeypatch.setattr(StaleStore, "list", refuse)
    store.prune([*names, GONE], best_epoch=0)


@pytest.mark.slow
def test_nodes_that_share_a_disk_prepare_and_verify_the_corpus_once(
    nodes: Nodes, corpus: str, tmp_path: Path
):
    # The second node would fail where it tokenizes. It has another copy of the files, and another
    # path of the disk.
    (tmp_path / "mounted").symlink_to(tmp_path)
    (tmp_path / "copy").mkdir()
    for language in ("en", "it"):
        shutil.copy(f"{corpus}.{language}", tmp_path / "copy")
    flags = [
        [*TINY_RUN, "--dataset", corpus, "--model_folder", str(tmp_path / "model")],
        [*TINY_RUN, "--dataset", str(tmp_path / "copy" / "train")]
        + ["--model_folder", str(tmp_path / "mounted" / "model")],
    ]
    fault = faults.error("tokenizing", rank=1)
    one_epoch = [[*words, "--num_epochs", "1"] for words in flags]
    nodes.train(one_epoch, tmp_path, TRANSLATE_DDP_FAULT=fault).succeed()
    assert len(list((tmp_path / "model" / "data").iterdir())) == 1
    assert "Resuming from" in nodes.train(flags, tmp_path).succeed()
    assert not list((tmp_path / "model").glob(".received*"))

    # The corpus is damaged; one node finds that and prepares it again.
    shutil.copytree(tmp_path / "model" / "data", tmp_path / "again" / "data")
    (file,) = tmp_path.glob("again/data/*/train.src.tokens")
    file.write_bytes(file.read_bytes()[:-400] + bytes(400))
    flags = [[*words, "--model_folder", str(tmp_path / "again")] for words in flags]
    job = nodes.train(flags, tmp_path, TRANSLATE_DDP_FAULT=fault)
    job.succeed()
    assert job.text().count("is damaged: train.src.tokens") == 1
    assert_same_run(tmp_path / "model", tmp_path / "again")
