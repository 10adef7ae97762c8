"""Random faults for several minutes: `python -m tests.soak --minutes 10`.

One run of three ranks on two nodes is killed and signalled, gets disk errors and losses that are
not finite, and is started again each time: with the nodes in another order, requeued by Slurm,
with a rank less, with other flags on one rank, or with a damaged corpus. Every start has
`--preload ''`, which is for the first one only. At the end weights, optimizer and metrics are as
in a run of the same length with the same losses and no other fault.
"""

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from torch import Tensor

from tests import faults
from tests.helpers import gpus as gpus  # hides them
from tests.helpers import processes
from tests.helpers.nodes import Nodes, move_to_node, two_nodes
from tests.helpers.runs import assert_same_run, last_state
from tests.helpers.tiny_run import TINY_RUN, write_corpus
from translate_ddp.data.batches import Step
from translate_ddp.runtime.fault_injection import VARIABLE

FAULTS: dict[Callable[..., str], Sequence[str]] = {
    faults.kill: "batch loss gradients updated saving writing syncing renaming".split(),
    partial(faults.request, "term"): ["batch", "gradients", "writing", "published", "validating"],
    faults.error: ["batch", "gradients"],
    faults.flip_bit: ["updated"],
    faults.full_disk: ["saving", "writing", "metrics"],
    partial(faults.disk_error, "eio"): ["syncing", "renaming", "published", "pruning"],
}
LAUNCHES = ["same", "swapped", "requeued", "fewer ranks", "other flags", "damaged corpus"]
NONFINITE_STEPS = 5, 40, 41  # their loss is not finite in every run
EXPECTED = (0, 1, 2, 75, -9, 128 + 15, -15)  # the last two: a signal before the ranks have met


@dataclass
class Launcher:
    """Starts the run as torchrun and Slurm would, on two nodes."""

    nodes: Nodes
    folder: Path
    model: Path
    flags: list[str]
    first: int = 0  # the node of ranks 0 and 1
    agent: int = 0  # another number for each torchrun
    requeues: int = 0
    places: list[int] = field(default_factory=list)  # the node of each rank

    def start(self, launch: str, fault: str) -> processes.Job:
        if launch == "swapped":
            self.first = 1 - self.first
        if launch == "damaged corpus":
            damage_corpus(self.model, random.Random(fault))
        self.places = [self.first, self.first, 1 - self.first]
        agent, variables = self.agent, {"SLURM_JOB_ID": "1", VARIABLE: fault}
        if launch == "requeued":
            agent, variables["SLURM_RESTART_COUNT"] = agent + 1, str(self.requeues + 1)
        if launch == "fewer ranks":  # other sums: it must end before its first step
            self.places, variables[VARIABLE] = self.places[:2], faults.kill("batch")
        logs = self.folder / f"none_{agent}" / "attempt_0" / "0"
        logs.mkdir(parents=True, exist_ok=True)
        variables["TORCHELASTIC_ERROR_FILE"] = str(logs / "error.json")
        variables["MASTER_ADDR"] = self.nodes.addresses[self.places[0]]
        variables["GLOO_SOCKET_IFNAME"] = self.nodes.interface
        odd = ["--lr", "0.1"] if launch == "other flags" else []
        arguments = (list(self.nodes.namespaces), self.places, self.flags, odd)
        return processes.start(train_on_nodes, self.folder, len(self.places), variables, *arguments)

    def note_requeue(self) -> None:
        """The next starts are by the torchrun of the requeued job, if it has begun the run."""
        record = self.model / ".launch"
        if record.exists() and f"none_{self.agent + 1}" in record.read_text():
            self.agent, self.requeues = self.agent + 1, self.requeues + 1


def train_on_nodes(
    namespaces: list[str], places: list[int], flags: list[str], odd: list[str]
) -> None:
    """One rank, with a loss that is not finite at `NONFINITE_STEPS`; the last has more flags."""
    from translate_ddp.training.step import OptimizerStep

    rank = int(os.environ["RANK"])
    node = places[rank]
    os.environ["LOCAL_RANK"] = str(places[:rank].count(node))
    os.environ["LOCAL_WORLD_SIZE"] = str(places.count(node))
    move_to_node(node, namespaces)
    compute_gradients = OptimizerStep.compute_gradients

    def compute_some_nan(
        self: OptimizerStep, step: Step, global_step: int = 0
    ) -> dict[str, Tensor]:
        sums = compute_gradients(self, step, global_step)
        if global_step in NONFINITE_STEPS and self.world.rank == 1:
            sums["loss"].fill_(float("nan"))
        return sums

    OptimizerStep.compute_gradients = compute_some_nan
    processes.run_train([*flags, *(odd if rank == len(places) - 1 else [])])


def choose(generator: random.Random) -> str:
    """A random fault in the next few epochs, on one rank or all of them."""
    action = generator.choice(list(FAULTS))
    point = generator.choice(FAULTS[action])
    # The same bit flip on every rank cannot be detected.
    ranks = [0, 1, 2] + [None] * (action != faults.flip_bit)
    most = {"writing": 400, "batch": 60, "loss": 60, "gradients": 60, "updated": 60}
    at = generator.randint(1, most.get(point, 8))
    return action(point, at, rank=generator.choice(ranks))


def damage_corpus(model: Path, generator: random.Random) -> None:
    """Flip a bit of a prepared file, or truncate it."""
    files = [path for path in sorted(model.glob("data/en-it-*/*")) if path.stat().st_size]
    if not files:
        return
    path = generator.choice(files)
    data = bytearray(path.read_bytes())
    at = generator.randrange(len(data))
    data[at] ^= 1 << generator.randrange(8)
    path.write_bytes(data[:at] if generator.random() < 0.3 else data)


def wait_like_a_launcher(job: processes.Job) -> list[int]:
    """Wait until all ranks exit; send SIGTERM once one has failed, or after 10 s."""
    deadline = time.monotonic() + 10
    while any(rank.is_alive() for rank in job.ranks) and time.monotonic() < deadline:
        if any(rank.exitcode for rank in job.ranks):
            break
        time.sleep(0.1)  # torchrun checks ten times a second
    for rank in range(len(job.ranks)):
        send(job, signal.SIGTERM, rank)
    return job.wait()


def send(job: processes.Job, number: int, rank: int) -> None:
    with suppress(ProcessLookupError):
        if job.ranks[rank].is_alive():
            job.signal(number, rank)


def soak(launcher: Launcher, seconds: float, generator: random.Random) -> None:
    """Start the run again and again with random faults for so many seconds."""
    deadline = time.monotonic() + seconds
    counts = dict.fromkeys(LAUNCHES, 0)
    while time.monotonic() < deadline:
        launch, fault = generator.choices(LAUNCHES, [6, 2, 2, 1, 1, 2])[0], choose(generator)
        job = launcher.start(launch, fault)
        if generator.random() < 0.5:  # also at random times
            time.sleep(generator.uniform(0.2, 4.0))
            number = generator.choice([signal.SIGKILL, signal.SIGTERM])
            send(job, number, generator.randrange(len(job.ranks)))
        codes = wait_like_a_launcher(job)
        assert all(code in EXPECTED for code in codes), f"{fault}: {codes}\n{job.text()}"
        launcher.note_requeue()
        counts[launch] += 1
        saved = list(launcher.model.glob("*.pt"))
        step = last_state(launcher.model)["position"]["global_step"] if saved else 0
        print(f"{launch:<15} {fault:<22} {codes}  step {step}", flush=True)
    assert not list(launcher.model.glob("earlier-*")), "a restart applied --preload '' again"
    print(", ".join(f"{count} {launch}" for launch, count in counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    flags = [*TINY_RUN, "--dataset", write_corpus(folder)]
    model, straight = folder / "model", folder / "straight"
    with two_nodes() as nodes:
        endless = ["--model_folder", str(model), "--num_epochs", "100000", "--preload", ""]
        launcher = Launcher(nodes, folder, model, [*flags, *endless])
        soak(launcher, 60 * options.minutes, random.Random(options.seed))
        epochs = str(last_state(model)["position"]["epoch"] + 1)
        processes.SECONDS = 3600  # for the uninterrupted run
        for path in (model, straight):
            last = [*flags, "--model_folder", str(path), "--num_epochs", epochs]
            Launcher(nodes, folder, path, last).start("same", "").succeed()
    assert_same_run(straight, model)
    steps = last_state(model)["position"]["global_step"]
    print(f"{steps:,} steps on two {'linked' if nodes.are_linked else 'simulated'} nodes.")
    print("Weights, optimizer, position and metrics equal the uninterrupted run.")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
