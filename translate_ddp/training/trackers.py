"""Experiment trackers: Weights & Biases, and TensorBoard.

A tracker never prompts, blocks or ends a run. All calls run on a background thread. Only the start
and the end wait for it, for a bounded time. After the first failed call there are no others, and
one message. W&B receives the values passed here and the load of the machine: no command line,
environment variable, path, host name, repository, package list or console output.
"""

import errno
import logging
import os
import shlex
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from translate_ddp.runtime.long_calls import BackgroundThread
from translate_ddp.settings import LogbookConfig, WandbMode
from translate_ddp.training.logbook import Sample, Sink, sample_lines, shown_samples

# Start and end of a tracker take at most 30 s each.
START_SECONDS = 27.0
INIT_SECONDS = 15.0  # part of START_SECONDS, to reach W&B's server; then the run starts offline
TRACKER_END_SECONDS = 27.0
WANDB_UPLOAD_SECONDS = 24.0  # part of TRACKER_END_SECONDS, to upload the remaining records
TEARDOWN_SECONDS = 3.0  # after either, to end W&B's own process
FLUSH_SECONDS = 1.0  # a power cut may remove the records of that time from the .wandb file
ROOM_BYTES = 1 << 16  # more than W&B writes at once
REASON_CHARACTERS = 250  # shown of an error


def chosen_trackers(settings: LogbookConfig) -> "list[type[TrackerSink]]":
    """The trackers that the settings name."""
    wandb = [WandbSink] * (resolve_mode(settings.wandb_mode) != "disabled")
    return [*wandb, *[TensorBoardSink] * settings.tensorboard]


class TrackerSink(Sink, ABC):
    """Logs to the run `run_id` of a tracker, which has its records up to `step`.

    `config` is published, `message` prints failures.
    """

    name = ""  # the tracker, in messages

    def __init__(
        self,
        settings: LogbookConfig,
        folder: Path,
        run_id: str,
        step: int,
        config: Mapping[str, Any],
        message: Callable[[str], None],
    ) -> None:
        self.settings, self.folder = settings, folder
        self.run_id, self.step, self.config = run_id, step, dict(config)
        self.status = ""
        self.warning = ""  # from the start
        self.upload = ""  # the command that uploads what is on disk
        self._message = message
        self._run: Any = None  # the library's run; None: not started, or stopped
        self._thread = BackgroundThread(self.name, stop_after_error=True)
        try:
            self._run = self._thread.result(self.start, START_SECONDS)
        except (Exception, SystemExit) as error:
            self._give_up(error)
        if self.warning:
            message(self.warning)

    @abstractmethod
    def start(self) -> Any:
        """The started run; sets `status`."""

    @abstractmethod
    def log_scalars(self, run: Any, step: int, scalars: Mapping[str, float]) -> None:
        """Log the named scalars of a step."""

    @abstractmethod
    def log_samples(self, run: Any, step: int, samples: Sequence[Sample]) -> None:
        """Log some translations of a validation."""

    @abstractmethod
    def finish(self, run: Any, failed: bool) -> None:
        """Write or upload the remaining records."""

    def check_disk(self) -> None:
        """Raise OSError if the disk is full: libraries would lose records or print tracebacks."""
        if shutil.disk_usage(self.folder).free < ROOM_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        values = dict(scalars)
        self._submit(lambda run: self.log_scalars(run, step, values))

    def validated(self, step: int, samples: Sequence[Sample]) -> None:
        shown = shown_samples(samples)
        self._submit(lambda run: self.log_samples(run, step, shown))

    def close(self, seconds: float, failed: bool) -> None:
        """Upload for at most `seconds` and `TRACKER_END_SECONDS`. Other records are on disk."""
        if (run := self._run) is None:
            return
        try:
            self._thread.result(lambda: self.finish(run, failed), min(seconds, TRACKER_END_SECONDS))
        except (Exception, SystemExit) as error:
            self._give_up(error)
        else:
            self._run = None
            self.teardown()

    def teardown(self) -> None:
        """End what the library has started."""

    def _submit(self, call: Callable[[Any], object]) -> None:
        if (run := self._run) is None:
            return
        if self._thread.error is not None:
            return self._give_up(self._thread.error)

        def work() -> None:
            self.check_disk()
            call(run)

        self._thread.submit(work)

    def _give_up(self, error: BaseException) -> None:
        hint = f"; {self.upload} uploads its records" if self._run and self.upload else ""
        self._run, self.status = None, ""
        reason = brief(error)
        self._message(f"{self.name} stopped ({reason}): metrics.jsonl has every record{hint}")
        self.teardown()


def brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:REASON_CHARACTERS]


class TensorBoardSink(TrackerSink):
    """TensorBoard: event files in the model folder, by torch's own writer."""

    name = "TensorBoard"

    def start(self) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        self.check_disk()
        # Steps that an earlier start of the run logged after this step are hidden.
        writer = SummaryWriter(self.folder, purge_step=self.step + 1)
        settings = (f"    {name}: {value}\n" for name, value in self.config.items())
        writer.add_text("settings", "".join(settings), self.step)
        self.status = f"`tensorboard --logdir {shlex.quote(str(self.folder))}`"
        return writer

    def log_scalars(self, run: Any, step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            run.add_scalar(name, value, step)
        run.flush()

    def log_samples(self, run: Any, step: int, samples: Sequence[Sample]) -> None:
        lines = (f"    {line}\n" for line in sample_lines(samples))  # indented: a block of code
        run.add_text("validation/samples", "".join(lines), step)

    def finish(self, run: Any, failed: bool) -> None:
        run.close()


class WandbSink(TrackerSink):
    """Weights & Biases: online if the mode allows it and the server responds, else offline."""

    name = "W&B"

    def start(self) -> Any:
        self.folder = Path(os.environ.get("WANDB_DIR") or self.folder) / "wandb"
        keep_files_in(self.folder / "cache")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.check_disk()
        import wandb

        wandb.setup(wandb_settings())  # before its first message, which it would print
        reason = "as chosen"
        if resolve_mode(self.settings.wandb_mode) != "offline":
            try:
                if wandb.login(prompt=False, verify=False):
                    return self._open("online")
                reason = "no API key"
            except Exception as error:
                reason = "not connected"
                self.warning = f"W&B cannot go online ({brief(error)}): the run is recorded offline"
                self.teardown()  # else the run id is still in use
                wandb.setup(wandb_settings())
        run = self._open("offline")
        self.status = f"W&B offline, {reason}; {self.upload} uploads it"
        return run

    def _open(self, mode: Literal["online", "offline"]) -> Any:
        import wandb

        run = wandb.init(
            project=self.settings.wandb_project or os.environ.get("WANDB_PROJECT", "translate_ddp"),
            group=self.settings.wandb_group or None,
            dir=self.folder.parent,
            id=self.run_id,
            resume="allow",
            config=self.config,
            mode=mode,
            settings=wandb_settings(),
        )
        for handler in logging.getLogger("wandb").handlers:
            handler.handleError = lambda record: None  # else a full disk prints tracebacks
        run.define_metric("global_step")
        run.define_metric("*", step_metric="global_step")
        # Each start of the run writes one folder.
        parts = f"{'offline-' * (mode == 'offline')}run-*-{self.run_id}"
        self.upload = f"`wandb sync {shlex.quote(str(self.folder))}/{parts}`"
        self.status = f"W&B online ({run.url or run.path})"
        return run

    def log_scalars(self, run: Any, step: int, scalars: Mapping[str, Any]) -> None:
        run.log({**scalars, "global_step": step}, step=step)

    def log_samples(self, run: Any, step: int, samples: Sequence[Sample]) -> None:
        import wandb
        from wandb.errors import CommError

        table = wandb.Table(columns=list(Sample._fields), data=[list(each) for each in samples])
        # Online W&B queries the server first; if it is out of reach only the table is lost.
        with suppress(CommError):
            self.log_scalars(run, step, {"validation/samples": table})

    def finish(self, run: Any, failed: bool) -> None:
        run.finish(exit_code=int(failed))

    def teardown(self) -> None:
        """End W&B's process now, so that its exit hook neither waits nor prints."""
        if "wandb" not in sys.modules:
            return

        def teardown() -> None:
            import wandb  # on that thread: the start may still be importing it

            wandb.teardown()

        with suppress(Exception, SystemExit):
            BackgroundThread("wandb teardown").result(teardown, TEARDOWN_SECONDS)


def resolve_mode(mode: WandbMode) -> WandbMode:
    """The flag, else WANDB_DISABLED or WANDB_MODE. W&B's older `dryrun` and `run` are replaced."""
    is_disabled = os.environ.get("WANDB_DISABLED", "").lower() in ("1", "true", "yes", "on")
    given = "disabled" if is_disabled else os.environ.get("WANDB_MODE") or mode
    wanted = given if mode == "auto" else mode
    return cast(WandbMode, {"dryrun": "offline", "run": "online"}.get(wanted, wanted))


def keep_files_in(folder: Path) -> None:
    """Make W&B write its logs and tables to `folder` and send no error reports.

    A home directory may be full or read-only. Variables that the user has set stay.
    """
    os.environ.setdefault("WANDB_CACHE_DIR", str(folder.absolute()))
    os.environ.setdefault("WANDB_DATA_DIR", str(folder.absolute()))
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")


def wandb_settings() -> Any:
    import wandb

    return wandb.Settings(
        silent=True,
        console="off",
        host="",
        program="train.py",  # else its path
        disable_git=True,
        disable_code=True,
        x_disable_meta=True,  # command line, script, user, folder, hardware
        x_save_requirements=False,
        init_timeout=INIT_SECONDS,
        finish_timeout=WANDB_UPLOAD_SECONDS,
        finish_timeout_raises=True,
        x_transaction_log_flush_interval=FLUSH_SECONDS,
    )
