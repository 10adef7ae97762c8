"""Hides the GPUs: results are equal bit for bit on CPUs only, and two ranks cannot share a GPU.

Tests marked `cuda` make `VISIBLE_GPUS` visible again to the processes that they start.
"""

import os

# The workers of pytest-xdist inherit the environment of a process that has hidden them already.
KEPT = "TRANSLATE_DDP_TESTS_GPUS"
if KEPT not in os.environ:
    os.environ[KEPT] = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
VISIBLE_GPUS = None if os.environ[KEPT] == "all" else os.environ[KEPT]
os.environ["CUDA_VISIBLE_DEVICES"] = ""
