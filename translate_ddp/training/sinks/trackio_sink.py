"""trackio: experiment tracking in a local database, shown by `trackio show`. Optional."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from translate_ddp.errors import type_and_line
from translate_ddp.runtime.long_calls import BackgroundThread
from translate_ddp.training.logbook import Sample, Sink, shown_samples

SECONDS = 20.0  # maximum wait for the start, and for the end


class TrackioSink(Sink):
    """Logs to the trackio run `run_id`, which a resumed run continues.

    `history` holds earlier records of this run that trackio does not have under this id. After an
    error there is one message, and no further call. trackio itself warns of errors that it handles,
    such as a full disk.
    """

    def __init__(
        self,
        project: str,
        run_id: str,
        config: Mapping[str, Any],
        message: Callable[[str], None],
        history: Sequence[tuple[int, Mapping[str, float]]] = (),
    ) -> None:
        self.status = f"trackio project {project}"
        self._message = message
        self._stopped = False
        # trackio keeps its current run per thread, so every call is made on this one.
        self._thread = BackgroundThread("trackio", stop_after_error=True)
        arguments = {"name": run_id, "config": dict(config), "resume": "allow", "embed": False}
        self._call(lambda trackio: trackio.init(project, **arguments), SECONDS)
        for step, scalars in history:
            self.log(step, scalars)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        point = dict(scalars)
        self._call(lambda trackio: trackio.log(point, step=step))

    def validated(self, step: int, rows: Sequence[Sample]) -> None:
        columns, data = list(Sample._fields), [list(row) for row in shown_samples(rows)]

        def log(trackio: Any) -> None:
            table = trackio.Table(columns=columns, data=data)
            trackio.log({"validation/samples": table}, step=step)

        self._call(log)

    def close(self, seconds: float, failed: bool) -> None:
        self._call(lambda trackio: trackio.finish(), min(seconds, SECONDS))

    def _call(self, call: Callable[[Any], object], seconds: float | None = None) -> None:
        """Run `call(trackio)` on the thread; wait at most `seconds` for its end, or not at all."""
        if self._stopped:
            return

        def work() -> None:
            call(import_module("trackio"))

        try:
            if self._thread.error is not None:
                raise self._thread.error
            if seconds is None:
                self._thread.submit(work)
            else:
                self._thread.result(work, seconds)
        except (Exception, SystemExit) as error:
            self._stopped, self.status = True, ""
            reason = type_and_line(error)
            self._message(f"trackio stopped ({reason}): metrics.jsonl has every record")
