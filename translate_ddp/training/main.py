"""One training: the parts of the run are built in the order of the data flow, and it trains."""

import os
import sys
import time
from collections.abc import Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from translate_ddp.data.corpus import count_pairs
from translate_ddp.data.tokenizer import existing_size
from translate_ddp.errors import report_errors
from translate_ddp.presets import choose_preset, with_preset
from translate_ddp.quantities import counted
from translate_ddp.run_record import SETTINGS_FILE
from translate_ddp.runtime.files import write_atomically
from translate_ddp.runtime.launch import is_first_process
from translate_ddp.runtime.world import World, open_world, record
from translate_ddp.settings import Config
from translate_ddp.training.agreement import check_same_settings
from translate_ddp.training.build import (
    begin_run,
    build_mix,
    build_model,
    build_trainer,
    lock_run_folder,
    open_logbook,
    open_report,
    prepare_data,
)
from translate_ddp.training.end_message import NO_STEP_LEFT, report_end
from translate_ddp.training.find_checkpoint import find_start
from translate_ddp.training.fine_tuning import adopt_settings, describe_fit, describe_languages
from translate_ddp.training.resume import (
    check_languages,
    choose_best,
    describe_changes,
    describe_environment,
    resume_run,
    run_identity,
)
from translate_ddp.training.run_facts import describe_launch
from translate_ddp.training.start_message import describe_rate_change, describe_run


@record
def main(config: Config, given: Set[str]) -> None:
    with report_errors(is_first_process(os.environ)):
        with open_world(config.distributed) as world:
            is_finished = train(config, given, world)
    if not is_finished:
        sys.exit(config.distributed.preempted_exit_code)


def train(config: Config, given: Set[str], world: World) -> bool:
    """Train on this rank, from the start or from a checkpoint; False after a request to stop."""
    started = time.monotonic()
    check_same_settings(config, world)
    folder, world = lock_run_folder(config.checkpoint.model_folder, world)
    start, tokenizer = find_start(config.checkpoint, world), ""
    if start.state is not None:
        check_languages(start.state, config.corpus)
    config, notices = choose_settings(config, given, folder.path / "data", world)
    if basis := config.checkpoint.init_from and (start.state or start.initial):
        config = adopt_settings(config, basis, given)
        tokenizer = basis.tokenizer
    data = prepare_data(config, folder.path / "data", world, tokenizer)
    settings = config.to_dict()
    identity = run_identity(settings, data, world.size, build_mix(config, data))
    resumed = resume_run(start, config.checkpoint, settings, identity, world, data)
    model = build_model(config, data, world, start.initial)
    if start.initial is not None and world.is_main:
        resumed.messages.append(describe_fit(data.train, data.tokenizer))
        resumed.messages += describe_languages(config.corpus, start.initial)
    with open_logbook(config, resumed, folder, model, world) as logbook:
        trainer = build_trainer(config, model, data, resumed.run, folder, logbook, world)
        if (state := resumed.state) is not None:
            environment = describe_environment(model, trainer.loader.max_tokens, world)
            resumed.messages += describe_changes(state, settings, environment)
            if not trainer.is_finished(state.position):
                resumed.messages += choose_best(state, trainer.metric, trainer.saver.store, world)
            trainer.restore(state)
            if trainer.is_finished():
                resumed.messages.append(NO_STEP_LEFT)
        if world.is_main:
            with suppress(OSError):  # the next save reports a full disk
                write_atomically(folder.path / SETTINGS_FILE, config.to_yaml())
        launch = describe_launch(settings, trainer)
        for line in describe_run(settings, trainer, launch) if launch else ():
            logbook.message(line)
        resumed.messages += describe_rate_change(trainer)
        begin_run(folder, world)
        open_report(config, launch, trainer)
        for line in [*notices, *resumed.messages]:
            logbook.message(line)
        is_finished = trainer.fit()
        report_end(trainer, is_finished, started)
    return is_finished


def choose_settings(
    config: Config, given: Set[str], folder: Path, world: World
) -> tuple[Config, list[str]]:
    """The settings, with those of the preset "auto" for the size of the corpus, and the reason.

    The vocabulary has the size of `tokenizer_file`, if that is larger.
    """
    notices: list[str] = []
    languages, is_given = config.corpus.language_pair, "vocab_size" in given
    size = world.on_main(
        "reading the tokenizer", lambda: existing_size(config.tokenizer, languages, is_given)
    )
    if config.run.preset == "auto":
        pairs = world.on_main("counting the pairs", lambda: count_pairs(config.corpus, folder))
        preset = choose_preset("auto", config.corpus.dataset, pairs)
        config = with_preset(config, preset, given)
        notices = [f"Chose --preset {preset} for {counted(pairs, 'training pair')}."]
    vocab_size = max(size, config.tokenizer.vocab_size)
    return replace(config, tokenizer=replace(config.tokenizer, vocab_size=vocab_size)), notices
