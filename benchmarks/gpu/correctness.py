"""The losses of the first steps on this device beside a CPU's, computed by this process.

Initial weights are drawn on the CPU, and without dropout nothing else is random, so what differs
is rounding: of sums in another order in fp32, of every activation in bf16. Muon's rounding grows
with its iterations.
"""

from collections.abc import Iterator
from itertools import islice

from benchmarks.common import Values, as_flags
from benchmarks.gpu.case import Case, Measurement, Setup
from benchmarks.random_pairs import random_copies
from benchmarks.workbench import open_training
from translate_ddp.runtime.world import World

STEPS = 40
LARGEST_DIFFERENCE = 1e-4  # of the losses with AdamW in fp32, relative
PAIRS, WORDS = 12_000, 50  # more than the steps take
SCHEDULE = {"dropout": 0, "schedule": "inverse_sqrt", "warmup_steps": 20, "lr": 2e-3}
NOTE = f"{STEPS} steps of `small` without dropout. {' '.join((__doc__ or '').split())}"


def correctness(setup: Setup) -> Iterator[Case]:
    of_cpu: dict[str, list[float]] = {}  # in fp32, by optimizer

    def compare(optimizer: str, precision: str) -> Measurement:
        if optimizer not in of_cpu:
            of_cpu[optimizer] = first_losses(setup, optimizer, "fp32", World())
        losses = first_losses(setup, optimizer, precision)
        return compared(losses, of_cpu[optimizer], is_exact=(optimizer, precision) == cases[0])

    cases = [("adamw", "fp32"), ("adamw", "bf16"), ("muon", "fp32")]
    for optimizer, precision in cases:
        run = lambda o=optimizer, p=precision: compare(o, p)  # noqa: E731
        yield Case(f"{optimizer}, {precision}", run, 5)


def first_losses(
    setup: Setup, optimizer: str, precision: str, joined: World | None = None
) -> list[float]:
    """The mean loss of each of the first steps, in nats; with `joined` on its device."""
    settings = SCHEDULE | {"optimizer": optimizer, "precision": precision}
    flags = setup.flags("small", batch_tokens=setup.tokens(2048)) + as_flags(settings)
    with open_training(flags, random_copies(PAIRS, WORDS, 2_000), joined) as training:
        training.warm_up()
        results = []
        for step in islice(training.loader, STEPS):
            results.append(training.optimizer_step(step, len(results)))
        return [float(result.loss) / result.tokens for result in results]


def compared(losses: list[float], of_cpu: list[float], is_exact: bool) -> Measurement:
    """The largest relative difference. Raises ValueError if it is too large and `is_exact`."""
    differences = [abs(a - b) / b for a, b in zip(losses, of_cpu, strict=True)]
    # Not "any is more": NaN differs, too.
    if is_exact and not all(difference <= LARGEST_DIFFERENCE for difference in differences):
        raise ValueError(
            f"losses differ from a CPU's by up to {max(differences):.1e} "
            f"(allowed: {LARGEST_DIFFERENCE:.0e}): {losses} instead of {of_cpu}"
        )
    values: Values = {"first loss": losses[0], "last loss": losses[-1], "of a CPU": of_cpu[-1]}
    values["largest difference"] = f"{max(differences):.1e}"
    return Measurement(values, {"note": NOTE, "losses": losses, "of_cpu": of_cpu})
