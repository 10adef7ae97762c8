"""Private interfaces of libraries that the code uses where they exist."""

from importlib import import_module
from importlib.metadata import version

import pytest


@pytest.mark.parametrize(
    ("library", "module", "names"),
    [
        ("torch", "torch", "_foreach_copy_"),  # modeling/kernels.py
        # modeling/inference_weights.py
        ("torch", "torch", "ops.mkldnn._reorder_linear_weight"),
        ("torch", "torch", "ops.mkldnn._linear_pointwise"),
        ("datasets", "datasets.packaged_modules.cache.cache", "Cache"),  # data/huggingface.py
        ("datasets", "datasets.config", "HF_UPDATE_DOWNLOAD_COUNTS"),  # data/files.py
    ],
)
def test_private_interface_exists(library: str, module: str, names: str):
    found = import_module(module)
    for name in names.split("."):
        missing = f"{library} {version(library)} has no {module}.{names}: the fallback is used"
        assert hasattr(found, name), missing
        found = getattr(found, name)
