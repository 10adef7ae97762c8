"""The device of a rank, its process group backend and its CUDA kernels."""

import platform
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from translate_ddp.errors import UserError
from translate_ddp.runtime.launcher import Launch
from translate_ddp.settings import DistributedConfig


def choose_device(launch: Launch, config: DistributedConfig) -> tuple[torch.device, str]:
    """The device of this rank and the backend, as `init_process_group` takes it.

    Raises UserError if NCCL is chosen without GPUs, or if there are more ranks than GPUs.
    """
    if not torch.cuda.is_available():
        if config.backend == "nccl":
            raise UserError(
                "NCCL needs GPUs and none is visible: omit --backend, or use gloo.",
                this_rank_only=launch.local_rank == 0 < launch.rank,
            )
        return torch.device("cpu"), "gloo"
    count = torch.cuda.device_count()
    if 1 < count < launch.local_size:
        raise UserError(
            f"{launch.local_size} processes were started on this machine, which has {count} "
            f"GPUs: pass --nproc_per_node={count}, or set CUDA_VISIBLE_DEVICES='' for CPUs.",
            this_rank_only=launch.local_rank == 0 < launch.rank,
        )
    # A process may see one GPU only: Slurm's --gpus-per-task=1 gives each process its own.
    device = torch.device("cuda", launch.local_rank if count > 1 else 0)
    torch.cuda.set_device(device)
    return device, "gloo" if config.backend == "gloo" else "cpu:gloo,cuda:nccl"


def processor_name(device: torch.device) -> str:
    """The model of the GPU, or of this machine's CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _cpu_name()


@cache  # checkpoints name it, and machines with many cores take long to list them
def _cpu_name() -> str:
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        if found := re.search(r"^model name\s*: (.+)", text, re.MULTILINE):
            return found[1]
    return platform.machine()  # Linux on other processors names no model, nor does macOS


def describe_device(device: torch.device) -> str:
    if device.type != "cuda":
        return str(device)
    total = torch.cuda.get_device_properties(device).total_memory / 2**30
    return f"{device} ({processor_name(device)}, {total:.0f} GiB)"


def fix_cuda_kernels() -> None:
    """Set matmul precision and attention kernels, whose defaults differ between torch versions.

    fp32 products are fp32, not TF32, and bf16 products sum in fp32. Attention is flash or
    memory-efficient, never cuDNN's: that one builds a plan of 20 to 70 ms for each new shape, of
    which sentences make many, and returned NaN in gradients for some (pytorch#196678).
    """
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.enable_cudnn_sdp(False)
