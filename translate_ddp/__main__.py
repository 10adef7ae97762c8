"""The command `translate-ddp`; `python -m translate_ddp` is the same."""

# ruff: noqa: E402
import os
import sys

from translate_ddp.runtime.environment import begin_process

begin_process()

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from translate_ddp import __version__
from translate_ddp.apps import commands
from translate_ddp.apps.commands.command_line import parse
from translate_ddp.console import open_closed_streams
from translate_ddp.errors import cleanup, report_errors
from translate_ddp.runtime.fault_injection import configure_faults
from translate_ddp.runtime.launch import is_first_process, read_launch

USAGE = "usage: translate-ddp COMMAND [--help]"
# The modules of `commands/`. Shared modules have an underscore in their names. `train`
# reads its flags itself.
COMMANDS = [name for _, name, _ in iter_modules(commands.__path__) if "_" not in name]
COMMANDS.remove("train")


def load(name: str) -> tuple[type, Callable[[Any], None]]:
    """The settings and the function of a command: `InfoConfig` and `run` in `info.py`.

    No other is imported, as not all need torch.
    """
    module = import_module(f"translate_ddp.apps.commands.{name}")
    return getattr(module, f"{name.title()}Config"), module.run


def main() -> None:
    open_closed_streams()
    name, *flags = sys.argv[1:] or [""]
    if name == "--version":
        print(f"translate_ddp {__version__}")
        sys.exit()
    if name == "train":
        return import_module("translate_ddp.apps.commands.train").run(flags)
    if name not in COMMANDS:
        docs = {"train": "Train a model, on each rank of torchrun -m translate_ddp train."}
        docs |= {command: load(command)[0].__doc__ or "" for command in COMMANDS}
        lines = [f"  {command:<10} {doc.splitlines()[0]}" for command, doc in docs.items()]
        usage = "\n".join([USAGE, *lines])
        if name in ("-h", "--help"):
            print(usage)
            sys.exit()
        problem = f"error: There is no command {name!r}.\n" if name else ""
        print(problem + usage, file=sys.stderr)
        sys.exit(2)
    prints = is_first_process(os.environ)
    with report_errors(prints):
        try:
            configure_faults(os.environ, read_launch(os.environ).rank)
            config, run = load(name)
            with cleanup:
                run(parse(config, flags, f"translate-ddp {name}", prints))
        except BrokenPipeError:
            os._exit(0)  # the reader has closed the pipe, as in `translate | head`


if __name__ == "__main__":
    main()
