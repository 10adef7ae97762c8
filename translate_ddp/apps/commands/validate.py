"""`translate-ddp validate`: the scores of a model, or of existing translations."""

import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np

from translate_ddp.apps.commands.model_commands import (
    DirectionConfig,
    Pairs,
    PairsConfig,
    ProtectionConfig,
    SavedModel,
    check_lines,
    check_one_process,
    to_bytes,
)
from translate_ddp.console import counted, number, print_line
from translate_ddp.data.inputs import read_texts
from translate_ddp.data.readers.spreadsheet import is_spreadsheet
from translate_ddp.data.readers.streams import spooled
from translate_ddp.data.sources import name_and_split
from translate_ddp.directions import LanguagePair
from translate_ddp.errors import UserError
from translate_ddp.modeling.search_options import SearchConfig
from translate_ddp.runtime.device import FREE_MEMORY, explain_out_of_memory
from translate_ddp.runtime.files import check_new, publish_output
from translate_ddp.spans import Glossary, Protection
from translate_ddp.text import (
    lower,
    normalize,
    remove_end_punctuation,
    upper,
)
from translate_ddp.training.logbook import Logbook, sample_lines, shown_samples
from translate_ddp.training.metrics import (
    SLOW_METRICS,
    bleu_signature,
    compare_systems,
    score_intervals,
    score_texts,
    with_units,
)
from translate_ddp.training.validation import off_target, samples_of
from translate_ddp.translator import Translator

# Functions of a source and its language.
VARIANTS: dict[str, Callable[[str, str], str]] = {
    "lower case": lower,
    "upper case": upper,
    "no end punctuation": lambda text, _: remove_end_punctuation(text),
}
BOOTSTRAP = "sacreBLEU's bootstrap (1,000 samples)"


@dataclass(frozen=True)
class ValidateConfig(PairsConfig):
    """Score a model, or existing translations, on a validation set with every metric."""

    hypothesis: str = ""
    """File of translations to score, instead of a model's translations."""
    output: str = ""
    """New file for the translations, one per line; '': they are not written."""
    compare: str = ""
    """Model (folder or file) or file of translations to test against, by paired bootstrap."""
    perturbed: bool = False
    """Also report scores for input as people type it: lower case, no end punctuation, ..."""
    search: SearchConfig = field(default_factory=lambda: SearchConfig(beam_width=1))
    protection: ProtectionConfig = field(default_factory=ProtectionConfig)
    saved: SavedModel = field(default_factory=SavedModel)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.needs_model and not all(self.languages):
            raise ValueError("--hypothesis with --source needs --from and --to, as en and it.")
        if self.hypothesis and self.perturbed:
            raise ValueError("--perturbed needs a model: omit --hypothesis.")
        check_lines(self.output)
        if self.compare and not Path(name_and_split(self.compare)[0]).exists():
            raise ValueError(f"--compare {self.compare} does not exist: pass a model or a file.")

    @property
    def languages(self) -> LanguagePair:
        return LanguagePair(self.direction.source_language, self.direction.to)

    @property
    def needs_model(self) -> bool:
        """Whether a checkpoint is opened: to translate, or for its validation set."""
        return not (self.hypothesis and self.source)

    def is_of_all(self, translator: Translator) -> bool:
        """Whether all directions of the model are scored: it has several, and none is chosen."""
        alone = self.hypothesis, self.output, self.compare, self.perturbed, self.protection.glossary
        given = self.direction != DirectionConfig() or (self.source and "{" not in self.source)
        return translator.facts.has_several and not any(alone) and not given


class System(NamedTuple):
    """Translations and their scores."""

    name: str
    predictions: list[str]
    scores: dict[str, float]
    warnings: Counter[str] = Counter()  # about the model's own translations

    @property
    def faults(self) -> str:
        """How many translations have each warning, as `3 repetition`."""
        return ", ".join(f"{count:,} {name}" for name, count in self.warnings.most_common())


def run(config: ValidateConfig) -> None:
    check_one_process("validate is one process: start it without torchrun.")
    if config.output:
        check_new(Path(config.output))
    translator = config.direction.choose(config.saved.open()) if config.needs_model else None
    if translator is None:
        pairs = config.read(config.languages)
    elif config.is_of_all(translator):
        return print_line("\n".join(report_all(translator, config)))
    else:
        pairs = config.read_for(translator, config.saved)
    protection = config.protection.create(pairs.languages)
    # First: what is compared may not be usable, and translating takes long.
    baseline = open_system(pairs, config, protection) if config.compare else None
    if config.hypothesis:
        system = from_hypothesis(config.hypothesis, pairs)
    else:
        assert translator is not None
        translator.protection = protection
        warn_of_sentences(translator, pairs)
        system = from_model(translator, pairs, config.search)
    for line in report(system, pairs):
        print_line(line)
    if config.protection.glossary:
        print_line(describe_terms(system, pairs, protection.glossary))
    if config.output:
        data = to_bytes(system.predictions)
        publish_output(Path(config.output), lambda partial: partial.write_bytes(data))
    if config.perturbed and translator is not None:
        for line in describe_perturbed(translator, pairs, config.search):
            print_line(line)
    if baseline is not None:
        for line in describe_comparison(system, baseline, pairs):
            print_line(line)


def open_system(pairs: Pairs, config: ValidateConfig, protection: Protection) -> System:
    """Of --compare: a model's translations, if it is a folder or a checkpoint; else the file's."""
    path, file = config.compare, spooled(Path(config.compare))
    if file.is_dir() or (zipfile.is_zipfile(file) and not is_spreadsheet(file)):
        translator = Translator.open(path).to(*pairs.languages.reverse)
        translator.protection = protection
        found = from_model(translator, pairs, config.search)
        return found._replace(name=f"{path} ({found.name})")  # both may be of the same epoch
    return from_hypothesis(path, pairs)


def from_hypothesis(path: str, pairs: Pairs) -> System:
    """Existing translations. Raises UserError if there are more or fewer than pairs."""
    lang_tgt = pairs.languages[1]
    predictions = list(map(normalize, read_texts(Path(path), "tgt", lang_tgt)))
    if len(predictions) != len(pairs.references):
        raise UserError(
            f"{path} has {len(predictions):,} translations for {len(pairs.references):,} "
            "references: they must correspond line by line."
        )
    scores = score_texts(pairs.sources, predictions, pairs.references, lang_tgt)
    return System(path, predictions, scores)


def warn_of_sentences(translator: Translator, pairs: Pairs) -> None:
    if count := sum(len(translator.sentences(text)) > 1 for text in pairs.sources):
        print_line(
            f"{count:,} of the {len(pairs.sources):,} sources have several sentences. Each is "
            "translated as one sentence, as in training. `translate` splits sources: to score its "
            "translations, pass them as --hypothesis.",
            sys.stderr,
        )


def from_model(translator: Translator, pairs: Pairs, search: SearchConfig) -> System:
    """A model's translations."""
    sources, device = translator.encode_sources(pairs.sources), translator.engine.device
    targets = translator.tokenizer.encode(pairs.references)
    total = len(pairs.sources)
    with (
        explain_out_of_memory(device, lambda: "validating", FREE_MEMORY),
        Logbook().progress("validation", total=total) as progress,
    ):
        found = translator.translate(
            pairs.sources,
            **asdict(search),
            report=lambda text, message: None,
            on_done=progress.advance,
            split="none",
            n_best=1,
        )
        log_probs = np.concatenate(translator.engine.log_probs(sources, targets))
    predictions = [best.text for (best,) in found]
    scores = {"loss": -float(log_probs.mean(dtype=np.float64))}
    scores |= score_texts(pairs.sources, predictions, pairs.references, pairs.languages[1])
    warnings = Counter(warning for (best,) in found for warning in best.warnings)
    return System(translator.name, predictions, scores, warnings)


def report(system: System, pairs: Pairs) -> Iterator[str]:
    """Samples, scores, their intervals and BLEU's signature, as lines."""
    sources, references, (_, lang_tgt) = pairs
    yield from sample_lines(shown_samples(samples_of(sources, references, system.predictions)))
    texts = sources, system.predictions, references
    scores = system.scores | score_texts(*texts, lang_tgt, SLOW_METRICS)
    yield f"{system.name}, {counted(len(references), 'sentence')}: {with_units(scores)}"
    intervals = score_intervals(system.predictions, references, lang_tgt)
    shown = (f"{name} {number(i.mean)} ± {number(i.half_width)}" for name, i in intervals.items())
    yield f"95% intervals by {BOOTSTRAP}: {', '.join(shown)}"
    yield f"BLEU signature: {bleu_signature(lang_tgt)}"
    if system.warnings:
        yield f"Translations with warnings: {system.faults}"


def describe_terms(system: System, pairs: Pairs, glossary: Glossary) -> str:
    """How many terms of the sources stand in the translations."""
    asked = kept = 0
    for source, prediction in zip(pairs.sources, system.predictions, strict=True):
        places = glossary.find(source)
        terms = Counter(glossary.target(source[start:end]) for start, end in places)
        asked += len(places)
        kept += sum(min(count, prediction.count(term)) for term, count in terms.items())
    return f"Glossary: {kept:,} of {counted(asked, 'term')} of the sources are in the translations"


def report_all(translator: Translator, config: ValidateConfig) -> Iterator[str]:
    """The scores of each direction and their mean, and BLEU's signatures, as lines."""
    rows, identifier = dict[str, list[float]](), translator.facts.identifier
    translator.protection = config.protection.create(translator.directions[0])
    for direction in translator.directions:
        model = translator.to(*direction.reverse)
        pairs = config.read_for(model, config.saved)
        warn_of_sentences(model, pairs)
        system = from_model(model, pairs, config.search)
        row = [system.scores["chrf"], system.scores["BLEU"]]
        if identifier:
            ids = model.tokenizer.encode([*filter(None, system.predictions)])
            row.append(100 * off_target(identifier.identify(ids), direction.tgt))
        rows[f"{direction}, {counted(len(pairs.references), 'sentence')}"] = row
    rows["mean"] = [fmean(column) for column in zip(*rows.values(), strict=True)]
    width = max(map(len, rows))
    yield f"{'':{width}}        chrf        BLEU{' off-target %' * bool(identifier)}"
    for name, row in rows.items():
        yield f"{name:{width}}{''.join(f'{value:12.2f}' for value in row)}"
    for signature in dict.fromkeys(bleu_signature(tgt) for _, tgt in translator.directions):
        yield f"BLEU signature: {signature}"


def describe_comparison(system: System, baseline: System, pairs: Pairs) -> Iterator[str]:
    """The scores of the baseline, and the differences of the system to it, as lines."""
    yield f"{baseline.name}: {with_units(baseline.scores)}"
    found = compare_systems(
        system.predictions, baseline.predictions, pairs.references, pairs.languages[1]
    )
    shown = (
        f"{name} {each.score - each.baseline:+.4g} (p = {each.p_value:.3f})"
        for name, each in found.items()
    )
    yield f"Difference to {baseline.name}, by {BOOTSTRAP}, paired: {', '.join(shown)}"


def describe_perturbed(translator: Translator, pairs: Pairs, search: SearchConfig) -> Iterator[str]:
    """Scores and warnings of sources as people type them, as lines; the references are the same."""
    for name, change in VARIANTS.items():
        sources = [change(text, pairs.languages.src) for text in pairs.sources]
        system = from_model(translator, pairs._replace(sources=sources), search)
        yield ", ".join(filter(None, [f"{name}: {with_units(system.scores)}", system.faults]))
