"""`python -m translate_ddp translate`: the translations of texts, in their order."""

import io
import itertools
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from translate_ddp.apps.commands.output_file import (
    ROWS,
    check_one_process,
    on_every_rank,
    open_ranks,
    write_rows,
)
from translate_ddp.apps.commands.output_formats import (
    STDOUT,
    Format,
    check_not_compressed,
    for_stdout,
    to_bytes,
    translated_lines,
)
from translate_ddp.apps.commands.saved_model import SavedModel
from translate_ddp.console import print_line, printable
from translate_ddp.corpus_settings import Quoting
from translate_ddp.data.inputs import Texts, read_sources
from translate_ddp.data.readers.corpus_files import file_identity, is_table
from translate_ddp.data.readers.streams import spooled
from translate_ddp.run_settings import Split
from translate_ddp.settings import NBestConfig
from translate_ddp.translation import OnMessage
from translate_ddp.translator import Translator


@dataclass(frozen=True)
class TranslateConfig:
    """Translate texts with a trained checkpoint, sentence by sentence."""

    lines: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Texts to translate; if there are none, the lines of standard input."""
    input: str = ""
    """File or pipe to translate: text, .jsonl .json .csv .tsv .tmx .sgm (.gz .zst .xz of them) or
    .parquet; -: standard input."""
    output: str = ""
    """New file for the translations of --input; '' or -: standard output. Under torchrun, the ranks
    divide the work. The same command continues an interrupted one."""
    format: Format = "text"
    """text: a line for each translation; jsonl: an object for each text, with scores."""
    quoting: Quoting = "auto"
    """Quotes in TSV and CSV. csv: they enclose fields; none: they are text; auto: by the file."""
    reverse: bool = False
    """Translate in the other direction, with a model of --bidirectional."""
    split: Split = "sentences"
    """sentences: translate the sentences of each text one by one; none: each text as one."""
    saved: SavedModel = field(default_factory=SavedModel)
    search: NBestConfig = field(default_factory=NBestConfig)

    def __post_init__(self) -> None:
        if self.lines and self.input:
            raise ValueError("Pass texts or --input, not both.")
        if self.output not in STDOUT and not self.input:
            raise ValueError("--output needs --input; write other output with `> FILE`.")
        check_not_compressed(self.output)
        for line in self.lines:
            if os.path.isfile(line):
                raise ValueError(
                    f"{line} is a file: pass --input {shlex.quote(line)} to translate it, or "
                    "write the text to standard input."
                )


def run(config: TranslateConfig) -> None:
    # UTF-8, whatever the locale. An invalid byte becomes one replacement character. Only newlines
    # end the lines of the input, as those of files.
    for stream, newline in ((sys.stdin, "\n"), (sys.stdout, None)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace", newline=newline)
    if config.output not in STDOUT:
        return write_file(config)
    check_one_process()
    translator = config.saved.open(config.reverse, config.split)
    is_typed = not (config.lines or config.input) and sys.stdin.isatty()
    for start, texts in chunks(_texts(config, translator), 1 if is_typed else ROWS):
        report = report_from(start, config.input)
        found = translated_lines(translator, texts, config.search, config.format, report)
        for line in for_stdout(found):
            print(line, flush=True)


def _texts(config: TranslateConfig, translator: Translator) -> Iterable[str]:
    if config.lines:
        return config.lines
    if config.input:
        return (text or "" for text in open_input(config, translator))
    if sys.stdin.isatty():
        return typed_lines(f"{translator.lang_src}-{translator.lang_tgt}")
    return stdin_lines()


def write_file(config: TranslateConfig) -> None:
    """Write the translations of `--input` to `--output`, on all ranks."""
    with open_ranks() as world:
        translator = on_every_rank(
            world, "opening the model", lambda: config.saved.open(config.reverse, config.split)
        )
        given = on_every_rank(world, "reading the input", lambda: open_input(config, translator))

        def compute(part: range, on_done: Callable[[int], None]) -> bytes:
            texts = [text or "" for text in given.part(part)]
            report = report_from(part.start, config.input)
            return to_bytes(
                translated_lines(translator, texts, config.search, config.format, report, on_done)
            )

        def identity() -> list[object]:
            path = spooled(Path(config.input))
            settings = [file_identity(path), config.format, asdict(config.search)]
            settings += [config.quoting] if config.quoting != "auto" else []
            return [*translator.identity, *settings]

        write_rows(Path(config.output), identity, len(given), compute, world, "translation")


def open_input(config: TranslateConfig, translator: Translator) -> Texts:
    """The texts of a file; the number of those that are missing is printed on stderr."""
    languages = translator.lang_src, translator.lang_tgt
    texts = read_sources(Path(config.input), *languages, config.quoting)
    if texts.missing:
        print_line(
            f"Rows of {config.input} without a text: {texts.missing:,}. Their translations are"
            " empty.",
            sys.stderr,
        )
    return texts


def report_from(start: int, path: str = "") -> OnMessage:
    """A report of messages about texts, `start` of which come before; they count from 1.

    Those of a table at `path` are not its lines: it may have a header, or fields of several lines.
    """
    unit = "Text" if path and is_table(Path(path)) else "Line"

    def report(row: int, message: str) -> None:
        print_line(printable(f"{unit} {start + 1 + row}: {message}"), sys.stderr)

    return report


def stdin_lines() -> Iterator[str]:
    """The lines of standard input, with a message on stderr for each that is not UTF-8."""
    report = report_from(0)
    for row, line in enumerate(sys.stdin):
        if row == 0:
            line = line.removeprefix("\ufeff")  # byte order mark
        if "\ufffd" in line or "\0" in line:  # of UTF-16, half of the bytes may be 0
            report(row, "not UTF-8, so its translation may be wrong: convert it with iconv.")
        text = line.removesuffix("\n").removesuffix("\r")
        has_newlines = row > 0 or line.endswith("\n")
        yield from [text] if has_newlines else text.split("\r")  # as files without \n


def typed_lines(languages: str) -> Iterator[str]:
    """The lines that a user types after a prompt, until Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401  (`input` then edits and recalls lines)
    print(f"Type a text in {languages.split('-')[0]}. Ctrl-D ends.", file=sys.stderr)
    while True:
        prompt = f"{languages}> "
        if not sys.stdout.isatty():  # there `input` would write the prompt to the output
            print(prompt, end="", file=sys.stderr, flush=True)
            prompt = ""
        try:
            yield input(prompt)
        except EOFError:
            return print(file=sys.stderr)
        except KeyboardInterrupt:
            print(file=sys.stderr)
            raise


def chunks(lines: Iterable[str], size: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Lists of `size` lines, and the number of lines before each."""
    iterator = iter(lines)
    for start in itertools.count(0, size):
        if not (chunk := list(itertools.islice(iterator, size))):
            break
        yield start, chunk
