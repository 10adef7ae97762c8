"""The configuration of a run, read from its command line.

Values come from the preset, from `--config file.yaml` and from the user's flags; each overrides the
ones before it.
"""

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import tyro

from translate_ddp import __version__
from translate_ddp.errors import UserError
from translate_ddp.presets import PRESETS, choose_preset
from translate_ddp.settings import Config, CorpusConfig
from translate_ddp.training.metrics import find_metric


def parse(arguments: Sequence[str], prints: bool = True, pairs: int | None = None) -> Config:
    """The configuration of a command line.

    `prints` is false off rank 0, so that help and messages are printed once. The preset "auto" of a
    corpus other than the demo needs `pairs`, its number of training pairs; without them it stays
    "auto", with the defaults of a small corpus. Raises UserError for an unusable YAML file, and
    SystemExit, with code 2 and one message, for unusable flags.
    """
    flags = list(arguments)
    if "--version" in flags:
        if prints:
            print(f"translate_ddp {__version__}")
        sys.exit()
    chosen = _read_choices(flags)
    if chosen.config:
        flags = read_yaml(Path(chosen.config)) + flags
        chosen = _read_choices(flags)
    preset = choose_preset(chosen.preset, chosen.dataset, pairs)
    with nullcontext() if prints else _silence():
        config = tyro.cli(
            Config,
            args=flags,
            default=_defaults(PRESETS.get(preset, PRESETS["small"])),
            prog="train.py",
            config=(tyro.conf.OmitArgPrefixes,),
            use_underscores=True,
        )
    find_metric(config.train.best_metric, config.corpus.lang_tgt)
    return replace(config, run=replace(config.run, preset=preset))


def given_settings(arguments: Sequence[str]) -> set[str]:
    """The names of the settings that a usable command line, or its YAML file, sets."""
    flags = list(arguments)
    if file := _read_choices(flags).config:
        flags = read_yaml(Path(file)) + flags
    return {
        flag.removeprefix("--").partition("=")[0].replace("-", "_")
        for flag in flags
        if flag.startswith("--")
    }


@contextmanager
def _silence() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _read_choices(flags: Sequence[str]) -> argparse.Namespace:
    """The flags that choose defaults. Unusable flags are reported by the full parser."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config", default="")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--dataset", default=CorpusConfig.dataset)
    try:
        return parser.parse_known_args(flags)[0]
    except argparse.ArgumentError:
        return parser.parse_args([])


def _defaults(preset: dict[str, Any]) -> Config:
    """The default configuration with the values of a preset."""
    config = Config()
    for part in fields(config):
        settings = getattr(config, part.name)
        names = {setting.name for setting in fields(settings)}
        chosen = {name: value for name, value in preset.items() if name in names}
        config = replace(config, **{part.name: replace(settings, **chosen)})
    return config


def read_yaml(path: Path) -> list[str]:
    """The file's settings as flags. Values are read as text, since YAML would read `no` as false.

    Raises UserError if the file cannot be read or does not map names to plain values.
    """
    import yaml  # here: --help does not need it

    try:
        settings = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise UserError(
            f"--config {path} cannot be read: {error.strerror}. Pass a YAML file."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(settings, dict):
        raise UserError(f"--config {path} must hold lines of the form `name: value`.")
    defaults = {n: v for part in Config().to_dict().values() for n, v in part.items()}
    flags: list[str] = []
    for name, value in settings.items():
        if not isinstance(value, str):
            raise UserError(f"--config {path}: {name} must have one plain value, not {value}.")
        if name not in defaults:
            raise UserError(f"--config {path}: there is no setting {name!r}; see --help.")
        if isinstance(defaults[name], bool):  # a flag without a value
            if value.lower() not in ("true", "false"):
                raise UserError(f"--config {path}: {name} must be true or false, not {value}.")
            flags.append(f"--{name}" if value.lower() == "true" else f"--no_{name}")
        else:
            flags.append(f"--{name}={value}")  # one argument: a value may begin with a dash
    return flags


def to_yaml(config: Config) -> str:
    """Every setting except `config` and `preload`, one per line, as `--config` reads it."""
    import yaml  # here: --help does not need it

    settings = {n: v for part in config.to_dict().values() for n, v in part.items()}
    settings = {n: "inf" if v == math.inf else v for n, v in settings.items()}  # not `.inf`
    del settings["config"], settings["preload"]
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
