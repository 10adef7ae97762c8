"""The six steps of docs/translate.md, from a corpus to a served model."""

import json
import random
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.commands import ROOT, TORCHRUN, environment
from tests.helpers.processes import SECONDS, free_port

pytest.importorskip("ctranslate2")
pytest.importorskip("starlette")

# Of a small corpus that a small model learns in seconds.
FLAGS = (
    "--preset tiny --no_perturb --vocab_size 300 --batch_tokens 256 --num_epochs 15 --seq_len 40"
)
WORDS = dict(zip("sun moon tree river stone".split(), "sol lun arb flu piet".split(), strict=True))


def commands() -> list[str]:
    """The commands of the page's six numbered sections."""
    page = (ROOT / "docs" / "translate.md").read_text()
    steps = "".join(part for part in page.split("\n## ") if part[0].isdigit())
    blocks = re.findall(r"^```\n(.*?)```", steps, re.M | re.S)
    return [block.replace("\\\n", " ").strip() for block in blocks]


def words_of(command: str) -> list[str]:
    """The command for this checkout: nothing needs to be installed."""
    program, *words = shlex.split(command)
    if program == "torchrun":
        script, *words = words
        return [*TORCHRUN, str(ROOT / script), *words, *FLAGS.split()]
    assert program == "translate-ddp", command
    return [sys.executable, "-m", "translate_ddp", *words]


def run(command: str, folder: Path) -> str:
    variables = environment() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        words_of(command), cwd=folder, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
def serving(command: str, folder: Path) -> Iterator[str]:
    """The address of a server that is started by the command and ended by SIGTERM."""
    server = subprocess.Popen(
        [*words_of(command), "--port", str(free_port())],
        cwd=folder,
        env=environment() | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    try:
        found = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in server.stdout)
        address = next(filter(None, found), None)
        assert address is not None, "the server ended"
        yield address[0]
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
    assert run(use.replace("A man is riding a bicycle.", "moon sun"), folder) == "lun sol\n"
    assert curl.startswith("curl -s http://127.0.0.1:5000/translate ")
    body = json.loads(shlex.split(curl)[-1]) | {"q": "moon sun"}
    with serving(serve, folder) as address:
        request = urllib.request.Request(f"{address}/translate", json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            assert json.load(answer)["translatedText"] == "lun sol"
    # An exported folder is scored like a checkpoint.
    (folder / "test.de").write_text("sol lun\n")
    (folder / "test.en").write_text("sun moon\n")
    files = "--model_folder en-de-int8 --source test.en --reference test.de"
    assert "BLEU signature" in run(f"translate-ddp validate {files}", folder)
    assert json.loads(run(f"translate-ddp score {files}", folder).splitlines()[0])
