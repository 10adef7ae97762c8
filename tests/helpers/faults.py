"""Runs with injected faults, and the uninterrupted run with which they are compared."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import processes
from tests.helpers.runs import assert_same_run, checkpoints, last_state, status
from tests.helpers.tiny_run import TINY_RUN
from translate_ddp.runtime.fault_injection import VARIABLE

MANY_EPOCHS = ["--num_epochs", "100000"]


class Run:
    """A run in a folder of its own, optionally with prepared data."""

    def __init__(
        self, flags: list[str], folder: Path, uninterrupted: "Callable[..., Run]", data: Path | None
    ) -> None:
        self.folder = folder
        self.uninterrupted = uninterrupted
        self.flags = [*flags, "--model_folder", str(folder)]
        if data is not None:
            shutil.copytree(data, folder / "data")

    def start(self, *flags: str, size: int = 1, fault: str = "", **variables: str) -> processes.Job:
        variables |= {VARIABLE: fault} if fault else {}
        return processes.train([*self.flags, *flags], self.folder, size, **variables)

    def copy(self, name: str) -> "Run":
        """A second run, not started yet, with the same flags and data."""
        folder = self.folder.parent / name
        return Run(self.flags, folder, self.uninterrupted, self.folder / "data")

    def continue_from(self, other: "Run") -> None:
        """Begin with a copy of what the other run has written."""
        shutil.copytree(other.folder, self.folder, dirs_exist_ok=True)

    @property
    def status(self) -> dict[str, Any]:
        return status(self.folder)

    @property
    def saved_steps(self) -> list[int]:
        """The steps of the checkpoints, in ascending order."""
        steps = {int(name.split("step_")[1].split("-")[0]) for name in checkpoints(self.folder)}
        return sorted(steps)

    def assert_uninterrupted(self, size: int = 1, epochs: int = 2) -> None:
        """It has ended like the run without faults, and left no temporary file."""
        assert_same_run(self.uninterrupted(size, epochs).folder, self.folder)
        assert not list(self.folder.glob(".tmodel*"))
        history = last_state(self.folder)["run"]["history"]
        assert set(checkpoints(self.folder)[1:]) <= set(history)  # it does not contain its own name
        assert self.status["state"] == "finished"


@pytest.fixture(scope="session")
def uninterrupted(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """The finished run of `epochs` epochs on `size` ranks, with these further flags."""
    runs: dict[tuple[int, int, tuple[str, ...]], Run] = {}

    def finished_run(size: int = 1, epochs: int = 2, *flags: str) -> Run:
        if (size, epochs, flags) not in runs:
            folder = tmp_path_factory.mktemp("uninterrupted") / "model"
            run = Run([*TINY_RUN, "--dataset", corpus], folder, finished_run, None)
            runs[size, epochs, flags] = run
            run.start("--num_epochs", str(epochs), *flags, size=size).succeed()
        return runs[size, epochs, flags]

    return finished_run


@pytest.fixture
def run(corpus: str, tmp_path: Path, uninterrupted: Callable[..., Run]) -> Run:
    data = uninterrupted().folder / "data"
    return Run([*TINY_RUN, "--dataset", corpus], tmp_path / "model", uninterrupted, data)


@pytest.fixture
def trained(uninterrupted: Callable[..., Run]) -> Path:
    """The folder of the finished run of two epochs on one rank, which no test may change."""
    return uninterrupted().folder


@pytest.fixture
def finished(run: Run, uninterrupted: Callable[..., Run]) -> Run:
    """A copy of the finished run of two epochs on one rank."""
    run.continue_from(uninterrupted())
    return run


@pytest.fixture
def long_validation(tmp_path: Path) -> list[str]:
    """Flags of a validation of more than ten batches."""
    lines = [f"river {'stone ' * n}{'moon ' * m}\n" for n in range(8) for m in range(8)]
    for language in ("en", "it"):
        (tmp_path / f"long.{language}").write_text("".join(lines))
    return ["--validation", str(tmp_path / "long"), "--max_tokens", "60"]
