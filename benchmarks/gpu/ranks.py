"""Several ranks: their pace beside one, and a run of train.py that goes on after kill -9.

Executed as a module, it measures the pace on the ranks of its torchrun.
"""

import itertools
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.clock import Clock
from benchmarks.common import OFFLINE, Failed, Values, module_command, python
from benchmarks.gpu.case import Case, Measurement, Setup, Unavailable
from benchmarks.gpu.steps import UNTIMED_STEPS, random_data
from benchmarks.rounds import run_once
from benchmarks.workbench import open_training, run_clock, take_steps
from translate_ddp.run_record import METRICS_FILE, STATUS_FILE
from translate_ddp.runtime.fault_injection import VARIABLE, Fault
from translate_ddp.runtime.world import open_world
from translate_ddp.settings import DistributedConfig

TOKENS = (3_000, 25_000)  # a step and rank
KILLED_STEP = 25
PAIRS, WORDS = 10_000, 12  # of random numbers, more than the steps take
RUN = {"max_steps": 30, "save_every": 10, "log_every": 1, "validation": 20}
RUN |= {"wandb_mode": "disabled"}
LARGEST_DIFFERENCE = 0.05  # relative: a GPU sums in no fixed order, in bf16
NOTE = (
    "Target tokens/s of all ranks, with so many tokens a step and rank of `base`, under torchrun; "
    "in brackets the share of as many times the pace of one rank."
)


def ranks(setup: Setup) -> Iterator[Case]:
    count = 2 if setup.cpu else torch.cuda.device_count()
    if count == 1:
        raise Unavailable("skipped", "one GPU")
    of_one: dict[str, float] = {}
    for size in sorted({1, 2, count}):
        name = f"{size} rank{'s' * (size > 1)}"
        yield Case(name, lambda size=size: scaling(setup, size, of_one), 30)
    yield Case("kill -9 of a rank, and resume", lambda: kill_and_resume(setup, count), 100)


def scaling(setup: Setup, size: int, of_one: dict[str, float]) -> Measurement:
    paces = run_once(module_command("gpu.ranks", {}, size), setup.left())
    paces.pop("peak_rss_mib")
    if size == 1:
        of_one.update(paces)
    shares = {name: pace / size / of_one.get(name, math.nan) for name, pace in paces.items()}
    values: Values = {name: f"{pace:,.0f} ({shares[name]:.0%})" for name, pace in paces.items()}
    return Measurement(values, {"note": NOTE, "table": "scaling", "paces": paces})


def main() -> None:
    """Measure each configuration on the ranks of this torchrun; rank 0 prints them as JSON."""
    setup = Setup(not torch.cuda.is_available(), math.inf, Path())
    paces: dict[str, float] = {}
    with open_world(DistributedConfig()) as world:
        for optimizer, on_gpu in itertools.product(("adamw", "muon"), TOKENS):
            tokens = setup.tokens(on_gpu)
            flags = setup.flags("base", batch_tokens=world.size * tokens, optimizer=optimizer)
            with open_training(flags, random_data(setup, flags), world) as training:
                training.warm_up()
                clock = Clock(setup.sizes.window_seconds, world.device, UNTIMED_STEPS)
                run_clock(training, take_steps(training), clock)
            paces[f"{optimizer}, {tokens:,}"] = clock.result()["target_tokens_per_second"]
        if world.is_main:
            print(json.dumps(paces))


def kill_and_resume(setup: Setup, count: int) -> Measurement:
    """Kill the last rank of a run of train.py, resume it, and compare the losses of equal steps."""
    with tempfile.TemporaryDirectory() as name:
        random = np.random.default_rng(0)
        for language in ("en", "it"):
            rows = random.integers(1_000, size=(PAIRS, WORDS)).tolist()
            lines = (" ".join(map(str, row)) + "\n" for row in rows)
            Path(name, f"corpus.{language}").write_text("".join(lines), encoding="utf-8")
        fault = Fault("kill", "batch", KILLED_STEP, KILLED_STEP, rank=count - 1)
        killed, before = train(setup, Path(name), count, {VARIABLE: json.dumps([fault])})
        resumed, after = train(setup, Path(name), count, {})
    if (killed["state"], resumed["state"]) != ("lost", "finished"):
        raise Failed(f"{killed} and then {resumed}, instead of lost and finished")
    differences = [abs(after[step] - loss) / loss for step, loss in before.items()]
    is_equal = all(difference <= LARGEST_DIFFERENCE for difference in differences)
    if not is_equal or len(after) != RUN["max_steps"]:
        raise Failed(f"the losses were {before}, and after the resume {after}")
    values: Values = {"ranks": count, "ended with": killed["reason"].partition(". ")[0]}
    values["largest difference of losses"] = f"{max(differences):.1e}"
    return Measurement(values, {"table": "resume", "killed": killed, "resumed": resumed})


def train(
    setup: Setup, folder: Path, count: int, fault: dict[str, str]
) -> tuple[dict[str, Any], dict[int, float]]:
    """Run train.py under torchrun to its end; returns STATUS.json and the losses by step."""
    own = {"model_folder": folder / "run", "dataset": folder / "corpus"}
    flags = setup.flags("small", **RUN, **own, batch_tokens=setup.tokens(4_096))
    with suppress(Failed):  # its output is no JSON; STATUS.json has how it ended
        command = [*python(count), "train.py", *flags]
        run_once(command, setup.left() - 10, os.environ | OFFLINE | fault)
    status = json.loads((folder / "run" / STATUS_FILE).read_text(encoding="utf-8"))
    lines = (folder / "run" / METRICS_FILE).read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return status, {r["step"]: float(r["train/loss"]) for r in records if "train/loss" in r}


if __name__ == "__main__":
    main()
