"""`translate-ddp report FOLDER ...`: the page of a run, or one that compares several."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from translate_ddp.apps.commands.command_line import check_page, run_folder, write_page
from translate_ddp.console import print_line
from translate_ddp.errors import UserError
from translate_ddp.run_record import METRICS_FILE, REPORT_FILE, RunRecord, read_run
from translate_ddp.settings import CheckpointConfig

COMPARISON_FILE = "comparison.html"
MAX_RUNS = 8  # the colours of charts


@dataclass(frozen=True)
class ReportConfig:
    """Write a page that shows a run, also while it goes on, or that compares several."""

    folders: Annotated[tuple[str, ...], tyro.conf.Positional] = (CheckpointConfig.model_folder,)
    """Folders of runs."""
    output: str = ""
    """HTML file to write; '': report.html in the folder; for several, comparison.html here."""


def run(config: ReportConfig) -> None:
    folders = _folders(config.folders)
    usual = folders[0] / REPORT_FILE if len(folders) == 1 else Path(COMPARISON_FILE)
    output = Path(config.output) if config.output else usual
    check_page(output, "--output")
    write_page(output, render_page_of(folders), "--output")
    print_line(f"Wrote {output}.")


def _folders(names: Sequence[str]) -> list[Path]:
    """The folders, each of which holds the record of a run. Raises UserError."""
    folders = list(map(run_folder, names))
    if not 1 <= len(folders) <= MAX_RUNS:
        raise UserError(f"report takes 1 to {MAX_RUNS} folders, but was given {len(folders)}.")
    return folders


def render_page_of(folders: Sequence[Path]) -> str:
    """The page. Raises UserError if the record of a run cannot be read."""
    # Here: --help does not need them.
    from translate_ddp.apps.reporting.run_comparison import render_comparison
    from translate_ddp.apps.reporting.run_page import render_run

    records = [_read(folder) for folder in folders]
    now = time.time()
    return render_comparison(records, now) if len(records) > 1 else render_run(records[0], now)


def _read(folder: Path) -> RunRecord:
    try:
        return read_run(folder)
    except FileNotFoundError as error:
        raise UserError(
            f"{folder} holds no {METRICS_FILE}: pass the --model_folder of a run that has trained."
        ) from error
