"""A run, opened: from a configuration to everything that trains.

`Run.open` shows the order in which a run comes together. Every rank calls it.
"""

import hashlib
import math
import os
import shlex
import time
import uuid
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from translate_ddp.console import counted
from translate_ddp.data.batches import BatchLoader
from translate_ddp.data.corpus import count_pairs
from translate_ddp.data.dataset import PreparedData, TrainingPairs, load_prepared
from translate_ddp.data.mix import Mix
from translate_ddp.data.model_facts import ModelFacts
from translate_ddp.data.plan import StepSampler
from translate_ddp.data.preparation import prepare
from translate_ddp.data.tokenizer import existing_size
from translate_ddp.errors import UserError
from translate_ddp.modeling.cost import full_tokens
from translate_ddp.modeling.kernels import choose_dtype
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.presets import choose_preset, fit_vocabulary, with_preset
from translate_ddp.run_record import SETTINGS_FILE, LaunchFacts
from translate_ddp.runtime.device import use_deterministic_kernels
from translate_ddp.runtime.environment import keep_freed_memory
from translate_ddp.runtime.files import explain_write_errors, write_atomically
from translate_ddp.runtime.launch import is_restart, launch_names, record_launch
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.settings import CheckpointConfig, Config, Precision
from translate_ddp.training.checkpoint import (
    CheckpointStore,
    CheckpointWriter,
    FoundCheckpoint,
    NoCheckpoint,
    find_on_nodes,
    load_into,
    select_path,
)
from translate_ddp.training.fine_tuning import adopt_settings, choose_extra_tokens, describe_weights
from translate_ddp.training.identity import (
    check_origin,
    check_same_run,
    check_same_settings,
    check_settings,
    describe_changes,
    describe_environment,
    run_identity,
    settings_to_resume,
)
from translate_ddp.training.logbook import ConsoleSink, JsonlSink, Logbook
from translate_ddp.training.optimizer import allocate_moments, build_optimizer
from translate_ddp.training.report_sink import ReportSink, attention_of
from translate_ddp.training.run_info import (
    NO_STEP_LEFT,
    describe_end,
    describe_launch,
    describe_rate_change,
    describe_start,
    early_end,
    tracker_config,
)
from translate_ddp.training.state import RunIdentity, RunInfo, RunState
from translate_ddp.training.step import OptimizerStep, reseed
from translate_ddp.training.trackers import chosen_trackers
from translate_ddp.training.trainer import Trainer

RECORD_SECONDS = 5.0  # for the page of the run, when it ends by an error
UPLOAD_SECONDS = 10.0  # for the uploads of trackers, then
STOPPED_UPLOAD_SECONDS = 5.0  # for them after a stop: the launcher ends the process soon


@dataclass
class Run:
    """A run that is ready to train."""

    trainer: Trainer
    started: float  # time of the start on the monotonic clock

    @classmethod
    def open(cls, config: Config, given: Set[str], world: World) -> "Run":
        """The run of these settings, from its start or from a checkpoint.

        `given` has the names of the settings that the user set: only the others may be chosen
        here. Raises UserError if the run cannot be opened; checkpoints are then unchanged.
        """
        started = time.monotonic()
        check_same_settings(config, world)
        folder, world = lock_run_folder(config.checkpoint.model_folder, world)
        start = find_start(config.checkpoint, world)
        if start.state is not None:
            config = settings_to_resume(start.state, config)
        config, notices = choose_settings(config, given, start, folder.path / "data", world)

        known = start.source_state and start.source_state.facts
        data = prepare_data(config, folder.path / "data", world, known)
        identity = run_identity(config.to_dict(), data, world.size, build_mix(config, data))
        if start.state is not None:
            check_same_run(start.state, identity, config.to_dict())
        store = CheckpointStore(config.checkpoint)
        notices += start.messages + archive_others(store, start.history, world)
        info = describe_run(config, identity, start, store, world)
        if known is not None and not start.resumes:
            notices += describe_weights(data, known)

        model = build_model(config, data.facts, world)
        step = build_step(config, model, world)
        if start.found is not None:
            moments = step.optimizer if start.resumes else None
            load_into(start.found, world, model, moments)

        logbook = open_logbook(config, info, start, folder, model, world)
        loader = build_loader(config, data, world, model.dtype, start.state)
        writer = CheckpointWriter(store, folder, world, logbook.message)
        trainer = Trainer(config.train, model, step, loader, data, info, writer, logbook, world)
        if start.state is not None:
            notices += resume(trainer, start.state, config)
        announce(config, trainer, folder, notices)
        return cls(trainer, started)

    def train(self) -> bool:
        """Train to the end; False after a request to stop."""
        with self.trainer.logbook:
            is_finished = self.trainer.fit()
            self._end(is_finished)
        return is_finished

    def _end(self, is_finished: bool) -> None:
        """Write STATUS.json, print how the run ended, and close the logbook."""
        trainer, world = self.trainer, self.trainer.world
        world.supervisor.begin_ending()
        # Other ranks may not have received the reason yet.
        reasons = filter(None, world.gather(world.supervisor.stop_reason or ""))
        stop_reason = None if is_finished else next(reasons)
        if world.is_node_leader:
            trainer.checkpoints.folder.write_status(
                "preempted" if stop_reason else "finished",
                stop_reason or early_end(trainer),
                epoch=trainer.position.current_epoch,
                step=trainer.checkpoints.saved_step,
                checkpoint=trainer.checkpoints.saved_name,
            )
        trainer.logbook.message(describe_end(trainer, stop_reason, self.started))
        trainer.logbook.close(STOPPED_UPLOAD_SECONDS if stop_reason else math.inf)


# --- the folder and the checkpoint ---


def lock_run_folder(path: str, world: World) -> tuple[RunFolder, World]:
    """The run's folder, locked against other runs until the program ends, and the world.

    The returned world records which nodes share the disk of the folder.
    """
    token = world.on_main("creating the lock's token", lambda: uuid.uuid4().hex)
    folder = RunFolder(path, token)
    phase, lock = "locking the model folder", lambda: folder.lock(world.rank)
    # Rank 0 first: nodes that share its disk then find the lock held by their own run.
    holders = [world.on_main(phase, lock), *world.on_ranks(world.node_leaders[1:], phase, lock)]
    world.supervisor.at_end(lambda end: folder.write_status(end.status, end.message), seconds=5.0)
    return folder, replace(world, disk_holders=tuple(holders))


@dataclass
class Start:
    """What a run starts from: a checkpoint to resume, one for its first weights, or nothing."""

    found: FoundCheckpoint | None
    resumes: bool
    messages: list[str]

    @property
    def source_state(self) -> RunState | None:
        return self.found.state if self.found is not None else None

    @property
    def state(self) -> RunState | None:
        """The state to resume."""
        return self.source_state if self.resumes else None

    @property
    def history(self) -> list[str]:
        """The checkpoints of the run to resume, up to this one; none of a new run."""
        if self.state is None or self.found is None:
            return []
        return [*self.state.run.history, self.found.path.name]  # it does not hold its own name


def find_start(settings: CheckpointConfig, world: World) -> Start:
    """The checkpoint that `preload` selects, else for a new run the checkpoint `init_from`.

    Raises UserError if there is no such checkpoint, or if it cannot be resumed.
    """
    store, preload = CheckpointStore(settings), settings.preload
    restarted = partial(is_restart, os.environ, store.folder)
    if any(world.on_ranks(world.node_leaders, "looking for a restart", restarted)):
        preload = "latest"  # `preload` was for the first start
    start = find_preload(store, preload, world)
    if start.found is None and preload != settings.preload:  # the restarted run had not saved yet
        start = find_preload(store, settings.preload, world)
    if start.found is None:
        return find_initial(settings, world) if settings.init_from else start
    if not start.found.state.can_resume:
        path = start.found.path
        raise UserError(
            f"{path} is an average or an exported file, which has no optimizer state to resume "
            f"with: start a new run from it with --init_from {shlex.quote(str(path))} and another "
            "--model_folder."
        )
    start.messages += check_origin(start.found.state, start.found.path, settings.init_from)
    return start


def find_preload(store: CheckpointStore, preload: str, world: World) -> Start:
    """The checkpoint that `preload` selects; of "latest" there may be none."""
    if not preload:
        return Start(None, False, ["Starting from scratch (--preload '')."])
    try:
        found = store.find(preload, world)
    except NoCheckpoint:
        if preload != "latest":
            raise
        return Start(None, False, [f"No checkpoint in {store.folder}: starting from scratch."])
    return Start(found, True, [*found.messages, f"Resuming from {found}."])


def find_initial(settings: CheckpointConfig, world: World) -> Start:
    """The checkpoint whose weights a new run takes."""
    path, folder = Path(settings.init_from), Path(settings.model_folder).resolve()
    if folder in (path.parent.resolve(), path.resolve().parent, path.resolve()):
        raise UserError(
            f"--init_from {path} is in the model folder, from which a new run moves the "
            "files of other runs: copy it elsewhere, or pass another --model_folder."
        )
    found, damaged = find_on_nodes(lambda: select_path(path) if path.exists() else [], world)
    if found is None:
        problem = damaged[0][1] if damaged else "there is no such file"
        raise UserError(f"--init_from {path} cannot be used: {problem}.")
    of = f"{found} ({found.state.position})"
    message = f"New run with the weights, model settings and tokenizer of {of}."
    return Start(found, False, [*found.messages, message])


# --- settings and data ---


def choose_settings(
    config: Config, given: Set[str], start: Start, folder: Path, world: World
) -> tuple[Config, list[str]]:
    """The settings after the choices of the start, and messages about them.

    Chosen are the preset "auto" by the size of the corpus, and with `init_from` model and tokenizer
    of the checkpoint. The vocabulary has the size of `tokenizer_file`, or of a resumed run, if that
    is larger. Raises UserError if a resumed run has another model or tokenizer.
    """
    notices, state, is_given = list[str](), start.state, "vocab_size" in given
    if state is None:
        read = partial(existing_size, config.tokenizer, config.corpus.languages_name, is_given)
        size = world.on_main("reading the tokenizer", read)
    else:
        size = 0 if is_given else state.run.config["tokenizer"]["vocab_size"]
    if config.run.preset == "auto":
        pairs = world.on_main("counting the pairs", lambda: count_pairs(config.corpus, folder))
        is_new = not config.checkpoint.init_from
        preset = choose_preset("auto", config.corpus.dataset, pairs, is_new)
        config = with_preset(config, preset, given | {"init_from"})  # keep the checkpoint
        notices = [f"Chose --preset {preset} for {counted(pairs, 'training pair')}."]
    count = len(config.corpus.languages)
    if count > 2 and not (is_given or size or config.checkpoint.init_from):
        config = fit_vocabulary(config)
        notices += [f"Chose --vocab_size {config.tokenizer.vocab_size:,} for {count} languages."]
    vocab_size = max(size, config.tokenizer.vocab_size)
    config = replace(config, tokenizer=replace(config.tokenizer, vocab_size=vocab_size))
    if config.checkpoint.init_from and start.source_state is not None:
        config = adopt_settings(config, start.source_state, given)
    elif state is not None:
        world.on_main("comparing settings", partial(check_settings, state, config))
    return config, notices


def prepare_data(
    config: Config, folder: Path, world: World, known: ModelFacts | None = None
) -> PreparedData:
    """The encoded corpus, prepared in `folder` once per disk and memory-mapped by every rank.

    It has the tokenizer of the `known` model, from whose weights the run starts: the settings would
    not choose the same again in another version of a library. Raises UserError if the nodes read
    different data.
    """
    choose = partial(choose_extra_tokens, config, known)
    extra = world.on_main("choosing the extra tokens", choose)
    tokenizer = known.tokenizer.text if known is not None else ""

    def prepare_here() -> list[str]:
        corpus, settings, seq_len = config.corpus, config.tokenizer, config.batches.seq_len
        path = prepare(corpus, settings, seq_len, folder, world.is_main, extra, tokenizer)
        data = load_prepared(path)
        digests = data.fingerprint, data.validation_fingerprint, data.variants_fingerprint
        return [path.name, "".join(digests)]

    prepared = world.on_ranks(world.disk_leaders, "preparing the corpus", prepare_here)
    if len({digest for _, digest in prepared}) > 1:
        raise UserError("The nodes read different data: give all of them the same files.")
    holder = world.disk_holders[world.node_index]
    data = load_prepared(folder / prepared[world.disk_leaders.index(holder)][0])
    return data if known is None else replace(data, facts=data.facts.continued(known))


def archive_others(store: CheckpointStore, history: Sequence[str], world: World) -> list[str]:
    """Move files that are not part of the run to an archive; a message for each one.

    From now on, a start by the same launcher is a restart of the run in the folder. Raises
    UserError if the disk is full.
    """
    archive = partial(store.archive, history)
    moved = world.on_ranks(world.disk_leaders, "archiving files", archive)
    names = {name for found in world.gather(launch_names(os.environ)) for name in found}

    def record() -> None:
        with explain_write_errors(store.folder):
            record_launch(store.folder, names)

    world.on_ranks(world.disk_leaders, "recording the launch", record)
    return [f"Moved files that are not part of this run to {to}." for to in moved if to]


def describe_run(
    config: Config, identity: RunIdentity, start: Start, store: CheckpointStore, world: World
) -> RunInfo:
    """The run of the checkpoint, or a new one; the same on every rank.

    A run that resumes before its last checkpoint, or in another folder, gets a new id: trackers
    drop points before the last step of an id.
    """
    archives = world.on_main("counting archives", store.count_archives)
    run_id = choose_run_id(start, archives, store.folder.resolve(), world)
    return RunInfo(run_id, config.to_dict(), identity, start.history, archives)


def choose_run_id(start: Start, archives: int, folder: Path, world: World) -> str:
    """A new id, or the one of the checkpoint if the run continues at its end in its folder."""
    state, found = start.state, start.found
    if state is None or found is None:
        return world.on_main("creating the run id", lambda: uuid.uuid4().hex[:8])
    # An archive made after the state was saved contains later checkpoints.
    if archives <= state.run.archives and found.path.parent.resolve() == folder:
        return state.run.run_id
    # Not random: the same again if the run is killed before it saves.
    return hashlib.sha256(f"{state.run.run_id} {archives} {folder}".encode()).hexdigest()[:8]


# --- what trains ---


def build_model(config: Config, facts: ModelFacts, world: World) -> Transformer:
    """A new model on this rank's device, the same on every rank."""
    if world.device.type == "cpu":
        keep_freed_memory()
    reseed(config.train.seed)
    if config.train.deterministic:
        use_deterministic_kernels()
    dtype = choose_common_dtype(config.train.precision, world)
    sizes = facts.num_tokens, dtype, facts.num_outputs, facts.extra.num_spans
    return Transformer(config.model, *sizes).to(world.device)


def choose_common_dtype(precision: Precision, world: World) -> torch.dtype:
    """The dtype of the layers on every rank: fp32 if only some of them would choose bf16."""
    dtypes = set(world.gather(choose_dtype(precision, world.device)))
    return dtypes.pop() if len(dtypes) == 1 else torch.float32


def build_step(config: Config, model: Transformer, world: World) -> OptimizerStep:
    """The step, with loss, DDP and optimizer, whose state is allocated."""
    objective = world.replicate(Objective(model, config.loss), config.distributed)
    optimizer = build_optimizer(model, config.optimizer, model.dtype, world)
    allocate_moments(optimizer)
    seed, copies = config.train.seed, config.loss.forward_copies
    return OptimizerStep(objective, optimizer, config.optimizer, world, seed, copies, model.dtype)


def build_mix(config: Config, data: PreparedData) -> Mix:
    """The pairs of each dataset in an epoch. Raises UserError if it would have none."""
    return Mix.of(config.mix.dataset_weight, data.blocks, config.corpus.mix_temperature)


def build_loader(
    config: Config,
    data: PreparedData,
    world: World,
    dtype: torch.dtype,
    state: RunState | None = None,
) -> BatchLoader:
    """The loader of this rank's shard of every step, for layers that compute in `dtype`.

    Micro-batches have the size of the resumed `state`, unless it is set: dropout depends on it.
    """
    device_type, saved = world.device.type, state.environment if state is not None else {}
    max_tokens = config.micro_batch_tokens(device_type)
    if not config.batches.max_tokens and saved.get("device") == device_type:
        max_tokens = saved.get("max_tokens", max_tokens)
    can_swap = data.facts.can_swap and not any(config.corpus.tags)
    swap_epochs = config.mix.swap_epochs if can_swap else 0
    sampler = StepSampler(
        TrainingPairs(data.train, config.train.seed, data.variants, swap_epochs),
        config.batches,
        rank=world.rank,
        world_size=world.size,
        mix=build_mix(config, data),
        num_epochs=config.train.num_epochs,
    )
    full = full_tokens(config, len(data.facts.tokenizer), dtype, world.device)
    return BatchLoader(sampler, max_tokens, world.device, full)


# --- the logbook, and the position of a resumed run ---


def open_logbook(
    config: Config, info: RunInfo, start: Start, folder: RunFolder, model: Transformer, world: World
) -> Logbook:
    """The logbook: with all sinks but the report on rank 0, without any on other ranks."""
    if not world.is_main:
        return Logbook(shown=False)
    logbook, state = Logbook(), start.state
    message = logbook.message
    metrics = JsonlSink(folder.path, state.log_offset if state else None, message)
    logbook.sinks += [ConsoleSink(), metrics]
    logbook.offset, logbook.last_time = metrics.offset, metrics.last_time
    published = tracker_config(info.config, model, world)
    step = state.position.global_step if state else 0
    for kind in chosen_trackers(config.logbook):
        logbook.sinks += [kind(config.logbook, folder.path, info.run_id, step, published, message)]
    # Not in another thread, as the main thread may use them.
    close = lambda _: logbook.close(UPLOAD_SECONDS, failed=True)  # noqa: E731
    world.supervisor.at_end(close, 1.5 * UPLOAD_SECONDS, in_main_thread=True)
    return logbook


def resume(trainer: Trainer, state: RunState, config: Config) -> list[str]:
    """Set the position of a resumed run; messages about what has changed since its checkpoint."""
    world, max_tokens = trainer.world, trainer.loader.max_tokens
    environment = describe_environment(trainer.model, max_tokens, world)
    messages = describe_changes(state, config.to_dict(), environment)
    if max_tokens != (usual := config.micro_batch_tokens(world.device.type)):
        messages.append(
            f"Micro-batches have up to {max_tokens:,} tokens a side, as in the checkpoint, instead "
            f"of {usual:,}: pass --max_tokens to change it."
        )
    trainer.resume(state)
    return [*messages, NO_STEP_LEFT] if trainer.is_finished() else messages


def announce(config: Config, trainer: Trainer, folder: RunFolder, notices: Sequence[str]) -> None:
    """Print what the run is, and begin its record: STATUS.json now describes this start."""
    world, logbook, settings = trainer.world, trainer.logbook, config.to_dict()
    if world.is_main:
        with suppress(OSError):  # the next save reports a full disk
            write_atomically(folder.path / SETTINGS_FILE, config.to_yaml())
    launch = describe_launch(settings, trainer)
    for line in describe_start(settings, trainer, launch) if launch else ():
        logbook.message(line)
    folder.has_begun = True
    if world.is_node_leader:  # nodes may have separate disks
        folder.write_status("running")
    if launch is not None and config.logbook.report:
        open_report(launch, trainer)
    for line in [*notices, *describe_rate_change(trainer)]:
        logbook.message(line)


def open_report(launch: LaunchFacts, trainer: Trainer) -> None:
    """Record the run from now on, and write its report."""
    logbook, supervisor, data = trainer.logbook, trainer.world.supervisor, trainer.data
    sink = ReportSink(
        trainer.checkpoints.folder.path,
        launch,
        lambda: trainer.position.global_step,
        partial(attention_of, trainer.model, data.facts.tokenizer, data.validation.source),
        logbook.message,
    )
    metrics = [type(each) for each in logbook.sinks].index(JsonlSink)
    logbook.sinks.insert(metrics + 1, sink)  # before trackers, which may be slow to close
    close = lambda _: sink.close(RECORD_SECONDS, failed=True)  # noqa: E731
    supervisor.at_end(close, 1.5 * RECORD_SECONDS)
