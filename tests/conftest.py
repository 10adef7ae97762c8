"""A corpus and a model so small that whole runs take seconds."""

import os
import random
from pathlib import Path

import pytest

from translate_ddp.runtime.environment import set_defaults

pytest_plugins = ["tests.helpers.faults"]
set_defaults(os.environ)  # as train.py does, and before torch is imported

# What is claimed bit for bit is claimed of CPUs, and one GPU cannot hold two ranks. The tests that
# are marked `cuda` give the GPUs back to the processes that they start.
VISIBLE_GPUS = os.environ.get("CUDA_VISIBLE_DEVICES")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

TINY_RUN = [
    *("--lang_src", "en", "--lang_tgt", "it", "--preset", "tiny", "--vocab_size", "300"),
    *("--d_model", "16", "--num_heads", "2", "--d_ff", "32"),
    *("--num_encoder_layers", "1", "--num_decoder_layers", "1"),
    *("--batch_tokens", "100", "--seq_len", "60", "--warmup_steps", "20"),
    *("--lr", "0.002", "--dropout", "0.1", "--precision", "fp32"),
    *("--log_every", "3", "--save_every", "4", "--num_epochs", "2"),
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def write_corpus(folder: Path) -> str:
    """The common start of two files of 260 pairs; the target is the source turned round."""
    generator = random.Random(0)
    words = ["sun", "moon", "tree", "river", "stone", "bird", "fish", "wolf"]
    prefix = folder / "train"
    lines = [generator.choices(words, k=generator.randint(2, 7)) for _ in range(260)]
    Path(f"{prefix}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
    Path(f"{prefix}.it").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines))
    return str(prefix)


@pytest.fixture
def tiny_run(corpus: str, tmp_path: Path) -> list[str]:
    """The flags of a run of about 30 steps that writes to `tmp_path / "model"`."""
    return [*TINY_RUN, "--dataset", corpus, "--model_folder", str(tmp_path / "model")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for data. `datasets` has an empty cache, and no hub answers."""
    cache = tmp_path / "hf_home"
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", cache / "datasets")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache / "hub"))
    monkeypatch.setattr("datasets.config.HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
