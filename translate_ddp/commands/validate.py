"""`python -m translate_ddp validate`: greedy-decode validation of a checkpoint."""

from dataclasses import dataclass, field
from pathlib import Path

from translate_ddp.commands.translate import SavedModel, Translator
from translate_ddp.console import print_line
from translate_ddp.data.dataset import ParallelDataset, Ragged, load_prepared, prepare
from translate_ddp.data.sources import read_parallel
from translate_ddp.errors import UserError
from translate_ddp.modeling.decoding import default_max_tokens
from translate_ddp.runtime.distributed import World
from translate_ddp.runtime.out_of_memory import FREE_MEMORY, explain_out_of_memory
from translate_ddp.settings import CorpusConfig, TokenizerConfig
from translate_ddp.training.logbook import Sample, progress, sample_lines, summary_lines
from translate_ddp.training.validation import (
    NUM_SAMPLES,
    ValidationSet,
    as_metrics,
    choose_samples,
    validate,
)


@dataclass(frozen=True)
class ValidateConfig:
    """Greedy-decode a validation set and score it: loss, BLEU, chrF, CER, WER."""

    source: str = ""
    """A file of sentences, one a line; without it the validation set of the training run."""
    reference: str = ""
    """The file of their translations."""
    saved: SavedModel = field(default_factory=SavedModel)

    def __post_init__(self) -> None:
        if bool(self.source) != bool(self.reference):
            raise ValueError("--source and --reference go together: each line needs its other.")


def run(config: ValidateConfig) -> None:
    translator = Translator.open(config.saved)
    if config.source:
        data = from_files(Path(config.source), Path(config.reference), translator)
    else:
        data = from_training(config.saved, translator)
    with (
        explain_out_of_memory(translator.device, lambda: "validating", FREE_MEMORY),
        progress("validation", total=len(data.pairs), unit="sentence") as bar,
    ):
        scores = validate(
            translator.model,
            data,
            translator.tokenizer,
            World(device=translator.device),
            "rank0",
            default_max_tokens(translator.device),
            show=choose_samples(NUM_SAMPLES, len(data.pairs), translator.step),
            on_done=bar.advance,
        )
    samples = [Sample(*sample) for sample in scores["samples"]]
    for line in sample_lines(samples) + summary_lines(translator.step, as_metrics(scores)):
        print_line(line)
    print(f"{len(data.pairs):,} sentences, BLEU {scores['signature']}")


def from_files(source: Path, reference: Path, translator: Translator) -> ValidationSet:
    """Two files of as many lines. Raises UserError if they cannot be read or do not match."""
    pairs = read_parallel(source, reference)
    sources, references = list(pairs["src"]), list(pairs["tgt"])
    encoded = (Ragged.of(translator.tokenizer.encode(side)) for side in (sources, references))
    return ValidationSet(ParallelDataset(*encoded), sources, references)


def from_training(saved: SavedModel, translator: Translator) -> ValidationSet:
    """The validation set the checkpoint was trained with, found again or prepared again.

    Raises UserError if the corpus is not what it was.
    """
    about = translator.about
    folder = Path(saved.model_folder) / "data"
    prepared = prepare(
        CorpusConfig(**about["corpus"]),
        TokenizerConfig(**about["tokenizer"]),
        about["batches"]["seq_len"],
        folder,
    )
    data = load_prepared(prepared)
    if data.tokenizer.fingerprint != translator.tokenizer.fingerprint:
        raise UserError(
            f"The corpus {about['corpus']['dataset']} has changed since the checkpoint was "
            "trained: pass --source and --reference."
        )
    return ValidationSet(data.validation, data.validation_sources, data.validation_references)
