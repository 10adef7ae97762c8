"""`info`: what a checkpoint is. That of exported folders is in test_export_ctranslate2.py."""

import shutil
from pathlib import Path

import torch

from tests.helpers.commands import translate_ddp
from tests.helpers.exports import trained_model
from tests.helpers.runs import last_state, validations
from translate_ddp import __version__
from translate_ddp.console import number
from translate_ddp.data.tokenizer import SPAN_TOKENS


def rows(output: str) -> dict[str, str]:
    return dict(line.strip().split("  ", 1) for line in output.splitlines())


def test_info_describes_a_checkpoint(trained: Path, tmp_path: Path):
    model, state = trained_model(trained), last_state(trained)
    file = next(trained.glob("*_epoch_0002_*"))
    code, output = translate_ddp(tmp_path, "info", str(trained))  # its newest checkpoint
    assert code == 0, output
    found = rows(output)
    assert found["languages"] == "en to it" and found["file"] == str(file)
    vocabulary = len(model.facts.tokenizer)
    assert found["extra tokens"] == " ".join(SPAN_TOKENS)
    embedding, attention, ffn, norm = (vocabulary + 8) * 16, 4 * 16 * 16 + 32, 2 * 16 * 32 + 48, 32
    parameters = embedding + 3 * attention + 2 * ffn + 7 * norm
    assert "1 encoder and 1 decoder layers, width 16, feed-forward 32, 2 heads" in found["model"]
    assert f"{parameters:,} parameters" in found["model"]
    assert found["vocabulary"] == f"{vocabulary} tokens, tokenizer.json"
    step = state["position"]["global_step"]
    assert found["trained"] == f"to epoch 2, step {step:,}"
    best = max(validations(trained, "BLEU"))
    assert f"BLEU {number(best)} (signature: nrefs:1|case:mixed" in found["best epoch"]
    assert found["data"].endswith(f", fingerprint {model.data}") and len(model.data) == 12
    assert f"translate_ddp {__version__}, torch {torch.__version__}" in found["versions"]
    assert found["resumes"] == "yes"
    changed = found["changed"].split(", ")
    assert {"d_model 16", "vocab_size 300", "lr 0.002", "dropout 0.1"} <= set(changed)
    # Neither what is as the preset has it, nor where the run was stored.
    assert not [text for text in changed if text.startswith(("lang_src", "model_folder", "clip"))]


def test_info_verifies_every_checkpoint_of_a_folder(trained: Path, tmp_path: Path):
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    names = sorted(path.name for path in folder.glob("*.pt"))
    code, output = translate_ddp(tmp_path, "info", str(folder), "--verify")
    intact = [line.split()[1] for line in output.splitlines() if line.split()[0] == "intact"]
    assert code == 0 and sorted(intact) == names and "damaged" not in output
    assert "_epoch_0002_" in intact[-1]  # in order of time

    data = bytearray((folder / names[0]).read_bytes())
    data[len(data) // 3] ^= 4
    (folder / names[0]).write_bytes(data)
    renamed = folder / intact[-1].replace("0002", "0003").replace("step_0", "step_1")
    renamed.write_bytes(b"other")
    code, output = translate_ddp(tmp_path, "info", str(folder), "--verify")
    bad = [line.split(maxsplit=1)[1] for line in output.splitlines() if "  damaged  " in line]
    assert code == 1 and [line.partition(": it is damaged (its sha256")[0] for line in bad] == [
        names[0],
        renamed.name,
    ]
    assert translate_ddp(tmp_path, "info", str(folder))[0] == 0  # the newest intact one


def test_info_reports_what_it_cannot_describe(trained: Path, tmp_path: Path):
    damaged = tmp_path / next(trained.glob("*.pt")).name
    shutil.copy(next(trained.glob("*.pt")), damaged)
    with damaged.open("ab") as file:
        file.write(b"x")
    for path, message in (
        (damaged, "cannot be used: it is damaged"),
        (tmp_path / "nowhere", "There is no file or folder"),
        (tmp_path / "empty", "holds no checkpoint named tmodel_"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        code, output = translate_ddp(tmp_path / "output", "info", str(path))
        assert code == 2 and message in output and "Traceback" not in output
