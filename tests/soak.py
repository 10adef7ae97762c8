"""Random faults for several minutes: `python -m tests.soak --minutes 10`.

One run on two ranks is killed and signalled, gets disk errors and losses that are not finite, and
is started again each time. At the end its weights, optimizer and metrics equal those of a run of
the same length with the same losses and no other fault.
"""

import argparse
import random
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from torch import Tensor

from tests.helpers import gpus as gpus  # hides them
from tests.helpers import processes
from tests.helpers.runs import assert_same_run, last_state
from tests.helpers.tiny_run import TINY_RUN, write_corpus
from translate_ddp.data.batches import Step
from translate_ddp.runtime.fault_injection import VARIABLE

FAULTS = {
    "kill": ["batch", "loss", "gradients", "updated", "saving", "writing", "syncing", "renaming"],
    "term": ["batch", "gradients", "writing", "published", "validating"],
    "raise": ["batch", "gradients"],
    "flip": ["updated"],
    "enospc": ["saving", "writing", "metrics"],
    "eio": ["syncing", "renaming", "published", "pruning"],
}
NONFINITE_STEPS = 5, 40, 41  # their loss is not finite in every run
EXPECTED = (0, 1, 2, 75, -9, 128 + 15, -15)  # the last two: a signal before the ranks have met


def choose(generator: random.Random) -> str:
    """A random fault in the next few epochs, on one rank or all of them."""
    action = generator.choice(list(FAULTS))
    point = generator.choice(FAULTS[action])
    # The same bit flip on every rank cannot be detected.
    rank = generator.choice(["@0", "@1"] if action == "flip" else ["", "@0", "@1"])
    most = {"writing": 400, "batch": 60, "loss": 60, "gradients": 60, "updated": 60}
    return f"{point}:{generator.randint(1, most.get(point, 8))}{rank}={action}"


def train_with_nonfinite_steps(flags: list[str]) -> None:
    """Train with a loss that is not finite at `NONFINITE_STEPS`."""
    from translate_ddp.training.updater import Updater

    compute_gradients = Updater.compute_gradients

    def compute_some_nan(self: Updater, step: Step) -> dict[str, Tensor]:
        sums = compute_gradients(self, step)
        if self.position.global_step in NONFINITE_STEPS and self.world.rank == 1:
            sums["loss"].fill_(float("nan"))
        return sums

    Updater.compute_gradients = compute_some_nan
    processes.run_train(flags)


def wait_like_a_launcher(job: processes.Job) -> list[int]:
    """Wait until all ranks exit; send SIGTERM once one has failed, or after 10 s."""
    deadline = time.monotonic() + 10
    while any(rank.is_alive() for rank in job.ranks) and time.monotonic() < deadline:
        if any(rank.exitcode for rank in job.ranks):
            break
        time.sleep(0.1)  # torchrun checks ten times a second
    for rank in range(2):
        send(job, signal.SIGTERM, rank)
    return job.wait()


def send(job: processes.Job, number: int, rank: int) -> None:
    with suppress(ProcessLookupError):
        if job.ranks[rank].is_alive():
            job.signal(number, rank)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    flags = [*TINY_RUN, "--dataset", write_corpus(folder), "--model_folder"]
    starts = 0
    deadline = time.monotonic() + 60 * options.minutes
    model = folder / "model"
    while time.monotonic() < deadline:
        fault = choose(generator)
        endless = [*flags, str(model), "--num_epochs", "100000"]
        job = processes.start(train_with_nonfinite_steps, folder, 2, {VARIABLE: fault}, endless)
        if generator.random() < 0.5:  # also at random times
            time.sleep(generator.uniform(0.2, 4.0))
            number = generator.choice([signal.SIGKILL, signal.SIGTERM])
            send(job, number, generator.randrange(2))
        codes = wait_like_a_launcher(job)
        assert all(code in EXPECTED for code in codes), f"{fault}: {codes}\n{job.text()}"
        starts += 1
        position = last_state(model)["position"] if list(model.glob("*.pt")) else {}
        print(f"{fault:<22} {codes}  step {position.get('global_step', 0)}", flush=True)
    epochs = str(last_state(model)["position"]["epoch"] + 1)
    processes.SECONDS = 3600  # for the uninterrupted run
    for path in (model, folder / "straight"):
        processes.start(
            train_with_nonfinite_steps, folder, 2, None, [*flags, str(path), "--num_epochs", epochs]
        ).succeed()
    assert_same_run(folder / "straight", model)
    steps = last_state(model)["position"]["global_step"]
    print(f"{starts} starts, {steps:,} steps.")
    print("Weights, optimizer, position and metrics equal those of the uninterrupted run.")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
