"""The command `inspect`: its settings, its page, and its errors."""

import errno
import os
from pathlib import Path

import pytest

from tests.helpers.commands import translate_ddp
from tests.helpers.inspected import sentences
from translate_ddp.apps.commands.command_line import given_flags, parse
from translate_ddp.apps.commands.inspect import InspectConfig, choose_settings, run
from translate_ddp.errors import UserError
from translate_ddp.presets import PRESETS
from translate_ddp.settings import CorpusConfig


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for side, language in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\n" for pair in sentences(300))
        (tmp_path / f"train.{language}").write_text(lines)
    return tmp_path


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_inspect_prints_a_report_and_writes_only_the_page(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(corpus)
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    before = files_of(corpus)
    page = corpus / "page.html"
    flags = ["--dataset", str(corpus / "train"), "--lang_tgt", "de", "--seconds", "0.5"]
    flags += ["--preset", "tiny", "--vocab_size", "400", "--html", str(page)]
    code, output = translate_ddp(tmp_path_factory.mktemp("output"), "inspect", *flags)
    assert code == 0, output
    assert "294 training pairs, 6 validation pairs" in output
    assert "tiny; --preset auto chooses few" in output
    assert "Estimate for one process on" in output and "400 tokens, bpe, trained" in output
    html = page.read_text()
    assert html.startswith("<!doctype html>") and f"Wrote {page}." in output
    assert "all 294 training pairs" in html and "Problems: " in html
    assert files_of(corpus) == before | {"page.html"}
    assert not list(temporary.glob("translate_ddp-inspect-*"))


def test_given_settings_are_kept_and_others_are_those_of_the_preset(
    monkeypatch: pytest.MonkeyPatch,
):
    flags = ["--dataset", "a", "b", "--vocab-size=4000", "--batch_tokens", "2048"]
    config = parse(InspectConfig, flags, "inspect")
    assert config.corpus.dataset == ("a", "b")
    settings, suggested = choose_settings(config, given_flags(flags), 5_000_000)
    assert (suggested, settings.run.preset) == ("base", "base")
    assert (settings.tokenizer.vocab_size, settings.batches.batch_tokens) == (4000, 2048)
    assert settings.model.d_model == PRESETS["base"]["d_model"]
    several = ["--dataset", "a", "--lang_tgt", "de", "fr", "it"]
    for flags, size in ((several, 38_400), ([*several, "--vocab_size", "4000"], 4000)):
        config = parse(InspectConfig, flags, "inspect")
        settings, _ = choose_settings(config, given_flags(flags), 5_000_000)
        assert settings.tokenizer.vocab_size == size
    settings, _ = choose_settings(parse(InspectConfig, [], "inspect"), set(), 5_000_000)
    assert settings.tokenizer.vocab_size == PRESETS["tiny"].get("vocab_size", 4000)
    config = parse(InspectConfig, ["--dataset", "a", "--seq_len", "1000"], "inspect")
    with pytest.raises(UserError, match="seq_len 1000 is more than batch_tokens 900"):
        monkeypatch.setitem(PRESETS["few"], "batch_tokens", 900)
        choose_settings(config, {"seq_len"}, 10)


def test_bad_input_ends_with_code_2_and_one_message(corpus: Path, tmp_path: Path):
    data = ["--dataset", str(corpus / "train"), "--lang_tgt", "de"]
    (tmp_path / "empty.en").write_text("\n\n")
    (tmp_path / "empty.de").write_text("\n\n")
    for flags, message in (
        (["--dataset", str(tmp_path / "nowhere")], "nowhere"),
        (["--dataset", str(tmp_path / "empty"), "--lang_tgt", "de"], "0 usable pairs"),
        ([*data, "--html", str(corpus / "train.en")], "exists and is no page"),
        ([*data, "--seconds", "-1"], "seconds must be at least 0"),
    ):
        code, output = translate_ddp(tmp_path / "output", "inspect", *flags)
        assert code == 2 and message in output and "Traceback" not in output, output
    assert (corpus / "train.en").read_text().count("\n") == 300


@pytest.mark.parametrize("module", ["data.corpus.np.save", "apps.inspecting.inspection.encode"])
def test_a_full_disk_names_the_temporary_folder(
    module: str,
    corpus: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
):
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(f"translate_ddp.{module}", fail)
    config = InspectConfig(CorpusConfig((str(corpus / "train"),), lang_tgt=("de",)), seconds=0)
    with pytest.raises(UserError, match=f"{temporary}.*No space left on device"):
        run(config)
    assert not list(temporary.iterdir())


def test_inspect_uses_one_process(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    launch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    launch |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in launch.items():
        monkeypatch.setitem(os.environ, name, value)
    with pytest.raises(UserError, match="without torchrun"):
        run(InspectConfig())
