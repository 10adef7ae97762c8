"""What a run resumes from, whether it is the same run, and when it gets a new run id."""

import gc
import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from config import Config
from tests import faults
from tests.helpers import processes
from tests.helpers.faults import Run
from tests.helpers.runs import assert_same_state, checkpoints, last_state, metrics
from tests.helpers.states import TOKENIZER, make_facts, make_state
from translate_ddp.data import tokenizer
from translate_ddp.data.mix import Block, Mix
from translate_ddp.data.tokenizer import train_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.settings import (
    CorpusConfig,
    ModelConfig,
    TokenizerConfig,
)
from translate_ddp.training.identity import check_same_run, describe_changes, run_identity
from translate_ddp.training.state import Position, RunIdentity, RunState
from translate_ddp.training.trainer import Trainer

DATA: Any = SimpleNamespace(
    fingerprint="data",
    validation_fingerprint="held out",
    facts=make_facts(TOKENIZER),
    variants=None,
)


def identity(world_size: int = 1, **changes: Any) -> RunIdentity:
    """For a run with the default settings except `changes`, such as model={"d_model": 8}."""
    settings = Config().to_dict()
    for part, values in changes.items():
        settings[part] = settings[part] | values
    return run_identity(settings, DATA, world_size, Mix.of((), [Block(0, 0, 10)]))


def state_of(saved: RunIdentity, step_in_epoch: int = 0) -> RunState:
    state = make_state(position=Position(1, step_in_epoch, 10))
    return replace(state, run=replace(state.run, identity=saved))


@pytest.mark.parametrize("name", [setting.name for setting in fields(ModelConfig)])
def test_model_settings_may_not_change_except_dropout(name: str):
    saved, now = identity(), identity(model={name: 9})
    if name == "dropout":
        check_same_run(state_of(saved), now, Config().to_dict())
    else:
        with pytest.raises(UserError, match=f"{name}: .* in the checkpoint, 9 now"):
            check_same_run(state_of(saved), now, Config().to_dict())


def test_changed_validation_is_named():
    # It also changes the training data and the tokenizer, of which there are only digests.
    state = state_of(identity())
    state.run.config["corpus"] = Config().to_dict()["corpus"]
    other: Any = SimpleNamespace(**(vars(DATA) | {"fingerprint": "other"}))
    config = Config(corpus=CorpusConfig(validation="30")).to_dict()
    now = run_identity(config, other, 1, Mix.of((), [Block(0, 0, 10)]))
    with pytest.raises(UserError) as raised:
        check_same_run(state, now, config)
    assert "another run:\n  --validation: '' in the checkpoint, '30' now\n" in str(raised.value)
    assert str(raised.value).count("--") == 3  # the others are advice


def test_checkpoint_without_a_newer_setting_has_its_default():
    saved = identity()
    del saved.always["d_ff"], saved.within_epoch["batch_size"], saved.within_epoch["perturb"]
    check_same_run(state_of(saved, step_in_epoch=3), identity(), Config().to_dict())
    with pytest.raises(UserError, match="d_ff: 512 in the checkpoint, 9 now") as raised:
        check_same_run(state_of(saved, step_in_epoch=3), identity(model={"d_ff": 9}), {})
    assert "--preload EPOCH" not in str(raised.value)  # which would not help


def test_setting_of_a_later_version_is_part_of_the_identity():
    old, new = identity(), identity()
    new.always["unknown"] = 1
    with pytest.raises(UserError, match="unknown: 1 in the checkpoint, unset now"):
        check_same_run(state_of(new), old, Config().to_dict())


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("batches", "batch_tokens"),
        ("batches", "batch_size"),
        ("batches", "seq_len"),
        ("corpus", "perturb"),
        ("train", "seed"),
        ("", "data order"),
        ("", "variants"),
    ],
)
def test_batches_may_change_between_epochs_only(part: str, name: str):
    changes: dict[str, Any] = {part: {name: 7}} if part else {}
    saved, now = identity(), identity(**changes)
    now = now if part else replace(now, within_epoch=now.within_epoch | {name: 7})
    check_same_run(state_of(saved), now, Config().to_dict())
    with pytest.raises(UserError, match=f"{name}: .* in the checkpoint, 7 now") as raised:
        check_same_run(state_of(saved, step_in_epoch=3), now, Config().to_dict())
    assert "--preload EPOCH" in str(raised.value)


def test_number_of_ranks_and_passes_may_change_within_an_epoch():
    saved = identity(world_size=1)
    now = identity(world_size=8, batches={"max_tokens": 300})
    check_same_run(state_of(saved, step_in_epoch=3), now, Config().to_dict())
    # But not with --batch_size, which counts sentences per rank.
    saved = identity(world_size=1, batches={"batch_size": 7})
    now = identity(world_size=8, batches={"batch_size": 7})
    with pytest.raises(UserError, match="world_size: 1 in the checkpoint, 8 now"):
        check_same_run(state_of(saved, step_in_epoch=3), now, Config().to_dict())


@pytest.mark.parametrize("name", ["world_size", "threads", "processor", "torch", "numpy"])
def test_environment_that_changes_the_last_bits_is_one_message(name: str):
    now = {"world_size": 1, "threads": 2, "processor": "A", "torch": "2.13.0", "numpy": "2.4.0"}
    config = Config().to_dict()
    (message,) = describe_changes(make_state(environment=now | {name: "other"}), config, now)
    assert "results are not equal bit for bit" in message
    assert ("The order of the data is the same" in message) == (name != "numpy")
    assert f"{name}: other in the checkpoint, {now[name]} now" in message
    assert describe_changes(make_state(environment=now), config, now) == []
    del now[name]
    unknown = describe_changes(make_state(environment=now), config, now | {name: "new"})
    assert unknown == []


def test_resume_on_a_gpu_is_exact_only_if_the_run_was_always_deterministic():
    now = {"device": "cuda"}
    for before, after in ((False, False), (False, True), (True, True)):
        state = make_state(environment=now)
        state.run.config["train"]["deterministic"] = before
        config = Config().to_dict()
        config["train"]["deterministic"] = after
        messages = " ".join(describe_changes(state, config, now))
        assert ("not equal bit for bit" in messages) == (not (before and after))


@pytest.mark.parametrize(
    ("flags", "change"),
    [
        (["--lang_tgt", "de"], "languages: en-it in the checkpoint, en-de now"),
        (["--vocab_size", "301"], "vocab_size: 300 in the checkpoint, 301 now"),
        (["--tokenizer_file", "{other}"], "--tokenizer_file: {} in the checkpoint, {} now"),
    ],
)
def test_other_languages_or_tokenizers_are_rejected_before_the_corpus_is_read(
    finished: Run, tmp_path: Path, flags: list[str], change: str
):
    other = train_tokenizer(["sun moon"], TokenizerConfig(vocab_size=300))
    (tmp_path / "other.json").write_text(other.text)
    texts = last_state(finished.folder)["facts"]["tokenizer"], other.text
    digests = (hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts)
    flags = [each.format(other=tmp_path / "other.json") for each in flags]
    output = finished.start(*flags, "--dataset", "not_there").fail()
    assert f"belongs to another run:\n  {change.format(*digests)}\n" in output
    assert "not_there" not in output


def train_with_another_learner(flags: list[str]) -> None:
    """As with another version of a library, which learns another vocabulary from the corpus."""
    learn = tokenizer.train_tokenizer

    def learn_another(lines: Iterable[str], config: TokenizerConfig) -> tokenizer.Tokenizer:
        return learn([*lines, "another vocabulary " * 99], config)

    tokenizer.train_tokenizer = learn_another
    processes.run_train(flags)


LEARNERS = [["--tokenizer", "bpe"]]
LEARNERS += [["--tokenizer", "sentencepiece"]] * bool(find_spec("sentencepiece"))


@pytest.mark.slow
@pytest.mark.parametrize("flags", LEARNERS, ids=" ".join)
def test_run_resumes_from_its_file_alone_although_another_vocabulary_would_be_learnt(
    run: Run, tmp_path: Path, flags: list[str]
):
    flags = [*run.flags, *flags, "--tokenizer_file", str(tmp_path / "{0}.tok")]
    kill = faults.kill("published", time=2)
    straight, folder = tmp_path / "straight", tmp_path / "resumed"
    processes.train([*flags, "--model_folder", str(straight)], straight, 2).succeed()
    (tmp_path / "en-it.tok").unlink()
    flags += ["--model_folder", str(folder)]
    processes.train(flags, folder, 2, TRANSLATE_DDP_FAULT=kill).kill_rest()
    for file in folder.glob("[!t]*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    (tmp_path / "en-it.tok").unlink()
    job = processes.start(train_with_another_learner, folder, 2, None, flags)
    assert "Resuming from" in job.succeed()
    assert_same_state(folder, straight)
    # Without the tokenizer of a checkpoint, the learner counts.
    flags += ["--preload", "", "--max_steps", "1"]
    processes.start(train_with_another_learner, folder, 2, None, flags).succeed()
    learnt = [last_state(each)["facts"]["tokenizer"] for each in (folder, straight)]
    assert learnt[0] != learnt[1]


def test_more_epochs_resume_a_finished_run(finished: Run):
    before = finished.status["checkpoint"]
    again = finished.start().succeed()
    assert "Finished at epoch 2" in again and "epoch 2/2" not in again
    assert finished.status["checkpoint"] == before
    latest = finished.folder / checkpoints(finished.folder)[0]
    output = finished.start("--num_epochs", "3").succeed()
    assert f"Resuming from {latest}" in output and "bit for bit" not in output
    assert "epoch 3/3" in output and "epoch 2/3" not in output


def test_empty_preload_starts_from_scratch_and_archives_the_earlier_run(finished: Run):
    folder, before = finished.folder, checkpoints(finished.folder)
    output = finished.start("--preload", "").succeed()
    assert "Resuming" not in output
    archive = folder / "earlier-001"
    assert f"Moved files that are not part of this run to {archive}" in output
    assert {path.name for path in archive.iterdir()} == {*before, "metrics.jsonl"}
    assert metrics(folder) == metrics(archive)


def run_id(folder: Path) -> str:
    return last_state(folder)["run"]["run_id"]


@pytest.mark.slow
def test_run_id_is_kept_after_a_kill_and_for_any_name_of_the_folder(run: Run, tmp_path: Path):
    job = run.start("--num_epochs", "1")
    job.kill_when(lambda: list(run.folder.glob("tmodel_step_00000008-*")))
    first = run_id(run.folder)
    run.start("--num_epochs", "1").succeed()
    assert run_id(run.folder) == first

    (epoch_1,) = run.folder.glob("tmodel_epoch_0001_*")
    (tmp_path / "link").symlink_to(run.folder)
    one_more_step = ["--max_steps", str(run.saved_steps[-1] + 1)]
    for preload in ("1", str(tmp_path / "link" / epoch_1.name)):
        output = run.start("--preload", preload, *one_more_step).succeed()
        assert "Resuming from" in output and epoch_1.name in output
        assert run_id(run.folder) == first, preload
        for path in run.folder.glob("tmodel_step_*"):
            path.unlink()  # epoch 1 is the latest again
    assert not list(run.folder.glob("earlier-*"))


@pytest.mark.slow
def test_run_that_goes_back_archives_what_followed_and_gets_a_new_id(finished: Run):
    # The next `latest` would be of the abandoned course, and trackers cannot rewrite what they
    # hold under an id.
    folder, first = finished.folder, run_id(finished.folder)
    (epoch_1,) = folder.glob("tmodel_epoch_0001_*")
    (epoch_2,) = folder.glob("tmodel_epoch_0002_*")
    other = finished.copy("other")
    other.start("--preload", str(epoch_1)).succeed()
    assert run_id(other.folder) != first and run_id(folder) == first

    job = finished.start("--preload", "1", fault=faults.kill("batch"))
    job.kill_rest()
    archive = folder / "earlier-001"
    assert f"Moved files that are not part of this run to {archive}" in job.text()
    assert (archive / epoch_2.name).exists() and not epoch_2.exists()
    assert epoch_1.exists() and not (archive / epoch_1.name).exists()
    assert metrics(folder) == metrics(archive)[: len(metrics(folder))] != metrics(archive)
    assert run_id(folder) == first  # killed before it could save its new id
    finished.start().succeed()
    second = run_id(folder)
    assert second not in (first, run_id(other.folder))
    finished.start("--num_epochs", "3").succeed()
    assert run_id(folder) == second


@pytest.mark.slow
def test_finished_run_that_is_preloaded_into_another_folder_is_saved_there(finished: Run):
    other = finished.copy("other")
    newest = finished.folder / checkpoints(finished.folder)[0]
    output = other.start("--preload", str(newest)).succeed()
    assert "This run has finished" in output and f"--model_folder {other.folder} " in output
    assert (other.folder / other.status["checkpoint"]).exists()
    assert_same_state(other.folder, finished.folder)
    again = other.start().succeed()
    assert "Resuming from" in again and len(checkpoints(other.folder)) == 1


@pytest.mark.slow
def test_validation_at_max_steps_is_kept_when_the_run_goes_on(run: Run):
    run.start("--max_steps", "2").succeed()
    before = metrics(run.folder)
    assert "validation/BLEU" in before[-1] and before[-1]["step"] == 2
    run.start("--max_steps", "4").succeed()
    after = metrics(run.folder)
    assert after[: len(before)] == before
    assert [r["step"] for r in after if "validation/BLEU" in r] == [2, 4]


def train_and_look(flags: list[str], found: str) -> None:
    """Trains, and records which checkpoints are in this process's memory when training begins."""
    fit = Trainer.fit

    def look_and_fit(self: Trainer) -> bool:
        gc.collect()
        mapped = {Path(line.split()[-1]).name for line in open("/proc/self/maps") if ".pt" in line}
        tensors = sum(t.numel() for t in gc.get_objects() if torch.is_tensor(t))
        Path(found).write_text(json.dumps([sorted(mapped), tensors]))
        return fit(self)

    Trainer.fit = look_and_fit
    processes.run_train(flags)


@pytest.mark.slow
def test_memory_of_a_resumed_run_holds_no_second_copy(run: Run, tmp_path: Path):
    counts = []
    for steps in ("4", "8"):  # a new run, and a resumed one
        found = tmp_path / f"found-{steps}"
        flags = [*run.flags, "--max_steps", steps]
        processes.start(train_and_look, tmp_path, 1, None, flags, str(found)).succeed()
        mapped, tensors = json.loads(found.read_text())
        assert mapped == []
        counts.append(tensors)
    copy = tmp_path / "copy.pt"
    copy.write_bytes((run.folder / checkpoints(run.folder)[0]).read_bytes())
    flags += ["--model_folder", str(tmp_path / "new"), "--init_from", str(copy)]
    processes.start(train_and_look, tmp_path, 1, None, flags, str(found)).succeed()
    mapped, tensors = json.loads(found.read_text())
    assert mapped == []
    assert [counts[1], tensors] == pytest.approx([counts[0]] * 2, rel=0.02)
