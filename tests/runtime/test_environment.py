"""The process before torch: platforms, signals, variables, threads and memory."""

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import processes
from tests.helpers.commands import ROOT
from tests.helpers.commands import environment as child_environment
from translate_ddp.runtime import environment
from translate_ddp.runtime.environment import cpu_quotas, threads_per_process, usable_cores
from translate_ddp.runtime.launch import Launch
from translate_ddp.runtime.world import open_world
from translate_ddp.settings import DistributedConfig

PROGRAMS = ["run_path('train.py'", "run_module('translate_ddp'"]


def run_program(program: str, *before: str) -> tuple[int, str]:
    """The exit code and stderr of a program, after these lines of Python."""
    lines = ["import runpy, signal, sys", *before, f"runpy.{program}, run_name='__main__')"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT,
        env=child_environment(),
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


WINDOWS = [
    "sys.platform = 'win32'",
    "sys.modules['fcntl'] = None",
    "del signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2",
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("before", "message"),
    [
        (WINDOWS, "Windows is not supported: install and run translate_ddp in WSL"),
        (["sys.version_info = (3, 10, 4)"], "translate_ddp needs Python 3.11 or later, but "),
        (["sys.modules['tyro'] = None"], f"The Python at {sys.executable} has no library tyro"),
    ],
    ids=["Windows", "Python 3.10", "missing library"],
)
def test_system_that_lacks_something_ends_programs_with_one_message(
    program: str, before: list[str], message: str
):
    if "translate_ddp" in program and before != WINDOWS:
        before = [*before, "sys.argv[1:1] = ['train']"]
    code, output = run_program(program, *before)
    assert (code, output.count("\n")) == (2, 1), output
    assert output.startswith(f"error: {message}"), output


def test_code_before_the_check_of_the_version_is_python_3_8():
    package, module = "translate_ddp/__init__.py", "translate_ddp/runtime/environment.py"
    for file in ("train.py", package, "translate_ddp/runtime/__init__.py", module):
        ast.parse((ROOT / file).read_text(), feature_version=(3, 8))
    program = "import sys, translate_ddp.runtime.environment as module; module.begin_process(); "
    program += "print([name for name in sys.modules if name.startswith('translate_ddp')])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    names = ["translate_ddp", "translate_ddp.runtime", "translate_ddp.runtime.environment"]
    assert done.stdout.strip() == str(names)


@pytest.mark.parametrize("is_process_1", [False, True])
def test_sigterm_during_the_imports_ends_the_process(is_process_1: bool):
    # The kernel ignores the default actions of the signals of process 1, as in a container.
    ignored = "environment.os.kill = lambda *_: None\n" if is_process_1 else ""
    program = f"""
import os, signal, time
from translate_ddp.runtime import environment
environment.begin_process()
kill = os.kill
{ignored}kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143 if is_process_1 else -signal.SIGTERM, "")


def test_variables_set_by_the_user_stay(monkeypatch: pytest.MonkeyPatch):
    fresh: dict[str, str] = {}
    monkeypatch.setattr(environment, "can_expand_segments", lambda: True)
    environment.set_defaults(fresh)
    assert fresh["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert fresh["GOMP_SPINCOUNT"] == str(environment.SPIN_COUNT)
    # The supervisor, not a thread of NCCL, ends a process.
    nccl = {"ASYNC_ERROR_HANDLING", "ENABLE_MONITORING", "RETHROW_CUDA_ERRORS"}
    assert {name for name, value in fresh.items() if value == "0"} == {
        f"TORCH_NCCL_{name}" for name in nccl
    }
    for name, replaced in (
        ("PYTORCH_ALLOC_CONF", "PYTORCH_ALLOC_CONF"),
        ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"),
        ("GOMP_SPINCOUNT", "GOMP_SPINCOUNT"),
        ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    ):
        chosen = {name: "mine"}
        environment.set_defaults(chosen)
        others = {other: value for other, value in fresh.items() if other != replaced}
        assert chosen == others | {name: "mine"}


def test_defaults_are_set_before_torch_is_imported():
    program = (
        "import os, sys\n"
        "real = os.environ\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch':\n"
        "            print(os.environ.get('GOMP_SPINCOUNT'))\n"
        "            sys.exit()\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    clean = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    command = "translate_ddp.__main__, translate_ddp.apps.commands.export"
    train = "train, translate_ddp.apps.commands.train, translate_ddp.training.run"
    for module in (train, command, "translate_ddp.translator", "benchmarks.workbench"):
        words = [sys.executable, "-c", f"{program}import {module}"]
        done = subprocess.run(words, env=clean, capture_output=True, text=True)
        assert done.stdout.strip() == str(environment.SPIN_COUNT), (module, done.stderr)


@pytest.mark.parametrize(
    ("chosen", "launch", "threads"),
    [
        ("", Launch(), 8),
        ("", Launch(size=4, local_size=4), 2),
        ("3", Launch(size=4, local_size=4, under_torchrun=True), 3),
        ("1", Launch(), 1),
        ("1", Launch(size=4, local_size=4, under_torchrun=True), 2),  # set by torchrun
        ("4,2", Launch(), 4),  # of nested parallel regions, which torch does not use
        ("many", Launch(), 8),
    ],
)
def test_number_of_threads_set_by_the_user_is_used(
    chosen: str, launch: Launch, threads: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    monkeypatch.setattr(environment, "usable_cores", lambda: 8)
    assert threads_per_process(launch) == threads


# As torchrun starts a rank: with OMP_NUM_THREADS=1 unless it is set.
TORCHRUN = """
import os, subprocess, sys
variables = {"OMP_NUM_THREADS": "1"} | os.environ | {"TORCHELASTIC_RUN_ID": "x"}
variables |= {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
variables |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
subprocess.run([sys.executable, "-c", sys.argv[1]], env=variables, check=True)
"""
RANK = """
from translate_ddp.runtime import environment, launch
environment.usable_cores = lambda: 8
print(environment.threads_per_process(launch.read_launch(environment.os.environ)))
"""


@pytest.mark.parametrize("chosen", ["1", None])
def test_omp_num_threads_of_torchrun_is_distinguished_from_that_of_the_user(chosen: str | None):
    variables = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    variables |= {"OMP_NUM_THREADS": chosen} if chosen else {}
    command = [sys.executable, "-c", TORCHRUN, RANK]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert done.stdout == f"{chosen or 4}\n", done.stderr


def test_quotas_of_a_container_and_its_parents_limit_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    groups = tmp_path / "groups"
    inner = groups / "kubepods/pod7/container"
    inner.mkdir(parents=True)
    (groups / "kubepods/cpu.max").write_text("max 100000\n")
    (groups / "kubepods/pod7/cpu.max").write_text("250000 100000\n")
    (inner / "cpu.max").write_text("600000 100000\n")
    own = tmp_path / "own"
    own.write_text("0::/kubepods/pod7/container\n")
    assert list(cpu_quotas(groups, own)) == [6.0, 2.5]

    own.write_text("4:memory:/batch\n3:cpu,cpuacct:/batch\n")  # version 1 has other files
    assert list(cpu_quotas(groups, own)) == []

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    for quotas, cores in (([], 16), ([6.0, 2.5], 3), ([0.5], 1), ([64.0], 16)):
        monkeypatch.setattr(environment, "cpu_quotas", lambda quotas=quotas: quotas)
        assert usable_cores() == cores
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == 6


def test_segments_do_not_expand_under_wsl_and_on_jetson(tmp_path: Path):
    release, tegra = tmp_path / "osrelease", tmp_path / "nv_tegra_release"
    for text, expands in (("6.8.0-49-generic", True), ("5.15.1-microsoft-standard-WSL2", False)):
        release.write_text(text)
        assert environment.can_expand_segments(release, tegra) == expands
    release.write_text("6.8.0")
    tegra.touch()
    assert not environment.can_expand_segments(release, tegra)


START = """
import os
from translate_ddp.runtime.environment import keep_freed_memory, set_defaults
set_defaults(os.environ)
keep_freed_memory()
import torch

def resident_kib() -> int:
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0])
"""

MANY_SHAPES = """
weights_DD = torch.randn(256, 256).bfloat16()
for rows in range(100, 500):
    if rows == 300:
        before = resident_kib()
    torch.randn(rows, 256).bfloat16() @ weights_DD
print(resident_kib() - before)
"""

LARGE_BLOCK = """
block = torch.ones(6 * 2**20)
while_used = resident_kib()
del block
print(while_used - resident_kib())
"""


@pytest.mark.slow
def test_freed_memory_is_kept_but_does_not_grow_with_the_number_of_shapes():
    command = [sys.executable, "-c", START + LARGE_BLOCK + MANY_SHAPES]
    unset = {name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name}
    done = subprocess.run(command, env=unset, capture_output=True, text=True, check=True)
    returned_kib, grown_kib = map(int, done.stdout.split())
    assert returned_kib < 1024  # of 24 MiB
    assert grown_kib < 80_000  # 200 kernels have 500 KiB each, or more


def join_without_the_interface() -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "eth99"
    with open_world(DistributedConfig()):
        pass


@pytest.mark.slow
def test_unknown_network_interface_is_one_message_with_those_that_exist(tmp_path: Path):
    output = processes.start(join_without_the_interface, tmp_path, 2).fail()
    (line,) = output.strip().splitlines()
    assert line.startswith("error: GLOO_SOCKET_IFNAME is eth99, but ")
    assert re.search(r"interfaces (\S+, )*lo[,:]", line)


def train_without_what_only_linux_has(flags: list[str]) -> None:
    sys.platform = "darwin"
    del os.sched_getaffinity
    processes.run_train(flags)


def test_macos_trains_on_the_cpu(tiny_run: list[str], tmp_path: Path):
    flags = [*tiny_run, "--max_steps", "2"]
    job = processes.start(train_without_what_only_linux_has, tmp_path, 2, None, flags)
    assert "Finished at epoch 1, step 2" in job.succeed()
