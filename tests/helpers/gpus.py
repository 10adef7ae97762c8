"""Hides the GPUs: results are equal bit for bit on CPUs only, and two ranks cannot share a GPU.

Tests marked `cuda` make `VISIBLE_GPUS` visible again to the processes that they start.
"""

import os

VISIBLE_GPUS = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
