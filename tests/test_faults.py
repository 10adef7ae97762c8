"""The fault matrix: what is broken, where, and what is left of it.

The oracle is equality. A run that was killed, stopped or refused by its disk, and then started
again with the same command, ends with the weights, the optimizer, the position and the metrics of
one that was never disturbed.
"""

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY_RUN
from tests.helpers import launch
from tests.helpers.runs import assert_same_state, checkpoints, last_state, losses, metrics
from translate_ddp.runtime.fault_injection import VARIABLE

FOREVER = ["--num_epochs", "100000"]


def many_batches(folder: Path) -> list[str]:
    """Flags of a validation in more than ten batches."""
    lines = [f"river {'stone ' * n}{'moon ' * m}\n" for n in range(8) for m in range(8)]
    for language in ("en", "it"):
        (folder / f"long.{language}").write_text("".join(lines))
    return ["--validation", str(folder / "long"), "--max_tokens", "60"]


class Run:
    """A run in a folder of its own; the corpus is there already."""

    def __init__(self, flags: list[str], folder: Path, data: Path | None) -> None:
        self.folder = folder
        self.flags = [*flags, "--model_folder", str(folder)]
        if data is not None:
            shutil.copytree(data, folder / "data")

    def start(self, *flags: str, size: int = 1, fault: str = "", **variables: str) -> launch.Job:
        variables |= {VARIABLE: fault} if fault else {}
        return launch.train([*self.flags, *flags], self.folder, size, **variables)

    @property
    def status(self) -> dict[str, Any]:
        return json.loads((self.folder / "STATUS.json").read_text())

    @property
    def steps(self) -> list[int]:
        """The steps at which there are checkpoints, in their order."""
        return sorted(
            {int(name.split("step_")[1].split("-")[0]) for name in checkpoints(self.folder)}
        )


@pytest.fixture(scope="module")
def undisturbed(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of the finished run on so many ranks, of so many epochs."""
    flags = [*TINY_RUN, "--dataset", corpus]
    done: dict[tuple[int, int], Path] = {}

    def folder(size: int, epochs: int = 2) -> Path:
        if (size, epochs) not in done:
            run = Run(flags, tmp_path_factory.mktemp("undisturbed") / "model", None)
            run.start("--num_epochs", str(epochs), size=size).succeed()
            done[size, epochs] = run.folder
        return done[size, epochs]

    return folder


@pytest.fixture
def run(corpus: str, tmp_path: Path, undisturbed: Callable[..., Path]) -> Run:
    data = undisturbed(1) / "data"
    return Run([*TINY_RUN, "--dataset", corpus], tmp_path / "model", data)


@pytest.fixture
def same(undisturbed: Callable[..., Path]) -> Callable[..., None]:
    """Demands that a run has ended as if nothing had happened."""

    def check(run: Run, size: int = 1, epochs: int = 2) -> None:
        assert_same_state(undisturbed(size, epochs), run.folder)
        assert metrics(undisturbed(size, epochs)) == metrics(run.folder)
        assert not list(run.folder.glob(".tmodel*"))  # nothing half written is left
        assert run.status["state"] == "finished"

    return check


# --- kills ---

KILLS = [
    # where                   ranks
    ("batch:7@1=kill", 2),
    ("loss:9@0=kill", 2),
    ("gradients:7@0=kill", 2),
    ("updated:6@1=kill", 2),
    ("saving:1=kill", 1),
    ("writing:150=kill", 1),
    ("syncing:2=kill", 1),
    ("renaming:2=kill", 1),
    ("published:2=kill", 1),
    ("pruning:1=kill", 1),
    ("metrics:2=kill", 1),
    ("validating:1@0=kill", 2),
    ("validating:1@1=kill --validate_on all", 2),
]


@pytest.mark.parametrize(("fault", "size"), KILLS)
def test_a_rank_killed_anywhere_changes_nothing(
    run: Run, same: Callable[..., None], fault: str, size: int
):
    fault, *flags = fault.split()
    job = run.start(*flags, size=size, fault=fault)
    job.die_with_one()
    run.start(size=size).succeed()
    same(run, size)


@pytest.mark.parametrize("point", ["tokenizing", "preparing"])
def test_a_kill_while_the_corpus_is_prepared_changes_nothing(
    run: Run, same: Callable[..., None], point: str
):
    shutil.rmtree(run.folder / "data")
    run.start(fault=f"{point}=kill").die_with_one()
    run.start().succeed()
    same(run)
    assert [path.name[:6] for path in (run.folder / "data").iterdir()] == ["en-it-"]


def test_twenty_kills_at_random_instants_change_nothing(
    run: Run, corpus: str, tmp_path: Path, undisturbed: Callable[..., Path]
):
    begun = time.monotonic()
    run.start(*FOREVER).kill_when(lambda: 8 in run.steps)
    typical = time.monotonic() - begun
    generator = random.Random(0)
    for number in range(19):
        before = run.steps[-1]
        job = run.start(*FOREVER)
        if number % 2:  # at an instant of its start, or of what comes then
            time.sleep(generator.uniform(0.2, 1.2) * typical)
            job.kill()
        else:  # or some time after it has saved something new, however slow the machine is
            job.kill_when(lambda before=before: run.steps[-1] > before)
    epochs = str(last_state(run.folder)["position"]["epoch"] + 1)
    run.start("--num_epochs", epochs).succeed()
    straight = Run(run.flags, tmp_path / "straight", undisturbed(1) / "data")
    straight.start("--num_epochs", epochs).succeed()
    assert_same_state(straight.folder, run.folder)
    assert metrics(straight.folder) == metrics(run.folder)


def test_a_lost_rank_is_named_with_its_step_and_phase(run: Run):
    job = run.start(*FOREVER, size=3, fault="batch:5@1=kill")
    assert sorted(job.wait()) == [-signal.SIGKILL, 75, 75]
    said = job.text()
    assert said.count("error: ") == 1
    assert "error: Rank 1 got lost at step 5, computing gradients. The same command" in said
    assert "rank 0 stood here" in said and "rank 2 stood here" in said
    assert "Traceback" not in said
    assert run.status["state"] == "failed" and "Rank 1 got lost" in run.status["reason"]


# --- requests to stop ---

STOPS = [
    # where, and which rank      ranks
    ("batch:7@1=term", 2),
    ("batch:7@0=usr1", 2),
    ("gradients:7@1=int", 2),
    ("writing:150=term", 1),
    ("published:1=hup", 1),
    ("validating:1@0=term validating:1@0=sleep:1", 2),
    ("batch:7=term batch:8=term", 1),  # schedulers repeat themselves
]


@pytest.mark.parametrize(("fault", "size"), STOPS)
def test_a_signal_to_one_rank_anywhere_stops_all_and_changes_nothing(
    run: Run, same: Callable[..., None], fault: str, size: int
):
    said = run.start(*FOREVER, size=size, fault=fault).succeed()
    position = last_state(run.folder)["position"]
    assert f"step {position['global_step']}, as asked (SIG" in said and "and saved" in said
    status = run.status
    assert status["state"] == "preempted" and status["reason"].startswith("SIG")
    assert status["step"] == position["global_step"]
    assert (run.folder / status["checkpoint"]).exists()
    epochs = max(2, position["epoch"] + 1)  # a slow machine may take an epoch to hear of it
    run.start("--num_epochs", str(epochs), size=size).succeed()
    same(run, size, epochs)


def test_a_rank_that_waits_for_the_validation_can_stop_it(run: Run, tmp_path: Path):
    # The signal reaches rank 1, which only waits, while rank 0 is busy for a minute.
    flags = [*FOREVER, *many_batches(tmp_path)]
    job = run.start(*flags, size=2, fault="validating:1-1000@0=sleep:0.5")
    job.signal_when(lambda: 15 in run.steps, signal.SIGTERM, rank=1)
    assert "epoch 0, step 15, as asked (SIGTERM), and saved" in job.succeed()


@pytest.mark.parametrize("fault", ["tokenizing@0=term", "preparing@0=int"])
def test_a_signal_before_the_first_step_ends_at_once(
    run: Run, same: Callable[..., None], fault: str
):
    shutil.rmtree(run.folder / "data")
    job = run.start(size=2, fault=f"{fault} {fault.split('=')[0]}=hang")
    assert job.wait() == [0, 0]
    assert job.text().count("Stopped before the first step (SIG") == 1
    assert run.status["state"] == "preempted"
    run.start(size=2).succeed()
    same(run, 2)


def test_a_signal_at_any_moment_of_the_start_leaves_no_traceback(run: Run):
    generator = random.Random(1)
    for _ in range(6):
        job = run.start(*FOREVER)
        time.sleep(generator.uniform(0.0, 0.8))
        job.signal(signal.SIGTERM)
        assert job.wait()[0] in (0, -signal.SIGTERM)
        assert "Traceback" not in job.text()
    assert not list(run.folder.glob(".tmodel*"))


def test_a_stop_that_cannot_be_reached_in_time_says_where_it_waits(run: Run):
    launchers_patience = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "6.5"}
    fault = "batch:6@1=hang batch:6@0=term"
    job = run.start(*FOREVER, size=2, fault=fault, **launchers_patience)
    assert job.wait() == [75, 75]
    said = job.text()
    assert said.count("longer than the") == 1 and "without a new checkpoint" in said
    assert "rank 0 stood here" in said and "rank 1 stood here" in said
    assert run.status["state"] == "preempted"
    assert run.steps == [4]


def test_a_second_ctrl_c_ends_at_once(run: Run):
    job = run.start(*FOREVER, fault="batch:5=hang")
    job.signal_when(lambda: 4 in run.steps, signal.SIGINT)
    time.sleep(0.3)
    job.signal(signal.SIGINT)
    assert job.wait() == [130]
    assert "Traceback" not in job.text()


def test_max_minutes_stops_as_a_signal_does(run: Run, same: Callable[..., None]):
    said = run.start(*FOREVER, "--max_minutes", "0.03", size=2).succeed()
    assert "as asked (--max_minutes is over), and saved" in said
    assert run.status["state"] == "preempted"


# --- disks ---

REFUSALS = ["saving:2=enospc", "writing:150=enospc", "syncing:2=eio", "renaming:2=eio"]
REFUSALS += ["saving:2=enospc saving:4=enospc saving:6=enospc"]  # never three in a row
REFUSALS += ["published:2=eio", "pruning:1=eio", "metrics:2-3=enospc"]


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_disk_that_refuses_now_and_then_changes_nothing(
    run: Run, same: Callable[..., None], fault: str
):
    said = run.start(fault=fault).succeed()
    if "pruning" not in fault:  # one checkpoint too many is nobody's concern
        assert ("No space left on device" in said) or ("Input/output error" in said)
    same(run)


def test_a_disk_that_refuses_three_times_in_a_row_ends_the_run_in_its_own_words(
    run: Run, same: Callable[..., None]
):
    said = run.start(size=2, fault="syncing:2-4=enospc").fail()
    assert said.count("error: Could not save a checkpoint") == 1
    assert said.count("No space left on device") == 3 and "Traceback" not in said
    assert run.steps == [4]
    assert run.status["state"] == "failed" and "No space left" in run.status["reason"]
    run.start(size=2).succeed()
    same(run, 2)


def test_a_last_save_that_fails_is_no_success(run: Run):
    said = run.start("--max_steps", "8", fault="saving:2=enospc").fail()
    assert "error: Could not save a checkpoint" in said and "Finished" not in said


# --- numbers ---


@pytest.mark.parametrize("fault", ["loss:6@1=nan", "gradients:5@1=nan"])
def test_a_step_that_is_not_finite_on_one_rank_is_skipped_by_all(run: Run, fault: str):
    # The warm-up passes the points once.
    said = run.start(size=2, fault=fault).succeed()
    assert said.count("Skipped step 5: its loss or gradient was not finite. Its sentences: ") == 1
    state = last_state(run.folder)
    assert state["position"]["skipped_steps"] == 1
    updates = {float(moments["step"]) for moments in state["optimizer"]["state"].values()}
    assert updates == {state["position"]["global_step"] - 1.0}
    counts = [r["train/skipped_steps"] for r in metrics(run.folder) if "train/loss" in r]
    assert counts[0] == 0 and set(counts[1:]) == {1}
    assert all(isinstance(loss, float) for loss in losses(run.folder))


def test_a_skipped_step_is_counted_once_however_often_the_run_is_killed(run: Run, tmp_path: Path):
    straight = Run(run.flags, tmp_path / "straight", run.folder / "data")
    straight.start(fault="loss:6=nan").succeed()
    run.start(fault="loss:6=nan batch:9=kill").die_with_one()
    run.start().succeed()
    assert_same_state(straight.folder, run.folder)
    assert metrics(straight.folder) == metrics(run.folder)


def test_a_stop_waits_for_a_step_that_is_finite(run: Run, tmp_path: Path):
    # A state after steps that were not finite is not saved; the next sound one is.
    straight = Run(run.flags, tmp_path / "straight", run.folder / "data")
    straight.start(fault="loss:6-8=nan").succeed()
    said = run.start(fault="loss:6-8=nan batch:6=term").succeed()
    assert "step 8, as asked (SIGTERM), and saved" in said
    assert run.steps == [4, 8]
    run.start().succeed()
    assert_same_state(straight.folder, run.folder)
    assert metrics(straight.folder) == metrics(run.folder)


def test_ten_steps_in_a_row_that_are_not_finite_end_the_run_and_save_nothing(run: Run):
    said = run.start(*FOREVER, size=2, fault="loss:6-1000@1=nan").fail()
    assert said.count("error: Loss or gradient was not finite in 1") == 1
    assert run.steps == [4]  # of the steps before
    assert run.status["state"] == "failed"


@pytest.mark.parametrize("fault", ["updated:6@1=flip", "updated:8@1=nan"])
def test_weights_that_differ_between_ranks_are_not_saved(
    run: Run, same: Callable[..., None], fault: str
):
    said = run.start(size=3, fault=fault).fail()
    assert (
        said.count("error: Weights or optimizer of rank 1 differ from the others' at step 8") == 1
    )
    assert run.steps == [4]
    run.start(size=3).succeed()
    same(run, 3)


# --- hangs ---


@pytest.mark.parametrize(
    ("fault", "where"),
    [
        ("batch:6@1=hang", "Rank 1 stood still at step 6, reading a batch"),
        ("batch:6@1=stop", "Rank 1 gave no answer at step 6, computing gradients"),
        ("validating@0=hang", "Rank 0 stood still at step 15, validating"),
        ("validating@1=stop --validate_on all", "Rank 1 gave no answer at step 15, validating"),
    ],
)
def test_a_rank_that_hangs_ends_the_run_and_is_named(run: Run, fault: str, where: str):
    fault, *flags = fault.split()
    job = run.start(*FOREVER, *flags, "--timeout_minutes", "0.05", size=2, fault=fault)
    stopped = fault.endswith("stop")
    if stopped:
        job.ranks[0].join(launch.SECONDS)
        job.ranks[1].kill()
    assert job.wait() == [75, -signal.SIGKILL if stopped else 75]
    said = job.text()
    assert said.count("error: ") == 1 and f"error: {where}: no progress for 3 s" in said
    assert "rank 0 stood here" in said and ("rank 1 stood here" in said) != stopped
    assert "Traceback" not in said
    assert run.status["state"] == "failed" and where in run.status["reason"]


def test_a_rank_that_is_stopped_while_it_waits_is_missed_by_the_one_that_works(run: Run):
    flags = [*FOREVER, "--timeout_minutes", "0.05"]
    job = run.start(*flags, size=2, fault="validating@0=sleep:1.5")
    job.signal_when(lambda: 15 in run.steps, signal.SIGSTOP, rank=1)
    job.ranks[0].join(launch.SECONDS)
    job.ranks[1].kill()
    assert job.wait() == [75, -signal.SIGKILL]
    # It was stopped as soon as the checkpoint was there, or a little later.
    missed = (
        r"error: Rank 1 gave no answer at step 15, (saving a checkpoint|validating): no progress"
    )
    assert re.search(missed, job.text())


def test_a_rank_that_raises_alone_ends_the_run_and_is_named(run: Run):
    job = run.start(*FOREVER, size=2, fault="gradients:5@1=raise")
    assert sorted(job.wait()) == [1, 1]
    said = job.text()
    assert said.count("error: ") == 1
    assert "error: Rank 1 failed at step 5, computing gradients: RuntimeError: a fault" in said
    assert said.count("Traceback") == 1 and "rank 0 stood here" in said
    assert run.status["state"] == "failed"


def train_without_a_stderr(flags: list[str]) -> None:
    os.close(2)
    launch.run_train(flags)


def test_a_rank_that_hangs_ends_the_run_also_if_nobody_can_be_told(run: Run):
    flags = [*run.flags, *FOREVER, "--timeout_minutes", "0.05"]
    variables = {VARIABLE: "batch:5=hang"}
    job = launch.start(train_without_a_stderr, run.folder, 1, variables, flags)
    assert job.wait() == [75]
    assert run.status["state"] == "failed" and "stood still" in run.status["reason"]


def test_a_validation_longer_than_every_timeout_is_no_hang(run: Run, tmp_path: Path):
    # 3 s without a sign of life are a hang here, and 6 s in a collective. The validation set makes
    # more than six batches: that the sixth stops the run tells that 7 s of validation have passed.
    flags = [*many_batches(tmp_path), "--timeout_minutes", "0.05", *FOREVER]
    fault = "validating:1-5@0=sleep:1.4 validating:6@0=term validating:6@0=sleep:1"
    said = run.start(*flags, size=2, fault=fault).succeed()
    assert "step 15, as asked (SIGTERM), and saved" in said


# --- what else must not be lost ---


def test_the_last_validation_is_there_after_a_kill_and_after_a_repetition(run: Run, tmp_path: Path):
    for steps in ("8", "15"):  # in the midst of an epoch, and at its end
        flags = ["--max_steps", steps]
        straight = Run(run.flags, tmp_path / f"straight-{steps}", run.folder / "data")
        killed = Run(run.flags, tmp_path / f"killed-{steps}", run.folder / "data")
        straight.start(*flags).succeed()
        killed.start(*flags, fault="validating=kill").die_with_one()
        for _ in range(2):
            killed.start(*flags).succeed()
            assert_same_state(straight.folder, killed.folder)
            assert metrics(straight.folder) == metrics(killed.folder)
        assert any("validation/BLEU" in record for record in metrics(killed.folder))


def test_a_stop_after_a_save_that_failed_saves(run: Run, same: Callable[..., None]):
    fault = "syncing:2=enospc validating:1=term validating:1=sleep:1"
    said = run.start("--validate_every", "6", fault=fault).succeed()
    assert "step 6, as asked (SIGTERM), and saved" in said
    assert run.steps == [4, 6]


def test_a_restart_before_the_first_save_begins_where_the_first_start_did(
    run: Run, undisturbed: Callable[..., Path]
):
    (epoch_1,) = undisturbed(1).glob("tmodel_epoch_0001_*")
    said = run.start("--preload", str(epoch_1), TORCHELASTIC_RESTART_COUNT="1").succeed()
    assert f"Resuming from {epoch_1}" in said


def train_slowly_on_rank_1(flags: list[str]) -> None:
    import train

    refuse = train.check_same_run

    def refuse_late(*arguments: Any) -> None:
        if os.environ["RANK"] == "1":
            time.sleep(3600)
        refuse(*arguments)

    train.check_same_run = refuse_late
    launch.run_train(flags)


def test_a_refusal_is_no_preemption_for_a_rank_that_is_late(run: Run):
    # The launcher signals it as soon as the first rank has left: it must not take that for a stop.
    run.start("--max_steps", "4").succeed()
    flags = [*run.flags, "--d_model", "32"]
    job = launch.start(train_slowly_on_rank_1, run.folder, 2, None, flags)
    assert job.wait() == [2, 2]
    assert job.text().count("error: The checkpoint belongs to another run") == 1
    assert run.status["state"] == "failed"
