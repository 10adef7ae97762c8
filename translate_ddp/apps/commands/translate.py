"""`translate-ddp translate`: the translations of texts, in their order."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from translate_ddp.apps.commands.model_commands import (
    DECIMALS,
    STDOUT,
    DirectionConfig,
    EngineConfig,
    ProtectionConfig,
    SavedModel,
    check_lines,
    check_one_process,
    computed,
    parts_of,
    print_lines,
    rounded,
    to_json,
    write_file,
)
from translate_ddp.console import print_line, printable
from translate_ddp.data.inputs import Texts, read_page, read_sources
from translate_ddp.data.readers.corpus_files import file_identity
from translate_ddp.data.sources import name_and_split
from translate_ddp.modeling.ctranslate2_engine import is_exported
from translate_ddp.modeling.engine import OnDone, ignore
from translate_ddp.modeling.search_options import NBestConfig
from translate_ddp.settings import Quoting, Split
from translate_ddp.spans import LINE_BREAKS, Markup
from translate_ddp.training.checkpoint_name import parse_name
from translate_ddp.translator import OnMessage, Translation, Translator

Format = Literal["text", "jsonl"]
PAGES: dict[str, Markup] = {".html": "html", ".htm": "html", ".md": "markdown"}
PAGES[".markdown"] = "markdown"


@dataclass(frozen=True)
class TranslateConfig:
    """Translate texts with a trained checkpoint, sentence by sentence."""

    lines: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Texts to translate; if there are none, the lines of standard input."""
    input: str = ""
    """File or pipe to translate: text, .jsonl .json .csv .tsv .tmx .sgm (.gz .zst .xz of them),
    .parquet, .xlsx, .ods, .html, .md; -: standard input."""
    output: str = ""
    """New file for the translations of --input; '' or -: standard output. All GPUs, or the ranks of
    torchrun, divide the work. The same command continues an interrupted one."""
    format: Format = "text"
    """text: a line for each translation; jsonl: an object for each text, with scores."""
    quoting: Quoting = "auto"
    """Quotes in TSV and CSV. csv: they enclose fields; none: they are text; auto: by the file."""
    direction: DirectionConfig = field(default_factory=DirectionConfig)
    pivot: str = ""
    """Language between source and target, for two languages without a direction of their own."""
    split: Split = "sentences"
    """sentences: translate the sentences of each text one by one; none: each text as one."""
    markup: Markup = "text"
    """html: the texts are HTML, and tags stay; markdown, as for files .md: fenced code and front
    matter stay. An HTML or Markdown file is one text."""
    protection: ProtectionConfig = field(default_factory=ProtectionConfig)
    saved: SavedModel = field(default_factory=SavedModel)
    engine: EngineConfig = field(default_factory=EngineConfig)
    search: NBestConfig = field(default_factory=NBestConfig)

    def __post_init__(self) -> None:
        if self.lines and self.input:
            raise ValueError("Pass texts or --input, not both.")
        if self.output not in STDOUT and not self.input:
            raise ValueError("--output needs --input; write other output with `> FILE`.")
        check_lines(self.output)
        if self.page_markup == "html" != self.markup:
            raise ValueError(f"{self.input} is HTML: pass --markup html.")
        for line in self.lines:
            if os.path.isfile(line):
                raise ValueError(
                    f"{line} is a file: pass --input {shlex.quote(line)} to translate it, or "
                    "write the text to standard input."
                )
            if os.path.isdir(line) and has_model(Path(line)):
                raise ValueError(f"{line} has a model: pass --model_folder {shlex.quote(line)}.")

    @property
    def page_markup(self) -> Markup | None:
        """The markup of an HTML or Markdown file, which is one text; None of other files."""
        return PAGES.get(Path(self.input).suffix.lower())

    def open(self) -> Translator:
        model = self.direction.choose(self.saved.open(self.split, self.engine), self.pivot)
        model.protection = self.protection.create((model.lang_src, model.lang_tgt))
        return model

    def compute(
        self, translator: Translator, item: tuple[int, Sequence[str]], on_done: OnDone = ignore
    ) -> list[str]:
        """`n_best` lines of each text, best first; as jsonl one line of each text.

        The item is the number of texts before, which messages count, and the texts.
        """
        (start, texts), n_best = item, self.search.n_best
        settings: dict[str, Any] = asdict(self.search)
        del settings["n_best"]
        settings |= {"report": report_from(start), "on_done": on_done}
        settings["markup"] = self.page_markup or "text" if self.markup == "text" else self.markup
        if self.format == "text" and n_best == 1:  # without scores, which take longer
            found = translator.translate(texts, **settings)
            return [text.rstrip("\n") for text in found] if self.page_markup else as_lines(found)
        found = translator.translate(texts, n_best=n_best, **settings)
        if self.format == "text":
            return as_lines(each.text for translations in found for each in translations)
        languages = translator.lang_src, translator.lang_tgt
        return [
            to_json(
                {
                    "source": text,
                    # The pair with the best one, in the form in which training reads a corpus.
                    "translation": dict(zip(languages, (text, translations[0].text), strict=True)),
                    "translations": list(map(as_dict, translations)),
                }
            )
            for text, translations in zip(texts, found, strict=True)
        ]


def run(config: TranslateConfig) -> None:
    if config.output not in STDOUT:
        return write_file(config.output, partial(InputRows, config), "translation")
    check_one_process()
    if not (config.lines or config.input) and sys.stdin.isatty():
        translator = config.open()
        for start, text in enumerate(typed_lines(translator)):
            print_lines(config.compute(translator, (start, [text])))
        return
    rows = InputRows(config)
    for lines in computed(rows, parts_of(rows)):
        print_lines(lines)


class InputRows:
    """The texts of the command, whose translations `computed` yields."""

    def __init__(self, config: TranslateConfig) -> None:
        self.config = config
        self.translator = config.open()
        given = Texts(Path(), lambda: config.lines)
        self.texts = given if config.lines else open_input(config, self.translator)

    def __len__(self) -> int:
        return len(self.texts)

    def item(self, part: range) -> tuple[int, list[str]]:
        return part.start, [text or "" for text in self.texts.part(part)]

    def identity(self) -> list[object]:
        config, file = self.config, file_identity(self.texts.path)
        settings = [config.format, config.markup, config.quoting, asdict(config.search)]
        sheet = name_and_split(config.input)[1]
        return [*self.translator.identity, file, *filter(None, [sheet]), *settings]


def open_input(config: TranslateConfig, translator: Translator) -> Texts:
    """The texts of a file or of standard input; the number of missing ones is printed on stderr."""
    if config.page_markup:
        return read_page(Path(config.input))
    languages = translator.lang_src, translator.lang_tgt
    texts = read_sources(Path(config.input or "-"), *languages, config.quoting)
    if texts.missing:
        print_line(
            f"Rows of {config.input} without a text: {texts.missing:,}. Their translations are"
            " empty.",
            sys.stderr,
        )
    return texts


def has_model(folder: Path) -> bool:
    return is_exported(folder) or any(map(parse_name, folder.glob("*.pt")))


def as_lines(texts: Iterable[str]) -> list[str]:
    """Each text as a line."""
    return [LINE_BREAKS.sub(" ", text) for text in texts]


def as_dict(translation: Translation) -> dict[str, Any]:
    """Text, score, warnings, and the sentences with their tokens and log-probabilities."""
    sentences = [asdict(sentence) for sentence in translation.sentences]
    for sentence in sentences:
        sentence["log_probs"] = rounded(sentence["log_probs"])
    score = round(float(translation.score), DECIMALS)
    warnings = {"warnings": translation.warnings}
    return {"text": translation.text, "score": score, **warnings, "sentences": sentences}


def report_from(start: int) -> OnMessage:
    """A report of messages about texts, `start` of which come before; they count from 1."""

    def report(row: int, message: str) -> None:
        print_line(printable(f"Text {start + 1 + row}: {message}"), sys.stderr)

    return report


def typed_lines(translator: Translator) -> Iterator[str]:
    """The lines that a user types after a prompt, until Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401  (`input` then edits and recalls lines)
    print(f"Type a text in {translator.lang_src}. Ctrl-D ends.", file=sys.stderr)
    # `input` would write the prompt to an output that is not a terminal.
    prompt = f"{translator.lang_src}-{translator.lang_tgt}> " if sys.stdout.isatty() else ""
    with suppress(EOFError):
        while True:
            yield input(prompt)
    print(file=sys.stderr)
