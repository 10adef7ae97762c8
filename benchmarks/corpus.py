"""The corpus and the model of benchmarks that take those of a training run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import Settings, as_flags
from benchmarks.report import short
from config import Config, parse
from translate_ddp.data.dataset import PreparedData, load_prepared
from translate_ddp.data.preparation import prepare


@dataclass(frozen=True)
class CorpusSettings(Settings):
    dataset: str = "demo"
    """As for train.py."""
    validation: str = ""
    """As for train.py."""
    lang_src: str = "en"
    """Source language."""
    lang_tgt: str = "it"
    """Target language."""
    preset: str = "auto"
    """Model and schedule, as for train.py."""

    def flags(self, **further: Any) -> list[str]:
        """Flags of train.py."""
        names = ("dataset", "validation", "lang_src", "lang_tgt", "preset")
        return as_flags({name: getattr(self, name) for name in names} | further)


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus, and the configuration it was prepared with."""

    config: Config
    folder: Path
    data: PreparedData

    @classmethod
    def prepare(cls, flags: list[str], folder: Path) -> "Corpus":
        config = parse(flags)
        seq_len, augment = config.batches.seq_len, config.augment
        prepared = prepare(config.corpus, config.tokenizer, seq_len, folder, augment)
        return cls(config, prepared, load_prepared(prepared))

    def facts(self) -> dict[str, str]:
        corpus, shape = self.config.corpus, self.config.model
        return {
            "corpus": f"{' '.join(map(short, corpus.dataset))} {'-'.join(corpus.languages)}, "
            f"{len(self.data.train):,} pairs, {len(self.data.validation):,} for validation",
            "vocabulary": f"{len(self.data.tokenizer):,}",
            "model": f"{shape.num_encoder_layers}+{shape.num_decoder_layers} layers, "
            f"width {shape.d_model}, {shape.num_heads} heads, feed-forward {shape.d_ff}, "
            f"dropout {shape.dropout:g}",
            "batch tokens": f"{self.config.batches.batch_tokens:,}",
        }
