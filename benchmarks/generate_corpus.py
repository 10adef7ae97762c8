"""Writes a corpus of any size with invented sentences, in English and German by the file names.

    python -m benchmarks.generate_corpus --pairs 1000000 --output data/million
    python -m benchmarks.generate_corpus --duplicates 0.4 --output data/train.tsv.gz

The first writes parallel text, data/million.en and data/million.de; a name that ends in .tsv gives
one file with two columns. Both are compressed if the name ends in .gz. Equal flags give equal files
with one version of numpy. What the text is like: the top of `generated_text.py`.
"""

import gzip
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from tqdm import tqdm

from benchmarks.common import read_settings
from benchmarks.generated_text import Lines, generate
from translate_ddp.errors import UserError, report_errors


@dataclass(frozen=True)
class GeneratedCorpus:
    output: Path
    """File, or common start of two files."""
    pairs: int = 100_000
    """Number of sentence pairs."""
    duplicates: float = 0.0
    """Share of pairs that are copies of others."""
    seed: int = 0
    """Another seed gives other sentences of the same words."""
    lang_src: str = "en"
    """Language in the name of the sources' file."""
    lang_tgt: str = "de"
    """Language in the name of the targets' file."""

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise ValueError(f"pairs must be positive, but is {self.pairs}.")
        if not 0 <= self.duplicates < 1:
            raise ValueError(f"duplicates must be from 0 to below 1, but is {self.duplicates}.")

    @property
    def files(self) -> list[Path]:
        """One table, or the sources' and the targets' file."""
        name = self.output.name.removesuffix(".gz")
        if name.endswith(".tsv"):
            return [self.output]
        gz = self.output.name.removeprefix(name)
        return [
            self.output.with_name(f"{name}.{language}{gz}")
            for language in (self.lang_src, self.lang_tgt)
        ]


def write_corpus(corpus: GeneratedCorpus) -> None:
    """Write the files of the corpus, with a progress bar. Raises OSError."""
    corpus.output.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context(open_output(path)) for path in corpus.files]
        bar = stack.enter_context(tqdm(total=corpus.pairs, unit="pair", unit_scale=True))
        for sides in generate(corpus.pairs, corpus.seed, corpus.duplicates):
            columns = sides if len(files) == 2 else [as_rows(*sides)]
            for file, lines in zip(files, columns, strict=True):
                file.write(b"\n".join(lines) + b"\n")
            bar.update(len(sides[0]))


def as_rows(source: Lines, target: Lines) -> Lines:
    return [b"%b\t%b" % pair for pair in zip(source, target, strict=True)]


@contextmanager
def open_output(path: Path) -> Iterator[IO[bytes]]:
    """A new file, compressed if its name ends in .gz; its bytes do not depend on name and time."""
    with path.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as compressed:
            yield cast("IO[bytes]", compressed)


def main() -> None:
    with report_errors():
        corpus = read_settings(GeneratedCorpus, __doc__)
        try:
            write_corpus(corpus)
        except OSError as error:
            raise UserError(f"{corpus.output} cannot be written: {error.strerror}.") from error
        print(f"Wrote {' and '.join(map(str, corpus.files))}.", file=sys.stderr)


if __name__ == "__main__":
    main()
