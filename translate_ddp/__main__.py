"""`python -m translate_ddp COMMAND`, or `translate-ddp COMMAND`: all but the training."""

# ruff: noqa: E402
import gc
import os
import sys

if __name__ == "__main__":
    gc.disable()  # collections during the imports free nothing and take half a second

from translate_ddp.runtime.environment import check_platform, set_defaults

check_platform()
set_defaults(os.environ)

from translate_ddp import __version__
from translate_ddp.commands import (
    average,
    check,
    export,
    info,
    inspect,
    report,
    score,
    serve,
    translate,
    validate,
)
from translate_ddp.commands.command_line import parse
from translate_ddp.console import open_closed_streams
from translate_ddp.errors import report_errors
from translate_ddp.runtime.fault_injection import VARIABLE, configure_faults
from translate_ddp.runtime.launcher import is_first_process, read_launch

USAGE = "usage: python -m translate_ddp COMMAND [--help]; to train: torchrun train.py"
COMMANDS = {
    "inspect": (inspect.InspectConfig, inspect.run),
    "translate": (translate.TranslateConfig, translate.run),
    "validate": (validate.ValidateConfig, validate.run),
    "score": (score.ScoreConfig, score.run),
    "average": (average.AverageConfig, average.run),
    "check": (check.CheckConfig, check.run),
    "serve": (serve.ServeConfig, serve.run),
    "export": (export.ExportConfig, export.run),
    "info": (info.InfoConfig, info.run),
    "report": (report.ReportConfig, report.run),
}


def main() -> None:
    open_closed_streams()
    name, *flags = sys.argv[1:] or [""]
    if name == "--version":
        print(f"translate_ddp {__version__}")
        sys.exit()
    if name not in COMMANDS:
        docs = {command: config.__doc__ or "" for command, (config, _) in COMMANDS.items()}
        lines = [f"  {command:<10} {doc.splitlines()[0]}" for command, doc in docs.items()]
        usage = "\n".join([USAGE, *lines])
        if name in ("-h", "--help"):
            print(usage)
            sys.exit()
        problem = f"error: There is no command {name!r}.\n" if name else ""
        print(problem + usage, file=sys.stderr)
        sys.exit(2)
    config, run = COMMANDS[name]
    prints = is_first_process(os.environ)
    with report_errors(prints):
        try:
            configure_faults(os.environ.get(VARIABLE, ""), read_launch(os.environ).rank)
            run(parse(config, flags, f"python -m translate_ddp {name}", prints))
        except BrokenPipeError:
            os._exit(0)  # the reader has closed the pipe, as in `translate | head`


if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    main()
