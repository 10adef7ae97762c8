"""`python -m translate_ddp export`: a trained model for other programs, verified to be the same."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch

from translate_ddp.apps.commands.saved_model import SavedModel
from translate_ddp.apps.exporting.ctranslate2 import Quantization
from translate_ddp.apps.exporting.export import FILE_FORMATS, Format, export
from translate_ddp.apps.exporting.sentences import choose_sentences
from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.console import print_line, printable
from translate_ddp.run_settings import CheckpointConfig
from translate_ddp.runtime.environment import threads_per_process
from translate_ddp.runtime.files import check_new
from translate_ddp.runtime.launch import Launch
from translate_ddp.training.checkpoint import CheckpointStore
from translate_ddp.training.checkpoint_name import check_no_digest
from translate_ddp.training.open_checkpoint import open_checkpoint


@dataclass(frozen=True)
class ExportConfig:
    """Write a checkpoint in the format of another program, and verify it against the checkpoint."""

    format: Format
    """ctranslate2 or huggingface: a folder; argos: an .argosmodel file; pt: a checkpoint file."""
    output: str
    """Folder or file to write; it must not exist."""
    quantization: Quantization = "float32"
    """Weights in ctranslate2 and argos; int8 is accepted by its BLEU, so it needs references."""
    source: str = ""
    """Sentences for the verification, in any format of training; '': the validation set beside the
    checkpoint, if it is there."""
    reference: str = ""
    """File of their translations."""
    saved: SavedModel = field(default_factory=SavedModel)

    def __post_init__(self) -> None:
        if self.reference and not self.source:
            raise ValueError("--reference needs --source.")
        if self.source and self.format == "pt":
            raise ValueError(
                "--source is for formats that are verified by translating: omit it with pt."
            )
        if self.quantization != "float32" and self.format not in ("ctranslate2", "argos"):
            raise ValueError(f"--quantization is for ctranslate2 and argos, not for {self.format}.")
        suffix = FILE_FORMATS.get(self.format, "")
        if not self.output.endswith(suffix):
            raise ValueError(
                f"--format {self.format} writes a file: pass an --output that ends in {suffix}."
            )
        check_no_digest(self.output)


def run(config: ExportConfig) -> None:
    torch.set_num_threads(threads_per_process(Launch()))
    output, saved = Path(config.output), config.saved
    check_new(output)
    store = CheckpointStore(CheckpointConfig(saved.model_folder, saved.model_basename))
    opened = open_checkpoint(store, saved.preload, saved.average)
    for line in opened.messages:
        print_line(printable(line), sys.stderr)
    model, folder = TrainedModel.of(opened.state), opened.path.parent
    sentences = choose_sentences(model, config.source, config.reference, folder)
    verification = export(model, config.format, output, sentences, config.quantization)
    for line in verification.lines:
        print_line(f"Verified: {line}.")
    for line in verification.notes:
        print_line(f"Note: {line}.")
    if verification.bleu_signature:
        print_line(f"BLEU signature: {verification.bleu_signature}")
    print_line(f"Wrote {output}.")
