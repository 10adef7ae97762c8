"""trackio: experiment tracking in a local database, seen with `trackio show`. An extra."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from translate_ddp.errors import UserError, first_line
from translate_ddp.runtime.background import BackgroundThread
from translate_ddp.training.logbook import Sample

SECONDS = 20.0  # that the start and the end may take at most


class TrackioSink:
    """Logs to the trackio run `run_id`, which a resumed run continues.

    `history` holds earlier records of this run that trackio does not have under this id. Raises
    UserError if trackio is not installed. Any other failure is one message, and the run continues.
    """

    def __init__(
        self,
        project: str,
        run_id: str,
        config: Mapping[str, Any],
        message: Callable[[str], None],
        history: Sequence[tuple[int, Mapping[str, float]]] = (),
    ) -> None:
        try:
            import trackio  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise UserError(
                "--trackio_project needs trackio, which is not installed: run "
                "pip install -r requirements-trackio.txt."
            ) from error
        self.status = f"trackio project {project}"
        self._trackio = trackio
        self._message = message
        # trackio knows its current run by the thread, so that every call is made on this one.
        self._thread = BackgroundThread("trackio", stop_after_error=True)
        self._stopped = False
        self._wait(
            lambda: trackio.init(
                project, name=run_id, config=dict(config), resume="allow", embed=False
            )
        )
        for step, scalars in history:
            self.log(step, scalars)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._submit(lambda: self._trackio.log(dict(scalars), step=step))

    def samples(self, step: int, rows: Sequence[Sample]) -> None:
        def log() -> None:
            import pandas

            table = self._trackio.Table(dataframe=pandas.DataFrame(rows, columns=Sample._fields))
            self._trackio.log({"validation/samples": table}, step=step)

        self._submit(log)

    def close(self, seconds: float, failed: bool) -> None:
        self._wait(self._trackio.finish, seconds)

    def _submit(self, call: Callable[[], object]) -> None:
        if self._thread.error is not None:
            self._stop(self._thread.error)
        elif not self._stopped:
            self._thread.submit(call)

    def _wait(self, call: Callable[[], object], seconds: float = math.inf) -> None:
        try:
            self._thread.result(call, min(seconds, SECONDS))
        except (Exception, SystemExit) as error:
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        if not self._stopped:
            self._stopped = True
            self._message(f"trackio stopped ({first_line(error)}): metrics.jsonl has every record")
