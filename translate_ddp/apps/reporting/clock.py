"""The time that a run was at work: the pauses between its launches are left out."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from translate_ddp.run_record import LaunchFacts, RunRecord, is_time


@dataclass(frozen=True)
class Clock:
    """Turns times into seconds of work since the first start."""

    first: float  # recorded time; infinite if there is none
    last: float
    pauses: np.ndarray  # P x 2: last recorded time of a launch, start of the next

    @classmethod
    def of(cls, record: RunRecord) -> "Clock":
        recorded = _RecordedTimes(record)
        first = recorded.first()
        starts = {launch.time for launch in record.launches}
        # After an end, a launch that kept no events, as with --no_report: its first record counts.
        starts |= {recorded.after(end.time) for end in record.ends}
        found = sorted(start for start in starts if first < start < np.inf)
        ends = map(recorded.before, found)
        pauses = [(end, start) for end, start in zip(ends, found, strict=True) if end < start]
        return cls(first, recorded.before(np.inf), np.array(pauses).reshape(-1, 2))

    def seconds(self, times: np.ndarray) -> np.ndarray:
        """Seconds of work until each time; they do not fall, also if the clock was set back."""
        lengths = np.diff(self.pauses, axis=1).ravel()
        passed = np.append(0.0, np.cumsum(lengths))
        left_out = passed[np.searchsorted(self.pauses[:, 1], times, side="right")]
        return np.maximum.accumulate(np.maximum(times - self.first - left_out, 0.0))

    def until(self, time: float) -> float:
        return float(self.seconds(np.array([time]))[0])

    def of_launches(self, launches: list[LaunchFacts], until: float) -> list[float]:
        """The seconds of work in each launch, the last one up to `until`."""
        starts = [self.until(launch.time) for launch in launches]
        lengths = np.diff([*starts, max(self.until(until), *starts)]) if starts else np.array([])
        return np.maximum(lengths, 0).tolist()  # a clock may have been set back


class _RecordedTimes:
    """The times at which the record shows that the run was at work."""

    def __init__(self, record: RunRecord) -> None:
        events = [*record.launches, *record.saved, *record.notices, *record.ends]
        times = [event.time for event in events]
        times += [launch.previous for launch in record.launches if launch.previous]
        # Events say better when a run ended: a start that fails early replaces the status.
        if not record.launches and (status := status_time(record)) is not None:
            times.append(status)
        self.times = [np.sort(curve.times) for curve in record.curves.values()]
        self.times.append(np.sort(np.array(times)))

    def first(self) -> float:
        return min((float(times[0]) for times in self.times if len(times)), default=np.inf)

    def after(self, time: float) -> float:
        """The first one after that time; infinite if there is none."""
        places = [np.searchsorted(times, time, side="right") for times in self.times]
        found = zip(self.times, places, strict=True)
        return min((float(times[at]) for times, at in found if at < len(times)), default=np.inf)

    def before(self, time: float) -> float:
        """The last one before that time; 0.0 if there is none."""
        places = [np.searchsorted(times, time) - 1 for times in self.times]
        found = zip(self.times, places, strict=True)
        return max((float(times[place]) for times, place in found if place >= 0), default=0.0)


def status_time(record: RunRecord) -> float | None:
    """When the run ended by STATUS.json; None if it does not say.

    A running one was written at the start of the launch.
    """
    if record.status.get("state") == "running":
        return None
    try:
        time = datetime.fromisoformat(str(record.status.get("time"))).timestamp()
    except (ValueError, OverflowError):
        return None
    return time if is_time(time) else None
