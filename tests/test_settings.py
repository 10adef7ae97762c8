"""Settings that cannot be used are rejected by their names, before a run begins."""

import sys
from collections.abc import Callable
from functools import partial
from math import inf, nan
from typing import Any

import pytest

from config import parse
from translate_ddp.apps.serving.batching import LimitsConfig
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.settings import (
    BatchConfig,
    CheckpointConfig,
    Config,
    CorpusConfig,
    LossConfig,
    MixConfig,
    ModelConfig,
    OptimizerConfig,
)

TWO = CorpusConfig(dataset=("a", "b"))
NOT_UTF8 = b"lat\xe9".decode(errors="surrogateescape")
WRONG: list[tuple[Callable[..., object], dict[str, Any], str]] = [
    *((OptimizerConfig, {"lr": rate}, "lr") for rate in (0.0, nan)),
    (OptimizerConfig, {"warmup_steps": 0}, "warmup_steps"),
    (OptimizerConfig, {"clip_grad_norm": -1.0}, "clip_grad_norm"),
    (ModelConfig, {"d_model": 30, "num_heads": 4}, "d_model"),
    (ModelConfig, {"dropout": 1.0}, "dropout"),
    (ModelConfig, {"d_ff": 0}, "d_ff"),
    (LossConfig, {"label_smoothing": 1.0}, "label_smoothing"),
    (BatchConfig, {"seq_len": 500, "batch_tokens": 400}, "batch_tokens"),
    (BatchConfig, {"batch_size": -1}, "batch_size"),
    (BatchConfig, {"seq_len": 1}, "seq_len"),
    *((LimitsConfig, {name: 0}, f"^{name} must be ") for name in ("max_characters", "max_waiting")),
    *((LimitsConfig, {"max_seconds": each}, "^max_seconds must be ") for each in (inf, 0)),
    *((NBestConfig, {"length_penalty": each}, "-10 to 10") for each in (400.0, nan)),
    (NBestConfig, {"temperature": 1e-310}, "0 or at least 0.01"),
    (NBestConfig, {"n_best": 5}, "n_best 5 is more than beam_width 4: pass --beam_width 5"),
    (CheckpointConfig, {"model_basename": "../elsewhere"}, "model_basename"),
    (CheckpointConfig, {"model_folder": NOT_UTF8}, "not UTF-8"),
    *(
        (CorpusConfig, {"lang_tgt": (code,)}, "is not a language code")
        for code in ("", "e", "en/de", "../en", "en-", "e n", "en\n")
    ),
    *((CorpusConfig, {"validation": each}, "must be more than 0") for each in ("0", "0%", "0.0%")),
    (CorpusConfig, {"validation": "0.05"}, "write the share as 5%"),
    (CorpusConfig, {"src_column": "en", "tgt_column": "en"}, "Both columns are 'en'"),
    (CorpusConfig, {"lang_tgt": ("de", "fr", "de")}, "de is given twice"),
    (CorpusConfig, {"directions": (("en", "en"),)}, "must differ"),
    *((CorpusConfig, {"mix_temperature": each}, "must be at least 1") for each in (0.5, nan)),
    (CorpusConfig, {"dataset": ("a", "b"), "tags": ("<bt>",)}, "Tags given: 1, datasets: 2"),
    *(
        (CorpusConfig, {"tags": (tag,)}, "begins with a dash or changes under Unicode")
        for tag in ("<b t>", " ", "<bt> ", "a\u00a0b", "e\u0301", "-bt-")
    ),
    (partial(Config, corpus=TWO), {"mix": MixConfig((1.0, 2.0, 3.0))}, "given: 3, datasets: 2"),
    *(
        (partial(Config, corpus=TWO), {"mix": MixConfig(weights)}, "at least 0, and one is more")
        for weights in ((0.0, 0.0), (-1.0, 1.0), (inf, 1.0), (nan, 1.0))
    ),
]


@pytest.mark.parametrize(("part", "values", "message"), WRONG)
def test_value_that_cannot_be_used_is_rejected_by_name(
    part: Callable[..., object], values: dict[str, Any], message: str
):
    with pytest.raises(ValueError, match=message):
        part(**values)


@pytest.mark.parametrize(
    ("flags", "library"),
    [("--tensorboard", "tensorboard"), ("--tokenizer sentencepiece", "sentencepiece")],
)
def test_library_that_is_not_installed_is_one_error(
    flags: str, library: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    with pytest.raises(SystemExit) as ended:
        parse(flags.split())
    assert ended.value.code == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert shown.count(f"needs {library}, which is not installed") == 1
    assert f"pip install -r requirements-{library}.txt" in shown
