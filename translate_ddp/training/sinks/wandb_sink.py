"""Weights & Biases: one sink of the logbook, which never prompts, blocks or ends a run.

All calls run on a background thread. Only the start and the end wait for it, for a bounded time.
After the first failed call there are no others. W&B receives the values passed here and the load
of the machine: no command line, environment variable, path, host name, repository, package list or
console output.
"""

import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from translate_ddp.run_settings import LogbookConfig, WandbMode
from translate_ddp.runtime.long_calls import BackgroundThread
from translate_ddp.training.logbook import Sample, Sink, shown_samples

if TYPE_CHECKING:
    import wandb

# Start and end take at most 30 s each.
START_SECONDS = 27.0
INIT_SECONDS = 15.0  # of them, to reach the server; then the run starts offline
END_SECONDS = 27.0
UPLOAD_SECONDS = 24.0  # of them, to upload the remaining records
TEARDOWN_SECONDS = 3.0  # after either, to end W&B's own process
FLUSH_SECONDS = 1.0  # of records that a power cut may remove from the .wandb file
ROOM_BYTES = 1 << 16  # more than W&B writes at once


class WandbSink(Sink):
    """Logs to the W&B run `run_id`, which a resumed run continues.

    `history` holds earlier records of this run that W&B does not have under this id. `message`
    prints failures and warnings.
    """

    def __init__(
        self,
        settings: LogbookConfig,
        folder: Path,
        run_id: str,
        config: Mapping[str, Any],
        message: Callable[[str], None],
        history: Sequence[tuple[int, Mapping[str, float]]] = (),
    ) -> None:
        self.status = ""
        self._message = message
        self._started: Started | None = None
        self._folder = folder / "wandb"
        mode = resolve_mode(settings.wandb_mode)
        if mode == "disabled":
            return
        keep_files_in(self._folder / "cache")
        arguments: dict[str, Any] = {
            "project": settings.wandb_project,
            "group": settings.wandb_group or None,
            "dir": folder,
            "id": run_id,
            "resume": "allow",
            "config": dict(config),
        }
        self._thread = BackgroundThread("wandb", stop_after_error=True)
        try:
            self._started = self._thread.result(
                lambda: start(mode, arguments, self._folder), START_SECONDS
            )
        except (Exception, SystemExit) as error:
            self._give_up(error)
            return
        self.status = f"W&B {self._started.status}"
        if self._started.warning:
            message(self._started.warning)
        for step, scalars in history:
            self.log(step, scalars)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        point = {**scalars, "global_step": step}
        self._submit(lambda run: run.log(point, step=step))

    def validated(self, step: int, rows: Sequence[Sample]) -> None:
        data: list[Any] = [list(row) for row in shown_samples(rows)]

        def log(run: "wandb.Run") -> None:
            import wandb
            from wandb.errors import CommError

            table = wandb.Table(columns=list(Sample._fields), data=data)
            # Online W&B queries the server first; if it is out of reach only the table is lost.
            with suppress(CommError):
                run.log({"validation/samples": table, "global_step": step}, step=step)

        self._submit(log)

    def close(self, seconds: float, failed: bool) -> None:
        """Upload for at most `seconds` and END_SECONDS. Records that remain are on disk."""
        if self._started is None:
            return
        run = self._started.run
        try:
            self._thread.result(
                lambda: run.finish(exit_code=int(failed)), min(seconds, END_SECONDS)
            )
        except (Exception, SystemExit) as error:
            self._give_up(error)
        else:
            self._started = None
            _teardown()

    def _submit(self, call: "Callable[[wandb.Run], object]") -> None:
        if self._started is None:
            return
        if self._thread.error is not None:
            self._give_up(self._thread.error)
            return
        run = self._started.run

        def work() -> None:
            require_room(self._folder)
            call(run)

        self._thread.submit(work)

    def _give_up(self, error: BaseException) -> None:
        hint = f"; {self._started.upload} uploads its records" if self._started else ""
        self._started = None
        self.status = ""
        self._message(f"W&B stopped ({_brief(error)}): metrics.jsonl has every record{hint}")
        _teardown()


@dataclass(frozen=True)
class Started:
    """A W&B run that has started."""

    run: "wandb.Run"
    status: str
    """Where the run can be seen."""
    upload: str
    """The command that uploads what is on disk."""
    warning: str = ""
    """Why the run is offline although online was requested; "" if it is as requested."""


def resolve_mode(mode: WandbMode) -> WandbMode:
    """WANDB_MODE if it is set, else the flag. W&B's older names `dryrun` and `run` are replaced."""
    wanted = os.environ.get("WANDB_MODE") or mode
    return cast(WandbMode, {"dryrun": "offline", "run": "online"}.get(wanted, wanted))


def keep_files_in(folder: Path) -> None:
    """Make W&B write its logs and tables to `folder` and send no error reports.

    A home directory may be full or read-only. Variables that the user has set stay.
    """
    os.environ.setdefault("WANDB_CACHE_DIR", str(folder.absolute()))
    os.environ.setdefault("WANDB_DATA_DIR", str(folder.absolute()))
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")


def start(mode: WandbMode, arguments: dict[str, Any], folder: Path) -> Started:
    """Start a run: online if the mode allows it and the server responds, else offline."""
    folder.mkdir(exist_ok=True)
    require_room(folder)
    import wandb

    wandb.setup(_wandb_settings())  # before its first message, which it would print
    reason, warning = "as chosen", ""
    if mode != "offline":
        try:
            if wandb.login(prompt=False, verify=False):
                run = _open_run(arguments, "online")
                upload = _sync_command(folder, f"run-*-{run.id}")
                return Started(run, f"online ({run.url or run.path})", upload)
            reason = "no API key"
        except Exception as error:
            reason = "not connected"
            warning = f"W&B cannot go online ({_brief(error)}): the run is recorded offline"
            _teardown()  # else the run id is still in use
            wandb.setup(_wandb_settings())
    run = _open_run(arguments, "offline")
    upload = _sync_command(folder, f"offline-run-*-{run.id}")
    return Started(run, f"offline, {reason}; {upload} uploads it", upload, warning)


def require_room(folder: Path) -> None:
    """Raise OSError if the disk is full: W&B itself would lose its records without an error."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(ROOM_BYTES))


def _open_run(arguments: dict[str, Any], mode: Literal["online", "offline"]) -> "wandb.Run":
    import wandb

    run = wandb.init(**arguments, mode=mode, settings=_wandb_settings())
    for handler in logging.getLogger("wandb").handlers:
        handler.handleError = lambda record: None  # else a full disk prints a traceback per line
    run.define_metric("global_step")
    run.define_metric("*", step_metric="global_step")
    return run


def _wandb_settings() -> "wandb.Settings":
    import wandb

    chosen: dict[str, Any] = {
        "silent": True,
        "console": "off",
        "host": "",
        "program": "train.py",  # else its path
        "disable_git": True,
        "disable_code": True,
        "x_disable_meta": True,  # command line, script, user, folder, hardware
        "x_save_requirements": False,
        "init_timeout": INIT_SECONDS,
        "finish_timeout": UPLOAD_SECONDS,
        "finish_timeout_raises": True,
    }
    if "x_transaction_log_flush_interval" in wandb.Settings.model_fields:  # an undocumented setting
        chosen["x_transaction_log_flush_interval"] = FLUSH_SECONDS
    return wandb.Settings(**chosen)


def _sync_command(folder: Path, pattern: str) -> str:
    """The command that uploads the run. Each start of the run writes one folder of it."""
    return f"`wandb sync {shlex.quote(str(folder))}/{pattern}`"


def _teardown() -> None:
    """End W&B's process now, so that its exit hook neither waits nor prints."""
    if "wandb" not in sys.modules:
        return

    def teardown() -> None:
        import wandb  # on that thread: the start may still be importing it

        wandb.teardown()

    with suppress(Exception, SystemExit):
        BackgroundThread("wandb teardown").result(teardown, TEARDOWN_SECONDS)


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
