"""What whole runs log, and what trackers receive of their configuration."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from config import parse
from tests import faults
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_run, records, status
from tests.helpers.tiny_run import TINY_RUN
from tests.helpers.wandb_server import WandbServer, read_stored_run
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.fault_injection import VARIABLE
from translate_ddp.runtime.world import World
from translate_ddp.training import trackers
from translate_ddp.training.run_info import tracker_config

Stored = dict[str, list[dict[str, Any]]]  # a W&B run: records by type


@pytest.fixture(scope="module")
def folder(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs that then went back to the end of the first, with W&B offline."""
    folder = tmp_path_factory.mktemp("run")
    flags = [*TINY_RUN, "--dataset", corpus, "--model_folder", str(folder)]
    for more in ([], ["--preload", "1"]):
        job = processes.train([*flags, *more], folder, WANDB_MODE="offline", HOME=str(folder))
        assert "W&B stopped" not in job.succeed()
    return folder


@pytest.fixture(scope="module")
def stored_runs(folder: Path) -> list[Stored]:
    """The two W&B runs, as W&B's own tool reads them."""
    parts = sorted(folder.glob("wandb/offline-run-*"), key=lambda part: part.stat().st_mtime_ns)
    return [read_stored_run(part) for part in parts]


def test_run_that_goes_back_logs_to_wandb_under_a_new_id(folder: Path, stored_runs: list[Stored]):
    # W&B ignores points before the last one of a run id.
    first, second = stored_runs
    assert first["run"][0]["run_id"] != second["run"][0]["run_id"]
    resumed_at = first["history"][-1]["item"]["_step"] // 2  # the end of epoch 1
    expected: dict[int, dict[str, float]] = {}
    for record in records(folder):
        point = expected.setdefault(record["step"], {"global_step": record["step"]})
        point |= {name: value for name, value in record.items() if name not in ("step", "time")}
    # W&B adds `_step` and the like.
    received = {
        record["item"]["_step"]: {
            name: value
            for name, value in record["item"].items()
            if not name.startswith(("_", "validation/samples"))
        }
        for record in second["history"]
    }
    assert received == {step: point for step, point in expected.items() if step > resumed_at}


def test_tracker_config_holds_what_was_resolved_and_no_path(tmp_path: Path):
    corpus = tmp_path / "CANARY" / "corpus"
    corpus.parent.mkdir()
    paths = {"dataset": corpus, "validation": corpus, "model_folder": corpus.parent}
    paths |= {"tokenizer_file": corpus, "preload": corpus}
    flags = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    yaml = corpus.with_suffix(".yaml")
    yaml.write_text("d_model: 16\nd_ff: 32\n")
    flags += ["--config", str(yaml), "--num_encoder_layers", "1", "--num_decoder_layers", "1"]
    settings = parse([*flags, "--preset", "small"])
    model = Transformer(settings.model, 300, dtype=torch.bfloat16)
    world = World(0, 8, torch.device("cuda"), node_leaders=(0, 4))

    config = tracker_config(settings.to_dict(), model, world)
    attention, feed_forward, norm = 4 * 16 * 16 + 2 * 16, 2 * 16 * 32 + 32 + 16, 2 * 16
    parameters = 300 * 16 + 3 * attention + 2 * feed_forward + 7 * norm
    resolved = {
        **{"world_size": 8, "nodes": 2, "device": "cuda", "precision": "bf16", "preset": "small"},
        **{"parameters": parameters, "dataset": "corpus", "lr": settings.optimizer.lr},
        "validation": "corpus",
    }
    assert resolved.items() <= config.items()
    assert "CANARY" not in json.dumps(config) and str(tmp_path) not in json.dumps(config)


@pytest.mark.parametrize("name", ["demo", "Helsinki-NLP/opus_books", "opus100:train"])
def test_tracker_config_keeps_names_of_datasets(name: str):
    settings = parse(["--preset", "tiny", "--dataset", name])
    model = Transformer(settings.model, 300, dtype=torch.float32)
    assert tracker_config(settings.to_dict(), model, World())["dataset"] == name


def train(arguments: list[str], bounds: dict[str, float]) -> None:
    for name, seconds in bounds.items():
        setattr(trackers, name, seconds)
    processes.run_train(arguments)


def test_wandb_server_that_fails_changes_no_number_of_a_run(
    tiny_run: list[str], tmp_path: Path, uninterrupted: Callable[..., Run]
):
    def begin(server: WandbServer, name: str, **bounds: float) -> processes.Job:
        flags = [*tiny_run, "--num_epochs", "1", "--model_folder", str(tmp_path / name)]
        online = server.variables | {"WANDB_MODE": "online", "HOME": str(tmp_path)}
        return processes.start(train, tmp_path / f"{name}-output", 1, online, flags, bounds)

    with WandbServer("hangs") as hanging, WandbServer("shuts down after init") as closing:
        jobs = {
            "W&B cannot go online (": begin(hanging, "hanging", INIT_SECONDS=1),
            "W&B stopped (": begin(closing, "closing", TRACKER_END_SECONDS=1, TEARDOWN_SECONDS=0.5),
        }
        outputs = {message: job.succeed() for message, job in jobs.items()}
    for message, output in outputs.items():
        messages = output.count("W&B cannot") + output.count("W&B stopped")
        assert messages == output.count(message) == 1
    undisturbed = uninterrupted(epochs=1).folder
    for name in ("hanging", "closing"):
        assert_same_run(undisturbed, tmp_path / name)


def test_failing_run_reports_its_error_before_it_closes_wandb(tiny_run: list[str], tmp_path: Path):
    # Closing takes as long as a launcher waits before it kills the ranks.
    bounds = {"TRACKER_END_SECONDS": 1, "TEARDOWN_SECONDS": 0.5}
    with WandbServer("hangs after init") as server:
        variables = {
            "WANDB_MODE": "online",
            "HOME": str(tmp_path),
            VARIABLE: faults.error("batch", time=5),
        }
        job = processes.start(train, tmp_path, 1, server.variables | variables, tiny_run, bounds)
        assert job.wait() == [1]
    output = job.text()
    before, after = output.split("error: Rank 0 failed at step 5, reading a batch: RuntimeError")
    assert "W&B stopped" not in before
    assert after.count("W&B stopped (TimeoutError: no result after 1 s)") == 1
    left = status(tmp_path / "model")
    assert left["state"] == "failed" and "injected fault at 'batch'" in left["reason"]
