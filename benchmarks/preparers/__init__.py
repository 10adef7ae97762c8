"""What is compared by `benchmarks.preparation`: one contestant per file, with one command line.

The last line of a contestant is its result, as JSON. This module does not import torch: its memory
would count for contestants that only start a program.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    corpus: str
    """Parallel text: common start of two files, which end in .LANGUAGE."""
    jsonl: Path
    """The same pairs as transformers reads them."""
    work: Path
    """Folder for all that is written; it is empty."""
    lang_src: str
    """Source language."""
    lang_tgt: str
    """Target language."""
    vocab_size: int
    """Of the joint vocabulary."""
    tokenizer_pairs: int
    """Pairs at the start of the corpus that a peer trains its tokenizer on."""
    processes: int
    """Processes of a peer."""

    @property
    def files(self) -> tuple[Path, Path]:
        source, target = (f"{self.corpus}.{side}" for side in (self.lang_src, self.lang_tgt))
        return Path(source), Path(target)
