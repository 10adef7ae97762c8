"""`--engine ctranslate2`: a checkpoint that CTranslate2 computes, verified once for its weights."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from tests.helpers.commands import translate_ddp
from tests.helpers.exports import flipped
from translate_ddp.apps.commands.model_commands import EngineConfig, SavedModel
from translate_ddp.apps.commands.translate import TranslateConfig
from translate_ddp.apps.exporting.ctranslate2_export import RECORD, open_verified
from translate_ddp.apps.exporting.trained_model import NotTheSame, TrainedModel
from translate_ddp.errors import UserError
from translate_ddp.modeling.ctranslate2_engine import CTranslate2Engine
from translate_ddp.settings import NBestConfig
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


def test_checkpoint_alone_is_verified_without_bleu(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "alone").mkdir()
    alone = next(run.glob("*.pt")).rename(tmp_path / "alone" / "model.pt")
    open_with(INT8, alone)
    found = capsys.readouterr().err
    assert "random sequences of tokens" in found and "no references for BLEU" in found


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
