"""Efficiency of data-parallel training on many machines: `python -m benchmarks.scaling`.

Weak scaling: the share of a step that one GPU computes stays constant. The time of a step is
compute + exposed communication, from the model's parameters:

    compute     FLOP of the step's real tokens (benchmarks/flops.py) / (peak x utilisation)
    buckets     gradients in the order in which backward finishes them, cut where --bucket_cap_mb is
                reached; the embedding, shared by both inputs and the output, comes last and whole
    all-reduce  of a bucket of b bytes over n GPUs: 2 (n-1)/n b / rate + 2 log2(n) x latency.
                Within a node the rate is NVLink's. Over several nodes it is that of a node's
                network, which the rings of all its GPUs share; NVLink's share is then neglected.
    exposed     buckets are sent one after the other, each when it is ready, in proportion to its
                bytes in backward; backward is 2/3 of the compute of the step's last pass, earlier
                passes send nothing. What ends after backward is exposed: at least the last bucket.

Not included: optimizer and input (the same on any number of GPUs), stragglers, uneven batches,
other traffic, and the lower utilisation where a GPU's share of a step is small. Nothing is
measured; tests/test_benchmarks.py compares the buckets with those of DDP.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.common import Settings, Values, read_settings
from benchmarks.forecast import (
    GPUS_PER_NODE,
    Setting,
    bucket_bytes,
    forecast,
    meta_model,
    pass_flop,
    ring_bytes,
)
from benchmarks.machine import facts
from benchmarks.report import Row, table, write_report
from translate_ddp.errors import report_errors

PRESETS = ("small", "base", "big")
GPUS = (8, 16, 64, 256, 1024)
NETWORKS = (100, 200, 400)  # Gb/s of a node, each way
VARIANTS: dict[str, dict[str, Any]] = {
    "as above": {},
    "`--bucket_cap_mb 5`": {"bucket_cap_mb": 5},
    "`--bucket_cap_mb 100`": {"bucket_cap_mb": 100},
    "one bucket": {"bucket_cap_mb": 10_000},
    "4 passes a step (4 x `--batch_tokens`)": {"passes": 4},
    "16 passes a step": {"passes": 16},
    "bf16 gradients (not implemented)": {"gradient_bytes": 2},
    "bf16 gradients, 4 passes": {"gradient_bytes": 2, "passes": 4},
    "gradients ready at the end of backward only": {"overlaps": False},
    "no latency": {"latency_us": 0},
}


@dataclass(frozen=True)
class ScalingBenchmark(Settings):
    peak: float = 989
    """TFLOP/s of a GPU; 989 is an H100's, bf16, dense."""
    utilisation: tuple[float, float, float] = (25, 45, 55)
    """Percent of the peak, for the presets small, base and big."""
    tokens: tuple[int, ...] = (3125, 25000)
    """Target tokens of a GPU."""
    nvlink: float = 450
    """GB/s of a GPU within its node, each way."""
    latency: float = 5
    """Microseconds of a hop."""
    length: int = 32
    """Tokens of each sentence, on both sides."""

    def forecasts(self, tokens: int) -> list[Setting]:
        """The setting of each preset with so many tokens per GPU."""
        return [
            Setting(
                preset,
                sustained_tflops=self.peak * percent / 100,
                nvlink_gbytes=self.nvlink,
                latency_us=self.latency,
                length=self.length,
                tokens=tokens,
            )
            for preset, percent in zip(PRESETS, self.utilisation, strict=True)
        ]


def main() -> None:
    with report_errors():
        settings = read_settings(ScalingBenchmark, __doc__)
        report(settings)


def report(settings: ScalingBenchmark) -> None:
    usual = settings.forecasts(max(settings.tokens))
    rows = [
        forecast_row(replace(setting, gpus=gpus))
        for presets in zip(*map(settings.forecasts, settings.tokens), strict=True)
        for setting in presets
        for gpus in GPUS
    ]
    shares = ", ".join(f"{u:g} % ({p})" for p, u in zip(PRESETS, settings.utilisation, strict=True))
    gpus, network = usual[0].gpus, usual[0].network_gbits
    notes = [
        f"Assumed, not measured: a peak of {settings.peak:g} TFLOP/s a GPU at a utilisation of "
        f"{shares}; nodes of {GPUS_PER_NODE} GPUs with {settings.nvlink:g} GB/s each between them; "
        f"{settings.latency:g} µs a hop; sentences of {settings.length} tokens on both sides; "
        "fp32 gradients in buckets of 25 MiB, one pass a step.",
        "What is sent and computed:\n\n" + sizes_table(usual),
        f"Effect of single settings: efficiency in percent on {gpus} GPUs with {network:g} Gb/s a "
        f"node, {max(settings.tokens):,} tokens a GPU and pass:\n\n" + variants_table(usual),
    ]
    write_report(
        "scaling",
        "Many machines, calculated: efficiency of weak scaling",
        rows,
        list(rows[0].values),
        facts=facts(),
        raw={"arguments": {name: str(value) for name, value in asdict(settings).items()}},
        folder=settings.results,
        first_column="setting",
        notes=notes,
    )


def forecast_row(setting: Setting) -> Row:
    usual = forecast(setting)
    values: Values = {
        "compute ms": 1e3 * usual.compute_seconds,
        f"all-reduce ms at {setting.network_gbits:g} Gb/s": 1e3 * usual.all_reduce_seconds,
    }
    for network in NETWORKS:
        efficiency = forecast(replace(setting, network_gbits=network)).efficiency
        values[f"efficiency % at {network:g} Gb/s"] = 100 * efficiency
    return Row(setting.name, values)


def sizes_table(settings: Sequence[Setting]) -> str:
    rows = []
    for setting in settings:
        model = meta_model(setting.preset)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        buckets = bucket_bytes(model, setting.bucket_cap_mb, gradient_bytes=4)
        sent = ring_bytes(4 * parameters, setting.gpus)
        values: Values = {
            "parameters": parameters,
            "vocabulary": len(model.embedding.weight),
            "gradients MB, fp32": 4 * parameters / 1e6,
            "MB, bf16": 2 * parameters / 1e6,
            f"MB sent by each of {setting.gpus} GPUs, fp32": sent / 1e6,
            "buckets": len(buckets),
            "last bucket MB": buckets[-1] / 1e6,
            "GFLOP a target token": pass_flop(model, setting) / setting.tokens / 1e9,
            "sustained TFLOP/s": setting.sustained_tflops,
        }
        rows.append(Row(setting.preset, values))
    return table(rows, list(rows[0].values), "preset")


def variants_table(settings: Sequence[Setting]) -> str:
    rows = []
    for name, change in VARIANTS.items():
        found = [forecast(replace(setting, **change)).efficiency for setting in settings]
        shown = [f"{100 * efficiency:.1f}" for efficiency in found]
        rows.append(Row(name, dict(zip(PRESETS, shown, strict=True))))
    return table(rows, PRESETS, "setting")


if __name__ == "__main__":
    main()
