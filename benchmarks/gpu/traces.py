"""What the device does in a few steps, by torch.profiler; the traces are kept."""

from collections.abc import Iterable, Iterator
from itertools import islice

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from benchmarks.common import Values
from benchmarks.gpu.case import Case, Measurement, Setup
from benchmarks.gpu.steps import random_data
from benchmarks.machine import seconds_of, wait_for
from benchmarks.workbench import open_training, take_steps

PRESETS = ("base", "big")
STEPS = 3
LISTED = 30  # operations
NOTE = (
    f"{STEPS} steps; *step ms* is without the profiler. The device is *busy* while a kernel or a "
    "copy runs; *launches* are kernels, copies and fills. Operations have the time of their own "
    "kernels a step. `trace_NAME.json.gz`, beside this file, opens in https://ui.perfetto.dev."
)


def traces(setup: Setup) -> Iterator[Case]:
    for preset in PRESETS:
        yield Case(preset, lambda preset=preset: trace(setup, preset), 15)


def trace(setup: Setup, preset: str) -> Measurement:
    flags = setup.flags(preset)
    with open_training(flags, random_data(setup, flags)) as training:
        training.warm_up()
        device, steps = training.world.device, take_steps(training)
        take = lambda: list(islice(steps, STEPS))  # noqa: E731
        values: Values = {"step ms": 1e3 * seconds_of(take, device) / STEPS}
        activities = [ProfilerActivity.CPU, *([] if setup.cpu else [ProfilerActivity.CUDA])]
        with profile(activities=activities) as profiler:
            take()
            wait_for(device)
    profiler.export_chrome_trace(str(setup.folder / f"trace_{preset}.json.gz"))
    return Measurement(values | values_of(profiler, device.type), {"note": NOTE})


def values_of(profiler: profile, device: str) -> Values:
    """Busy time and launches of a GPU, and the operations with the most time, all of one step."""
    values: Values = {}
    if device == "cuda":
        done = [e for e in profiler.events() or () if e.device_type == DeviceType.CUDA]
        spans = [(e.time_range.start, e.time_range.end) for e in done if not e.is_user_annotation]
        values |= {"busy ms": covered(spans) / 1e3 / STEPS, "launches": len(spans) / STEPS}
    microseconds = {
        e.key: e.self_cpu_time_total if device == "cpu" else e.self_device_time_total
        for e in profiler.key_averages()
        if e.device_type == DeviceType.CPU
    }
    longest = sorted(microseconds, key=lambda name: -microseconds[name])[:LISTED]
    listed = (f"{name} {microseconds[name] / 1e3 / STEPS:.3g}" for name in longest)
    return values | {"operations, ms": "; ".join(listed)}


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length that these spans cover together."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total
