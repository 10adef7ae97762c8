"""Weights & Biases as a listener: it may miss a point; it never asks, stops, delays or fails a run.

All calls are made by a thread of their own, which can be left behind: only the start and the end
wait for it, for a bounded time, and the first call that fails is the last. What is recorded is
what is given here, and the load of the machine: no command line, environment, path, host name,
repository, package list or console output.
"""

import logging
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

if TYPE_CHECKING:
    import wandb

Mode = Literal["auto", "online", "offline", "disabled"]
Result = TypeVar("Result")

# Neither the start nor the end takes longer than 30 s.
START_SECONDS = 27.0
INIT_SECONDS = 15.0  # of them, to reach the server; then the run starts offline
END_SECONDS = 27.0
UPLOAD_SECONDS = 24.0  # of them, to upload what is left
TEARDOWN_SECONDS = 3.0  # after either, for W&B's own process to go
FLUSH_SECONDS = 1.0  # what a killed machine may lose of the .wandb file
ROOM_BYTES = 1 << 16  # more than W&B writes at once


class WandbSink:
    def __init__(
        self,
        *,
        mode: Mode,
        project: str,
        group: str,
        folder: Path,
        run_id: str,
        about: Mapping[str, Any],
        warn: Callable[[str], None],
    ) -> None:
        self.status = "disabled"
        self._warn = warn
        self._started: Started | None = None
        self._folder = folder / "wandb"
        if mode == "disabled":
            return
        keep_files_in(self._folder / "cache")
        arguments: dict[str, Any] = {
            "project": project,
            "group": group or None,
            "dir": folder,
            "id": run_id,
            "resume": "allow",
            "config": dict(about),
        }
        self._aside = Aside()
        try:
            self._started = self._aside.within(
                START_SECONDS, lambda: start(mode, arguments, self._folder)
            )
        except (Exception, SystemExit) as error:
            self._give_up(error)
            return
        self.status = self._started.status
        if self._started.trouble:
            warn(self._started.trouble)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        point = {**scalars, "global_step": step}
        self._soon(lambda run: run.log(point, step=step))

    def table(self, step: int, name: str, columns: Sequence[str], rows: Sequence[tuple]) -> None:
        data: list[Any] = [list(row) for row in rows]

        def log(run: "wandb.Run") -> None:
            import wandb
            from wandb.errors import CommError

            table = wandb.Table(columns=list(columns), data=data)
            # Online it asks the server a question first: one out of reach costs the table alone.
            with suppress(CommError):
                run.log({name: table, "global_step": step}, step=step)

        self._soon(log)

    def close(self, seconds: float, failed: bool) -> None:
        """Upload what is left, for at most `seconds` and END_SECONDS; the rest stays on disk."""
        if self._started is None:
            return
        run = self._started.run
        try:
            self._aside.within(min(seconds, END_SECONDS), lambda: run.finish(exit_code=int(failed)))
        except (Exception, SystemExit) as error:
            self._give_up(error)
        else:
            self._started = None
            _teardown()

    def _soon(self, call: "Callable[[wandb.Run], object]") -> None:
        if self._started is None:
            return
        if self._aside.error is not None:
            self._give_up(self._aside.error)
            return
        run = self._started.run

        def work() -> None:
            demand_room(self._folder)
            call(run)

        self._aside.soon(work)

    def _give_up(self, error: BaseException) -> None:
        hint = f"; {self._started.upload} uploads what it has" if self._started else ""
        self._started = None
        self.status = "stopped after an error"
        self._warn(f"W&B stopped ({_brief(error)}): metrics.jsonl has everything{hint}")
        _teardown()


@dataclass(frozen=True)
class Started:
    run: "wandb.Run"
    status: str
    upload: str
    """The command that uploads what is on disk."""
    trouble: str = ""
    """Why the run is not online, if it was to be."""


class Aside:
    """Calls one after another on a thread that can be left behind; none after one has failed."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def soon(self, call: Callable[[], Result]) -> "Future[Result]":
        """The call's outcome, once those before it are done."""
        outcome: Future[Result] = Future()
        self._calls.put((call, outcome))
        return outcome

    def within(self, seconds: float, call: Callable[[], Result]) -> Result:
        """The call's result. Raises TimeoutError if it, and those before it, take longer."""
        try:
            return self.soon(call).result(timeout=seconds)
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no end after {seconds:g} s") from None

    def _work(self) -> None:
        while True:
            call, outcome = self._calls.get()
            try:
                if self.error is not None:
                    raise self.error
                outcome.set_result(call())
            except BaseException as error:
                self.error = error
                outcome.set_exception(error)


def mode_in_force(mode: Mode) -> Mode:
    """What the environment says, else the flag; `dryrun` and `run` are W&B's older names."""
    wanted = os.environ.get("WANDB_MODE") or mode
    return cast(Mode, {"dryrun": "offline", "run": "online"}.get(wanted, wanted))


def keep_files_in(folder: Path) -> None:
    """W&B's logs and tables, not in a home that may be full or read-only; and no error reports.

    What the user has set in the environment stays.
    """
    os.environ.setdefault("WANDB_CACHE_DIR", str(folder.absolute()))
    os.environ.setdefault("WANDB_DATA_DIR", str(folder.absolute()))
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")


def start(mode: Mode, arguments: dict[str, Any], folder: Path) -> Started:
    """A run that is online if the mode and the server allow, else offline."""
    folder.mkdir(exist_ok=True)
    demand_room(folder)
    import wandb

    wandb.setup(_settings())  # silent from the first message on
    reason, trouble = "as chosen", ""
    if mode != "offline":
        try:
            if wandb.login(prompt=False, verify=False):
                run = _open_run(arguments, "online")
                upload = _sync_command(folder, f"run-*-{run.id}")
                return Started(run, f"online ({run.url or run.path})", upload)
            reason = "no API key"
        except Exception as error:
            reason = "not connected"
            trouble = f"W&B cannot go online ({_brief(error)}): the run is recorded offline"
            _teardown()  # else the run id is still in use
            wandb.setup(_settings())
    run = _open_run(arguments, "offline")
    upload = _sync_command(folder, f"offline-run-*-{run.id}")
    return Started(run, f"offline, {reason}; {upload} uploads it", upload, trouble)


def demand_room(folder: Path) -> None:
    """Raise OSError if the folder takes no more: W&B itself would lose its records in silence."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(ROOM_BYTES))


def _open_run(arguments: dict[str, Any], mode: Literal["online", "offline"]) -> "wandb.Run":
    import wandb

    run = wandb.init(**arguments, mode=mode, settings=_settings())
    for handler in logging.getLogger("wandb").handlers:
        handler.handleError = lambda record: None  # else a full disk prints a traceback per line
    run.define_metric("global_step")
    run.define_metric("*", step_metric="global_step")
    return run


def _settings() -> "wandb.Settings":
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
    if "x_transaction_log_flush_interval" in wandb.Settings.model_fields:  # not a promised name
        chosen["x_transaction_log_flush_interval"] = FLUSH_SECONDS
    return wandb.Settings(**chosen)


def _sync_command(folder: Path, pattern: str) -> str:
    """For all parts of the run, of which each start makes one."""
    return f"`wandb sync {shlex.quote(str(folder))}/{pattern}`"


def _teardown() -> None:
    """End W&B's process here, so that its exit hook finds nothing left to do or to say."""
    if "wandb" not in sys.modules:
        return

    def teardown() -> None:
        import wandb  # on the other thread: the start may still be held up in importing it

        wandb.teardown()

    with suppress(Exception, SystemExit):
        Aside().within(TEARDOWN_SECONDS, teardown)


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
