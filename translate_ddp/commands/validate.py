"""`python -m translate_ddp validate`: greedy-decode validation of a checkpoint."""

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from translate_ddp.commands.translate import SavedModel
from translate_ddp.console import print_line
from translate_ddp.data.dataset import ParallelDataset, Ragged, load_prepared, prepare
from translate_ddp.data.files import read_parallel
from translate_ddp.data.text import normalize
from translate_ddp.errors import UserError, first_line
from translate_ddp.runtime.distributed import World
from translate_ddp.runtime.out_of_memory import FREE_MEMORY, explain_out_of_memory
from translate_ddp.settings import GREEDY, CorpusConfig, SearchConfig, TokenizerConfig
from translate_ddp.training.fine_tuning import store_tokenizer
from translate_ddp.training.logbook import Logbook
from translate_ddp.training.metrics import bleu_signature
from translate_ddp.training.robustness import describe_robustness
from translate_ddp.training.sinks.console_sink import sample_lines, with_units
from translate_ddp.training.validation import ValidationSet, validate
from translate_ddp.translator import Translator


@dataclass(frozen=True)
class ValidateConfig:
    """Decode a validation set and score it with every metric."""

    source: str = ""
    """File of sentences, one per line; '': the validation set of the training run."""
    reference: str = ""
    """File of their translations."""
    perturbed: bool = False
    """Also report scores for input as people type it: lower case, no end punctuation, ..."""
    search: SearchConfig = field(default_factory=lambda: GREEDY)
    saved: SavedModel = field(default_factory=SavedModel)

    def __post_init__(self) -> None:
        if bool(self.source) != bool(self.reference):
            raise ValueError("--source and --reference must be given together.")


def run(config: ValidateConfig) -> None:
    translator = config.saved.open()
    if config.source:
        data = from_files(Path(config.source), Path(config.reference), translator)
    else:
        data = from_training(config.saved, translator)
    with (
        explain_out_of_memory(translator.engine.device, lambda: "validating", FREE_MEMORY),
        Logbook().progress("validation", total=len(data.pairs)) as progress,
    ):
        result = validate(
            translator.engine,
            data,
            translator.tokenizer,
            World(device=translator.engine.device),
            "rank0",
            config.search,
            on_done=progress.advance,
        )
    for line in sample_lines(result.samples):
        print_line(line)
    position = translator.state.position
    print_line(
        f"epoch {position.current_epoch}, step {position.global_step:,}, "
        f"{len(data.pairs):,} sentences: {with_units(result.scores)}"
    )
    print_line(f"BLEU signature: {bleu_signature(data.lang_tgt)}")
    if config.perturbed:
        translate = partial(translator.translate, **asdict(config.search))
        for line in describe_robustness(translate, data.sources, data.references, data.lang_tgt):
            print_line(line)


def from_files(source: Path, reference: Path, translator: Translator) -> ValidationSet:
    """The pairs of two parallel files. Raises UserError if one cannot be read or lengths differ."""
    pairs = read_parallel(source, reference)
    sources, references = (list(map(normalize, pairs[side])) for side in ("src", "tgt"))
    encoded = (Ragged.of(translator.tokenizer.encode(side)) for side in (sources, references))
    language = translator.state.run.config["corpus"]["lang_tgt"]
    return ValidationSet(ParallelDataset(*encoded), sources, references, language)


def from_training(saved: SavedModel, translator: Translator) -> ValidationSet:
    """The validation set of the training run, prepared again if its files are gone.

    Raises UserError if the corpus has changed since.
    """
    config = translator.state.run.config
    try:
        corpus, tokenizer = CorpusConfig(**config["corpus"]), TokenizerConfig(**config["tokenizer"])
    except TypeError as error:  # a setting of another version
        problem = f"The settings in the checkpoint are of another version ({first_line(error)})"
        raise UserError(f"{problem}: pass --source and --reference.") from error
    folder = Path(saved.model_folder) / "data"
    if config["checkpoint"].get("init_from"):  # its tokenizer was not made from this corpus
        languages = f"{corpus.lang_src}-{corpus.lang_tgt}"
        tokenizer = store_tokenizer(translator.tokenizer.text, folder, languages)
    seq_len = config["batches"]["seq_len"]
    perturb = config.get("augment", {}).get("perturb", False)  # not in older checkpoints
    data = load_prepared(prepare(corpus, tokenizer, seq_len, folder, perturb))
    if data.tokenizer.fingerprint != translator.tokenizer.fingerprint:
        raise UserError(
            f"The corpus {config['corpus']['dataset']} has changed since the checkpoint was "
            "trained: pass --source and --reference."
        )
    return ValidationSet.of(data, corpus.lang_tgt)
