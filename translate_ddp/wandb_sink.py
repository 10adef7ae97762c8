"""Weights & Biases as a listener: it may miss a point; it never asks, stops, delays or fails a run.

Its own timeouts bound the start, a thread that can be left behind bounds the end, and the first
error in between turns it off. It takes only what it is given: no command line, environment, host
name, repository, package list or console output is recorded.
"""

import os
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    import wandb

Mode = Literal["auto", "online", "offline", "disabled"]

INIT_SECONDS = 20.0  # to reach the server at the start
UPLOAD_SECONDS = 25.0  # to upload what is left at the end
TEARDOWN_SECONDS = 3.0  # for W&B's own process to go
FLUSH_SECONDS = 1.0  # what a killed machine may lose of the .wandb file


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
        self._run: wandb.Run | None = None
        self._directories = shlex.quote(str(folder / "wandb")), f"run-*-{run_id}"
        self._upload = ""  # the command that uploads what is on disk
        self._arguments: dict[str, Any] = {
            "project": project,
            "group": group or None,
            "dir": folder,
            "id": run_id,
            "resume": "allow",
            "config": dict(about),
        }
        if mode == "disabled":
            return
        keep_files_in(folder / "wandb" / "cache")
        try:
            self._run = self._start(mode)
            self._run.define_metric("global_step")
            self._run.define_metric("*", step_metric="global_step")
        except (Exception, SystemExit) as error:
            self._give_up(error)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._guarded(lambda run: run.log({**scalars, "global_step": step}, step=step))

    def table(self, step: int, name: str, columns: Sequence[str], rows: Sequence[tuple]) -> None:
        def log(run: "wandb.Run") -> None:
            import wandb

            table = wandb.Table(columns=list(columns), data=[list(row) for row in rows])
            run.log({name: table, "global_step": step}, step=step)

        self._guarded(log)

    def close(self, seconds: float, failed: bool) -> None:
        """Upload what is left, for at most about `seconds`; the rest stays on disk."""
        self._guarded(lambda run: within(seconds, lambda: run.finish(exit_code=int(failed))))
        if self._run is not None:
            self._run = None
            _teardown()

    def _start(self, mode: Mode) -> "wandb.Run":
        import wandb

        wandb.setup(_settings())  # silent from the first message on
        reason = "as chosen"
        if mode != "offline":
            run, reason = self._start_online()
            if run is not None:
                self._upload = self._sync_command("")
                self.status = f"online ({run.url or run.path})"
                return run
        self._upload = self._sync_command("offline-")
        self.status = f"offline, {reason}; {self._upload} uploads it"
        return wandb.init(**self._arguments, mode="offline", settings=_settings())

    def _start_online(self) -> "tuple[wandb.Run | None, str]":
        """The run, or None and why there is none."""
        import wandb

        try:
            if not wandb.login(prompt=False, verify=False):
                return None, "no API key"
            return wandb.init(**self._arguments, mode="online", settings=_settings()), ""
        except Exception as error:
            self._warn(f"W&B cannot go online ({_brief(error)}): the run is recorded offline")
            _teardown()  # else the run id is still in use
            wandb.setup(_settings())
            return None, "not connected"

    def _sync_command(self, prefix: Literal["", "offline-"]) -> str:
        """For all parts of the run, of which each start makes one."""
        folder, pattern = self._directories
        return f"`wandb sync {folder}/{prefix}{pattern}`"

    def _guarded(self, call: "Callable[[wandb.Run], object]") -> None:
        if self._run is None:
            return
        try:
            call(self._run)
        except (Exception, SystemExit) as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self._run = None
        self.status = "stopped after an error"
        hint = f"; {self._upload} uploads what it has" if self._upload else ""
        self._warn(f"W&B stopped ({_brief(error)}): metrics.jsonl has everything{hint}")
        _teardown()


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


def within(seconds: float, call: Callable[[], object]) -> None:
    """The call on a thread that is left behind if it takes longer; then raises TimeoutError."""
    outcome: Future[object] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        outcome.result(timeout=seconds)
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"no end after {seconds:g} s") from None


def _settings() -> "wandb.Settings":
    import wandb

    chosen: dict[str, Any] = {
        "silent": True,
        "console": "off",
        "host": "",
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


def _teardown() -> None:
    """End W&B's process here, so that its exit hook finds nothing left to do or to say."""
    try:
        import wandb

        within(TEARDOWN_SECONDS, wandb.teardown)
    except (Exception, SystemExit):
        pass


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
