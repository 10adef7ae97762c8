"""The device of a rank: choice, name, CUDA kernels, out of memory."""

import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import torch

from translate_ddp.errors import UserError
from translate_ddp.runtime.launch import Launch
from translate_ddp.settings import DistributedConfig

GPU_FILE, DRIVER_FILE = Path("/dev/nvidia0"), Path("/proc/driver/nvidia/version")
FREE_MEMORY = "end other programs on this device, or hide it with CUDA_VISIBLE_DEVICES=''"
# CUDA's runtime and driver, cuBLAS, NCCL, and torch's CPU allocator.
OUT_OF_MEMORY = re.compile(
    r"CUDA (driver )?error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"
    r"|Cuda failure.*out of memory|DefaultCPUAllocator"
)
# Dense TFLOP/s of the data sheets in bf16 (V100, T4: fp16) with sums in fp32. The first name that a
# GPU's name contains counts.
PEAK_TFLOPS = {"H200 NVL": 835, "H200": 989, "H100 NVL": 835, "H100 PCIe": 756, "H100": 989}
PEAK_TFLOPS |= {"A100": 312, "L40S": 362, "L4": 121, "A10G": 70, "A10": 125, "T4": 65}
PEAK_TFLOPS |= {"V100-PCIE": 112, "V100": 125, "RTX 4090": 165, "RTX 3090": 71}
OTHER_MODELS = re.compile(r"Laptop|Max-Q|MIG|Ti$|D$")  # slower or faster GPUs with these names


class OutOfMemory(UserError):
    """What did not fit, and what to lower."""


def has_gpu(this_rank_only: bool = False) -> bool:
    """Whether torch finds a GPU. Raises UserError if there is one that it cannot use."""
    if torch.cuda.is_available():
        return True
    # Slurm hides GPUs by other values than numbers, or denies access to their files.
    is_visible = re.match(r"\d|GPU-|MIG-", os.environ.get("CUDA_VISIBLE_DEVICES", "0"))
    if not (is_visible and torch.version.cuda and os.access(GPU_FILE, os.R_OK | os.W_OK)):
        return False
    driver = "unknown"
    with suppress(OSError, StopIteration):
        words = DRIVER_FILE.read_text(encoding="utf-8").split()
        driver = next(word for word in words if re.fullmatch(r"\d+\.[\d.]+", word))
    raise UserError(
        f"Torch cannot use the GPU of this machine: the driver is {driver}, and torch "
        f"{torch.__version__} was built for CUDA {torch.version.cuda}. Update the driver, install "
        "a torch for its CUDA, or set CUDA_VISIBLE_DEVICES='' for the CPU.",
        this_rank_only,
    )


def choose_device(launch: Launch, config: DistributedConfig) -> tuple[torch.device, str]:
    """The device of this rank and the backend, as `init_process_group` takes it.

    Raises UserError if NCCL is chosen without GPUs, if there are more ranks than GPUs, or as
    `has_gpu`.
    """
    this_rank_only = launch.local_rank == 0 < launch.rank
    if not has_gpu(this_rank_only):
        if config.backend == "nccl":
            raise UserError(
                "NCCL needs GPUs and none is visible: omit --backend, or use gloo.", this_rank_only
            )
        return torch.device("cpu"), "gloo"
    count = torch.cuda.device_count()
    if 1 < count < launch.local_size:
        raise UserError(
            f"{launch.local_size} processes were started on this machine, which has {count} "
            f"GPUs: pass --nproc_per_node={count}, or set CUDA_VISIBLE_DEVICES='' for CPUs.",
            this_rank_only,
        )
    # A process may see one GPU only: Slurm's --gpus-per-task=1 gives each process its own.
    device = torch.device("cuda", launch.local_rank if count > 1 else 0)
    torch.cuda.set_device(device)
    return device, "gloo" if config.backend == "gloo" else "cpu:gloo,cuda:nccl"


def visible_gpus() -> list[str]:
    """Values of CUDA_VISIBLE_DEVICES, with each of which a process sees one of this one's GPUs."""
    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return names.split(",")[:count]


def processor_name(device: torch.device) -> str:
    """The model of the GPU, or of this machine's CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_fact("model name") or platform.machine()


@cache  # checkpoints name the model, and machines with many cores take long to list them
def cpu_fact(name: str) -> str | None:
    """A line of Linux's /proc/cpuinfo; None on macOS, and if the processor has no such line."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(rf"^{name}\s*: (.+)", text, re.MULTILINE):
            return found[1]
    return None


def peak_flop(device: torch.device) -> float:
    """The data sheet's dense 16-bit FLOP/s of the GPU; 0.0 of another device, or if unknown."""
    if device.type != "cuda" or OTHER_MODELS.search(name := torch.cuda.get_device_name(device)):
        return 0.0
    found = (tflops for gpu, tflops in PEAK_TFLOPS.items() if re.search(rf"\b{gpu}\b", name))
    return 1e12 * next(found, 0)


def describe_device(device: torch.device) -> str:
    if device.type != "cuda":
        return str(device)
    total = torch.cuda.get_device_properties(device).total_memory / 2**30
    return f"{device} ({processor_name(device)}, {total:.0f} GiB)"


def fix_cuda_kernels() -> None:
    """Set matmul precision and attention kernels, whose defaults differ between torch versions.

    fp32 products are fp32, not TF32, and products of 16 bits sum in fp32. Attention is flash or
    memory-efficient, never cuDNN's: that one builds a plan of 20 to 70 ms for each new shape, of
    which sentences make many, and returned NaN in gradients for some (pytorch#196678).
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.enable_cudnn_sdp(False)


@cache
def prepare_forks() -> None:
    """From now on, a fork computes in one thread, as in a DataLoader: it lacks the others."""
    os.register_at_fork(after_in_child=_use_one_thread)


def _use_one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # also for models that are opened in the fork
    torch.set_num_threads(1)


def use_deterministic_kernels() -> None:
    """From now on, sums on a GPU have a fixed order. Call it before the first matrix product."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore


@contextmanager
def explain_out_of_memory(
    device: torch.device, where: Callable[[], str], advice: str
) -> Iterator[None]:
    """Raise OutOfMemory in place of torch's error: which device, where, and what to lower."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        text = f"Out of memory on {describe_device(device)}, {where()}: {advice}."
        raise OutOfMemory(text, this_rank_only=True) from error


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; only torch's GPU allocator and Python have a type for it."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and bool(OUT_OF_MEMORY.search(str(error)))
    )
