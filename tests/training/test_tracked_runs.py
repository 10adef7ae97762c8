"""What trackers receive of a run's configuration, and when they are closed."""

import json
from pathlib import Path

import pytest
import torch

from config import parse
from tests import faults
from tests.helpers import processes
from tests.helpers.runs import status
from tests.helpers.wandb_server import WandbServer
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.fault_injection import VARIABLE
from translate_ddp.runtime.world import World
from translate_ddp.training import trackers
from translate_ddp.training.run_info import tracker_config


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


def train(arguments: list[str], bounds: dict[str, float]) -> None:
    for name, seconds in bounds.items():
        setattr(trackers, name, seconds)
    processes.run_train(arguments)


@pytest.mark.slow
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
