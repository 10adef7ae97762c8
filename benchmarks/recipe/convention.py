"""The two conventions of scoring, and the texts of a corpus folder such as Multi30k's.

tok: lower-cased, normalised and tokenised by Moses, as most papers score; train and test files end
in `.lc.norm.tok`. raw: cased, detokenised text, tokenised by sacreBLEU's 13a.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sacrebleu

from translate_ddp.errors import UserError

SOURCE, TARGET = "en", "de"
TRAIN, VALIDATION, TEST = "train", "val", "test_2016_flickr"


@dataclass(frozen=True)
class Convention:
    """Which files of the folder are read, and how sacreBLEU tokenises."""

    name: str
    ending: str
    tokenize: str

    def prefix(self, corpus: Path, split: str) -> str:
        """The common start of the two files of a split, as train.py takes it."""
        return str(corpus / f"{split}{self.ending}")

    def read(self, corpus: Path, split: str) -> tuple[list[str], list[str]]:
        """Sources and references. Raises UserError if there is no such file."""
        prefix = self.prefix(corpus, split)
        return read_lines(f"{prefix}.{SOURCE}"), read_lines(f"{prefix}.{TARGET}")

    def metric(self) -> sacrebleu.BLEU:
        return sacrebleu.BLEU(tokenize=self.tokenize, force=True)  # no warning of tokenised text

    def bleu(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        return self.metric().corpus_score(hypotheses, [references]).score

    def signature(self) -> str:
        metric = self.metric()
        metric.corpus_score(["text"], [["text"]])  # it counts the references
        return str(metric.get_signature())


CONVENTIONS = {
    "tok": Convention("tok", ".lc.norm.tok", "none"),
    "raw": Convention("raw", "", "13a"),
}


def read_lines(path: str) -> list[str]:
    """The lines of a file, plain or `.gz`."""
    for found, opened in ((Path(path), open), (Path(f"{path}.gz"), gzip.open)):
        if found.is_file():
            with opened(found, "rt", encoding="utf-8", newline="\n") as file:
                return [line.removesuffix("\n") for line in file]
    raise UserError(f"There is no file {path}, plain or .gz: pass the folder that holds it.")
