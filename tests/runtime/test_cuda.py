"""The real commands on real GPUs; skipped on a machine without one.

The corpus is the prepared demo. Without the library `datasets`, it is taken from `weights/data`,
where a start of `train.py` on another machine has written it.
"""

import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.gpus import VISIBLE_GPUS
from tests.helpers.runs import last_state, losses, metrics, status

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 400
pytestmark = [pytest.mark.slow, pytest.mark.cuda, pytest.mark.timeout(2 * SECONDS)]
# Wider than the demo's model, so that the GPU and its tensor cores are used.
RUN = [
    *("--d_model", "256", "--d_ff", "1024", "--dropout", "0.1", "--lr", "2e-3"),
    *("--batch_tokens", "2048", "--log_every", "5", "--warmup_steps", "60"),
    *("--num_epochs", "2", "--wandb_mode", "disabled"),
]


def environment() -> dict[str, str]:
    """The environment of this process, with the GPUs that conftest hides."""
    variables = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return variables | ({} if VISIBLE_GPUS is None else {"CUDA_VISIBLE_DEVICES": VISIBLE_GPUS})


@functools.cache
def num_gpus() -> int:
    """The number of GPUs that another process sees; this one has hidden them."""
    command = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    return int(subprocess.run(command, env=environment(), capture_output=True, check=True).stdout)


@pytest.fixture(autouse=True)
def needs_gpus(request: pytest.FixtureRequest) -> None:
    needed = request.node.get_closest_marker("cuda").kwargs.get("gpus", 1)
    if num_gpus() < needed:
        pytest.skip(f"needs {needed} GPU(s), torch sees {num_gpus()}")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the prepared demo."""
    if not num_gpus():  # before a CPU trains for tests that are then skipped
        pytest.skip("needs 1 GPU(s), torch sees 0")
    folder = tmp_path_factory.mktemp("prepared")
    train(folder, "--max_steps", "1")
    return folder / "data"


def run(*command: str, **variables: str) -> str:
    """Run the command, which must succeed; return its standard output."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def train(folder: Path, *flags: str, ranks: int = 1) -> str:
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    return run(*torchrun, "train.py", *RUN, "--model_folder", str(folder), *flags)


@pytest.fixture
def new_folder(prepared: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes a model folder of this name with the prepared demo."""
    return lambda name: shutil.copytree(prepared, tmp_path / name / "data").parent


def signal_when(folder: Path, number: int, condition: Callable[[], object], *flags: str) -> int:
    """The exit code of a run that gets this signal once the condition holds."""
    command = [sys.executable, "train.py", *RUN, "--model_folder", str(folder), *flags]
    with subprocess.Popen(command, cwd=ROOT, env=environment()) as process:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        return process.wait(SECONDS)


@pytest.fixture(scope="module")
def trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of a finished run of two epochs."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(prepared, folder / "data")
    return folder, train(folder)


def test_run_of_two_epochs_finishes_on_the_gpu(trained: tuple[Path, str]):
    folder, output = trained
    assert "cuda:0" in output
    assert "compute in bf16" in output or "compute in fp16" in output
    assert status(folder)["state"] == "finished"
    assert last_state(folder)["position"]["epoch"] == 2
    assert losses(folder)[-1] < 0.8 * losses(folder)[0]
    weights = last_state(folder)["model"].values()
    assert {str(tensor.dtype) for tensor in weights} == {"torch.float32"}


def test_resume_after_kill_gives_losses_of_uninterrupted_run(
    trained: tuple[Path, str], new_folder: Callable[[str], Path]
):
    folder = new_folder("killed")
    is_saved = lambda: list(folder.glob("tmodel_step_*"))  # noqa: E731
    assert signal_when(folder, signal.SIGKILL, is_saved, "--save_every", "10") == -signal.SIGKILL
    assert status(folder)["state"] == "running"
    assert "Resuming from" in train(folder)
    assert status(folder)["state"] == "finished"
    # A GPU sums in no fixed order, so not bit for bit.
    assert losses(folder) == pytest.approx(losses(trained[0]), rel=0.05)
    steps = [[r["step"] for r in metrics(path)] for path in (folder, trained[0])]
    assert steps[0] == steps[1]


def test_translate_and_validate_run_on_the_gpu(trained: tuple[Path, str]):
    folder = ["--model_folder", str(trained[0])]
    sentences = ["The old doctor reads the letter in the garden.", "The cat sleeps."]
    for width in ("1", "4"):
        flags = [*folder, "--beam_width", width]
        lines = run("-m", "translate_ddp", "translate", *flags, *sentences).splitlines()
        assert len(lines) == 2 and all(lines)
    output = run("-m", "translate_ddp", "validate", *folder)
    bleu = [r["validation/BLEU"] for r in metrics(trained[0]) if "validation/BLEU" in r][-1]
    assert f"BLEU {bleu:.4g}" in output


@pytest.mark.cuda(gpus=2)
def test_translation_of_a_file_on_two_gpus_equals_that_on_one(
    trained: tuple[Path, str], tmp_path: Path
):
    (tmp_path / "in.en").write_text(
        "".join(f"The cat number {n} sees the old doctor.\n" for n in range(40_000))
    )
    gpus = (VISIBLE_GPUS or "0,1").split(",")[:2]
    for count in (1, 2):
        files = ["--input", str(tmp_path / "in.en"), "--output", str(tmp_path / f"out-{count}")]
        flags = [*files, "--model_folder", str(trained[0])]
        visible = ",".join(gpus[:count])
        run("-m", "translate_ddp", "translate", *flags, CUDA_VISIBLE_DEVICES=visible)
    found = (tmp_path / "out-2").read_bytes()
    assert found == (tmp_path / "out-1").read_bytes() and found.count(b"\n") == 40_000


def test_losses_of_16_bits_are_close_to_fp32(
    trained: tuple[Path, str], new_folder: Callable[[str], Path]
):
    fp32, fp16 = new_folder("fp32"), new_folder("fp16")
    for folder in (fp32, fp16):  # bf16 where `trained` has it
        assert f"compute in {folder.name}" in train(folder, "--precision", folder.name)
    assert losses(trained[0]) == pytest.approx(losses(fp32), rel=0.05)
    assert losses(fp16) == pytest.approx(losses(fp32), rel=0.05)


def test_out_of_memory_prints_one_message(new_folder: Callable[[str], Path]):
    # The process may use so little of the memory that not even a pair fits.
    folder = new_folder("model")
    script = (
        "import runpy, sys, torch; torch.cuda.set_per_process_memory_fraction(0.0002); "
        "sys.argv = sys.argv[1:]; runpy.run_path('train.py', run_name='__main__')"
    )
    flags = [*RUN, "--model_folder", str(folder), "--batch_tokens", "32768"]
    command = [sys.executable, "-c", script, "train.py", *flags]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("error: Out of memory on cuda:0") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.cuda(gpus=2)
def test_two_nccl_ranks_give_losses_of_one(new_folder: Callable[[str], Path]):
    flags = ["--precision", "fp32", "--dropout", "0"]
    one, two = new_folder("one"), new_folder("two")
    train(one, *flags)
    # Each save checks that the ranks have the same weights.
    assert "backend nccl" in train(two, *flags, ranks=2)
    assert losses(two) == pytest.approx(losses(one), rel=0.02)
    assert last_state(one)["model"].keys() == last_state(two)["model"].keys()
