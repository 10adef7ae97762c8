"""Many machines on paper, checked at two ranks: `python -m benchmarks.scaling`.

What data-parallel training asks of a network, from the model's own parameters. For weak scaling
(each GPU's share of a step stays as it is) a step takes compute + exposed communication:

    compute     FLOP of the step's real tokens (benchmarks/flops.py) / (peak x utilisation)
    buckets     gradients in the order in which backward finishes them, cut where --bucket_cap_mb is
                reached; the embedding, which both inputs and the output share, comes last and whole
    all-reduce  of a bucket of b bytes over n GPUs: 2 (n-1)/n b / rate + 2 log2(n) x latency.
                Within a node the rate is NVLink's. Over several it is that of a node's network,
                through which all rings of its GPUs go; NVLink's share is then free.
    exposed     buckets go one after the other, each when it is ready, spread over backward by its
                bytes; backward is 2/3 of the compute of the step's last pass, the earlier passes
                send nothing. What ends after backward is exposed: the last bucket at least.

Left out: optimizer and input (the same on any number of GPUs), stragglers, uneven batches, other
traffic, and the drop of utilisation where a GPU's share of a step is small. Nothing is measured but
the check: which bytes two real ranks on this machine send, in which buckets, and when.
"""

import argparse
import functools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from benchmarks.flops import step_flop
from benchmarks.machine import facts
from benchmarks.report import RESULTS, Row, table, write_report
from benchmarks.rounds import Contestant, Outcome, run_rounds
from benchmarks.workbench import open_trainer, random_pairs, take_steps
from config import parse
from translate_ddp.errors import report_errors
from translate_ddp.modeling.transformer import Transformer

PRESETS = ("small", "base", "big")
GPUS_A_NODE = 8
GPUS = (8, 16, 64, 256, 1024)
NETWORKS = (100, 200, 400)  # Gb/s of a node, each way
USUAL_GPUS, USUAL_NETWORK = 64, 200  # where the settings are compared

CHECK_STEPS, CHECK_LENGTH, CHECK_PASS_TOKENS, CHECK_BUCKET_MB = 5, 16, 256, 5
CHECK_TIMEOUT_SECONDS = 120
ELEMENT_BYTES = {"float": 4, "c10::BFloat16": 2}  # by the profiler's names


@dataclass(frozen=True)
class Setting:
    """One way to train one model: all that the formulas ask for."""

    preset: str
    sustained_tflops: float  # of a GPU
    nvlink_gbytes: float  # a second, of a GPU, each way
    latency_us: float  # of a hop
    length: int  # of every sentence, on both sides
    tokens: int  # target tokens of a GPU in one pass
    passes: int = 1  # of a GPU in one step
    gpus: int = USUAL_GPUS
    network_gbits: float = USUAL_NETWORK  # a second, of a node, each way
    bucket_cap_mb: float = 25
    gradient_bytes: int = 4  # of one parameter: 4 is fp32, 2 is bf16
    overlaps: bool = True  # or every gradient is ready at the end of backward only

    @property
    def name(self) -> str:
        return f"{self.preset}, {self.tokens:,} tokens a GPU, {self.gpus:,} GPUs"


@dataclass(frozen=True)
class Forecast:
    compute_seconds: float
    all_reduce_seconds: float  # of all buckets, hidden or not
    exposed_seconds: float

    @property
    def efficiency(self) -> float:
        """Of a GPU among many, compared with one alone."""
        return self.compute_seconds / (self.compute_seconds + self.exposed_seconds)


def forecast(setting: Setting) -> Forecast:
    """A step's time on paper, by the formulas above."""
    model = on_paper(setting.preset)
    compute = setting.passes * pass_flop(model, setting) / (setting.sustained_tflops * 1e12)
    backward = 2 / 3 * compute / setting.passes
    buckets = bucket_bytes(model, setting.bucket_cap_mb, setting.gradient_bytes)
    ready = np.cumsum(buckets) / sum(buckets) if setting.overlaps else np.ones(len(buckets))
    taken = [all_reduce_seconds(size, setting) for size in buckets]
    done = 0.0  # since backward began
    for begin, seconds in zip(ready * backward, taken, strict=True):
        done = max(done, begin) + seconds
    return Forecast(compute, sum(taken), done - backward)


def pass_flop(model: Transformer, setting: Setting) -> float:
    lengths = np.full(setting.tokens // setting.length, setting.length)
    return step_flop(model, lengths, lengths).total


def all_reduce_seconds(size: float, setting: Setting) -> float:
    within_node = setting.gpus <= GPUS_A_NODE
    rate = setting.nvlink_gbytes * 1e9 if within_node else setting.network_gbits * 1e9 / 8
    latency = 2 * math.log2(setting.gpus) * setting.latency_us / 1e6
    return ring_bytes(size, setting.gpus) / rate + latency


def ring_bytes(size: float, ranks: int) -> float:
    """What each rank sends in a ring all-reduce of `size` bytes."""
    return 2 * (ranks - 1) / ranks * size


def bucket_bytes(model: Transformer, cap_mb: float, gradient_bytes: int) -> list[int]:
    """DDP's buckets, in the order in which they are sent: it closes one that has reached its cap.

    Sizes are cut in fp32, and sent as `gradient_bytes` a parameter.
    """
    buckets, size = [], 0
    for parameter in in_backward_order(model):
        size += 4 * parameter.numel()
        if size >= cap_mb * 2**20:
            buckets.append(size)
            size = 0
    buckets += [size] if size else []
    return [bucket * gradient_bytes // 4 for bucket in buckets]


def in_backward_order(model: Transformer) -> list[nn.Parameter]:
    """As backward finishes them: what forward used last comes first.

    Forward makes the decoder's keys and values of the source before it enters the decoder, and
    begins with the embedding.
    """

    def stage(name: str) -> int:
        if "cross_attention.key_value" in name:
            return 1
        return {"decoder": 0, "encoder": 2, "embedding": 3}[
            name.partition(".")[0].partition("_")[0]
        ]

    names = [name for name, _ in model.named_parameters()]
    return [model.get_parameter(name) for name in sorted(reversed(names), key=stage)]


@functools.cache
def on_paper(preset: str) -> Transformer:
    """The preset's model, without memory for its weights."""
    config = parse(["--preset", preset])
    with torch.device("meta"):
        return Transformer(config.model, config.tokenizer.vocab_size)


# --- the check at two real ranks ---


@dataclass(frozen=True)
class Check:
    """A run of the product at two ranks, and what the formulas say of it."""

    precision: str
    passes: int

    def contestant(self) -> Contestant:
        name = f"{self.precision}, {self.passes} pass{'es' if self.passes > 1 else ''} a step"
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        command = [sys.executable, *launch, "-m", "benchmarks.scaling"]
        return Contestant(name, [*command, "--check", json.dumps(asdict(self))])

    def flags(self) -> list[str]:
        settings = {
            "preset": "small",
            "precision": self.precision,
            "seq_len": CHECK_LENGTH,
            "batch_tokens": 2 * self.passes * CHECK_PASS_TOKENS,
            "max_tokens": CHECK_PASS_TOKENS,
            "bucket_cap_mb": CHECK_BUCKET_MB,
        }
        return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def run_check(check: Check) -> None:
    """Under torchrun: take a few steps and print what they send beside what they should."""
    sentences = 2 * check.passes * CHECK_PASS_TOKENS // CHECK_LENGTH
    data = random_pairs(CHECK_STEPS * sentences, CHECK_LENGTH, vocabulary=8000)
    with open_trainer(check.flags(), data) as trainer:
        trainer.warm_up()
        steps = take_steps(trainer)
        next(steps)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
            next(steps)
        trainer.world.gather("")  # both ranks are here
        before = sent_bytes()
        for _ in range(CHECK_STEPS):
            next(steps)
        trainer.world.gather("")
        sent = (sent_bytes() - before) / CHECK_STEPS
        if trainer.world.is_main:
            buckets, early = sent_buckets(list(recorded.events() or []))
            expected = bucket_bytes(trainer.model, CHECK_BUCKET_MB, gradient_bytes=4)
            told = {"buckets": buckets, "expected": expected, "early": early, "sent": sent}
            print(json.dumps(told))


def sent_buckets(events: Sequence[Any]) -> tuple[list[int], int]:
    """Bytes of each all-reduce of gradients, in order, and of those begun during backward.

    Backward is taken to end with its last matrix product. Scalars that are summed are no gradients.
    """
    backward_end = max(e.time_range.end for e in events if e.name == "aten::mm")
    reduced = [e for e in events if e.name == "gloo:all_reduce" and e.input_shapes[0]]
    reduced.sort(key=lambda event: event.time_range.start)
    sizes = [math.prod(e.input_shapes[0]) * ELEMENT_BYTES[e.input_dtypes[0]] for e in reduced]
    starts = [event.time_range.start for event in reduced]
    early = sum(s for s, start in zip(sizes, starts, strict=True) if start < backward_end)
    return sizes, early


def sent_bytes() -> int:
    """What all network interfaces of this machine have sent so far, for both ranks."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.partition(":")[2].split()[8]) for line in lines)


# --- what is told ---


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--peak", type=float, default=989, help="TFLOP/s of a GPU; 989 is an H100's, bf16, dense")
    add("--utilisation", type=float, nargs=3, default=[25, 45, 55], help="percent, of each preset")
    add("--tokens", type=int, nargs="+", default=[3125, 25000], help="target tokens of a GPU")
    add("--nvlink", type=float, default=450, help="GB/s of a GPU within its node, each way")
    add("--latency", type=float, default=5, help="microseconds of a hop")
    add("--length", type=int, default=32, help="tokens of each sentence, on both sides")
    add("--results", type=Path, default=RESULTS, help="folder to write to")
    add("--check", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with report_errors():
        if arguments.check:
            run_check(Check(**arguments.check))
        else:
            report(arguments)


def usual_settings(arguments: argparse.Namespace, tokens: int) -> list[Setting]:
    """Of each preset."""
    return [
        Setting(
            preset,
            sustained_tflops=arguments.peak * percent / 100,
            nvlink_gbytes=arguments.nvlink,
            latency_us=arguments.latency,
            length=arguments.length,
            tokens=tokens,
        )
        for preset, percent in zip(PRESETS, arguments.utilisation, strict=True)
    ]


def report(arguments: argparse.Namespace) -> None:
    checks = [
        Check(precision, passes).contestant() for precision in ("fp32", "bf16") for passes in (1, 4)
    ]
    outcomes = run_rounds(checks, rounds=1, timeout=CHECK_TIMEOUT_SECONDS)
    usual = usual_settings(arguments, max(arguments.tokens))
    rows = [
        forecast_row(replace(setting, gpus=gpus))
        for settings in zip(*(usual_settings(arguments, t) for t in arguments.tokens), strict=True)
        for setting in settings
        for gpus in GPUS
    ]
    shares = ", ".join(
        f"{u:g} % ({p})" for p, u in zip(PRESETS, arguments.utilisation, strict=True)
    )
    notes = [
        f"Assumed, not measured: a peak of {arguments.peak:g} TFLOP/s a GPU at a utilisation of "
        f"{shares}; nodes of {GPUS_A_NODE} GPUs with {arguments.nvlink:g} GB/s each between them; "
        f"{arguments.latency:g} µs a hop; sentences of {arguments.length} tokens on both sides; "
        "fp32 gradients in buckets of 25 MiB, one pass a step.",
        "What there is to send and to compute:\n\n" + sizes_table(usual),
        f"What moves it: efficiency in percent on {USUAL_GPUS} GPUs with {USUAL_NETWORK} Gb/s a "
        f"node, {max(arguments.tokens):,} tokens a GPU and pass:\n\n" + levers_table(usual),
        "Checked at two real ranks of this machine over gloo, with the small preset and buckets of "
        f"{CHECK_BUCKET_MB} MiB; MB a step:\n\n" + check_table(outcomes),
    ]
    raw = {
        "arguments": {name: str(value) for name, value in vars(arguments).items()},
        "checks": {o.contestant.name: o.rounds or o.failure for o in outcomes},
    }
    title = "Many machines on paper: efficiency of weak scaling"
    columns, bar = list(rows[0].values), efficiency_at(USUAL_NETWORK)
    write_report(
        "scaling", title, rows, columns, bar, facts(), raw, arguments.results, "setting", notes
    )


def efficiency_at(network: float) -> str:
    return f"efficiency % at {network:g} Gb/s"


def forecast_row(setting: Setting) -> Row:
    values: dict[str, str | float] = {}
    forecasts = {n: forecast(replace(setting, network_gbits=n)) for n in NETWORKS}
    usual = forecasts[USUAL_NETWORK]
    values["compute ms"] = 1e3 * usual.compute_seconds
    values[f"all-reduce ms at {USUAL_NETWORK} Gb/s"] = 1e3 * usual.all_reduce_seconds
    for network, told in forecasts.items():
        values[efficiency_at(network)] = 100 * told.efficiency
    return Row(setting.name, values)


def sizes_table(settings: Sequence[Setting]) -> str:
    rows = []
    for setting in settings:
        model = on_paper(setting.preset)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        buckets = bucket_bytes(model, setting.bucket_cap_mb, gradient_bytes=4)
        values: dict[str, str | float] = {
            "parameters": parameters,
            "vocabulary": len(model.embedding.weight),
            "gradients MB, fp32": 4 * parameters / 1e6,
            "MB, bf16": 2 * parameters / 1e6,
            f"MB sent by each of {setting.gpus} GPUs, fp32": ring_bytes(
                4 * parameters, setting.gpus
            )
            / 1e6,
            "buckets": len(buckets),
            "last bucket MB": buckets[-1] / 1e6,
            "GFLOP a target token": pass_flop(model, setting) / setting.tokens / 1e9,
            "sustained TFLOP/s": setting.sustained_tflops,
        }
        rows.append(Row(setting.preset, values))
    return table(rows, list(rows[0].values), "preset")


LEVERS: dict[str, dict[str, Any]] = {
    "as above": {},
    "`--bucket_cap_mb 5`": {"bucket_cap_mb": 5},
    "`--bucket_cap_mb 100`": {"bucket_cap_mb": 100},
    "one bucket": {"bucket_cap_mb": 10_000},
    "4 passes a step (4 x `--batch_tokens`)": {"passes": 4},
    "16 passes a step": {"passes": 16},
    "bf16 gradients (not in the product)": {"gradient_bytes": 2},
    "bf16 gradients, 4 passes": {"gradient_bytes": 2, "passes": 4},
    "gradients ready at the end of backward only": {"overlaps": False},
    "no latency": {"latency_us": 0},
}


def levers_table(settings: Sequence[Setting]) -> str:
    rows = []
    for name, change in LEVERS.items():
        told = [forecast(replace(setting, **change)) for setting in settings]
        efficiencies = [f"{100 * one.efficiency:.1f}" for one in told]
        rows.append(Row(name, dict(zip(PRESETS, efficiencies, strict=True))))
    return table(rows, PRESETS, "setting")


def check_table(outcomes: Sequence[Outcome]) -> str:
    columns = [
        "gradients by formula",
        "all-reduced",
        "buckets by formula",
        "buckets sent",
        "begun before backward's end",
        "sent by both ranks, by formula",
        "sent by the interfaces",
    ]
    rows = []
    for outcome in outcomes:
        values: list[str | float] = []
        for told in outcome.rounds:
            total = sum(told["expected"])
            values += [
                *(f"{sum(told[key]) / 1e6:.2f}" for key in ("expected", "buckets")),
                *(
                    ", ".join(f"{b / 1e6:.1f}" for b in told[key])
                    for key in ("expected", "buckets")
                ),
                f"{100 * told['early'] / total:.0f} %",
                f"{2 * ring_bytes(total, 2) / 1e6:.2f}",
                f"{told['sent'] / 1e6:.2f}",
            ]
        rows.append(
            Row(outcome.contestant.name, dict(zip(columns, values, strict=False)), outcome.failure)
        )
    return table(rows, columns, "run")


if __name__ == "__main__":
    main()
