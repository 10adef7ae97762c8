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
        for port in ("=29500", ":29400"):
            text = text.replace(port, f"{port[0]}{free_port()}")
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
        """The text that a command of the page writes to this file, or passes to `python -`."""
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

    def python(self, name: str) -> str:
        """What a Python program of the page prints."""
        with redirect_stdout(StringIO()) as printed:
            exec(self.document(name), {})
        return printed.getvalue()

    def digests(self) -> dict[str, str]:
        """Of the weights of each finished run."""
        return {
            run: digest
            for digest, run in map(str.split, self.python("digests.py").split("\n")[:-1])
        }


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
def test_ranks_have_the_tokens_of_a_step_together(lab: Lab):
    pattern = r"rank (\d), step (\d): .* (\d+) of (\d+) target"
    found = [tuple(map(int, each)) for each in re.findall(pattern, lab.python("python -"))]
    steps = {step: [each for each in found if each[1] == step] for step in (1, 2, 3)}
    for parts in steps.values():
        assert {rank for rank, *_ in parts} == {0, 1}
        assert sum(own for *_, own, _ in parts) == parts[0][3]


@pytest.mark.slow
def test_page_prints_the_plan_of_the_demo(tmp_path: Path):
    lab = Lab(tmp_path)
    settings = tmp_path / "lab.yaml"
    text = settings.read_text().replace("max_steps: 12", "max_steps: 1")
    settings.write_text(f"{text}report: false\n")
    output = lab.train("two").succeed()
    (steps,) = re.findall(r"(\d+) steps per epoch", output)
    assert f" 40/{steps}, loss" in lab.text
    printed = lab.python("python -").splitlines()
    assert all(line in lab.text.splitlines() for line in (*printed[:2], *printed[3:5])), printed


def test_torchrun_accepts_the_commands_of_two_nodes(tmp_path: Path):
    # Two agents of each form train in test_containers.py and test_launchers.py.
    lab, parse = Lab(tmp_path), get_args_parser().parse_args
    nodes = [parse(words) for words in lab.commands("static")]
    assert [(each.nnodes, each.node_rank) for each in nodes] == [("2", 1), ("2", 0)]
    assert {(each.master_addr, each.nproc_per_node) for each in nodes} == {("127.0.0.1", "1")}
    (node,) = map(parse, lab.commands("c10d"))
    assert (node.nnodes, node.rdzv_backend, node.nproc_per_node) == ("2", "c10d", "1")
    assert all(each.training_script == "train.py" for each in [*nodes, node])
