"""`translate-ddp train` or `torchrun train.py`: the command line of a training.

Values come from the preset, from `--config file.yaml` and from the user's flags; each overrides the
ones before it.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence, Set
from itertools import chain
from pathlib import Path
from typing import Any

from translate_ddp import __version__
from translate_ddp.apps.commands.command_line import expand_home, given_flags
from translate_ddp.apps.commands.command_line import parse as parse_flags
from translate_ddp.errors import UserError, cleanup, report_errors
from translate_ddp.presets import PRESETS, choose_preset, with_preset, with_values
from translate_ddp.runtime.fault_injection import configure_faults
from translate_ddp.runtime.launch import is_first_process, read_launch
from translate_ddp.settings import Config, CorpusConfig, all_settings
from translate_ddp.training.metrics import find_metric


def run(arguments: Sequence[str]) -> None:
    """Train as the command line says. It is read before torch is imported, which takes seconds."""
    config, given = read_command_line(arguments)
    from translate_ddp.runtime.world import record

    record(train)(config, given)


def train(config: Config, given: Set[str]) -> None:
    """Train on this rank, from the start or from a checkpoint; exit after a request to stop."""
    from translate_ddp.runtime.world import open_world
    from translate_ddp.training.run import Run

    prints = is_first_process(os.environ)
    with report_errors(prints), cleanup, open_world(config.distributed) as world:
        is_finished = Run.open(config, given, world).train()
    if not is_finished:
        sys.exit(config.distributed.preempted_exit_code)


def read_command_line(arguments: Sequence[str]) -> tuple[Config, set[str]]:
    """The configuration of the run, and the names of the settings that the user gave.

    `--help` and unusable flags end the program here. Nothing is read again: the file of `--config`
    may change while the run goes on.
    """
    prints = is_first_process(os.environ)
    with report_errors(prints):
        configure_faults(os.environ, read_launch(os.environ).rank)
        try:
            return parse_with_names(arguments, prints)
        except BrokenPipeError:
            os._exit(0)  # the reader has closed the pipe, as in `--help | head`


def parse(arguments: Sequence[str], prints: bool = True) -> Config:
    """The configuration of a command line; see `parse_with_names`."""
    return parse_with_names(arguments, prints)[0]


def parse_with_names(arguments: Sequence[str], prints: bool = True) -> tuple[Config, set[str]]:
    """The configuration of a command line, and the names of the settings that the user gave.

    These are set by flags or by the YAML file. `prints` is false off rank 0, so that help and
    messages are printed once. The preset "auto" of a corpus other than the demo stays "auto", with
    the defaults of a small corpus, until `with_preset`. Raises UserError for an unusable YAML file,
    and SystemExit, with code 2 and one message, for unusable flags.
    """
    flags = expand_home(arguments)
    if "--version" in flags:
        if prints:
            print(f"translate_ddp {__version__}")
        sys.exit()
    chosen = _read_choices(flags)
    if chosen.config:
        settings = read_yaml(Path(chosen.config))
        flags = expand_home(as_flags(Path(chosen.config), settings)) + flags
        chosen = _read_choices(flags)
    preset = choose_preset(chosen.preset, tuple(chosen.dataset))
    usual = with_values(Config(), PRESETS.get(preset, PRESETS["small"]))
    program = "train.py" if Path(sys.argv[0]).name == "train.py" else "translate-ddp train"
    config = parse_flags(Config, flags, program, prints, usual)
    given = given_flags(flags)
    config = config if preset == "auto" else with_preset(config, preset, given)
    find_metric(config.train.best_metric, config.corpus.with_reverse(config.corpus.requested))
    return config, given


def _read_choices(flags: Sequence[str]) -> argparse.Namespace:
    """The flags that choose defaults. Unusable flags are reported by the full parser."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", default="")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--dataset", nargs="+", default=CorpusConfig.dataset)
    try:
        return parser.parse_known_args(flags)[0]
    except argparse.ArgumentError:
        return parser.parse_args([])


def read_yaml(path: Path) -> dict[str, Any]:
    """The file's settings, as text.

    Raises UserError if the file cannot be read or does not map names to values.
    """
    import yaml  # here: --help does not need it

    from translate_ddp.run_record import load_yaml

    try:
        text = path.read_text(encoding="utf-8")
        settings = load_yaml(text)
        nodes = yaml.compose(text, Loader=yaml.BaseLoader)
    except OSError as error:
        raise UserError(
            f"--config {path} cannot be read: {error.strerror}. Pass a YAML file."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"--config {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(settings, dict):
        raise UserError(f"--config {path} must hold lines of the form `name: value`.")
    names = Counter(name.value for name, _ in nodes.value)
    if repeated := {name for name, count in names.items() if count > 1}:
        raise UserError(f"--config {path} holds {', '.join(sorted(repeated))} twice.")
    return settings


def as_flags(path: Path, settings: dict[str, Any]) -> list[str]:
    """The settings of a file as flags. Raises UserError if one is unknown or no plain value."""
    defaults = {name: each.default for name, each in all_settings().items() if name != "config"}
    flags: list[str] = []
    for name, value in settings.items():
        if name not in defaults:
            raise UserError(f"--config {path}: there is no setting {name!r}; see --help.")
        if name == "directions" and isinstance(value, list):  # [[en, hau], [hau, en]]
            is_pair = [isinstance(each, list) and len(each) == 2 for each in value]
            value = [*chain.from_iterable(value)] if all(is_pair) else [value]
        has_several = isinstance(defaults[name], tuple)
        values = value if has_several and isinstance(value, list) else [value]
        if not all(isinstance(each, str) for each in values):
            wanted = "one plain value" + " or a list of them" * has_several
            wanted = "pairs such as [[en, hau], [hau, en]]" if name == "directions" else wanted
            raise UserError(f"--config {path}: {name} must have {wanted}, not {value}.")
        if has_several:
            flags += [f"--{name}", *values]
        elif isinstance(defaults[name], bool):  # a flag without a value
            if str(value).lower() not in ("true", "false"):
                raise UserError(f"--config {path}: {name} must be true or false, not {value}.")
            flags.append(f"--{name}" if str(value).lower() == "true" else f"--no_{name}")
        else:
            flags.append(f"--{name}={value}")  # one argument: a value may begin with a dash
    return flags
