"""The benchmark of time to quality: its clock, converted weights, records and table."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.common import ROOT, Failed, as_flags
from benchmarks.time_to_quality import __main__ as main_module
from benchmarks.time_to_quality import snapshots
from benchmarks.time_to_quality.__main__ import (
    TimeToQuality,
    description,
    minutes_to,
    read_records,
    run,
)
from benchmarks.time_to_quality.snapshots import Contestant, SnapshotClock, their_name, to_ours
from benchmarks.trainers.task import Task
from tests.helpers.commands import environment
from tests.helpers.models import VOCABULARY
from tests.helpers.tiny_run import TINY_RUN, write_corpus
from translate_ddp.errors import UserError
from translate_ddp.modeling.transformer import Attention, Transformer
from translate_ddp.settings import ModelConfig

SHAPE = ModelConfig(d_model=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, d_ff=32)
TASK = Task("cpu", "", [], 1, VOCABULARY, 1, 1, 1, 0.1, SHAPE)


def test_clock_excludes_the_first_step_and_its_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now = 0.0
    monkeypatch.setattr(snapshots.time, "perf_counter", lambda: now)
    clock = SnapshotClock(Contestant(work=tmp_path, snapshots=tmp_path, seconds=10.0, every=4.0))

    def weights() -> dict[str, torch.Tensor]:
        nonlocal now
        now += 100.0  # a slow disk
        return {"a": torch.ones(2)}

    over = []
    for seconds in (50.0, 3.0, 3.0, 3.0, 3.0):
        now += seconds
        over.append(clock.step(weights))
    assert over == [False, False, False, False, True]
    taken = [path.stem.split("-") for path in sorted(tmp_path.iterdir())]
    assert [(float(seconds), int(steps)) for seconds, steps in taken] == [(6, 3), (9, 4), (12, 5)]


def pegasus_weights() -> dict[str, torch.Tensor]:
    """Random weights by the names of Pegasus, with biases of keys and values."""
    theirs = {}
    for name, tensor in Transformer(SHAPE, VOCABULARY).state_dict().items():
        if "key_value" in name:
            for part, matrix in zip(("k_proj", "v_proj"), tensor.chunk(2), strict=True):
                theirs[their_name(name.replace("key_value", part))] = matrix
                bias = name.replace("key_value.weight", f"{part}.bias")
                theirs[their_name(bias)] = torch.randn(16)
        else:
            theirs[their_name(name)] = torch.randn_like(tensor)
    return theirs


def test_converted_attention_computes_what_attention_with_biases_does():
    torch.manual_seed(0)
    theirs = pegasus_weights()
    found = to_ours(theirs, TASK)
    assert found.keys() == Transformer(SHAPE, VOCABULARY).state_dict().keys()
    up = "encoder_layers.0.feed_forward.up.weight"
    assert found[up] is theirs["model.encoder.layers.0.fc1.weight"]
    prefix = "model.decoder.layers.0.encoder_attn."
    expected = nn.MultiheadAttention(16, 2, batch_first=True)
    projections = [f"{prefix}{part}_proj" for part in "qkv"]
    expected.load_state_dict(
        {
            "in_proj_weight": torch.cat([theirs[f"{name}.weight"] for name in projections]),
            "in_proj_bias": torch.cat([theirs[f"{name}.bias"] for name in projections]),
            "out_proj.weight": theirs[f"{prefix}out_proj.weight"],
            "out_proj.bias": theirs[f"{prefix}out_proj.bias"],
        }
    )
    ours, own = Attention(SHAPE), "decoder_layers.0.cross_attention."
    state = {n.removeprefix(own): t for n, t in found.items() if n.startswith(own)}
    ours.load_state_dict(state)
    x_BTD, memory_BMD = torch.randn(2, 3, 16), torch.randn(2, 5, 16)
    parts = ours.key_value(memory_BMD).chunk(2, dim=-1)
    actual_BTD = ours(x_BTD, *map(ours.split_heads, parts))
    torch.testing.assert_close(actual_BTD, expected(x_BTD, memory_BMD, memory_BMD)[0])


CURVE = [
    {"minutes": 1.0, "steps": 10, "bleu": 20.0},
    {"minutes": 2.0, "steps": 20, "bleu": 34.5},
    {"minutes": 3.0, "steps": 30, "bleu": 33.5},
]


def test_a_score_that_is_not_reached_is_a_result():
    assert (minutes_to(CURVE, 33), minutes_to(CURVE, 36)) == (2.0, None)
    found = description({"curve": CURVE, "processes x threads": "1 x 2"}, [33.0, 36.0])
    assert (found["minutes to 33"], found["minutes to 36"]) == ("2.0", "-")
    assert (found["best BLEU"], found["last BLEU"], found["steps"]) == ("34.50", "33.50", 30)


def test_records_of_other_settings_are_not_mixed(tmp_path: Path):
    folder = tmp_path / "time_to_quality"
    folder.mkdir()
    names = [
        "translate_ddp with Muon, lr 0.001",
        "translate_ddp with Muon, lr 0.002",
        "translate_ddp with AdamW, lr 0.001",
        "Eole, lr 0.001",
    ]
    for name in names:
        record = {"name": name, "minutes": 60, "flags": ["--dropout", "0.3"]}
        (folder / f"{name}.json").write_text(json.dumps(record))
    protocol = {"minutes": 60, "flags": ["--dropout", "0.3"]}
    assert list(read_records(tmp_path, protocol)) == names
    with pytest.raises(UserError, match="has minutes 60, not 30: choose another folder"):
        read_records(tmp_path, protocol | {"minutes": 30})


def test_contestant_is_trained_scored_and_recorded_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    flags = [*TINY_RUN, "--dataset", write_corpus(tmp_path)]
    own: dict[str, Any] = {"minutes": 0.02, "every": 0.01, "precision": "fp32", "processes": 1}
    paths: dict[str, Any] = {"results": tmp_path, "work": tmp_path / "work"}
    chosen = {"learning_rates": 0.002, "only": "Muon"}
    command = [sys.executable, "-m", "benchmarks.time_to_quality", *as_flags(own | paths | chosen)]
    done = subprocess.run(
        [*command, "--", *flags], cwd=ROOT, capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = tmp_path / "time_to_quality" / "translate_ddp-with-Muon-lr-0.002.json"
    content = record.read_text()
    curve = json.loads(content)["curve"]
    assert len(curve) >= 2 and curve[-1]["minutes"] >= 0.02
    assert not list((tmp_path / "work").glob("*lr*"))  # its snapshots are deleted

    settings = TimeToQuality(**own, **paths, learning_rates=(0.002,), only=("Muon",))
    run(settings, flags)
    assert "| translate_ddp with Muon, lr 0.002 | - | - |" in capsys.readouterr().out
    assert record.read_text() == content

    other = replace(settings, minutes=1.0, learning_rates=(0.003,), work=tmp_path / "other")
    with pytest.raises(UserError, match="has minutes 0.02, not 1.0: choose another folder"):
        run(other, flags)
    assert not other.work.exists()  # before it trains


def test_ours_trains_with_the_optimizer_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    optimizers: dict[str, str] = {}

    def train(command: list[str], limit: float) -> None:
        flags = dict(zip(command, command[1:], strict=False))
        optimizers[Path(flags["--snapshots"]).name] = flags["--optimizer"]
        raise Failed("not trained")

    monkeypatch.setattr(main_module, "run_once", train)
    settings = TimeToQuality(tmp_path, learning_rates=(2,), work=tmp_path, only=("translate_ddp",))
    run(settings, [*TINY_RUN, "--dataset", write_corpus(tmp_path)])
    name = "translate_ddp-with-{}-lr-2"
    assert optimizers == {name.format("Muon"): "muon", name.format("AdamW"): "adamw"}
