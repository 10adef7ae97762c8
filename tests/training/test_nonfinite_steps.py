"""Losses, gradients and weights that are not finite, and weights that differ between ranks."""

import pytest

from tests import faults
from tests.helpers.faults import MANY_EPOCHS, Run
from tests.helpers.options import slow
from tests.helpers.runs import assert_same_run, last_state, losses, metrics
from translate_ddp.training.checkpoint import outliers


@pytest.mark.parametrize(
    "fault", [faults.nan("loss", time=6, rank=1), *slow(faults.nan("gradients", time=5, rank=1))]
)
def test_step_not_finite_on_one_rank_is_skipped_on_all(run: Run, fault: str):
    # The warm-up reaches the point of the loss once.
    output = run.start(size=2, fault=fault).succeed()
    assert output.count("Skipped step 5: its loss or gradient was not finite. Its sentences: ") == 1
    state = last_state(run.folder)
    assert state["position"]["skipped_steps"] == 1
    updates = {float(moments["step"]) for moments in state["optimizer"]["state"].values()}
    assert updates == {state["position"]["global_step"] - 1.0}
    counts = [r["train/skipped_steps"] for r in metrics(run.folder) if "train/loss" in r]
    assert counts[0] == 0 and set(counts[1:]) == {1}
    assert all(isinstance(loss, float) for loss in losses(run.folder))


@pytest.mark.slow
def test_overflow_in_fp16_is_not_reported_and_the_resumed_run_has_its_scale(run: Run):
    # Step 8 overflows, and is saved: it has changed only the scale and the position.
    overflow = faults.nan("gradients", time=8, rank=1)
    flags = ["--precision", "fp16", "--optimizer", "muon", "--num_epochs", "1"]
    straight = run.copy("straight")
    output = straight.start(*flags, size=2, fault=overflow).succeed()
    assert "layers compute in fp16" in output and "Skipped step" not in output
    logged = [r for r in metrics(straight.folder) if "train/loss" in r]
    assert [r["train/overflows"] for r in logged] == [int(r["step"] > 8) for r in logged]
    scales = [r["train/loss_scale"] for r in logged]
    assert scales == [2.0**15 if r["step"] > 8 else 2.0**16 for r in logged]
    assert {r["train/skipped_steps"] for r in logged} == {0}
    assert losses(straight.folder)[-1] < losses(straight.folder)[0]

    killed = faults.several(overflow, faults.kill("published", time=2, rank=0))
    run.start(*flags, size=2, fault=killed).kill_rest()
    assert run.saved_steps == [4, 8]
    run.start(*flags, size=2).succeed()
    assert_same_run(straight.folder, run.folder)


@pytest.mark.slow
def test_precision_may_change_on_resume(run: Run):
    for steps, precision in ((4, "fp32"), (8, "fp16"), (12, "bf16")):
        run.start("--precision", precision, "--max_steps", str(steps)).succeed()
        has_scale = "loss_scale" in last_state(run.folder)["optimizer"]
        assert has_scale == (precision == "fp16")
    assert [r["step"] for r in metrics(run.folder) if "train/loss_scale" in r] == [6]


@pytest.mark.slow
def test_stop_waits_for_a_finite_step(run: Run):
    # Ranks read the request one or two steps later, still before the next finite step, the tenth.
    straight = run.copy("straight")
    straight.start(fault=faults.nan("loss", time=6, until=10)).succeed()
    output = run.start(
        fault=faults.several(
            faults.nan("loss", time=6, until=10), faults.request("term", "batch", time=6)
        )
    ).succeed()
    assert "step 10, on request (SIGTERM), and saved" in output
    assert run.saved_steps == [4, 10]
    run.start().succeed()
    assert_same_run(straight.folder, run.folder)


@pytest.mark.slow
def test_an_epoch_that_ends_with_a_skipped_step_is_saved_and_skips_are_counted_once(run: Run):
    # Step 5, and step 15, which is the last of the first epoch.
    skips = faults.several(faults.nan("loss", time=6), faults.nan("loss", time=16))
    straight = run.copy("straight")
    straight.start(fault=skips).succeed()
    run.start(fault=faults.several(skips, faults.kill("published", time=4))).kill_rest()
    assert list(run.folder.glob("tmodel_epoch_0001_step_00000015-*.pt"))
    run.start("--preload", "best").succeed()
    assert last_state(run.folder)["position"]["skipped_steps"] == 2
    assert_same_run(straight.folder, run.folder)


def test_ten_nonfinite_steps_in_a_row_end_the_run_without_a_save(run: Run):
    output = run.start(
        *MANY_EPOCHS, size=2, fault=faults.nan("loss", time=6, until=1000, rank=1)
    ).fail()
    assert output.count("error: Loss or gradient was not finite in 1") == 1
    assert run.saved_steps == [4]  # of the steps before
    assert run.status["state"] == "failed"


def test_weights_that_differ_between_ranks_are_not_saved(run: Run):
    output = run.start(size=3, fault=faults.flip_bit("updated", time=6, rank=1)).fail()
    message = "error: Weights or optimizer of rank 1 differ from the other ranks' state at step 8"
    assert output.count(message) == 1
    assert run.saved_steps == [4]


@pytest.mark.parametrize(
    ("sums", "named"),
    [
        ("aaaa", ""),
        ("aaba", "of rank 2 differ from the other ranks' state"),
        ("abaab", "of ranks 1, 4 differ from the other ranks' state"),
        ("aabb", "of ranks 0 to 3 differ from each other"),
        ("abc", "of ranks 0 to 2 differ from each other"),
    ],
)
def test_ranks_are_named_where_most_others_agree(sums: str, named: str):
    assert named in outliers(sums) and bool(named) == bool(outliers(sums))
