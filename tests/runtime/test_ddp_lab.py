"""The commands of docs/ddp-lab.md have its results, most with a smaller corpus and `max_steps`."""

import random
import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from tests.helpers import processes
from tests.helpers.commands import ROOT, translate_ddp
from tests.helpers.processes import free_port
from tests.helpers.runs import losses

SMALLER = (
    "dataset: {}/train\nreport: false\nvocab_size: 300\nd_model: 16\nd_ff: 32\nnum_heads: 2\n"
    "num_encoder_layers: 1\nnum_decoder_layers: 1\n"
)
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


class Lab:
    """The page, whose folder weights/lab is another one."""

    def __init__(self, folder: Path) -> None:
        text = (ROOT / "docs/ddp-lab.md").read_text().replace("weights/lab", str(folder))
        text = text.replace("max_steps: 40", "max_steps: 12").replace("_00000040-", "_00000012-")
        text = text.replace(":29400", f":{free_port()}")
        self.folder, self.text = folder, text.replace("\\\n", " ")
        (folder / "lab.yaml").write_text(self.document("lab.yaml"))

    def use_smaller_corpus(self) -> None:
        folder, choose = self.folder, random.Random(0)
        words = "sun moon tree river stone bird fish wolf".split()
        lines = [choose.choices(words, k=choose.randint(5, 15)) for _ in range(3000)]
        for code, step in (("en", 1), ("it", -1)):
            corpus = "".join(" ".join(line[::step]) + "\n" for line in lines)
            (folder / f"train.{code}").write_text(corpus)
        with open(folder / "lab.yaml", "a") as file:
            file.write(SMALLER.format(folder))

    def document(self, name: str) -> str:
        """The text that a command of the page writes to this file."""
        (found,) = re.findall(rf"{name} <<END\n(.*?)^END$", self.text, re.M | re.S)
        return found

    def commands(self, run: str) -> list[list[str]]:
        """The words after torchrun of each command that trains this run."""
        lines = re.findall(rf"torchrun (.*{self.folder}/{run}\b.*)", self.text)
        return [shlex.split(line.rstrip("& ")) for line in lines]

    def train(self, run: str, **variables: str) -> processes.Job:
        """The run's command, with its ranks started without torchrun."""
        (words,) = self.commands(run)
        size = int(words[0].removeprefix("--nproc_per_node="))
        flags = words[words.index("train.py") + 1 :]
        return processes.train(flags, self.folder / f"{run}-out", size, **ONE_THREAD, **variables)

    def digests(self) -> dict[str, str]:
        """Of the weights of each finished run, as a program of the page prints them."""
        with redirect_stdout(StringIO()) as printed:
            exec(self.document("digests.py"), {})
        return {line.split()[1]: line.split()[0] for line in printed.getvalue().splitlines()}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    lab = Lab(tmp_path_factory.mktemp("lab"))
    lab.use_smaller_corpus()
    lab.train("two").succeed()
    return lab


@pytest.mark.slow
def test_one_rank_and_micro_batches_give_the_curve_of_two_ranks(lab: Lab):
    for job in [lab.train("one"), lab.train("micro")]:
        job.succeed()
    for run in ("one", "micro"):
        assert losses(lab.folder / run) == pytest.approx(losses(lab.folder / "two"), abs=1e-4)
    digests = lab.digests()
    assert digests["one"] == digests["two"] != digests["micro"]
    (words,) = re.findall(r"^translate-ddp (report .*/one .*)$", lab.text, re.M)
    code, output = translate_ddp(lab.folder / "report", *shlex.split(words))
    assert code == 0 and (lab.folder / "comparison.html").exists(), output


@pytest.mark.slow
def test_page_prints_the_number_of_steps_of_the_demo(tmp_path: Path):
    lab = Lab(tmp_path)
    settings = tmp_path / "lab.yaml"
    text = settings.read_text().replace("max_steps: 12", "max_steps: 1")
    settings.write_text(f"{text}report: false\n")
    output = lab.train("two").succeed()
    (steps,) = re.findall(r"(\d+) steps per epoch", output)
    assert f" 40/{steps}, loss" in lab.text


def test_torchrun_accepts_the_command_of_two_nodes(tmp_path: Path):
    # Two agents train in test_containers.py and test_launchers.py.
    (words,) = Lab(tmp_path).commands("c10d")
    node = get_args_parser().parse_args(words)
    assert (node.nnodes, node.rdzv_backend, node.nproc_per_node) == ("2", "c10d", "1")
    assert node.training_script == "train.py"
