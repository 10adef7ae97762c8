"""Exports a trained model: writes beside the output, verifies, and then publishes by one rename."""

from pathlib import Path
from typing import Literal

from translate_ddp.apps.exporting.argos import write_argos
from translate_ddp.apps.exporting.checkpoint_file import write_checkpoint
from translate_ddp.apps.exporting.ctranslate2 import Quantization
from translate_ddp.apps.exporting.ctranslate2_folder import write_ctranslate2
from translate_ddp.apps.exporting.huggingface import write_huggingface
from translate_ddp.apps.exporting.sentences import Sentences
from translate_ddp.apps.exporting.trained_model import TrainedModel
from translate_ddp.apps.exporting.verification import Verification
from translate_ddp.runtime.files import publish

Format = Literal["ctranslate2", "huggingface", "argos", "pt"]
FILE_FORMATS = {"argos": ".argosmodel", "pt": ".pt"}  # the others are folders


def export(
    model: TrainedModel,
    form: Format,
    output: Path,
    sentences: Sentences,
    quantization: Quantization = "float32",
) -> Verification:
    """Write `output`, a folder or file that must not exist, if it is the same model.

    Raises UserError, and writes nothing, if it is not, if a library is missing, or if the disk is
    full.
    """

    def write(path: Path) -> Verification:
        if form == "pt":
            return write_checkpoint(path, model)
        if form == "argos":
            return write_argos(path, model, sentences, quantization)
        path.mkdir()
        if form == "huggingface":
            return write_huggingface(path, model, sentences, output.name)
        return write_ctranslate2(path, model, sentences, quantization)

    return publish(output, write)
