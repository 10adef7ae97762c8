"""Runs on two corpora, whose pairs each epoch has by weights."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.faults import Run
from tests.helpers.tiny_run import TINY_RUN

FLAGS = TINY_RUN[: TINY_RUN.index("--num_epochs")]
WORDS = ["sun", "moon", "tree", "river", "stone", "bird", "fish", "wolf"]
PAIRS = (120, 60)  # of the two corpora


def write_corpora(folder: Path) -> list[str]:
    """The prefixes of two corpora and of a validation corpus, whose sources all differ.

    Targets are reversed sources in upper case.
    """
    generator = random.Random(0)
    sources: set[str] = set()
    while len(sources) < sum(PAIRS) + 10:
        sources.add(" ".join(generator.choices(WORDS, k=generator.randint(3, 7))))
    rest, prefixes = sorted(sources), []
    for name, count in zip(("one", "two", "valid"), (*PAIRS, 10), strict=True):
        lines, rest = rest[:count], rest[count:]
        prefixes.append(str(folder / name))
        targets = [" ".join(line.upper().split()[::-1]) for line in lines]
        Path(f"{prefixes[-1]}.en").write_text("".join(f"{line}\n" for line in lines))
        Path(f"{prefixes[-1]}.it").write_text("".join(f"{line}\n" for line in targets))
    return prefixes


def write_settings(folder: Path, **settings: Any) -> list[str]:
    """The flags of a run on both corpora with these settings, which may be tags."""
    one, two, validation = write_corpora(folder)
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump({"dataset": [one, two], "validation": validation, **settings}))
    return [*FLAGS, "--config", str(path)]


def run_with(folder: Path, **settings: Any) -> Run:
    def no_other_run(*_: Any) -> Run:
        raise AssertionError("this run is compared with no other one")

    return Run(write_settings(folder, **settings), folder / "model", no_other_run, None)


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bidirectional run. Its corpora and settings lie beside it."""
    run = run_with(tmp_path_factory.mktemp("both"), bidirectional=True)
    run.start("--num_epochs", "1", "--lr", "0.02").succeed()  # so that it generates words
    return run.folder
