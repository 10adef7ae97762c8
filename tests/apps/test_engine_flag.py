"""`--engine ctranslate2`: a checkpoint that CTranslate2 computes, verified once for its weights."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import torch

from tests.helpers.commands import ROOT, environment, translate_ddp
from tests.helpers.exports import flipped
from tests.helpers.processes import SECONDS, wait_until
from translate_ddp.apps.commands import model_commands
from translate_ddp.apps.commands.model_commands import EngineConfig, SavedModel, computed
from translate_ddp.apps.commands.translate import InputRows, TranslateConfig
from translate_ddp.apps.exporting import ctranslate2_export
from translate_ddp.apps.exporting.ctranslate2_export import RECORD, open_verified
from translate_ddp.apps.exporting.trained_model import NotTheSame, TrainedModel
from translate_ddp.errors import UserError, cleanup
from translate_ddp.modeling.ctranslate2_engine import CTranslate2Engine
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.runtime.supervisor import REPEAT_SECONDS, ExitCode
from translate_ddp.translator import Translator

pytest.importorskip("ctranslate2")

LINES = ["sun moon river. fish wolf.", "", "tree"]
FLOAT32, INT8 = EngineConfig("ctranslate2"), EngineConfig("ctranslate2", "int8")


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def open_with(engine: EngineConfig, path: Path) -> Translator:
    return TranslateConfig(saved=SavedModel(str(path)), engine=engine).open()


def test_translations_equal_those_of_torch(run: Path, tmp_path: Path):
    ours = Translator.open(str(run), precision="fp32")
    expected = "".join(f"{line}\n" for line in ours.translate(LINES))
    flags = ["--model_folder", str(run), "--engine", "ctranslate2"]
    code, output = translate_ddp(tmp_path / "o", "translate", *LINES, *flags)
    assert code == 0 and output.startswith("Verified in CTranslate2") and output.endswith(expected)
    opened = [ours, open_with(FLOAT32, run), open_with(INT8, run)]
    assert isinstance(opened[1].engine, CTranslate2Engine)
    assert opened[1].translate(LINES) == ours.translate(LINES)
    # A file of translations is not continued by another engine.
    assert len({str(each.identity) for each in opened}) == 3


def test_each_model_is_verified_once(run: Path, capsys: pytest.CaptureFixture[str]):
    def printed(path: Path) -> str:
        open_with(INT8, path)
        return capsys.readouterr().err

    first, second = printed(run), printed(run)
    assert "Verified in CTranslate2: in float32, log-probabilities of" in first
    assert "BLEU" in first and first.count("\n") == 1
    assert second == first.replace("Verified in", "Verified earlier, in")
    record = run / RECORD
    record.write_text("[")  # damaged
    assert printed(run) == first
    state = flipped(TrainedModel.of(Translator.open(str(run)).state), "decoder_norm.bias").state
    open_verified(state, run, "int8")  # other weights
    assert "Verified in CTranslate2" in capsys.readouterr().err
    assert len(json.loads(record.read_text())) == 2


def test_conversion_that_is_not_the_same_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch):
    model = TrainedModel.of(Translator.open(str(run)).state)
    other = flipped(model, "encoder_norm.weight").engine()
    monkeypatch.setattr(TrainedModel, "engine", lambda self: other)
    with pytest.raises(NotTheSame, match="Translate with the checkpoint itself, by --engine torch"):
        open_with(FLOAT32, run)
    assert not (run / RECORD).exists()


def test_quantization_that_nothing_can_use_is_an_error(run: Path, tmp_path: Path):
    words = ["translate", "sun", "--model_folder", str(run), "--quantization", "int8"]
    code, output = translate_ddp(tmp_path / "o", *words)
    assert code == 2 and "--quantization needs --engine ctranslate2" in output
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="has no float16 on this cpu"):
            open_with(EngineConfig("ctranslate2", "float16"), run)
    export = ["export", "--model_folder", str(run), "--format", "ctranslate2", "--output"]
    assert translate_ddp(tmp_path / "o", *export, str(tmp_path / "out"))[0] == 0
    with pytest.raises(UserError, match="An exported model has its quantization"):
        open_with(INT8, tmp_path / "out")
    assert open_with(FLOAT32, tmp_path / "out").engine.translate([], NBestConfig()) == []


def test_workers_use_the_converted_model_of_their_process(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(model_commands, "PARTS_PER_WORKER", 2)
    monkeypatch.setattr(model_commands, "usable_cores", lambda: 2)
    (run / RECORD).mkdir()  # nothing can be written there
    rows = InputRows(TranslateConfig((*LINES, *LINES), saved=SavedModel(str(run)), engine=INT8))
    expected = rows.translator.translate([*LINES, *LINES])
    for checkpoint in run.glob("*.pt"):
        checkpoint.unlink()
    found = list(computed(rows, [range(row, row + 1) for row in range(6)]))
    assert found == [[text] for text in expected]
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    cleanup.close()
    assert not list((tmp_path / "temporary").iterdir())


def test_converted_model_is_deleted_at_signals_and_at_a_closed_pipe(run: Path, tmp_path: Path):
    words = [sys.executable, "-m", "translate_ddp", "translate"]
    words += ["--model_folder", str(run), "--engine=ctranslate2"]
    folders = [tmp_path / name for name in ("terminated", "closed", "interrupted")]
    os.mkfifo(tmp_path / "pipe")  # which nothing writes
    files = ["--input", str(tmp_path / "pipe"), "--output", str(tmp_path / "out")]

    def start(folder: Path, *texts: str) -> subprocess.Popen[bytes]:
        folder.mkdir()
        variables = environment() | {"TMPDIR": str(folder)}
        pipe = subprocess.PIPE
        return subprocess.Popen([*words, *texts], cwd=ROOT, env=variables, stdin=pipe, stdout=pipe)

    jobs = start(folders[0]), start(folders[1], "sun"), start(folders[2], *files)
    with jobs[0], jobs[1], jobs[2]:
        assert jobs[1].stdout is not None
        jobs[1].stdout.close()
        wait_until(lambda: list(folders[0].glob("*/model/model.bin")))
        jobs[0].send_signal(signal.SIGTERM)  # it converts, or waits for texts
        wait_until(lambda: list(folders[2].glob("*/model/model.bin")))
        jobs[2].send_signal(signal.SIGINT)
        time.sleep(REPEAT_SECONDS + 0.1)
        jobs[2].send_signal(signal.SIGINT)
        assert [job.wait(SECONDS) for job in jobs] == [-signal.SIGTERM, 0, ExitCode.INTERRUPTED]
    assert [list(folder.iterdir()) for folder in folders] == [[], [], []]


def test_full_temporary_disk_is_one_error_that_names_it(run: Path, monkeypatch: pytest.MonkeyPatch):
    def write(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ctranslate2_export, "write_files", write)
    with pytest.raises(UserError, match=r"No space left on device\. Set TMPDIR to a disk with"):
        open_with(FLOAT32, run)
