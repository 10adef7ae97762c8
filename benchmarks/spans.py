"""What becomes of links, placeholders and tags in a translation, and of input as people type it.

    python -m benchmarks.spans --model_folder weights --source test.en --reference test.de

Spans of each kind are set into the sentences, at a place that their number chooses. They are
translated as `translate` does, and by CTranslate2 and transformers with the same weights, which get
the sentence as text. A span survives if the translation has it once, and no more often. The second
table has loops and empty translations of changed sentences, with and without a second search.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.common import Settings, Values, read_settings
from benchmarks.decoders.task import Ids, Task, prepare_task, task_facts
from benchmarks.decoding import contestants, run, search_name
from benchmarks.machine import facts
from benchmarks.report import Row, write_report
from translate_ddp.apps.commands.validate import frequent_words
from translate_ddp.data.inputs import read_given_pairs
from translate_ddp.data.tokenizer import Tokenizer
from translate_ddp.decoding import Decoder
from translate_ddp.errors import report_errors
from translate_ddp.modeling.repetition import find_loop
from translate_ddp.settings import NBestConfig
from translate_ddp.spans import Line
from translate_ddp.text import lower, normalize, upper
from translate_ddp.training.metrics import score_texts
from translate_ddp.translator import Translator

# Examples of each kind; {} is a number that differs from sentence to sentence.
KINDS = {
    "link": ["https://example.com/a{}?b=c", "www.example{}.org", "http://x{}.net/y_z.html"],
    "e-mail": ["info{}@example.org", "a.b{}@mail.example.com"],
    "file": ["report{}.pdf", "src/main{}.py", "/usr/share/doc{}"],
    "%1$s, %d": ["%{}$s", "%d", "%s", "%.2f"],
    "{name}, ${x}": ["{{name{}}}", "{{{{x{}}}}}", "${{x{}}}", "{{{}}}"],
    "&nbsp;": ["&nbsp;", "&#160;"],
    "<x/>": ['<x id="{}"/>', "<br/>"],
    "<b>word</b>": ["<b>", '<a href="{}.html">', "<em>"],
    "@name, #topic": ["@name{}", "#Topic{}"],
    "version": ["2.13.{}", "v{}.2", "1.0.0-rc{}"],
    "digits": ["48151{}623", "202{}", "+49 30 12345{}6", "DE89 3704 0044 0532 0130 00"],
}
NUMBERS = ["{}", "1{}", "20{}", "{}34"]  # of one to three digits, which are not protected
LINE = re.compile(r"\S+")


@dataclass(frozen=True)
class SpansBenchmark(Settings):
    model_folder: str = "weights"
    """Folder of the checkpoints."""
    source: str = ""
    """File with one sentence per line; '' takes the validation sentences of the embedded demo."""
    reference: str = ""
    """File of their translations."""
    other: tuple[str, ...] = ()
    """Files of sentences in other languages, for the second table."""
    sentences: int = 200
    """Sentences for each kind of span."""
    beam_width: int = 5
    """Width of beam search."""


@dataclass(frozen=True)
class Marked:
    """A sentence into which spans were set."""

    text: str
    spans: tuple[str, ...]

    def survives(self, translation: str) -> bool:
        places = [translation.find(span) for span in self.spans]
        once = all(translation.count(span) == 1 for span in self.spans)
        return once and places == sorted(places)

    def without(self, translation: str) -> str:
        for span in self.spans:
            translation = translation.replace(span, " ")
        return normalize(translation)


def set_span(text: str, kind: str, number: int) -> Marked:
    """The sentence with a span beside one of its words, or around it."""
    random = Random(f"{kind} {number}")
    span = random.choice(KINDS.get(kind, NUMBERS)).format(number % 9 + 1)
    words = [word.span() for word in LINE.finditer(text)]
    start, end = random.choice(words)
    if kind == "<b>word</b>":
        name = re.match(r"<(\w+)", span)
        closing = f"</{name[1] if name else ''}>"
        return Marked(
            f"{text[:start]}{span}{text[start:end]}{closing}{text[end:]}", (span, closing)
        )
    return Marked(f"{text[:start]}{span} {text[start:]}", (span,))


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as folder:
        settings, work = read_settings(SpansBenchmark, __doc__), Path(folder)
        texts = settings.source, settings.reference, settings.sentences
        trained, task, references = prepare_task(work, Path(settings.model_folder), *texts)
        given = settings.source or "demo:validation", settings.reference or settings.source
        sources = read_given_pairs(*given, ("en", "it"))[0][: settings.sentences]
        model = Translator.open(settings.model_folder)
        translate = partial(model.translate, split="none", beam_width=settings.beam_width)
        plain = translate(sources)
        base = score_texts(sources, plain, references, model.lang_tgt)["chrf"]
        sets = {
            kind: [set_span(text, kind, n) for n, text in enumerate(sources)]
            for kind in [*KINDS, "numbers"]
        }
        others = peers(task, trained.tokenizer, work, sets, settings.beam_width)
        rows, divided = list[Row](), Divided()
        for kind, marked in sets.items():
            divided.count = 0
            with divided:
                found = translate([each.text for each in marked])
            values: Values = {"protected": share(marked, found)}
            values |= {name: share(marked, texts[kind]) for name, texts in others.items()}
            values["placed by the model"] = f"{1 - divided.count / len(marked):.0%}"
            rest = [each.without(text) for each, text in zip(marked, found, strict=True)]
            score = score_texts(sources, rest, references, model.lang_tgt)["chrf"]
            values["chrF without the span"] = f"{score - base:+.1f}"
            rows.append(Row(kind, values))
        write_report(
            "spans",
            "Spans that survive a translation",
            rows + list(faults(model, sources, settings)),
            facts=facts() | task_facts(trained, task),
            folder=settings.results,
            notes=[
                f"{len(sources)} sentences each; chrF: difference to {base:.1f}, that of the "
                "sentences without spans. numbers: of one to three digits, not protected."
            ],
        )


class Divided:
    """Counts the sentences whose spans the model did not place while it is entered."""

    count = 0

    def __enter__(self) -> None:
        self._translate = Decoder.translate

        def translate(decoder: Decoder, lines: Sequence[Line], *args: Any, **more: Any) -> Any:
            self.count += len(lines) * bool(more.get("divided"))
            return self._translate(decoder, lines, *args, **more)

        setattr(Decoder, "translate", translate)  # noqa: B010

    def __exit__(self, *_: object) -> None:
        Decoder.translate = self._translate


def share(marked: Sequence[Marked], translations: Sequence[str]) -> str:
    pairs = zip(marked, translations, strict=True)
    return f"{sum(each.survives(text) for each, text in pairs) / len(marked):.0%}"


def peers(
    task: Task, tokenizer: Tokenizer, work: Path, sets: dict[str, list[Marked]], beam_width: int
) -> dict[str, dict[str, list[str]]]:
    """The translations of each kind by other decoders, which get plain text."""
    texts = [each.text for marked in sets.values() for each in marked]
    Task(work, task.checkpoint, tokenizer.encode(list(map(normalize, texts)))).save()
    names = {"CTranslate2": "float32, 1 x", "transformers": "fp32, by length"}
    commands = {
        name: command
        for name, part in names.items()
        for label, command in contestants(beam_width).items()
        if label.startswith(name) and f"beam {beam_width}" in label and part in label
    }
    found: dict[str, Ids] = run(commands, work, 1)[1]
    counts = [len(marked) for marked in sets.values()]
    decoded = {name: iter(map(normalize, tokenizer.decode(ids))) for name, ids in found.items()}
    return {
        name: {kind: [next(rest) for _ in range(n)] for kind, n in zip(sets, counts, strict=True)}
        for name, rest in decoded.items()
    }


def faults(model: Translator, sources: list[str], settings: SpansBenchmark) -> Iterator[Row]:
    """Loops and empty translations of changed input, by one search and by `translate`."""
    variants: dict[str, list[str]] = {
        "unchanged": sources,
        "lower case": [lower(text, model.lang_src) for text in sources],
        "upper case": [upper(text, model.lang_src) for text in sources],
        "single words": frequent_words(sources, model.lang_src),
    }
    for path in settings.other:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        variants[f"language of {Path(path).name}"] = lines[: settings.sentences]
    for width in (1, settings.beam_width):
        for name, texts in variants.items():
            ids = model.encode_sources(list(map(normalize, texts)))
            one = model.engine.translate(ids, NBestConfig(width))
            found = model.translate(texts, width, report=lambda row, text: None, split="none")
            ways = {
                "one search": [best.ids for best, *_ in one],
                "translate": model.tokenizer.encode(found),
            }
            pairs = {way: list(zip(ids, targets, strict=True)) for way, targets in ways.items()}
            yield Row(
                f"{name}, {search_name(width)}",
                {
                    f"{fault}, {way}": f"{sum(map(test, pairs[way])) / len(texts):.1%}"
                    for fault, test in FAULTS.items()
                    for way in ways
                },
            )


def is_loop(pair: tuple[Sequence[int], Sequence[int]]) -> bool:
    source, target = pair
    return len(find_loop(target)) > 0 and not len(find_loop(source))


FAULTS: dict[str, Callable[[tuple[Sequence[int], Sequence[int]]], bool]] = {
    "loops": is_loop,
    "empty": lambda pair: not pair[1],
}


if __name__ == "__main__":
    main()
