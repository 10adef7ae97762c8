"""Continues the run of a checkpoint: checks that it is the same run, and archives other files."""

import hashlib
import shlex
import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from translate_ddp.data.dataset import PreparedData
from translate_ddp.data.mix import Mix
from translate_ddp.data.plan import ORDER
from translate_ddp.errors import UserError
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_record import METRICS_FILE
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.device import processor_name
from translate_ddp.runtime.world import World
from translate_ddp.settings import Config, CorpusConfig, OptimizerConfig
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.find_checkpoint import Start, record_begin
from translate_ddp.training.metrics import Metric
from translate_ddp.training.sinks.jsonl_sink import read_records
from translate_ddp.training.state import Position, Run, RunIdentity, RunState

FREE_SETTINGS = ("dropout", "max_tokens")  # max_tokens only divides a step into passes

# What the data on disk depends on: settings by part, None for all of a part.
DATA_SETTINGS: dict[str, set[str] | None] = {
    "corpus": None,
    "tokenizer": None,
    "augment": {"perturb"},
    "batches": {"seq_len"},
}

# Where a run is and how it was started.
OF_START = ("model_folder", "preload", "init_from", "preset", "config")

NEW_RUN = "pass another --model_folder, or --preload '' to start from scratch"

MIX = "pairs of an epoch"  # a name in `RunIdentity.within_epoch`

Settings = dict[str, dict[str, Any]]  # part -> setting -> value


@dataclass
class Resumed:
    """A run and the state it resumes from, None for a new run."""

    run: Run
    state: RunState | None
    messages: list[str] = field(default_factory=list)
    is_fork: bool = False  # from an earlier checkpoint or in another folder: it has a new run id


def resume_run(
    start: Start,
    settings: CheckpointConfig,
    config: Settings,
    identity: RunIdentity,
    world: World,
    data: PreparedData,
) -> Resumed:
    """The run of the checkpoint, or a new one; the same on every rank.

    Weights of `--init_from` may know longer sources and more abbreviations than the corpus.

    Files in the folder that are not part of it are moved to an archive. A run that resumes before
    its last checkpoint, or in another folder, gets a new id: trackers drop points before the last
    step of an id. Raises UserError if the checkpoint belongs to another run.
    """
    store, state, path = CheckpointStore(settings), start.state, start.path
    messages = list(start.messages)
    if state is not None:
        check_same_run(state, identity, config)
        state.run.history.append(path.name)  # a file does not contain its own name
    history = state.run.history if state is not None else None
    moved = world.on_each_disk("archiving files", lambda: store.archive(history))
    messages += [f"Moved files that are not part of this run to {to}." for to in moved if to]
    record_begin(store.folder, world)

    longest, learnt = data.longest_source, data.abbreviations
    if basis := state or start.initial:
        longest, known = max(longest, basis.run.longest_source), basis.run.abbreviations
        learnt = known | {of: sorted({*all_, *known.get(of, ())}) for of, all_ in learnt.items()}
    archives = world.on_main("counting archives", store.count_archives)
    if state is None:
        run_id = world.on_main("creating the run id", lambda: uuid.uuid4().hex[:8])
        run = Run(run_id, config, identity, [], archives, longest, learnt)
        return Resumed(run, None, messages)
    run_id, folder = state.run.run_id, store.folder.resolve()
    # An archive made after the state was saved contains later checkpoints.
    is_fork = archives > state.run.archives or path.parent.resolve() != folder
    if is_fork:  # not random: the same again if the run is killed before it saves
        run_id = hashlib.sha256(f"{run_id} {archives} {folder}".encode()).hexdigest()[:8]
    run = Run(run_id, config, identity, state.run.history, archives, longest, learnt)
    return Resumed(run, state, messages, is_fork)


def run_identity(config: Settings, data: PreparedData, world_size: int, mix: Mix) -> RunIdentity:
    """The settings and data that must be the same when a run resumes.

    They are the optimizer, and all settings of the model, the batches and the augmentation, on
    which the lengths of an epoch's pairs depend, except `FREE_SETTINGS`.
    """
    model, plan = _without_free(config["model"]), _plan_settings(config)
    if plan["batch_size"]:
        plan["world_size"] = world_size  # batch_size counts per rank
    return RunIdentity(
        always=model
        | {
            "optimizer": config["optimizer"]["optimizer"],
            "languages": CorpusConfig.of(config["corpus"]).language_pair,
            "tokenizer": data.tokenizer.fingerprint[:12],
            "training data": data.fingerprint[:12],
            "validation data": data.validation_fingerprint[:12],
        },
        within_epoch=plan
        | {"seed": config["train"]["seed"], "data order": ORDER, MIX: mix.identity()},
    )


def check_languages(state: RunState, corpus: CorpusConfig) -> None:
    """Raise UserError if `state` belongs to a run with other languages.

    `check_same_run` finds this, too, but needs the prepared data, which take long to prepare.
    """
    saved = {"languages": state.run.identity.always["languages"]}
    if differences := compare(saved, {"languages": corpus.language_pair}):
        raise _another_run(state, differences, NEW_RUN)


def check_same_run(state: RunState, identity: RunIdentity, config: Settings) -> None:
    """Raise UserError if `state` belongs to a run with another identity.

    The message has the settings of the data that are not those in `config`.
    """
    saved = state.run.identity
    # The default of a new setting is what the code did before.
    defaults = _without_free(Config().to_dict()["model"])
    always = {"optimizer": OptimizerConfig().optimizer} | defaults | saved.always
    differences = compare(always, identity.always)
    advice = NEW_RUN
    if state.position.step_in_epoch:
        # A version that did not save a setting in the identity did so in the configuration.
        plan = _plan_settings(state.run.config) | saved.within_epoch
        plans = [_in_epoch(each, state.position.epoch) for each in (plan, identity.within_epoch)]
        if other_plan := compare(*plans):
            differences += other_plan
            advice += " (seed, batches and weights may change between epochs: --preload EPOCH)"
    if differences:
        differences = _data_settings(state.run.config, config) + differences
        raise _another_run(state, differences, advice)


def _another_run(state: RunState, differences: list[str], advice: str) -> UserError:
    if file := state.run.config["checkpoint"]["init_from"]:
        advice = f"pass --init_from {shlex.quote(file)}, {advice}"
    table = "".join(f"\n  {line}" for line in differences)
    return UserError(
        f"The checkpoint belongs to another run:{table}\nRestore these settings, {advice}."
    )


def _data_settings(saved: Settings, now: Settings) -> list[str]:
    """A line for each changed setting of the data, which explains changed digests of the data."""
    return [
        f"--{name}: {old!r} in the checkpoint, {new!r} now"
        for part, chosen in DATA_SETTINGS.items()
        for name, new in now.get(part, {}).items()
        if chosen is None or name in chosen
        if (old := saved[part][name]) != new
    ]


def _in_epoch(identity: dict[str, Any], epoch: int) -> dict[str, Any]:
    """What must be the same within this epoch: of all stages, the weights of one."""
    weights = ""  # before there were weights, each row was drawn once
    for first, described in identity.get(MIX, []):
        weights = described if first <= epoch else weights
    return {**identity, MIX: weights or "each pair once"}


def _plan_settings(config: Settings) -> dict[str, Any]:
    """The settings that the plan of an epoch depends on, but for the seed."""
    return _without_free(config["batches"]) | config["augment"]


def _without_free(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in FREE_SETTINGS}


def compare(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each name whose value differs; a missing value is "unset"."""
    names = sorted(before.keys() | now.keys())
    pairs = {name: (before.get(name, "unset"), now.get(name, "unset")) for name in names}
    return [
        f"{name}: {old} in the checkpoint, {new} now"
        for name, (old, new) in pairs.items()
        if old != new
    ]


def describe_changes(state: RunState, config: Settings, environment: dict[str, Any]) -> list[str]:
    """A message for each changed setting, and one if the environment changed."""
    messages = []
    for part in config:
        before, now = (
            {name: value for name, value in side[part].items() if name not in OF_START}
            for side in (state.run.config, config)
        )
        messages += [f"Changed: {line}." for line in compare(before, now)]
    known = {name: environment[name] for name in state.environment if name in environment}
    if differences := compare(state.environment, known):
        # NumPy draws the order, and may draw another one in another version.
        same_numpy = state.environment.get("numpy") == environment["numpy"]
        order = "The order of the data is the same, but the" if same_numpy else "The"
        messages.append(f"{order} results are not equal bit for bit: {'; '.join(differences)}.")
    return messages


def choose_best(state: RunState, metric: Metric, store: CheckpointStore, world: World) -> list[str]:
    """If `best_metric` has changed, choose the best epoch that has a file; a message about it."""
    position, name = state.position, metric.name
    if position.best_metric in ("", name):
        return []

    def work() -> Position:
        best, epochs = position, {c.step: c.epoch for c in store.list() if c.epoch}
        for step, scores in read_records(store.folder, position.global_step):
            if step in epochs and f"validation/{name}" in scores:
                best = best.with_score(epochs[step], scores[f"validation/{name}"], metric)
        return best

    best = state.position = world.on_main("choosing the best epoch", work)
    return [
        f"Best epoch by {name}, of those with a file and a score in {METRICS_FILE}: "
        f"{best.best_epoch if best.best_metric == name else 'none yet'}. The file of epoch "
        f"{position.best_epoch}, the best by {position.best_metric}, is kept."
    ]


def describe_environment(model: Transformer, max_tokens: int, world: World) -> dict[str, Any]:
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
