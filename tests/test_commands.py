"""The commands that use a trained model, as a user types them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import processes
from tests.helpers.commands import ROOT, TORCHRUN, command, environment, translate
from tests.helpers.tiny_run import TINY_RUN


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, corpus: str) -> Path:
    """The model folder of a finished run of two epochs on two ranks under torchrun."""
    folder = tmp_path_factory.mktemp("trained")
    flags = [*TINY_RUN, "--dataset", corpus, "--model_folder", str(folder)]
    done = command(*TORCHRUN, "--nproc_per_node=2", "train.py", *flags)
    assert done.returncode == 0, done.stderr
    for text in (
        "cpu",
        "ranks  2",
        "corpus",
        "vocabulary",
        "parameters",
        "metrics.jsonl",
        "padding",
    ):
        assert text in done.stdout
    assert done.stdout.count("Finished at epoch 2") == 1
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_translate_prints_one_line_per_sentence(trained: Path):
    done = translate("translate", "sun moon", "tree", "--model_folder", str(trained))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_translate_reads_standard_input_and_keeps_the_order(trained: Path):
    lines = ["sun moon river", "", "tree", "stone bird fish wolf tree"]
    together = translate("translate", "--model_folder", str(trained), input="\n".join(lines))
    assert together.returncode == 0, together.stderr
    printed = together.stdout.split("\n")[:-1]
    assert len(printed) == 4 and printed[1] == ""
    alone = translate("translate", lines[3], "--model_folder", str(trained))
    assert alone.stdout == printed[3] + "\n"


def test_translate_accepts_bytes_that_are_not_utf8(trained: Path):
    words = [sys.executable, "-m", "translate_ddp", "translate", "--model_folder", str(trained)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment() | {"LC_ALL": "C", "PYTHONUTF8": "0"},
        input=b"caf\xe9\nsun moon\n",
        capture_output=True,
        timeout=processes.SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_validate_repeats_the_scores_of_the_training_run(trained: Path):
    recorded = [record for record in records(trained) if "validation/loss" in record]
    done = translate("validate", "--preload", "1", "--model_folder", str(trained))
    assert done.returncode == 0, done.stderr
    assert f"loss {recorded[0]['validation/loss']:.4g}" in done.stdout
    assert "BLEU signature: nrefs:1|case:mixed" in done.stdout


def test_validate_scores_files(trained: Path, tmp_path: Path):
    source, reference = tmp_path / "a.en", tmp_path / "a.it"
    source.write_text("sun moon\ntree\n")
    reference.write_text("moon sun\ntree\n")
    flags = ["--source", str(source), "--model_folder", str(trained)]
    done = translate("validate", *flags, "--reference", str(reference))
    assert done.returncode == 0 and ", 2 sentences: loss " in done.stdout, done.stderr
    assert "BLEU signature: nrefs:1" in done.stdout

    done = translate("validate", *flags)
    assert done.returncode == 2 and "--reference" in done.stderr + done.stdout

    reference.write_text("moon sun\n")
    done = translate("validate", *flags, "--reference", str(reference))
    assert done.returncode == 2 and "2 lines" in done.stderr and "1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_lists_every_checkpoint_and_finds_damage(trained: Path, tmp_path: Path):
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    done = translate("check", str(folder))
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["file", "kind", "epoch", "step", "size", "result"]
    names = {path.name for path in folder.glob("*.pt")}
    assert {row.split()[0] for row in rows} == names
    assert all(row.endswith("ok") for row in rows)
    kinds = {tuple(row.split()[1:4]) for row in rows if "_epoch_" in row}
    ends = [record for record in records(trained) if "validation/loss" in record]
    assert kinds == {("epoch", str(n), str(end["step"])) for n, end in enumerate(ends, 1)}
    steps = [row.split()[:4] for row in rows if "_epoch_" not in row]
    assert steps and all(cells[1:] == ["step", "-", str(int(cells[0][12:20]))] for cells in steps)

    victim = folder / sorted(names)[0]
    data = bytearray(victim.read_bytes())
    data[len(data) // 3] ^= 4
    victim.write_bytes(data)
    done = translate("check", str(folder))
    assert done.returncode == 1
    (bad,) = [row for row in done.stdout.splitlines()[1:] if not row.endswith("ok")]
    assert bad.startswith(victim.name) and "damaged" in bad
    assert translate("check", str(tmp_path / "nowhere")).returncode == 2


def test_folder_without_a_checkpoint_is_reported(tmp_path: Path):
    for name in ("translate", "validate"):
        done = translate(name, "--model_folder", str(tmp_path))
        assert done.returncode == 2
        assert "holds no checkpoint" in done.stderr and "Traceback" not in done.stderr


def test_unknown_command_lists_the_known_ones():
    done = translate("transalte")
    assert done.returncode == 2 and "no command 'transalte'" in done.stderr
    assert "translate " in done.stderr and "validate " in done.stderr
