"""TensorBoard, an optional dependency, receives what a run logs: its own reader opens the files."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import processes
from tests.helpers.children import child, environment, run_child
from tests.helpers.runs import records, steps
from translate_ddp.training import trackers

needs_tensorboard = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="tensorboard is not installed"
)


# However slow the machine is.
PATIENT = "from translate_ddp.training import trackers; trackers.START_SECONDS = 600"


def train(arguments: list[str]) -> None:
    trackers.START_SECONDS = trackers.TRACKER_END_SECONDS = 600
    processes.run_train(arguments)


def read_events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Step and value of every point of each curve that TensorBoard draws."""
    events = read_events(folder)
    return {
        name: [(point.step, point.value) for point in events.Scalars(name)]
        for name in events.Tags()["scalars"]
    }


@needs_tensorboard
def test_tensorboard_shows_scalars_samples_and_settings(tmp_path: Path):
    script = """
        print("status:", tracker.status)
        logbook.log(10, {"train/loss": 2.5, "epoch": 0.5})
        logbook.log(20, {"train/loss": float("inf")})
        logbook.validated(20, [Sample("Guten Tag", "Good day", "<b>Good</b>|")])
    """
    command = child(tmp_path, script, tensorboard=True, before=PATIENT)
    output = run_child(command, environment(tmp_path)).stdout.decode()
    assert f"status: `tensorboard --logdir {tmp_path / 'run'}`\n" in output
    expected = {"train/loss": [(10, 2.5), (20, float("inf"))], "epoch": [(10, 0.5)]}
    assert curves(tmp_path / "run") == expected
    texts = {}
    for name in ("settings", "validation/samples"):
        [event] = read_events(tmp_path / "run").Tensors(f"{name}/text_summary")
        texts[name] = event.tensor_proto.string_val[0].decode()
    assert texts["settings"] == "    lr: 0.5\n"
    assert "      PREDICTED: <b>Good</b>|\n" in texts["validation/samples"]


@needs_tensorboard
@pytest.mark.parametrize(
    ("failing", "body", "reason"),
    [
        ("__init__", "time.sleep(3600)", "TimeoutError: no result after 0.1 s"),
        ("add_scalar", "1 / 0", "ZeroDivisionError: division by zero"),
        ("close", "1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_call_of_tensorboard_that_fails_costs_one_message(
    tmp_path: Path, failing: str, body: str, reason: str
):
    before = f"""
        import time
        from torch.utils.tensorboard import SummaryWriter
        from translate_ddp.training import trackers
        def fail(*_, **__): {body}
        SummaryWriter.{failing} = fail
        trackers.START_SECONDS = {0.1 if failing == "__init__" else 600}
    """
    script = """
        for step in range(10, 60, 10):
            logbook.log(step, {"train/loss": 1.5})
        print(f"status: {tracker.status}.")
    """
    command = child(tmp_path, script, tensorboard=True, before=before)
    output = run_child(command, environment(tmp_path)).stdout.decode()
    [message] = [line for line in output.splitlines() if line.startswith("TensorBoard stopped")]
    assert message.startswith(f"TensorBoard stopped ({reason})")
    assert failing != "__init__" or "status: ." in output
    assert steps(tmp_path / "run") == [10, 20, 30, 40, 50]


@needs_tensorboard
def test_run_that_goes_back_draws_repeated_steps_once(tiny_run: list[str], tmp_path: Path):
    for more in ([], ["--preload", "1"]):  # two epochs, then the second one again
        flags = [*tiny_run, "--tensorboard", *more]
        job = processes.start(train, tmp_path / "output", 1, {}, flags)
        assert "TensorBoard stopped" not in job.succeed()
    expected: dict[str, list[Any]] = {}
    for record in records(tmp_path / "model"):
        for name, value in record.items():
            if name not in ("step", "time"):
                expected.setdefault(name, []).append((record["step"], pytest.approx(value)))
    assert curves(tmp_path / "model") == expected
    assert curves(tmp_path / "model" / "earlier-001").keys() == expected.keys()
