"""README and docs: links lead somewhere, and commands use flags that exist."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import ROOT
from translate_ddp import settings
from translate_ddp.__main__ import COMMANDS, load
from translate_ddp.apps.commands.command_line import parse
from translate_ddp.apps.commands.train import parse as parse_training
from translate_ddp.errors import UserError
from translate_ddp.settings import Resume, all_settings

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
CONFIGS = [load(name)[0] for name in COMMANDS]
# Of torchrun, pip, pytest, Slurm, TensorBoard, the hub's client and the benchmarks.
OTHER_FLAGS = set(
    "--nproc_per_node --nnodes --node_rank --master_addr --master_port --rdzv-backend --rdzv-id "
    "--rdzv-endpoint --standalone --local-rank --max-restarts --signals-to-handle --repo-type "
    "--local-dir --nodes --logdir "
    "--ntasks-per-node --gpus-per-node --gpus-per-task --cpus-per-task --exclusive --time "
    "--others --minutes --help --version --index-url --bind --data-urlencode "
    "--reverse --inflight --pad_id --unk_id --bos_id --eos_id "  # of Locomotive and SentencePiece
    "--input --model_prefix --byte_fallback --normalization_rule_name "
    "--rounds --seconds --warmup_seconds --pairs --only "
    "--results --all --solution "
    # Of fairseq:
    "--source-lang --target-lang --trainpref --validpref --destdir --arch --max-tokens "
    "--update-freq --warmup-updates --nwordssrc --encoder-embed-dim --encoder-ffn-embed-dim "
    "--srcdict "
    "--encoder-layers --max-source-positions --lr-scheduler --clip-norm --fp16 --save-dir "
    "--keep-last-epochs --finetune-from-model --sampling-temperature --beam --lenpen --nbest "
    "--score-reference --sacrebleu".split()
)

# Flags whose files are read with the command line, and what such a file may hold.
READ_AT_ONCE = {"--config": "{}", "--compare": "", "--glossary": "term\ttranslation"}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub names them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_file(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(found), f"{page.name}: {target}"


def help_of(config: type[Any], capsys: pytest.CaptureFixture[str]) -> str:
    """What `--help` of a command prints."""
    with pytest.raises(SystemExit):
        parse(config, ["--help"], "translate_ddp", True)
    return capsys.readouterr().out


def test_flags_exist(capsys: pytest.CaptureFixture[str]):
    train = subprocess.run(
        [sys.executable, "train.py", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    helps = [train.stdout, *(help_of(config, capsys) for config in CONFIGS)]
    known = set(re.findall(r"--\w+", " ".join(helps))) | OTHER_FLAGS
    for page in (page for page in PAGES if page.name != "CHANGELOG.md"):
        used = set(re.findall(r"(?<![\w-])--[a-z]\w*(?:-\w+)*", page.read_text()))
        assert used <= known, f"{page.name}: {sorted(used - known)}"


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each command in the blocks of a page that may start one of our programs."""
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            is_ours = re.search(r"\btrain\.py\b|slurm\.sh |translate[-_]ddp ", line)
            unquoted = re.sub(r"\"[^\"]*\"|'[^']*'", "", line)
            if not is_ours or re.search(r"\.\.\.|<\w+>", unquoted):  # a placeholder
                continue
            words = shlex.shlex(line, posix=True, punctuation_chars=True)
            words.whitespace_split = True
            parts = [list[str]()]
            for word in words:
                if set(word) <= set("();<>|&"):
                    parts.append([])
                else:
                    parts[-1].append(word)
            yield from parts


def our_command(words: list[str]) -> tuple[str, list[str]] | None:
    """The name of our command and its arguments; None for another program."""
    for at, word in enumerate(words):
        if at and word in ("train.py", "launch/slurm.sh"):
            return "train", words[at + 1 :]
        is_first = all("=" in each or each in ("nohup", "setsid") for each in words[:at])
        is_module = words[:at][-1:] == ["-m"] and word == "translate_ddp"
        if is_module or (is_first and re.search(r"(^|/)translate-ddp$", word)):
            name, *arguments = words[at + 1 :] or ["--help"]
            return None if name.startswith("-") else (name, arguments)
    return None


def test_commands_are_accepted_by_their_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    # A command may need an optional dependency, which is not installed everywhere.
    monkeypatch.setattr(settings, "check_installed", lambda *_: None)
    found = [(page.name, words) for page in PAGES for words in commands_in(page.read_text())]
    commands = [(page, *our) for page, words in found if (our := our_command(words))]
    assert len(commands) > 30
    for page, name, arguments in commands:
        for flag, value in zip(arguments, arguments[1:], strict=False):
            if flag in READ_AT_ONCE:
                Path(value).parent.mkdir(parents=True, exist_ok=True)
                Path(value).write_text(READ_AT_ONCE[flag])
        try:
            if name == "train":
                parse_training(arguments)
            else:
                parse(load(name)[0], arguments, name)
        except (SystemExit, UserError, ImportError) as error:
            if getattr(error, "code", 1):  # not of --help
                output = "".join(capsys.readouterr())
                pytest.fail(f"{page}: {name} {shlex.join(arguments)}\n{error}\n{output}")


def test_paths_exist():
    # A path is relative to the checkout, the package or, in launch/ and tests/, as written.
    roots = (ROOT, ROOT / "translate_ddp")
    pattern = r"`((?:[\w.-]+/)*[\w-]+\.(?:py|sh|toml|txt|md)|(?:[\w.-]+/)+)`"
    for page in PAGES:
        for path in set(re.findall(pattern, page.read_text())):
            if path.startswith(("weights/", "earlier-", "data/train", "run.")):
                continue
            assert any((root / path).exists() for root in roots), f"{page.name}: {path}"


def test_table_of_settings_that_may_change_is_that_of_the_settings():
    text = (ROOT / "docs" / "reliability.md").read_text()
    rows = dict(
        re.findall(r"^\| (.+?) \| (`.+`) \|$", text.partition("| when | settings |")[2], re.M)
    )
    for when in Resume:
        names = [name for name, each in all_settings().items() if each.resume is when]
        if when is not Resume.FREELY:
            assert set(re.findall(r"`(\w+)`", rows[when.value])) == set(names)
