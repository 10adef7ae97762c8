"""Trains a translator: `python train.py`, or `torchrun train.py` on any number of processes.

Opens the world, builds each part in the order in which the data meets it, trains, closes.
"""

# ruff: noqa: E402
import gc
import os
import shlex
import signal
import sys
import uuid
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before imports that take time
    gc.disable()  # all that they make stays: to search it for garbage would take a second
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a Ctrl-C needs no traceback

from config import Config, parse
from translate_ddp.errors import UserError, report_errors
from translate_ddp.runtime.environment import set_defaults
from translate_ddp.runtime.fault_injection import VARIABLE as FAULT_VARIABLE
from translate_ddp.runtime.fault_injection import configure_faults
from translate_ddp.runtime.launcher import read_launch


def read_command_line() -> Config:
    """What is asked for; help and complaints end the program here."""
    launch = read_launch(os.environ)
    is_main = launch.rank == 0
    with report_errors(prints=is_main):
        if not launch.restarts:
            configure_faults(os.environ.get(FAULT_VARIABLE, ""), launch.rank)
        return parse(sys.argv[1:], prints=is_main)


set_defaults(os.environ)
if __name__ == "__main__":
    CONFIG = read_command_line()  # without waiting for torch, which takes seconds to import

import torch

from translate_ddp.data.batches import BatchLoader, Lengths, StepSampler, padding_share
from translate_ddp.data.dataset import PreparedData, load_prepared, prepare
from translate_ddp.modeling.loss import Objective
from translate_ddp.modeling.precision import choose_dtype, precision_warning
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.cpu_memory import keep_freed_memory
from translate_ddp.runtime.distributed import World, open_world, record
from translate_ddp.runtime.run_folder import RunFolder
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.logbook import Logbook, Prefix
from translate_ddp.training.optimizer import build_optimizer
from translate_ddp.training.resume import check_same_run, describe_changes, find_state, run_identity
from translate_ddp.training.trainer import Run, Trainer, reseed

STOPPED_UPLOAD_SECONDS = 5.0  # for W&B, when there is little time to leave


@record
def main(config: Config) -> None:
    with report_errors(prints=read_launch(os.environ).rank == 0):
        with open_world(config.distributed) as world:
            train(config, world)


def train(config: Config, world: World) -> None:
    """One run, or the rest of one, on this rank."""
    store = CheckpointStore(config.checkpoint)
    folder = take_folder(config, world)
    data = prepare_data(config, world)
    about = config.to_dict()
    identity = run_identity(about, data, world.size)
    preload = config.checkpoint.preload
    state, told = find_state(store, "latest" if world.restarted else preload, world)
    if world.restarted and state is None:  # it had not saved yet
        state, told = find_state(store, preload, world)
    if state is not None:
        check_same_run(state, identity)
    aside = world.on_main_then_each_node("setting files aside", lambda: store.archive(state))
    told += [f"Moved what is no part of this run to {path}." for path in aside if path]
    if state is None:
        run_id = world.on_main("naming the run", lambda: uuid.uuid4().hex[:8])
        run = Run(run_id, about, identity)
    else:
        run = Run(state["run"]["run_id"], about, identity, state["run"]["history"])
    with (
        Logbook(
            config.logbook,
            store.folder,
            run_id=run.run_id,
            about=flat(about),
            position=Prefix(**state["metrics"]) if state else None,
            active=world.is_main,
        ) as logbook,
    ):
        trainer = build_trainer(config, data, run, folder, store, logbook, world)
        if state is not None:
            told += describe_changes(state, about, trainer.environment())
            trainer.restore(state)
        describe(config, trainer, told)
        finished = trainer.fit()
        world.watchdog.stage = "ending"
        # Asked of one rank perhaps: the others have not heard why.
        reasons = [] if finished else world.gather(world.watchdog.stop_reason or "")
        asked = next(filter(None, reasons), None)
        if world.is_node_leader:
            write_ending(folder, trainer, asked)
        logbook.say(ending(trainer, asked))
        if asked:
            logbook.close(seconds=STOPPED_UPLOAD_SECONDS)


def take_folder(config: Config, world: World) -> RunFolder:
    """The run's folder, locked against other runs until this process ends."""
    token = world.on_main("naming this start", lambda: uuid.uuid4().hex)
    folder = RunFolder(config.checkpoint.model_folder, token)
    world.on_main_then_each_node("locking the model folder", folder.lock)
    if world.is_node_leader:  # disks need not be shared
        folder.write_status("running")
    world.watchdog.exit.write_status = folder.write_status
    return folder


def write_ending(folder: RunFolder, trainer: Trainer, asked: str | None) -> None:
    position = trainer.position
    folder.write_status(
        "preempted" if asked else "finished",
        asked or "",
        epoch=position.epoch,
        step=trainer.saved_step,
        checkpoint=trainer.saved_as,
    )


def prepare_data(config: Config, world: World) -> PreparedData:
    """The encoded corpus, prepared once a node and mapped into memory by every rank."""
    folder = Path(config.checkpoint.model_folder) / "data"

    def work() -> list[str]:
        prepared = prepare(config.corpus, config.tokenizer, config.batches.seq_len, folder)
        return [str(prepared), load_prepared(prepared).fingerprint]

    prepared = world.on_each_node("preparing the corpus", work)
    if len({fingerprint for _, fingerprint in prepared}) > 1:
        raise UserError("The nodes read different data: give all of them the same files.")
    return load_prepared(Path(prepared[world.node_index][0]))


def build_trainer(
    config: Config,
    data: PreparedData,
    run: Run,
    folder: RunFolder,
    store: CheckpointStore,
    logbook: Logbook,
    world: World,
) -> Trainer:
    """A new model with all that trains it, the same on every rank."""
    if world.device.type == "cpu":
        keep_freed_memory()
    reseed(config.train.seed)
    dtype = choose_dtype(config.train.precision, world.device)
    model = Transformer(config.model, len(data.tokenizer), dtype=dtype).to(world.device)
    objective = Objective(model, config.loss.label_smoothing)
    if config.train.compile:
        model.compile(dynamic=True)
    sampler = StepSampler(
        Lengths.of(data.train),
        config.batches,
        seed=config.train.seed,
        rank=world.rank,
        world_size=world.size,
    )
    max_tokens = config.batches.pass_tokens(world.device.type)
    return Trainer(
        config=config.train,
        optimizer_config=config.optimizer,
        model=model,
        objective=world.replicate(objective, config.distributed),
        optimizer=build_optimizer(model, config.optimizer),
        sampler=sampler,
        loader=BatchLoader(data.train, sampler, max_tokens, world.device),
        data=data,
        run=run,
        folder=folder,
        store=store,
        logbook=logbook,
        world=world,
    )


def describe(config: Config, trainer: Trainer, told: list[str]) -> None:
    """Say at the start what this run is."""
    world = trainer.world
    if not world.is_main:
        return
    data, sampler, say = trainer.data, trainer.sampler, trainer.logbook.say
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in data.dropped.items())
    corpus = config.corpus
    max_tokens = trainer.loader.max_tokens
    rows = {
        "device": f"{world.device}, {'bf16' if trainer.model.dtype == torch.bfloat16 else 'fp32'}",
        "processes": f"{world.size}, backend {world.backend}, "
        f"{torch.get_num_threads()} thread(s) each",
        "corpus": f"{corpus.dataset} {corpus.lang_src}-{corpus.lang_tgt}: "
        f"{len(data.train):,} training and {len(data.validation):,} validation pairs",
        "dropped": dropped or "none",
        "vocabulary": f"{len(data.tokenizer):,}",
        "model": f"{parameters:,} parameters",
        "batches": f"{len(sampler.plan):,} steps an epoch, "
        f"{padding_share(sampler, max_tokens):.1%} padding",
        "writes to": f"{trainer.store.folder}/",
        "W&B": trainer.logbook.wandb_status,
    }
    for name, value in rows.items():
        say(f"{name:>12}  {value}")
    warnings = [precision_warning(config.train.precision, world.device), unused_gpus(world)]
    for line in [*filter(None, warnings), *told]:
        say(line)


def unused_gpus(world: World) -> str | None:
    """How to use the GPUs that one process leaves idle."""
    count = torch.cuda.device_count() if world.device.type == "cuda" else 0
    if world.size > 1 or count < 2:
        return None
    command = shlex.join(["torchrun", f"--nproc_per_node={count}", *sys.argv])
    return f"This process uses 1 of {count} GPUs. To use all of them: {command}"


def ending(trainer: Trainer, asked: str | None) -> str:
    position, folder = trainer.position, trainer.store.folder
    where = f"epoch {position.epoch}, step {position.global_step:,}"
    if asked:
        saved = trainer.saved_step == position.global_step
        return (
            f"Stopped at {where}, as asked ({asked}), "
            + ("and saved: " if saved else "but not saved since its last steps were not finite: ")
            + "the same command goes on from the last checkpoint."
        )
    option = "" if str(folder) == "weights" else f" --model_folder {folder}"
    return f'Finished at {where}. Try: python -m translate_ddp translate{option} "..."'


def flat(about: dict[str, Any]) -> dict[str, Any]:
    """The configuration for the record of the run, without the parts' names and without paths."""
    paths = ("model_folder", "dataset", "validation", "tokenizer_file", "config", "preload")
    settings = {name: value for part in about.values() for name, value in part.items()}
    return {name: value for name, value in settings.items() if name not in paths}


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    main(CONFIG)  # pyright: ignore[reportPossiblyUnboundVariable]
