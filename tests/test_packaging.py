"""The package's metadata in pyproject.toml, and private interfaces of libraries that it uses."""

import ast
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.helpers.commands import ROOT
from translate_ddp import __version__

PACKAGE = ROOT / "translate_ddp"


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def files_of_package() -> list[Path]:
    return [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"]


def test_version_comes_from_the_package_without_importing_torch():
    name: str = settings()["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    module, _, attribute = name.rpartition(".")
    program = f"import sys, {module}; print({module}.{attribute}, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == [__version__, "False"], done.stderr


def test_requirement_files_hold_only_requirements():
    dynamic = settings()["tool"]["setuptools"]["dynamic"]
    sources = [dynamic["dependencies"], *dynamic["optional-dependencies"].values()]
    for name in (name for source in sources for name in source["file"]):
        lines = [line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
        assert [Requirement(line) for line in lines if line], name


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in files_of_package() if path.suffix == ".py"}
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_no_file_of_code_has_more_than_500_lines():
    folders = (PACKAGE, ROOT / "tests", ROOT / "tools", ROOT / "benchmarks")
    files = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    lengths = {path: len(path.read_text().splitlines()) for path in files}
    assert {path.name: length for path, length in lengths.items() if length > 500} == {}


def test_every_data_file_is_installed():
    patterns = settings()["tool"]["setuptools"]["package-data"]["*"]
    data_files = [path for path in files_of_package() if path.suffix != ".py"]
    assert [p for p in data_files if not any(p.match(pattern) for pattern in patterns)] == []


def test_version_option_of_the_entry_point_prints_the_version():
    module, _, function = settings()["project"]["scripts"]["translate-ddp"].partition(":")
    words = [sys.executable, "-c", f"import {module} as m; m.{function}()", "--version"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"translate_ddp {__version__}\n"), done.stderr


@pytest.mark.parametrize(
    ("library", "module", "names"),
    [
        ("torch", "torch", "_foreach_copy_"),  # modeling/kernels.py
        ("torch", "torch", "ops.mkldnn._reorder_linear_weight"),  # modeling/kernels.py
        ("torch", "torch", "ops.mkldnn._linear_pointwise"),  # modeling/kernels.py
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


def test_imports_between_parts_of_the_package_run_one_way():
    """A part is a folder of the package, or a module beside them."""
    imports: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
                names = (node.module or "").split(".")
                imports.setdefault(part, set()).add(names[1] if len(names) > 1 else names[0])
    for part, imported in imports.items():
        imported.discard(part)
    order = [*TopologicalSorter(imports).static_order()]  # raises CycleError
    assert order.index("runtime") < order.index("data") < order.index("modeling")
    assert order.index("modeling") < order.index("training") < order.index("translator")
