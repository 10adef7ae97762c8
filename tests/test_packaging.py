"""The package's metadata in pyproject.toml, and private interfaces of libraries that it uses."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import packages_distributions, version
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


def test_every_imported_library_is_required():
    """Not only by another library, which may stop to require it."""
    files = ROOT.glob("requirements*.txt")
    lines = [line for file in files for line in file.read_text().splitlines()]
    required = {re.split(r"[^\w-]", line)[0].lower().replace("-", "_") for line in lines}
    distributions = packages_distributions()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            for name in {module.partition(".")[0] for module in modules} - {PACKAGE.name}:
                names = {each.lower().replace("-", "_") for each in distributions.get(name, [name])}
                assert name in sys.stdlib_module_names or names & required, f"{path}: {name}"


def test_sizes_in_the_design_are_about_right():
    rows = re.findall(r"([\d,]+) \| ([\d,]+) \|$", (ROOT / "docs/design.md").read_text(), re.M)
    code = [
        [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
        for folders in (["translate_ddp"], ["tests"], ["benchmarks", "tools", "launch"])
    ]
    code.insert(1, [path_of(name) for name in READING_PATH])
    for row, files in zip(rows, code, strict=True):
        found = [len(files), sum(len(file.read_text().splitlines()) for file in files)]
        assert [int(number.replace(",", "")) for number in row] == pytest.approx(found, rel=0.05)


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in files_of_package() if path.suffix == ".py"}
    assert all((folder / "__init__.py").exists() for folder in folders)


# Larger subjects that would be harder to read in two files.
LARGER_FILES = {"settings.py": 600, "checkpoint.py": 700, "run.py": 550}


def test_no_file_of_code_has_more_than_500_lines():
    folders = (PACKAGE, *(ROOT / name for name in ("lab", "tests", "tools", "benchmarks")))
    files = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    for path in files:
        most = LARGER_FILES.get(path.name, 500)
        assert len(path.read_text().splitlines()) <= most, path


def test_no_two_files_of_the_package_have_one_name():
    names = [path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


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
        ("datasets", "datasets.packaged_modules.cache.cache", "Cache"),  # data/hub_datasets.py
        ("datasets", "datasets.config", "HF_UPDATE_DOWNLOAD_COUNTS"),  # data/hub_datasets.py
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


# The files in reading order, and the modules of the package that they may use besides each other.
READING_PATH = """train.py training/run.py training/trainer.py training/step.py
modeling/transformer.py modeling/loss.py data/plan.py data/batches.py data/dataset.py
training/checkpoint.py runtime/world.py""".split()
USED_BY_THE_PATH = {
    "settings": "plain values",
    "presets": "sets of settings",
    "errors": "messages to the user",
    "console": "lines, numbers in messages, a progress bar",
    "run_record": "names of files",
    "apps.commands.train": "the command line",
    "data.corpus": "counts the pairs for the preset",
    "data.mix": "which pairs an epoch draws",
    "data.model_facts": "what a model is beside its weights",
    "data.preparation": "encodes the corpus once",
    "data.prepared_folder": "verifies the encoded corpus",
    "data.tokenizer": "text to token ids",
    "modeling.fused_losses": "a faster equal of the plain loss",
    "modeling.cost": "a table of GPUs, and the FLOP of a step",
    "modeling.kernels": "faster equals of plain PyTorch",
    "modeling.folded_attention": "masks of attention",
    "training.checkpoint_name": "what a file name holds",
    "training.fine_tuning": "settings and first weights of --init_from",
    "training.identity": "what must stay the same",
    "training.logbook": "where values are logged",
    "training.meters": "means since the last record",
    "training.metrics": "scores",
    "training.optimizer": "AdamW and Muon",
    "training.report_sink": "the record of the report",
    "training.run_info": "messages at start and end",
    "training.state": "what a checkpoint holds",
    "training.trackers": "W&B and TensorBoard",
    "training.validation": "decodes and scores",
    "runtime.device": "chooses the device",
    "runtime.environment": "before the imports",
    "runtime.fault_injection": "faults of tests",
    "runtime.files": "files that are complete or absent",
    "runtime.launch": "the launcher's variables",
    "runtime.long_calls": "heartbeats and background threads",
    "runtime.peers": "ranks meet",
    "runtime.run_folder": "lock and STATUS.json",
    "runtime.supervisor": "stop requests, hangs, lost ranks, the end",
}


def path_of(name: str) -> Path:
    return ROOT / name if name == "train.py" else PACKAGE / name


# Upper limits of lines that are not blank. They only go down: an addition takes something out.
LIMITS = {
    ("translate_ddp", "config.py", "train.py"): 22_120,
    ("tests",): 22_994,
    ("lab",): 738,  # with about 80 that a student writes
    ("benchmarks", "tools"): 3_700,
}
LONGEST_PATH, LONGEST_FUNCTION = 3_036, 60  # all lines


@pytest.mark.parametrize("names", LIMITS)
def test_no_part_grows(names: tuple[str, ...]):
    files = [file for name in names for file in [ROOT / name, *(ROOT / name).rglob("*.*")]]
    code = [file for file in files if file.suffix in (".py", ".html", ".js", ".css")]
    lines = [line for file in code for line in file.read_text().splitlines()]
    assert sum(map(bool, map(str.strip, lines))) <= LIMITS[names]


def test_the_reading_path_is_short():
    lines = [path_of(name).read_text().splitlines() for name in READING_PATH]
    assert sum(map(len, lines)) <= LONGEST_PATH


def test_every_function_of_the_package_fits_one_screen():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= LONGEST_FUNCTION, f"{path}: {node.name} has {lines} lines"


def test_the_reading_path_uses_named_modules_only():
    own = {name.removesuffix(".py").replace("/", ".") for name in READING_PATH}
    used = set()
    for name in READING_PATH:
        for node in ast.walk(ast.parse(path_of(name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
                module = (node.module or "").removeprefix(f"{PACKAGE.name}.")
                is_folder = (PACKAGE / module.replace(".", "/")).is_dir()
                used |= {f"{module}.{a.name}" for a in node.names} if is_folder else {module}
    assert used - own == set(USED_BY_THE_PATH)
    for page in ("CONTRIBUTING.md", "docs/design.md"):
        text = (ROOT / page).read_text().partition("eading path")[2]
        places = [text.index(f"`{name}`") for name in READING_PATH]
        assert places == sorted(places), page
