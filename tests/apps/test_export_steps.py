"""The six steps of docs/translate.md, from a corpus to a served model."""

import json
import random
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.commands import ROOT, TORCHRUN, background
from tests.helpers.processes import SECONDS, free_port
from tests.helpers.served import Client

pytest.importorskip("ctranslate2")

# Of a small corpus that a small model learns in seconds.
FLAGS = "--preset tiny --no_perturb --vocab_size 300 --batch_tokens 256 --num_epochs 15"
WORDS = dict(zip("sun moon tree river stone".split(), "sol lun arb flu piet".split(), strict=True))


def commands() -> list[str]:
    """The commands of the page's six numbered sections."""
    page = (ROOT / "docs" / "translate.md").read_text()
    steps = "".join(part for part in page.split("\n## ") if part[0].isdigit())
    return re.findall(r"^```\n(.*?)\n```", steps.replace("\\\n", " "), re.M | re.S)


def words_of(command: str) -> list[str]:
    """The command for this checkout: nothing needs to be installed."""
    program, *words = shlex.split(command)
    if program == "torchrun":
        return [*TORCHRUN, str(ROOT / words[0]), *words[1:], *FLAGS.split()]
    assert program == "translate-ddp", command
    return [sys.executable, "-m", "translate_ddp", *words]


def start(words: list[str], folder: Path) -> subprocess.Popen[str]:
    return background(words, folder, PYTHONPATH=str(ROOT), PYTHONUNBUFFERED="1")


def run(command: str, folder: Path) -> str:
    process = start(words_of(command), folder)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the page takes for granted."""
    choose = random.Random(0)
    lines = [choose.choices(list(WORDS), k=choose.randint(1, 5)) for _ in range(1500)]
    (tmp_path / "data").mkdir()
    for language, table in (("en", {word: word for word in WORDS}), ("de", WORDS)):
        text = "".join(" ".join(table[word] for word in line) + "\n" for line in lines)
        (tmp_path / "data" / f"train.{language}").write_text(text)
    (tmp_path / "news.en").write_text("sun moon\n\ntree river stone\n")
    return tmp_path


@contextmanager
def serving(command: str, folder: Path) -> Iterator[Client]:
    """A client of a server that is started by the command and ended by SIGTERM."""
    server = start([*words_of(command), "--port", str(free_port())], folder)
    assert server.stdout is not None
    try:
        found = (re.search(r"http://127\.0\.0\.1:(\d+)", line) for line in server.stdout)
        yield Client(int(next(filter(None, found))[1]))
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=SECONDS)
    assert server.returncode == 0


def test_six_commands_lead_from_a_corpus_to_a_served_model(folder: Path):
    train, validate, translate, export, use, serve, curl = commands()
    assert "Finished at epoch 15" in run(train, folder)
    assert "95% intervals" in run(validate, folder)
    run(translate, folder)
    assert (folder / "news.de").read_text() == "sol lun\n\narb flu piet\n"
    assert "BLEU" in run(export, folder)
    assert run(use.replace("A man is riding a bicycle.", "moon sun"), folder).endswith("lun sol\n")
    assert curl.startswith("curl -s http://127.0.0.1:5000/translate ")
    body = json.loads(shlex.split(curl)[-1]) | {"q": "moon sun"}
    with serving(serve, folder) as client:
        assert client.post(**body)[1]["translatedText"] == "lun sol"
    # An exported folder is scored like a checkpoint.
    (folder / "test.de").write_text("sol lun\n")
    (folder / "test.en").write_text("sun moon\n")
    files = "--model_folder en-de-int8 --source test.en --reference test.de"
    assert "BLEU signature" in run(f"translate-ddp validate {files}", folder)
    assert re.findall(r"^{.*}$", run(f"translate-ddp score {files}", folder), re.M)
