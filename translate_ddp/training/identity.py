"""What must stay the same: within a run when it resumes, and between its ranks.

All of it follows from the metadata of each setting in `settings`.
"""

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translate_ddp.console import rank_names
from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.mix import Mix
from translate_ddp.data.plan import ORDER
from translate_ddp.data.tokenizer import load_tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.device import processor_name
from translate_ddp.runtime.world import World
from translate_ddp.settings import Config, CorpusConfig, Resume, Settings, all_settings, by_name
from translate_ddp.training.checkpoint_name import is_word
from translate_ddp.training.state import RunIdentity, RunState

NEW_RUN = "pass another --model_folder, or --preload '' to start from scratch"
Values = dict[str, Any]


# --- when a run resumes ---


def run_identity(config: Settings, data: PreparedData, world_size: int, mix: Mix) -> RunIdentity:
    """The settings and digests of the data that must be the same when a run resumes."""
    plan = _settings_that_change(Resume.BETWEEN_EPOCHS, config)
    if plan["batch_size"]:
        plan["world_size"] = world_size  # batch_size counts per rank
    return RunIdentity(
        always=_settings_that_change(Resume.NEVER, config)
        | {
            "languages": describe_directions(CorpusConfig.of(config["corpus"])),
            "tokenizer": data.facts.tokenizer.fingerprint[:12],
            "training data": data.fingerprint[:12],
            "validation data": data.validation_fingerprint[:12],
        },
        within_epoch=plan
        | {"data order": ORDER, "pairs of an epoch": mix.describe()}
        | ({"variants": data.variants_fingerprint[:12]} if data.variants else {}),
    )


def describe_directions(corpus: CorpusConfig) -> str:
    """The directions that are requested, reverse ones included."""
    return " ".join(map(str, corpus.with_reverse(corpus.requested)))


def settings_to_resume(state: RunState, config: Config) -> Config:
    """The settings, with the `init_from` with which the run of `state` has started.

    Raises UserError if the run has other languages. `check_same_run` finds this, too, but needs the
    prepared data, which take long to prepare.
    """
    saved = {"languages": state.run.identity.always["languages"]}
    if differences := compare(saved, {"languages": describe_directions(config.corpus)}):
        raise _another_run(state, differences, NEW_RUN)
    origin = config.checkpoint.init_from or state.run.config["checkpoint"]["init_from"]
    return replace(config, checkpoint=replace(config.checkpoint, init_from=origin))


def check_settings(state: RunState, config: Config) -> None:
    """Raise UserError if the run of `state` has another model or tokenizer.

    It reads `--tokenizer_file`, if there is one: a run needs none to resume.
    """
    before, now = (
        _settings_that_change(Resume.NEVER, settings)
        for settings in (state.run.config, config.to_dict())
    )
    file = config.tokenizer.file(config.corpus.languages_name)
    if file is not None and file.exists():
        before["--tokenizer_file"] = state.facts.tokenizer.fingerprint[:12]
        now["--tokenizer_file"] = load_tokenizer(file).fingerprint[:12]
    if differences := compare(before, now):
        raise _another_run(state, differences, NEW_RUN)


def check_same_run(state: RunState, identity: RunIdentity, config: Settings) -> None:
    """Raise UserError if `state` belongs to a run with another identity.

    The message has the settings of the data that are not those in `config`.
    """
    saved, before = state.run.identity, state.run.config
    # A setting that is newer than the checkpoint has its default in the configuration.
    always = _settings_that_change(Resume.NEVER, before) | saved.always
    differences, advice = compare(always, identity.always), NEW_RUN
    if state.position.step_in_epoch:
        plan = _settings_that_change(Resume.BETWEEN_EPOCHS, before) | saved.within_epoch
        if other_plan := compare(plan, identity.within_epoch):
            differences += other_plan
            advice += " (seed, batches and weights may change between epochs: --preload EPOCH)"
    if differences:  # a changed setting explains changed digests of the data
        old, new = by_name(before), by_name(config)
        named = [
            f"--{name}: {old[name]!r} in the checkpoint, {value!r} now"
            for name, value in new.items()
            if all_settings()[name].data and old[name] != value
        ]
        raise _another_run(state, named + differences, advice)


def _settings_that_change(when: Resume, config: Settings) -> Values:
    known = all_settings()
    return {
        name: value
        for name, value in by_name(config).items()
        if name in known and known[name].resume is when
    }


def _another_run(state: RunState, differences: list[str], advice: str) -> UserError:
    if file := state.run.config["checkpoint"]["init_from"]:
        advice = f"pass --init_from {shlex.quote(file)}, {advice}"
    table = "".join(f"\n  {line}" for line in differences)
    return UserError(
        f"The checkpoint belongs to another run:{table}\nRestore these settings, {advice}."
    )


def compare(before: Values, now: Values) -> list[str]:
    """A line for each name whose value differs; a missing value is "unset"."""
    names = sorted(before.keys() | now.keys())
    pairs = {name: (before.get(name, "unset"), now.get(name, "unset")) for name in names}
    return [
        f"{name}: {old} in the checkpoint, {new} now"
        for name, (old, new) in pairs.items()
        if old != new
    ]


def describe_changes(state: RunState, config: Settings, environment: Values) -> list[str]:
    """A message for each changed setting, and one if the environment changed."""
    before, now = (
        {
            name: value
            for name, value in by_name(each).items()
            if name not in all_settings() or all_settings()[name].resume is not Resume.PER_START
        }
        for each in (state.run.config, config)
    )
    messages = [f"Changed: {line}." for line in compare(before, now)]
    known = {name: environment[name] for name in state.environment if name in environment}
    if differences := compare(state.environment, known):
        # NumPy draws the order, and may draw another one in another version.
        same_numpy = state.environment.get("numpy") == environment["numpy"]
        order = "The order of the data is the same, but the" if same_numpy else "The"
        messages.append(f"{order} results are not equal bit for bit: {'; '.join(differences)}.")
    is_deterministic = all(by_name(each)["deterministic"] for each in (state.run.config, config))
    if (
        environment.get("device") == state.environment.get("device") == "cuda"
        and not is_deterministic
    ):
        messages.append(
            "On a GPU the results are not equal bit for bit, as attention sums in no fixed order, "
            "unless a run has --deterministic from its start."
        )
    return messages


def describe_environment(model: Transformer, max_tokens: int, world: World) -> Values:
    """What must be the same, beside the settings, for results that are equal bit for bit."""
    return {
        "world_size": world.size,
        "threads": torch.get_num_threads(),
        "max_tokens": max_tokens,
        "device": world.device.type,
        "processor": processor_name(world.device),  # kinds of processors round differently
        "precision": str(model.dtype).removeprefix("torch."),
        "torch": str(torch.__version__),  # a subclass of str, which a safe load rejects
        "numpy": np.__version__,
    }


def check_origin(state: RunState, path: Path, init_from: str) -> list[str]:
    """A message that a run which resumes from `path` ignores `init_from`; none if that is ''.

    Raises UserError if the run started from another checkpoint, or from none.
    """
    if not init_from:
        return []
    origin = state.run.config["checkpoint"]["init_from"]
    if Path(origin).name != Path(init_from).name:
        start = f"with --init_from {shlex.quote(origin)}" if origin else "from scratch"
        raise UserError(
            f"{path} is of a run that started {start}, not with --init_from {init_from}: pass "
            "another --model_folder for a new run; to resume, "
            f"{f'pass --init_from {shlex.quote(origin)}' if origin else 'omit --init_from'}."
        )
    return [f"--init_from {init_from} is for new runs: it was not read."]


# --- between ranks ---


def check_same_settings(config: Config, world: World) -> None:
    """Raise UserError if settings, other than paths, or versions differ between ranks.

    The versions are PyTorch's and NumPy's: NumPy draws the plan. Different ones, or
    different settings, would train several models, or one by several plans. Nodes may keep their
    files in different places; that they hold the same data is checked later.
    """
    values = by_name(config.to_dict())
    settings = {name: value for name, value in values.items() if not all_settings()[name].path}
    settings |= {name: without_path(values[name]) for name in ("preload", "init_from")}
    versions = {"version of PyTorch": str(torch.__version__), "version of NumPy": np.__version__}
    found = world.gather(settings | versions)
    if differences := describe_differences(found):
        table = "".join(f"\n  {line}" for line in differences)
        raise UserError(
            f"The ranks were started with different settings:{table}\n"
            "Start all of them with the same flags, settings file, PyTorch and NumPy."
        )


def without_path(selection: str) -> str:
    """What a setting selects: a word, an epoch or any file."""
    return (selection or "''") if is_word(selection) else "a file"


def describe_differences(found: list[Values]) -> list[str]:
    """A line for each name whose values differ, with the ranks of each value."""
    lines = []
    for name in found[0]:
        ranks: dict[Any, list[int]] = {}
        for rank, values in enumerate(found):
            ranks.setdefault(values.get(name, "unset"), []).append(rank)
        if len(ranks) > 1:
            parts = (f"{value} on {rank_names(where)}" for value, where in ranks.items())
            lines.append(f"{name}: {'; '.join(parts)}")
    return lines


# --- what is published of a run ---


def without_paths(config: Settings) -> Settings:
    """The settings without paths of this machine, which may hold the names of users.

    Corpora have public names, other paths their defaults.
    """
    defaults = {name: each.default for name, each in all_settings().items() if each.path}
    cleaned = {
        part: {name: defaults.get(name, value) for name, value in settings.items()}
        for part, settings in config.items()
    }
    cleaned["corpus"]["dataset"] = list(map(public_name, config["corpus"]["dataset"]))
    cleaned["corpus"]["validation"] = public_name(config["corpus"]["validation"])
    return cleaned


def public_name(corpus: str) -> str:
    """The name of a corpus, of a path its last part; numbers and shares of pairs are kept.

    ORGANISATION/NAME of the Hugging Face hub is kept, unless there is a folder ORGANISATION here.
    """
    path = Path(corpus).expanduser()
    is_hub_name = corpus.count(os.sep) == 1 and not path.is_absolute() and corpus[0] != "."
    return corpus if is_hub_name and not path.parent.exists() else path.name or corpus
