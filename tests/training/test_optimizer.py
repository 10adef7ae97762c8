"""The optimizer, its learning rate and weight decay, mean losses and speed between two records."""

import re
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Literal

import pytest
import torch

from tests.helpers.faults import Run
from tests.helpers.options import slow
from tests.helpers.runs import metrics
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.world import World
from translate_ddp.settings import ModelConfig, OptimizerConfig
from translate_ddp.training.meters import StepMeters, Throughput
from translate_ddp.training.optimizer import (
    build_optimizer,
    learning_rate,
)
from translate_ddp.training.run_info import describe_rate


def add(meters: StepMeters, step: int, loss: float, nll: float, skipped: float = 0.0) -> None:
    sums = {"loss": torch.tensor(loss), "nll": torch.tensor(nll)}
    meters.add(step, sums, tokens=3, skipped=torch.tensor(skipped))


def means(meters: StepMeters) -> dict[str, float]:
    return meters.means(meters.totals())


def test_skipped_step_has_no_weight_in_the_means():
    meters = StepMeters(4, World())
    add(meters, 0, 6.0, 3.0)
    add(meters, 1, torch.nan, torch.inf, skipped=1.0)
    add(meters, 2, 9.0, 6.0)
    add(meters, 3, torch.nan, torch.inf, skipped=2.0)  # by an overflow of the loss scale
    assert meters.take_skipped(0, 4) == [False, True, False, False]
    assert meters.take_skipped(0, 4) == [False, False, False, False]  # counted once
    assert means(meters) == pytest.approx({"loss": (6 + 9) / (3 + 3), "nll": (3 + 6) / (3 + 3)})


@pytest.mark.parametrize(
    ("interval", "expected"),
    [(3, {"loss": 2.5, "nll": 1.5}), (4, {"loss": 3.0, "nll": 2.0})],  # of another: dropped
)
def test_restored_meters_have_the_same_means(interval: int, expected: dict[str, float]):
    meters, restored = StepMeters(3, World()), StepMeters(interval, World())
    add(meters, 0, 6.0, 3.0)
    restored.restore(meters.state(meters.totals()))
    add(restored, 1, 9.0, 6.0)
    assert means(restored) == expected


def test_sum_that_is_no_longer_computed_is_not_restored():
    meters, restored = StepMeters(2, World()), StepMeters(2, World())
    add(meters, 0, 6.0, 3.0)
    meters.clear()  # after a log record
    restored.restore(meters.state(meters.totals()))
    restored.add(1, {"loss": torch.tensor(9.0)}, tokens=3, skipped=torch.tensor(0.0))
    assert means(restored) == {"loss": 3.0}


def test_restored_totals_are_counted_once_by_all_ranks():
    meters = StepMeters(3, World())
    add(meters, 0, 6.0, 3.0)
    state = meters.state(meters.totals())
    ranks = [StepMeters(3, World(rank=rank, size=2)) for rank in range(2)]
    for each in ranks:
        each.restore(state)
    assert float(sum(each.sums["loss"].sum() for each in ranks)) == 6.0


def test_tokens_per_second_do_not_count_the_time_of_a_pause(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr("translate_ddp.training.meters.time.perf_counter", lambda: now)
    throughput = Throughput(World())
    throughput.add(30)
    now += 5
    with throughput.paused():
        now += 60
    now += 5
    assert throughput.values()["tokens_per_second"] == 3.0
    throughput.restart()
    throughput.add(8)
    now += 2
    assert throughput.values()["tokens_per_second"] == 4.0


def test_records_on_gpus_have_memory_and_utilisation(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr("translate_ddp.training.meters.time.perf_counter", lambda: now)
    monkeypatch.setattr(World, "gather", lambda self, value: [value] * self.size)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 3 * 2**30)
    throughput = Throughput(World(size=2, device=torch.device("cuda")), most=100.0)
    throughput.add(300)
    now += 5
    # Each of the two ranks could compute 100 tokens per second.
    assert throughput.values() == {
        "tokens_per_second": 60,
        "tokens_per_second_per_gpu": 30,
        "memory_gib": 3,
        "mfu": 0.3,
    }


def test_linear_schedule_falls_to_zero_at_the_end_of_the_training():
    config = OptimizerConfig(lr=2.0, warmup_steps=4, schedule="linear")
    rates = [learning_rate(15, config, progress) for progress in (0.25, 0.5, 0.875, 0.99)]
    assert rates == pytest.approx([1.5, 1.0, 0.25, 0.02])
    # The warm-up is the smaller one: 2 of 4 steps, in a training of 80.
    assert learning_rate(1, config, 1 / 80) == 1.0


def test_warm_up_of_a_linear_schedule_takes_a_fifth_of_the_training_at_most():
    config = OptimizerConfig(lr=2.0, warmup_steps=100, schedule="linear")
    rates = [learning_rate(step, config, step / 50) for step in range(50)]
    assert rates[:4] == pytest.approx([0.02, 0.2, 0.4, 0.6])
    assert max(rates) == pytest.approx(2 * 0.82) and rates.index(max(rates)) == 9
    assert rates[10:] == pytest.approx([2 * (1 - step / 50) for step in range(10, 50)])
    long = [learning_rate(step, config, step / 1000) for step in range(1000)]
    assert long[:90] == pytest.approx([2 * (step + 1) / 100 for step in range(90)])
    # The rate of a schedule without an end stays as it is set.
    endless = replace(config, schedule="inverse_sqrt")
    assert learning_rate(49, endless, 0.9) == 1.0


def test_learning_rate_warms_up_linearly_then_decays_with_the_inverse_square_root():
    config = OptimizerConfig(lr=0.8, warmup_steps=4)
    rates = [learning_rate(step, config) for step in (0, 1, 2, 3, 15, 63)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.4, 0.2])


@pytest.mark.parametrize(("kind", "of_embedding"), [("adamw", 0.7), ("muon", 0.01)])
def test_matrices_have_the_weight_decay_that_is_set(
    kind: Literal["adamw", "muon"], of_embedding: float
):
    model = Transformer(ModelConfig(), vocabulary=20)
    optimizer = build_optimizer(model, OptimizerConfig(optimizer=kind, weight_decay=0.7))
    decays = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    for name, parameter in model.named_parameters():
        is_matrix = name.endswith("weight") and "norm" not in name
        of_matrix = of_embedding if name == "embedding.weight" else 0.7
        assert decays[id(parameter)] == of_matrix * is_matrix, name


@pytest.mark.parametrize(
    ("schedule", "steps", "max_steps", "expected"),
    [
        ("inverse_sqrt", 1000, 0, "learning rate 0.003, peak 0.003 at step 300, inverse_sqrt"),
        ("linear", 2000, 0, "learning rate 0.003, peak 0.00261 at step 261, linear decay"),
        ("linear", 2000, 261, "learning rate 0.003, peak 0.00261 at step 261, linear decay"),
        ("linear", 90, 0, "learning rate 0.003, peak 0.0025 at step 15, linear decay"),
        ("inverse_sqrt", 90, 0, "learning rate up to 0.0009 only, as all 90 steps are within"),
        ("inverse_sqrt", 1000, 90, "learning rate up to 0.0009 only, as all 90 steps are within"),
        ("linear", 2000, 90, "learning rate up to 0.0009 only, as all 90 steps are within the 300"),
    ],
)
def test_start_message_has_the_highest_rate_of_a_training(
    schedule: Literal["linear", "inverse_sqrt"], steps: int, max_steps: int, expected: str
):
    config = OptimizerConfig(schedule=schedule)
    message = describe_rate(asdict(config), steps, max_steps)
    assert message.startswith(expected)
    last = max_steps or steps
    highest = max(learning_rate(step, config, step / steps) for step in range(last))
    (shown,) = re.findall(r"(?:peak|up to) ([\d.]+)", message)
    assert float(shown) == pytest.approx(highest, rel=0.002)
    assert "lower --batch_tokens" not in message or not max_steps


def rates(run: Run) -> list[float]:
    return [record["train/lr"] for record in metrics(run.folder) if "train/lr" in record]


@pytest.mark.parametrize(
    "change",
    [
        ["--num_epochs", "4"],  # of a linear schedule
        *slow(["--num_epochs", "3", "--lr", "0.5"]),
    ],
)
def test_a_jump_of_the_learning_rate_is_reported_with_the_rate_that_avoids_it(
    run: Run, uninterrupted: Callable[..., Run], change: list[str]
):
    linear = ["--schedule", "linear", "--log_every", "1"]
    run.continue_from(uninterrupted(1, 2, *linear))
    output = run.start(*linear, *change, "--max_steps", "31").succeed()
    before, now = rates(run)[-2:]
    text = f"The learning rate was {before:.3g} at the last step, and is {now:.3g} at the next one."
    assert text in output and not 0.9 < now / before < 1.1
    advice = ["--lr", output.split("Pass --lr ")[1].split()[0]]
    flags = [*linear, *change, *advice, "--preload", "2", "--max_steps", "31"]
    assert "The learning rate was" not in run.start(*flags).succeed()
    assert rates(run)[-1] == pytest.approx(before, rel=0.01)


@pytest.mark.slow
def test_a_learning_rate_that_only_follows_its_schedule_is_not_reported(run: Run):
    linear = ["--schedule", "linear", "--num_epochs", "3"]
    for step in ("1", "15", "44", "45"):  # in the warm-up, between epochs and near the end
        flags = [*linear, "--max_steps", step, "--batch_tokens", "99" if step > "2" else "110"]
        assert "The learning rate was" not in run.start(*flags).succeed()
