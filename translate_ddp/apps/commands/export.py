"""`translate-ddp export`: a trained model for other programs, verified to be the same."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch

from translate_ddp.apps.commands.model_commands import SavedModel
from translate_ddp.apps.exporting.ctranslate2_export import (
    Quantization,
    write_argos,
    write_ctranslate2,
)
from translate_ddp.apps.exporting.huggingface_export import write_huggingface
from translate_ddp.apps.exporting.trained_model import (
    Sentences,
    TrainedModel,
    Verification,
    choose_sentences,
)
from translate_ddp.console import print_line
from translate_ddp.errors import UserError
from translate_ddp.runtime.environment import threads_per_process
from translate_ddp.runtime.files import check_new, publish_output
from translate_ddp.runtime.launch import Launch
from translate_ddp.training.checkpoint import write
from translate_ddp.training.checkpoint_name import check_no_digest
from translate_ddp.training.identity import without_paths
from translate_ddp.training.state import LogOffset, RunState

Format = Literal["ctranslate2", "huggingface", "argos", "pt"]


@dataclass(frozen=True)
class ExportConfig:
    """Write a checkpoint in the format of another program, and verify it against the checkpoint."""

    format: Format
    """ctranslate2 or huggingface: a folder; argos: an .argosmodel file, or a folder of them if the
    model has several directions; pt: a checkpoint file."""
    output: str
    """Folder or file to write; it must not exist."""
    quantization: Quantization = "float32"
    """Format of the weights in ctranslate2 and argos. With references, BLEU verifies int8."""
    source: str = ""
    """Sentences for the verification, in any format of training; '': the validation set beside the
    checkpoint, if it is there. {src} and {tgt} stand for the languages of each direction."""
    reference: str = ""
    """File of the translations of --source."""
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
        if self.format == "pt" and not self.output.endswith(".pt"):
            raise ValueError("--format pt writes a file: pass an --output that ends in .pt.")
        check_no_digest(self.output)


def run(config: ExportConfig) -> None:
    torch.set_num_threads(threads_per_process(Launch()))
    output = Path(config.output)
    check_new(output)
    state, file = config.saved.open_checkpoint()
    model = TrainedModel.of(state)
    if config.format == "argos" and (output.suffix == ".argosmodel") == model.facts.has_several:
        what = "a file: pass an --output that ends in .argosmodel"
        what = "a package for each direction: pass a folder" if model.facts.has_several else what
        raise UserError(f"--format argos writes {what}.")
    sentences = choose_sentences(model, config.source, config.reference, file.parent)
    verification = export(model, config.format, output, sentences, config.quantization)
    for line in verification.lines:
        print_line(f"Verified: {line}.")
    for line in verification.notes:
        print_line(f"Note: {line}.")
    if verification.bleu_signature:
        print_line(f"BLEU signature: {verification.bleu_signature}")
    print_line(f"Wrote {output}.")


def export(
    model: TrainedModel,
    form: Format,
    output: Path,
    sentences: Sentences,
    quantization: Quantization = "float32",
) -> Verification:
    """Write `output`, a folder or file that must not exist, if it is the same model.

    It is written beside the output, verified, and then renamed. Raises UserError, and writes
    nothing, if it is not the same, if a library is missing, or if the disk is full.
    """

    def write_partial(path: Path) -> Verification:
        if form == "pt":
            write(path, stripped(model.state))
            return Verification([])
        if form == "argos":
            return write_argos(path, model, sentences, quantization)
        if form == "huggingface":
            return write_huggingface(path, model, sentences, output.name)
        return write_ctranslate2(path, model, sentences, quantization)

    return publish_output(output, write_partial)


def stripped(state: RunState) -> RunState:
    """The state without optimizer, meters, the names of other files, and local paths."""
    run = replace(state.run, config=without_paths(state.run.config), history=[], archives=0)
    return replace(state, optimizer={}, meters={}, run=run, log_offset=LogOffset())
