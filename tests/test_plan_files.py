"""Plans on disk: computed once, read by the others, and never needed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from translate_ddp.corpus_settings import MixConfig
from translate_ddp.data import plan_files, step_sampler
from translate_ddp.data.mix import Mix
from translate_ddp.data.plan import Lengths, Plan, plan_epoch
from translate_ddp.data.plan_files import load_or_compute, plan_name
from translate_ddp.data.step_sampler import StepSampler
from translate_ddp.settings import AugmentConfig, BatchConfig

LENGTHS = Lengths(np.arange(100) % 30 + 2, np.arange(100) % 28 + 2)
CONFIG = BatchConfig(batch_tokens=100, seq_len=60)
NAME = "plan-0.npz"


def compute(epoch: int = 0) -> Plan:
    return plan_epoch(LENGTHS, CONFIG, seed=0, epoch=epoch, world_size=1)


def not_needed() -> Plan:
    raise AssertionError("computed again")


def is_equal(one: Plan, other: Plan) -> bool:
    return all(np.array_equal(array, vars(other)[name]) for name, array in vars(one).items())


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != plan_files.LOCK_NAME)


def test_a_stored_plan_is_read_instead_of_computed(tmp_path: Path):
    first = load_or_compute(tmp_path / "plans", NAME, compute)
    assert is_equal(first, compute())
    assert is_equal(load_or_compute(tmp_path / "plans", NAME, not_needed), first)


def test_plan_that_another_is_computing_is_awaited(tmp_path: Path):
    begun, others_wait = threading.Event(), threading.Event()
    plans: list[Plan] = []

    def slowly() -> Plan:
        begun.set()
        assert others_wait.wait(60)
        return compute()

    def start(work: Callable[[], Plan]) -> threading.Thread:
        run = threading.Thread(target=lambda: plans.append(load_or_compute(tmp_path, NAME, work)))
        run.start()
        return run

    first = start(slowly)
    assert begun.wait(60)
    others = [start(not_needed) for _ in range(3)]
    others[0].join(0.3)  # time to begin a second computation, if nothing prevented it
    others_wait.set()
    for thread in (first, *others):
        thread.join()
    assert len(plans) == 4
    assert all(is_equal(plan, compute()) for plan in plans)


@pytest.mark.parametrize("moment", ["computing", "rename"])
def test_nothing_of_a_killed_writer_is_read_or_kept(tmp_path: Path, moment: str):
    def die(*_: object) -> Plan:
        os._exit(7)

    if not (child := os.fork()):
        if moment == "rename":
            setattr(Path, "rename", die)  # noqa: B010
        load_or_compute(tmp_path, NAME, die if moment == "computing" else compute)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert NAME not in files(tmp_path)
    assert is_equal(load_or_compute(tmp_path, NAME, compute), compute())  # its lock is released
    for epoch in range(1, 4):
        load_or_compute(tmp_path, f"plan-{epoch}.npz", compute)
    assert files(tmp_path) == ["plan-1.npz", "plan-2.npz", "plan-3.npz"]


def test_old_plans_are_deleted(tmp_path: Path):
    for epoch in range(6):
        load_or_compute(tmp_path, f"plan-{epoch}.npz", compute)
        os.utime(tmp_path / f"plan-{epoch}.npz", (epoch, epoch))
    assert files(tmp_path) == ["plan-3.npz", "plan-4.npz", "plan-5.npz"]


@pytest.mark.parametrize("damage", ["empty", "cut off", "another bit", "encrypted", "compressed"])
def test_a_damaged_plan_is_computed_again(tmp_path: Path, damage: str):
    load_or_compute(tmp_path, NAME, compute)
    data = (tmp_path / NAME).read_bytes()
    flipped = data[:300] + bytes([data[300] ^ 1]) + data[301:]
    damaged = {"empty": b"", "cut off": data[:-50], "another bit": flipped}
    entry = data.index(b"PK\1\2")  # of the first array, in the directory of the zip file
    damaged |= {"encrypted": data[: entry + 8] + b"\1" + data[entry + 9 :]}
    damaged |= {"compressed": data[: entry + 10] + b"\x63" + data[entry + 11 :]}
    (tmp_path / NAME).write_bytes(damaged[damage])
    assert is_equal(load_or_compute(tmp_path, NAME, compute), compute())
    assert is_equal(load_or_compute(tmp_path, NAME, not_needed), compute())


def test_plan_is_computed_if_the_folder_cannot_be_created(tmp_path: Path):
    (tmp_path / "file").touch()
    assert is_equal(load_or_compute(tmp_path / "file" / "plans", NAME, compute), compute())


@pytest.mark.parametrize("call", ["os.open", "fcntl.flock", "plan_files.write_atomically"])
def test_plan_is_computed_once_if_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    computed: list[int] = []
    module, name = call.split(".")
    owner = plan_files if module == "plan_files" else getattr(plan_files, module)
    monkeypatch.setattr(owner, name, fail)
    plan = load_or_compute(tmp_path, NAME, lambda: computed.append(1) or compute())
    assert is_equal(plan, compute())
    assert computed == [1]
    assert files(tmp_path) == []


def test_a_stored_plan_is_read_from_a_disk_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = load_or_compute(tmp_path, NAME, compute)
    monkeypatch.delattr(os, "open")
    assert is_equal(load_or_compute(tmp_path, NAME, not_needed), first)


def test_plan_is_computed_if_the_lock_is_held_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plan_files, "LOCK_SECONDS", 0.1)
    with plan_files._locked(tmp_path):  # pyright: ignore[reportPrivateUsage]
        assert is_equal(load_or_compute(tmp_path, NAME, compute), compute())
    assert files(tmp_path) == []


def test_names_differ_with_everything_that_a_plan_depends_on():
    other = Lengths(LENGTHS.source, LENGTHS.target[::-1])
    names = {plan_name(LENGTHS, 1, 2), plan_name(LENGTHS, 2, 1), plan_name(other, 1, 2)}
    assert len(names) == 3
    assert plan_name(LENGTHS, 1, 2) in names


def sampler(
    folder: Path | None, config: BatchConfig = CONFIG, seed: int = 0, size: int = 2
) -> StepSampler:
    return StepSampler(LENGTHS, config, seed=seed, rank=0, world_size=size, folder=folder)


def test_samplers_that_share_a_folder_have_the_plans_of_their_own_settings(tmp_path: Path):
    settings = [
        (CONFIG, 0),
        (CONFIG, 1),
        (BatchConfig(batch_tokens=200, seq_len=60), 0),
        (BatchConfig(batch_tokens=100, batch_size=3, seq_len=60), 0),
        (BatchConfig(batch_tokens=100, batch_size=4, seq_len=60), 0),
    ]
    for config, seed in settings:
        for epoch in (0, 1):
            for size in (2, 4):
                shared, alone = (sampler(f, config, seed, size) for f in (tmp_path, None))
                shared.set_epoch(epoch)
                alone.set_epoch(epoch)
                assert is_equal(shared.plan, alone.plan)


def test_samplers_of_augmented_pairs_share_no_plan_if_settings_differ(tmp_path: Path):
    def plan(seq_len: int, folder: Path | None, dropout: float = 0.1) -> Plan:
        longer = (LENGTHS.source * (1 + 10 * dropout)).astype(int)
        augmented = Lengths(np.minimum(longer, seq_len), LENGTHS.target)
        config = BatchConfig(batch_tokens=100, seq_len=seq_len)
        return StepSampler(
            LENGTHS,
            config,
            seed=0,
            rank=0,
            world_size=1,
            folder=folder,
            augment=AugmentConfig(bpe_dropout=dropout),
            lengths_in=lambda epoch: augmented,
        ).plan

    assert not is_equal(plan(60, tmp_path), plan(20, None))
    assert is_equal(plan(20, tmp_path), plan(20, None))
    assert not is_equal(plan(60, tmp_path), plan(60, None, 0.5))
    assert is_equal(plan(60, tmp_path, 0.5), plan(60, None, 0.5))


def test_plan_of_the_next_epoch_is_computed_during_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mix = Mix.of(MixConfig(), [len(LENGTHS.source)], num_epochs=4)
    mine = StepSampler(LENGTHS, CONFIG, seed=0, rank=0, world_size=2, folder=tmp_path, mix=mix)
    for epoch in range(3):
        mine.set_epoch(epoch)
        assert is_equal(mine.plan, compute(epoch))
        iter(mine)
        assert mine._next is not None  # pyright: ignore[reportPrivateUsage]
        mine._next[1].result(timeout=30)  # pyright: ignore[reportPrivateUsage]
        with monkeypatch.context() as patch:
            patch.setattr(step_sampler, "plan_epoch", not_needed)
            mine.set_epoch(epoch + 1)
    iter(mine)  # the last epoch: no other follows
    assert mine._next and mine._next[0] == 3  # pyright: ignore[reportPrivateUsage]


def test_error_of_the_background_computation_reaches_the_sampler(monkeypatch: pytest.MonkeyPatch):
    mix = Mix.of(MixConfig(), [len(LENGTHS.source)], num_epochs=2)
    mine = StepSampler(LENGTHS, CONFIG, seed=0, rank=0, world_size=2, mix=mix)

    def fail(*_: object, **__: object) -> Plan:
        raise MemoryError

    monkeypatch.setattr(step_sampler, "plan_epoch", fail)
    iter(mine)
    with pytest.raises(MemoryError):
        mine.set_epoch(1)
