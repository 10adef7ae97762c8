"""The commands of the README, as a user types them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.helpers import processes
from tests.helpers.commands import ROOT, TORCHRUN, background, command, environment, translate
from tests.helpers.runs import last_state
from translate_ddp.commands.translate import SavedModel, Translator
from translate_ddp.errors import UserError


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, corpus: str) -> Path:
    """The model folder of a finished run of two epochs on two ranks under torchrun."""
    from tests.helpers.tiny_run import TINY_RUN

    folder = tmp_path_factory.mktemp("trained")
    flags = [*TINY_RUN, "--dataset", corpus, "--model_folder", str(folder)]
    done = command(*TORCHRUN, "--nproc_per_node=2", "train.py", *flags)
    assert done.returncode == 0, done.stderr
    for said in ("device", "processes  2", "corpus", "vocabulary", "parameters", "W&B", "padding"):
        assert said in done.stdout
    assert done.stdout.count("Finished at epoch 2") == 1
    return folder


def test_translate_prints_one_line_for_each_sentence_given(trained: Path):
    done = translate("translate", "sun moon", "tree", "--model_folder", str(trained))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_translate_reads_standard_input_and_keeps_the_order(trained: Path):
    lines = ["sun moon river", "", "tree", "stone bird fish wolf tree"]
    together = translate("translate", "--model_folder", str(trained), input="\n".join(lines))
    assert together.returncode == 0, together.stderr
    got = together.stdout.split("\n")[:-1]
    assert len(got) == 4 and got[1] == ""
    alone = translate("translate", lines[3], "--model_folder", str(trained))
    assert alone.stdout == got[3] + "\n"


def test_translate_outlives_bytes_that_are_no_text(trained: Path):
    words = [sys.executable, "-m", "translate_ddp", "translate", "--model_folder", str(trained)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment() | {"LC_ALL": "C", "PYTHONUTF8": "0"},
        input=b"caf\xe9\nsun moon\n",
        capture_output=True,
        timeout=processes.SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_validate_repeats_the_scores_of_the_training_run(trained: Path):
    records = map(json.loads, (trained / "metrics.jsonl").read_text().splitlines())
    recorded = [r for r in records if "validation/loss" in r]
    done = translate("validate", "--preload", "1", "--model_folder", str(trained))
    assert done.returncode == 0, done.stderr
    assert f"loss {recorded[0]['validation/loss']:.4g}" in done.stdout
    assert "BLEU nrefs:1|case:mixed" in done.stdout


def test_validate_scores_files(trained: Path, tmp_path: Path):
    source, reference = tmp_path / "a.en", tmp_path / "a.it"
    source.write_text("sun moon\ntree\n")
    reference.write_text("moon sun\ntree\n")
    flags = ["--source", str(source), "--model_folder", str(trained)]
    done = translate("validate", *flags, "--reference", str(reference))
    assert done.returncode == 0 and "2 sentences, BLEU nrefs:1" in done.stdout, done.stderr

    done = translate("validate", *flags)
    assert done.returncode == 2 and "--reference" in done.stderr + done.stdout

    reference.write_text("moon sun\n")
    done = translate("validate", *flags, "--reference", str(reference))
    assert done.returncode == 2 and "2 lines" in done.stderr and "1:" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_tells_of_every_checkpoint_whether_it_is_whole(trained: Path, tmp_path: Path):
    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    done = translate("check", str(folder))
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["file", "kind", "epoch", "step", "size", "verdict"]
    names = {path.name for path in folder.glob("*.pt")}
    assert {row.split()[0] for row in rows} == names
    assert all(row.endswith("ok") for row in rows)

    victim = folder / sorted(names)[0]
    data = bytearray(victim.read_bytes())
    data[len(data) // 3] ^= 4
    victim.write_bytes(data)
    done = translate("check", str(folder))
    assert done.returncode == 1
    (bad,) = [row for row in done.stdout.splitlines()[1:] if not row.endswith("ok")]
    assert bad.startswith(victim.name) and "damaged" in bad
    assert translate("check", str(tmp_path / "nowhere")).returncode == 2


def test_a_file_that_declares_a_huge_model_is_refused_before_it_is_built(
    trained: Path, tmp_path: Path
):
    for name, value in (("d_model", 2**40), ("num_encoder_layers", 10**9)):
        state = last_state(trained)
        state["run"]["about"]["model"][name] = value
        torch.save(state, tmp_path / "huge.pt")
        with pytest.raises(UserError, match="does not hold a whole model"):
            Translator.open(SavedModel(preload=str(tmp_path / "huge.pt")))


def test_a_folder_without_a_checkpoint_is_told(tmp_path: Path):
    for name in ("translate", "validate"):
        done = translate(name, "--model_folder", str(tmp_path))
        assert done.returncode == 2
        assert "holds no checkpoint" in done.stderr and "Traceback" not in done.stderr


def test_an_unknown_command_lists_those_there_are():
    done = translate("transalte")
    assert done.returncode == 2 and "no command 'transalte'" in done.stderr
    assert "translate " in done.stderr and "validate " in done.stderr


def test_train_runs_without_a_launcher_from_any_folder(tiny_run: list[str], tmp_path: Path):
    done = command(sys.executable, "train.py", *tiny_run, "--max_steps", "2")
    assert done.returncode == 0, done.stderr
    assert "processes  1" in done.stdout


@pytest.fixture
def torchrun(tiny_run: list[str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the tiny run under torchrun on two ranks and waits for its first checkpoint."""
    jobs: list[subprocess.Popen[str]] = []

    def start(options: list[str], flags: list[str]) -> subprocess.Popen[str]:
        words = [*TORCHRUN, "--nproc_per_node=2", *options, "train.py", *tiny_run, *flags]
        job = background(words)
        jobs.append(job)
        deadline = time.monotonic() + processes.SECONDS
        while not list((tmp_path / "model").glob("tmodel_step_*")):
            assert job.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        return job

    yield start
    for job in jobs:
        job.terminate()
        job.communicate()


def test_torchrun_passes_a_schedulers_signal_on(torchrun: Callable[..., subprocess.Popen[str]]):
    job = torchrun([], ["--num_epochs", "1000"])
    job.send_signal(signal.SIGTERM)
    said, _ = job.communicate(timeout=processes.SECONDS)
    assert "as asked (SIGTERM), and saved" in said


def test_ranks_that_torchrun_left_behind_save_and_leave(
    torchrun: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    job = torchrun([], ["--num_epochs", "1000"])
    ranks = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    job.kill()
    deadline = time.monotonic() + processes.SECONDS
    while any(Path(f"/proc/{rank}").exists() for rank in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    said, _ = job.communicate(timeout=processes.SECONDS)
    assert "and saved: the same command goes on" in said
    status = json.loads((tmp_path / "model/STATUS.json").read_text())
    assert status["state"] == "preempted"
    assert status["reason"] == f"torchrun (process {job.pid}) has exited"
    assert (tmp_path / "model" / status["checkpoint"]).exists()


def test_torchrun_restarts_a_run_that_lost_a_rank(
    torchrun: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    # Told to start anew, the run must still go on where it was when it is *re*started; and what
    # its ranks agreed on before, which torchrun's store still holds, must not be read again.
    job = torchrun(["--max-restarts=1"], ["--preload", "", "--num_epochs", "3"])
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    said, _ = job.communicate(timeout=processes.SECONDS)
    assert job.returncode == 0, said
    assert said.count("Resuming from") == 1 and "Finished at epoch 3" in said
    assert not list((tmp_path / "model").glob("earlier-*"))


def test_srun_alone_starts_the_ranks(tiny_run: list[str], tmp_path: Path):
    variables = {
        "SLURM_NTASKS": "2",
        "SLURM_NODEID": "0",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_JOB_ID": str(processes.free_port()),
    }
    tasks = [
        background(
            [sys.executable, "train.py", *tiny_run, "--max_steps", "2"],
            **variables,
            SLURM_PROCID=str(n),
            SLURM_LOCALID=str(n),
        )
        for n in range(2)
    ]
    said = [task.communicate(timeout=processes.SECONDS)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    assert "processes  2" in said[0] and said[1].strip() == ""


@pytest.fixture
def slurm(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs the Slurm script with stand-ins for `srun` and `scontrol` that note what they are asked.

    `srun` leaves the STATUS.json of a run that ended in `state`.
    """

    def run(state: str, *flags: str) -> list[str]:
        folder, asked = tmp_path / "model", tmp_path / "asked"
        folder.mkdir(exist_ok=True)
        (folder / "STATUS.json").write_text('{\n "state": "preempted",\n}')  # of an earlier start
        leave = (
            f"""printf '{{\\n "state": "{state}",\\n}}' > {folder}/STATUS.json""" if state else ""
        )
        note = f'printf "%s\\n" "$(basename $0) $*" >> {asked}'
        scripts = {
            "srun": f"#!/bin/sh\n{note}\nsleep 0.1\n{leave}\nexit 1\n",  # file clocks are coarse
            "scontrol": f"#!/bin/sh\n{note}\nprintf 'gpu07\\ngpu08\\n'\n",
        }
        for name, text in scripts.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        variables = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "SLURM_JOB_NODELIST": "gpu[07-08]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_GPUS_ON_NODE": "8",
            "SLURM_JOB_ID": "42",
        }
        words = ["bash", "launch/slurm.sh", "--preset", "base", *flags]
        done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, timeout=30)
        assert done.returncode == 1  # what srun said
        return asked.read_text().splitlines()

    return run


def test_the_slurm_script_asks_torchrun_for_every_node(
    slurm: Callable[..., list[str]], tmp_path: Path
):
    asked = slurm("finished", "--model_folder", str(tmp_path / "model"))
    (torchrun,) = [line for line in asked if line.startswith("srun ")]
    assert torchrun.startswith("srun torchrun ")
    assert torchrun.endswith(f"train.py --preset base --model_folder {tmp_path / 'model'}")
    words = torchrun.split()
    assert {"--nnodes=2", "--nproc-per-node=8", "--rdzv-endpoint=gpu07:29400"} <= set(words)
    assert "--signals-to-handle=SIGTERM,SIGINT,SIGUSR1" in words


@pytest.mark.parametrize("state", ["preempted", "finished", "failed", ""])
def test_the_slurm_script_queues_the_job_again_if_and_only_if_this_start_was_preempted(
    slurm: Callable[..., list[str]], tmp_path: Path, state: str
):
    asked = slurm(state, f"--model_folder={tmp_path / 'model'}")
    assert ("scontrol requeue 42" in asked) == (state == "preempted")
