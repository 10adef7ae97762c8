"""`python -m translate_ddp translate`: sentences in, translations out, one a line, order kept."""

import io
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding import decode, default_max_tokens
from translate_ddp.modeling.inference_weights import ready_to_decode
from translate_ddp.modeling.precision import choose_dtype, fix_cuda_kernels
from translate_ddp.modeling.transformer import Transformer
from translate_ddp.runtime.cpu_memory import keep_freed_memory
from translate_ddp.runtime.cpus import threads_per_process
from translate_ddp.runtime.environment import set_defaults
from translate_ddp.runtime.launcher import Launch
from translate_ddp.runtime.out_of_memory import FREE_MEMORY, explain_out_of_memory
from translate_ddp.runtime.watchdog import first_line
from translate_ddp.settings import CheckpointConfig, ModelConfig
from translate_ddp.training.checkpoint import CheckpointStore, State, load

LINES_AT_ONCE = 1000  # read and translated together


@dataclass(frozen=True)
class SavedModel:
    """Which checkpoint to use."""

    model_folder: str = CheckpointConfig.model_folder
    """Folder of the checkpoints."""
    model_basename: str = CheckpointConfig.model_basename
    """Start of the checkpoints' names."""
    preload: str = CheckpointConfig.preload
    """latest, an epoch's number, or a file."""


@dataclass(frozen=True)
class TranslateConfig:
    """Translate sentences with a trained checkpoint."""

    sentences: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """What to translate; without any, lines are read from standard input."""
    saved: SavedModel = field(default_factory=SavedModel)
    beam_width: int = 4
    """Hypotheses kept a sentence; 1 is greedy."""

    def __post_init__(self) -> None:
        if self.beam_width < 1:
            raise ValueError(f"beam_width must be at least 1, but is {self.beam_width}.")


class Translator:
    """A trained model with its tokenizer: text in, text out."""

    def __init__(self, state: State, device: torch.device) -> None:
        self.about: dict[str, Any] = state["run"]["about"]  # the configuration of its training
        self.step: int = state["position"]["global_step"]
        self.tokenizer = Tokenizer(state["tokenizer"])
        # The precision it was trained in, as far as this device has it.
        dtype = choose_dtype(self.about["train"]["precision"], device)
        model = build_model(state, len(self.tokenizer), dtype).to(device, dtype)
        self.model = ready_to_decode(model).eval()
        self.device = device

    @classmethod
    def open(cls, saved: SavedModel) -> "Translator":
        """From the checkpoint alone. Raises UserError if there is none that can be used."""
        set_defaults(os.environ)
        keep_freed_memory()
        fix_cuda_kernels()
        torch.set_num_threads(threads_per_process(Launch()))
        store = CheckpointStore(CheckpointConfig(saved.model_folder, saved.model_basename))
        checkpoint, passed_over = store.find(saved.preload or "latest")
        for line in passed_over:
            print(line, file=sys.stderr)
        if checkpoint is None:
            raise UserError(
                f"{store.folder} holds no checkpoint named {store.basename}_*: train first, "
                "or name the folder by --model_folder."
            )
        state = load(Path(checkpoint.path).read_bytes(), str(checkpoint.path))
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            with explain_out_of_memory(device, lambda: f"loading {checkpoint.path}", FREE_MEMORY):
                return cls(state, device)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(
                f"{checkpoint.path} does not hold a whole model: {first_line(error)}"
            ) from error

    def translate(self, lines: list[str], beam_width: int = 1) -> list[str]:
        """A translation of each line, in order; a blank line stays blank."""
        # A word of the command line that was no UTF-8 holds lone surrogates.
        lines = [line.encode("utf-8", "replace").decode("utf-8") for line in lines]
        sentences = [" ".join(line.split()) for line in lines]
        filled = [row for row, sentence in enumerate(sentences) if sentence]
        sources = self.tokenizer.encode([sentences[row] for row in filled])
        found = decode(
            self.model.start,
            sources,
            self.device,
            beam_width=beam_width,
            max_tokens=default_max_tokens(self.device),
        )
        translations = [""] * len(lines)
        for row, text in zip(filled, self.tokenizer.decode([h.ids for h in found]), strict=True):
            translations[row] = text
        return translations


def build_model(state: State, vocabulary: int, dtype: torch.dtype = torch.float32) -> Transformer:
    """The model with the tensors of the file themselves: no more memory than they take, whatever
    shapes the file declares. Raises RuntimeError if they are not those of such a model.
    """
    config = ModelConfig(**state["run"]["about"]["model"])
    if config.num_encoder_layers + config.num_decoder_layers > len(state["model"]):
        raise ValueError("there are fewer tensors than layers.")
    with torch.device("meta"):
        model = Transformer(config, vocabulary, dtype=dtype)
    model.load_state_dict(state["model"], assign=True)
    return model


def run(config: TranslateConfig) -> None:
    # Text is UTF-8 whatever the locale says; a byte that is none costs one character, not a run.
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    translator = Translator.open(config.saved)
    lines = config.sentences or (line.rstrip("\n") for line in sys.stdin)
    at_once = 1 if sys.stdin.isatty() else LINES_AT_ONCE
    for chunk in chunks(lines, at_once):
        for translation in translator.translate(chunk, config.beam_width):
            print(translation, flush=True)


def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
