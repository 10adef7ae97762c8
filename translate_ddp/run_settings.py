"""The settings of a run that concern its files, trackers and processes; see `settings`."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from translate_ddp.checks import check_at_least

WandbMode = Literal["auto", "online", "offline", "disabled"]
Split = Literal["sentences", "none"]


@dataclass(frozen=True)
class CheckpointConfig:
    model_folder: str = "weights"
    """Folder for checkpoints, prepared data and metrics."""
    model_basename: str = "tmodel"
    """Prefix of the checkpoint names."""
    preload: str = "latest"
    """Checkpoint to resume: latest, best (epoch), an epoch number, a file, or '' for a new run."""
    init_from: str = ""
    """Checkpoint file from which a new run takes weights, model settings and tokenizer."""
    average: int = 1
    """Last epochs of which translate and validate average the weights; 1: no average."""
    keep_last: int = 5
    """Epoch and step checkpoints to keep, beside the best epoch and those of --average; 0: all."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.model_basename):
            raise ValueError(
                f"model_basename may hold letters, digits, '.', '_' and '-', "
                f"but is {self.model_basename!r}."
            )
        if not self.model_folder:
            raise ValueError("model_folder is empty: pass a folder.")
        if re.search("[\ud800-\udfff]", self.model_folder):  # torch could not read its files
            raise ValueError("model_folder has a name that is not UTF-8: pass another folder.")
        check_at_least(1, self, "average")
        check_at_least(0, self, "keep_last")


@dataclass(frozen=True)
class LogbookConfig:
    report: bool = True
    """Write report.html, a page about the run, in the model folder."""
    wandb_project: str = "translate_ddp"
    """Weights & Biases project."""
    wandb_group: str = ""
    """Weights & Biases group; '': none."""
    wandb_mode: WandbMode = "auto"
    """auto: online if there is an API key, else offline. The variable WANDB_MODE overrides it."""
    trackio_project: str = ""
    """trackio project to log to; '': none. Needs pip install -r requirements-trackio.txt."""

    def __post_init__(self) -> None:
        if self.trackio_project and find_spec("trackio") is None:
            raise ValueError(
                "trackio_project needs trackio, which is not installed: run "
                "pip install -r requirements-trackio.txt."
            )


@dataclass(frozen=True)
class DistributedConfig:
    backend: Literal["auto", "nccl", "gloo"] = "auto"
    """Backend of the process group; auto: NCCL on GPUs, gloo on CPUs."""
    bucket_cap_mb: int = 25
    """Size in MiB of DDP's gradient buckets, which are all-reduced during backward."""
    timeout_minutes: float = 10.0
    """Minutes without progress on a rank after which the run ends with an error."""
    preempted_exit_code: int = 0
    """Exit code after a request to stop. If it is not 0, Kubernetes restarts the pod."""

    def __post_init__(self) -> None:
        code = self.preempted_exit_code
        if not 0 <= code < 256 or code in (1, 2, 75):
            raise ValueError(
                "preempted_exit_code must be from 0 to 255, but not 1, 2 or 75, which are codes of "
                f"errors; it is {code}."
            )
        if not self.timeout_minutes > 0:
            raise ValueError(f"timeout_minutes must be positive, but is {self.timeout_minutes}.")
        check_at_least(1, self, "bucket_cap_mb")
