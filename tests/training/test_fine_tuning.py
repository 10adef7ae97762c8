"""A run that starts from the weights, model settings and tokenizer of a file (`--init_from`)."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from config import parse_with_names
from tests import faults
from tests.helpers import processes
from tests.helpers.commands import translate_ddp
from tests.helpers.faults import Run
from tests.helpers.nodes import Nodes
from tests.helpers.runs import (
    assert_same_run,
    assert_same_tree,
    checkpoints,
    last_state,
    validations,
)
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import Tokenizer, train_tokenizer
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig, TokenizerConfig
from translate_ddp.training.checkpoint import load
from translate_ddp.training.fine_tuning import adopt_settings, describe_fit, describe_languages
from translate_ddp.training.run import find_start

# The sizes come from the file: the preset of this corpus is four times as wide. No weight
# changes at this rate.
FLAGS = ["--precision", "fp32", "--batch_tokens", "100", "--seq_len", "99", "--dropout", "0.2"]
FLAGS += ["--lang_src", "en", "--lang_tgt", "de", "--num_epochs", "1", "--save_every", "4"]
UNCHANGED = ["--lr", "1e-30"]


def write_pairs(prefix: Path, count: int, seed: int) -> str:
    """Pairs of another language and of other words than the ones of the tokenizer."""
    choose, words = random.Random(seed), ["straße", "über", "mond", "sonne", "haus", "grün"]
    lines = [choose.choices(words, k=choose.randint(2, 5)) for _ in range(count)]
    Path(f"{prefix}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
    Path(f"{prefix}.de").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))
    return str(prefix)


@pytest.fixture
def file(trained: Path, tmp_path: Path) -> Path:
    """A checkpoint of the finished run, away from its folder and under another name."""
    (path,) = trained.glob("tmodel_epoch_0002_*.pt")
    copy = tmp_path / "parent.pt"
    shutil.copy(path, copy)
    return copy


@pytest.fixture
def other_corpus(tmp_path: Path) -> list[str]:
    """Flags of a small corpus with its own validation set."""
    folder = tmp_path / "other"
    folder.mkdir()
    train, valid = write_pairs(folder / "train", 90, 1), write_pairs(folder / "valid", 12, 2)
    return ["--dataset", train, "--validation", valid]


@pytest.fixture
def child(file: Path, other_corpus: list[str], uninterrupted: Any, tmp_path: Path) -> Run:
    """A run on another corpus that takes its weights from the file."""
    flags = [*FLAGS, *other_corpus, "--init_from", str(file)]
    return Run(flags, tmp_path / "child", uninterrupted, None)


def state_in(file: Path) -> dict[str, Any]:
    return load(file).to_dict()


def test_new_run_has_the_weights_and_the_loss_of_the_file(
    child: Run, file: Path, other_corpus: list[str], tmp_path: Path
):
    output = child.start(*UNCHANGED, size=2).succeed()
    assert output.count(f"New run with the weights, model settings and tokenizer of {file}") == 1
    notice = "The weights of --init_from were trained for en-it, this run is for en-de."
    assert output.count(notice) == 1
    assert "Chose --preset small for 79 training pairs." in output
    parent, state = state_in(file), last_state(child.folder)
    assert_same_tree(state["model"], parent["model"])
    assert state["facts"]["tokenizer"] == parent["facts"]["tokenizer"]
    assert state["position"]["epoch"] == 1
    assert state["run"]["run_id"] != parent["run"]["run_id"]
    settings, held = state["run"]["config"], parent["run"]["config"]
    assert settings["model"] == held["model"] | {"dropout": 0.2}
    assert settings["tokenizer"] == held["tokenizer"]
    assert settings["checkpoint"]["init_from"] == str(file)

    prefix = other_corpus[-1]  # of the validation set
    words = ["--source", f"{prefix}.en", "--reference", f"{prefix}.de", "--preload", str(file)]
    code, text = translate_ddp(tmp_path, "validate", *words)
    [loss] = validations(child.folder, "loss")
    assert code == 0 and f" loss {loss:.4g} " in text, text


@pytest.mark.slow
def test_killed_run_resumes_without_the_file(child: Run, file: Path, tmp_path: Path):
    straight = Run(child.flags, tmp_path / "straight", child.uninterrupted, None)
    straight.start().succeed()
    child.start(fault=faults.kill("published")).kill_rest()
    file.unlink()
    output = child.start().succeed()
    assert f"Resuming from {child.folder}/tmodel_step_00000004-" in output
    assert f"--init_from {file} is for new runs: it was not read." in output
    assert "Changed" not in output and "This run has finished" not in output
    assert_same_run(straight.folder, child.folder)
    # The settings that the run has written are usable as they are.
    yaml = child.folder / "config.yaml"
    again = processes.train(["--config", str(yaml)], child.folder).succeed()
    assert again.index("This run has finished: raise --num_epochs") < again.index("Finished at")


@pytest.mark.slow
def test_run_resumes_without_the_option_and_remembers_it(child: Run, file: Path):
    first = child.start("--max_steps", "1").succeed()
    assert "tokens are [UNK] or parts of characters" in first
    share = float(first.split("% of the corpus's")[0].split()[-1])
    assert 5 < share < 50  # the letters ß and ü
    flags = [*child.flags, "--max_steps", "2"]
    at = flags.index("--init_from")
    del flags[at : at + 2]
    output = processes.train(flags, child.folder).succeed()
    assert "Resuming from" in output and "step 2, after" in output
    assert "parts of characters" not in output  # printed at the start of a run only
    assert last_state(child.folder)["run"]["config"]["checkpoint"]["init_from"] == str(file)
    output = processes.train([*flags, "--d_model", "32"], child.folder).fail()
    assert "takes model and tokenizer from the checkpoint" in output


def test_unusable_file_is_one_message(child: Run, file: Path, tmp_path: Path):
    file.unlink()
    output = child.start(size=2).fail()
    assert output.count("error: ") == 1 and "Traceback" not in output
    assert f"--init_from {file} cannot be used: there is no such file." in output
    file.write_bytes(b"nothing")
    assert f"{file} is not a checkpoint of translate_ddp" in child.start().fail()
    shutil.rmtree(child.folder / "data", ignore_errors=True)
    file.unlink()
    file.mkdir()
    assert f"The folder {file} holds no checkpoint" in child.start().fail()
    assert not checkpoints(child.folder)


def test_only_settings_that_the_user_set_are_compared(file: Path, tmp_path: Path):
    state = load(file)
    yaml = tmp_path / "settings.yaml"
    yaml.write_text("d_model: 16\nnum_heads: 2\n")
    for flags in ([], ["--preset", "few"], ["--config", str(yaml)], ["--tokenizer", "bpe"]):
        given, names = parse_with_names(flags)
        config = adopt_settings(given, state, names)
        assert (config.model.d_model, config.model.num_heads) == (16, 2)
        assert config.tokenizer.vocab_size == 300
        assert config.model.dropout == given.model.dropout
    yaml.write_text("d_model: 128\n")
    several = ["--d_model", "256", "--d-ff=64", "--vocab_size", "8000", "--num_heads", "2"]
    for flags in (["--config", str(yaml)], several, ["--tokenizer_file", "t.json"]):
        with pytest.raises(UserError, match="in the checkpoint, .* requested") as raised:
            config, names = parse_with_names(flags)
            adopt_settings(config, state, names)
        assert str(raised.value).count("requested") == (3 if flags is several else 1)


@pytest.mark.slow
def test_folder_of_a_run_with_another_start_is_an_error(finished: Run, child: Run, file: Path):
    before = checkpoints(finished.folder)
    output = finished.start("--init_from", str(file), "--num_epochs", "3").fail()
    assert f"started from scratch, not with --init_from {file}: pass another" in output
    assert checkpoints(finished.folder) == before
    child.start("--max_steps", "1").succeed()
    moved = file.rename(file.with_name("other.pt"))
    output = child.start("--init_from", str(moved)).fail()
    assert f"started with --init_from {file}, not with --init_from {moved}" in output
    assert f"to resume, pass --init_from {file}." in output


@pytest.mark.slow
def test_file_on_one_node_is_enough(nodes: Nodes, child: Run, file: Path, tmp_path: Path):
    # Each node has its own disk, so a path that only the second one has.
    flags = [
        [*child.flags, *UNCHANGED, "--init_from", path, "--model_folder", str(tmp_path / disk)]
        for path, disk in ((str(tmp_path / "absent.pt"), "disk0"), (str(file), "disk1"))
    ]
    output = nodes.train(flags, tmp_path).succeed()
    assert f"tokenizer of {file}, on node 1 (epoch 2" in output
    assert_same_tree(last_state(tmp_path / "disk0")["model"], state_in(file)["model"])


@pytest.mark.parametrize(
    "path",
    ["{folder}/{file}", "{folder}/../{folder.name}/{file}", "{link}/{file}", "{linked_file}"],
)
def test_file_in_the_model_folder_is_an_error_as_a_new_run_moves_it(
    trained: Path, tmp_path: Path, path: str
):
    (file,) = trained.glob("tmodel_epoch_0002_*.pt")
    link, linked_file = tmp_path / "link", tmp_path / "linked.pt"
    link.symlink_to(trained)
    linked_file.symlink_to(file)
    named = path.format(folder=trained, file=file.name, link=link, linked_file=linked_file)
    settings = CheckpointConfig(str(trained), preload="", init_from=named)
    with pytest.raises(UserError, match="is in the model folder, .* pass another --model_folder"):
        find_start(settings, World())
    assert file.exists()


def test_folder_of_a_run_stands_for_its_best_epoch_without_the_optimizer(
    trained: Path, tmp_path: Path
):
    best = last_state(trained)["position"]["best_epoch"]
    settings = CheckpointConfig(str(tmp_path / "empty"), init_from=str(trained))
    start = find_start(settings, World())
    assert start.state is None and start.source_state is not None and not start.resumes
    assert start.source_state.position.epoch == best


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (["en-it"], ["en-it"], []),
        (["en-it", "en-de"], ["en-de"], []),
        (["en-it"], ["it-en"], ["trained for en-it, this run is for it-en."]),
        (["en-it"], ["en-it", "it-en"], ["for en-it, this run is for en-it it-en."]),
    ],
)
def test_directions_that_the_file_lacks_are_named(
    before: list[str], now: list[str], message: list[str]
):
    one, other = ([LanguagePair(*each.split("-")) for each in names] for names in (before, now))
    found = describe_languages(other, one)
    assert len(found) == len(message) and all(map(str.endswith, found, message))


def fit(lines: list[str], tokenizer: Tokenizer) -> str:
    side = Ragged.of(tokenizer.encode(lines))
    return describe_fit(ParallelDataset(side, side), tokenizer)


def test_share_of_unknown_characters_is_that_counted_by_hand():
    config = TokenizerConfig(vocab_size=300)
    tokenizer = train_tokenizer(["a a a a", "é é é é"], config)
    # Both are one token each, as is the blank before one of them.
    assert fit(["a é a"], tokenizer).startswith("0.0% of the corpus's ")
    assert fit(["xyz"], tokenizer).endswith("A token has 1.0 characters on average.")
    assert fit(["a a"], tokenizer).endswith("A token has 2.0 characters on average.")  # " a"
    # U+5B57 has three bytes that no merge joins: 3 of 4 tokens on each side.
    assert fit(["a字"], tokenizer).startswith("75.0% of the corpus's 8 tokens ")
    words = train_tokenizer(["sun sun moon moon"], TokenizerConfig("word"))
    assert fit(["sun moon tree sun"], words).startswith("25.0% of the corpus's 8 tokens ")
