"""Builds the parts of a run from its configuration, on every rank."""

import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from translate_ddp.data.augmentation import Augmentation, Perturbation
from translate_ddp.data.batches import BatchLoader
from translate_ddp.data.dataset import PreparedData, load_prepared
from translate_ddp.data.mix import Mix
from translate_ddp.data.plan import Lengths
from translate_ddp.data.preparation import prepare
from translate_ddp.data.step_sampler import StepSampler
from translate_ddp.data.subword_dropout import (
    SubwordDropout,
    dropout_fingerprint,
    dropout_folder,
    prepare_dropout,
)
from translate_ddp.data.tagging import prefixes_of
from translate_ddp.errors import UserError, first_line
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.precision import choose_dtype
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.run_record import LaunchFacts
from translate_ddp.runtime.environment import keep_freed_memory
from translate_ddp.runtime.long_calls import library_call
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.runtime.world import World
from translate_ddp.settings import Config, Precision
from translate_ddp.training.attended import attention_of
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.find_checkpoint import delete_copy
from translate_ddp.training.fine_tuning import store_tokenizer
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.optimizer import build_optimizer
from translate_ddp.training.resume import Resumed
from translate_ddp.training.run_facts import tracker_config
from translate_ddp.training.saving import RunSaver
from translate_ddp.training.sinks.console_sink import ConsoleSink
from translate_ddp.training.sinks.jsonl_sink import JsonlSink, read_records
from translate_ddp.training.sinks.report_sink import ReportSink
from translate_ddp.training.sinks.trackio_sink import TrackioSink
from translate_ddp.training.sinks.wandb_sink import WandbSink
from translate_ddp.training.state import Run, RunState
from translate_ddp.training.trainer import Trainer
from translate_ddp.training.updater import Updater, reseed

# Timeouts of what is written when a run ends early; a launcher may kill what takes longer.
STATUS_SECONDS = 5.0  # for a disk, which may be on the other side of a cut link
RECORD_SECONDS = 5.0  # for the page of the run
CLOSE_SECONDS = 10.0  # for the uploads of trackers


def lock_run_folder(path: str, world: World) -> tuple[RunFolder, World]:
    """The run's folder, locked against other runs until this process ends, and the world.

    The returned world records which nodes share the disk of the folder.
    """
    token = world.on_main("creating the lock's token", lambda: uuid.uuid4().hex)
    folder = RunFolder(path, token)
    # Rank 0 first: nodes that share its disk then find the lock held by their own run.
    holders = world.on_main_then_each_node(
        "locking the model folder", lambda: folder.lock(world.rank)
    )
    world.supervisor.at_end(
        lambda end: folder.write_status(end.status, end.message), STATUS_SECONDS
    )
    return folder, replace(world, disk_holders=tuple(holders))


def begin_run(folder: RunFolder, world: World) -> None:
    """From now on STATUS.json describes this start, and no rank needs the loaded checkpoint."""
    delete_copy(folder.path, world)
    folder.has_begun = True
    if world.is_node_leader:  # nodes may have separate disks
        folder.write_status("running")


def prepare_data(config: Config, folder: Path, world: World, tokenizer: str = "") -> PreparedData:
    """The encoded corpus, prepared in `folder` once per disk and memory-mapped by every rank.

    `tokenizer` is the text of one to encode it with, instead of that of the settings. Raises
    UserError if the nodes read different data.
    """

    def fingerprint(prepared: Path) -> str:
        data = load_prepared(prepared)
        parts = [data.fingerprint, data.validation_fingerprint]
        if probability := config.augment.bpe_dropout:
            parts.append(dropout_fingerprint(dropout_folder(prepared, probability)))
        return "".join(parts)

    def prepare_here() -> list[str]:
        corpus, settings = config.corpus, config.tokenizer
        if tokenizer:
            settings = store_tokenizer(tokenizer, folder, corpus.language_pair)
        augment, seq_len = config.augment, config.batches.seq_len
        path = prepare(corpus, settings, seq_len, folder, augment.perturb, shown=world.is_main)
        if augment.bpe_dropout:
            prepare_dropout(path, augment.bpe_dropout)
        return [path.name, fingerprint(path)]

    prepared = world.on_each_disk("preparing the corpus", prepare_here)

    if len({digest for _, digest in prepared}) > 1:
        raise UserError("The nodes read different data: give all of them the same files.")
    holder = world.disk_holders[world.node_index]
    return load_prepared(folder / prepared[world.disk_leaders.index(holder)][0])


def build_model(
    config: Config, data: PreparedData, world: World, initial: RunState | None = None
) -> Transformer:
    """A model on this rank's device, the same on every rank: a new one, or with `initial` weights.

    Raises UserError if the weights do not fit the settings.
    """
    if world.device.type == "cpu":
        keep_freed_memory()
    reseed(config.train.seed)
    dtype = choose_common_dtype(config.train.precision, world)
    model = Transformer(config.model, len(data.tokenizer), dtype=dtype).to(world.device)
    if initial is not None:
        try:
            with library_call():
                model.load_state_dict(initial.model)
            initial.free_tensors()
        except (RuntimeError, TypeError) as error:
            raise UserError(
                f"The weights of --init_from do not fit their settings: {first_line(error)}"
            ) from error
    if config.train.compile:
        model.compile(dynamic=True)
    return model


def choose_common_dtype(precision: Precision, world: World) -> torch.dtype:
    """The dtype of the layers on every rank: fp32 if only some of them would choose bf16."""
    dtypes = set(world.gather(choose_dtype(precision, world.device)))
    return dtypes.pop() if len(dtypes) == 1 else torch.float32


def open_logbook(
    config: Config, resumed: Resumed, folder: RunFolder, model: Transformer, world: World
) -> Logbook:
    """The logbook: with all sinks on rank 0, without any on other ranks."""
    if not world.is_main:
        return Logbook(shown=False)
    logbook = Logbook()
    world.supervisor.at_end(
        lambda end: logbook.close(CLOSE_SECONDS, failed=True),
        1.5 * CLOSE_SECONDS,
        in_main_thread=True,
    )
    state = resumed.state
    metrics = JsonlSink(folder.path, state.log_offset if state else None, logbook.message)
    logbook.sinks += [ConsoleSink(), metrics]
    logbook.offset, logbook.last_time = metrics.offset, metrics.last_time
    settings = tracker_config(resumed.run.config, model, world)
    last_step = state.position.global_step if state and resumed.is_fork else 0
    history = read_records(folder.path, last_step) if last_step else []
    run_id, message = resumed.run.run_id, logbook.message
    logbook.sinks.append(WandbSink(config.logbook, folder.path, run_id, settings, message, history))
    if project := config.logbook.trackio_project:
        logbook.sinks.append(TrackioSink(project, run_id, settings, message, history))
    return logbook


def open_report(config: Config, launch: LaunchFacts | None, trainer: Trainer) -> None:
    """Record the run from now on, and write its report; off rank 0, without a launch, do not."""
    if launch is None or not config.logbook.report:
        return
    logbook = trainer.logbook
    sink = ReportSink(
        trainer.saver.folder.path,
        launch,
        lambda: trainer.position.global_step,
        partial(attention_of, trainer.model, trainer.data),
        logbook.message,
    )
    metrics = [type(each) for each in logbook.sinks].index(JsonlSink)
    logbook.sinks.insert(metrics + 1, sink)  # before trackers, which may be slow to close
    trainer.world.supervisor.at_end(
        lambda end: sink.close(RECORD_SECONDS, failed=True), 1.5 * RECORD_SECONDS
    )


def build_updater(config: Config, model: Transformer, world: World) -> Updater:
    """The updater, with loss, DDP and optimizer."""
    objective = world.replicate(Objective(model, config.loss), config.distributed)
    optimizer = build_optimizer(model, config.optimizer, model.dtype, world)
    seed, copies = config.train.seed, config.loss.copies
    return Updater(objective, optimizer, config.optimizer, world, seed, copies)


def build_mix(config: Config, data: PreparedData) -> Mix:
    """The pairs of each dataset in each epoch. Raises UserError if an epoch would have none."""
    return Mix.of(config.mix, data.sizes, config.train.num_epochs)


def build_loader(config: Config, data: PreparedData, world: World) -> BatchLoader:
    """The loader of this rank's shard of every step."""
    augmentation = build_augmentation(config, data)
    sampler = StepSampler(
        Lengths.of(data.train),
        config.batches,
        seed=config.train.seed,
        rank=world.rank,
        world_size=world.size,
        mix=build_mix(config, data),
        lengths_in=augmentation and partial(augmentation.lengths, data.train),
    )
    max_tokens = config.pass_tokens(world.device.type)
    return BatchLoader(data.train, sampler, max_tokens, world.device, augmentation)


def build_augmentation(config: Config, data: PreparedData) -> Augmentation | None:
    """The changes of the training pairs, or None if there are none."""
    settings, seq_len, seed = config.augment, config.batches.seq_len, config.train.seed
    perturbation = dropout = None
    if settings.perturb:
        sources = zip(prefixes_of(config.corpus), config.corpus.languages, strict=False)
        languages = {prefix: source for prefixes, source in sources for prefix in prefixes}
        perturbation = Perturbation(data.tokenizer, seq_len, seed, languages)
    if settings.bpe_dropout:  # the folder exists: `prepare_data` has made it
        folder = dropout_folder(data.folder, settings.bpe_dropout)
        dropout = SubwordDropout(folder, seq_len, seed)
    return Augmentation(perturbation, dropout) if perturbation or dropout else None


def build_trainer(
    config: Config,
    model: Transformer,
    data: PreparedData,
    run: Run,
    folder: RunFolder,
    logbook: Logbook,
    world: World,
) -> Trainer:
    """The trainer of a run, at its start; `Trainer.restore` continues a checkpoint."""
    return Trainer(
        config=config.train,
        model=model,
        updater=build_updater(config, model, world),
        loader=build_loader(config, data, world),
        data=data,
        run=run,
        saver=RunSaver(CheckpointStore(config.checkpoint), folder, world, logbook.message),
        logbook=logbook,
        world=world,
    )
