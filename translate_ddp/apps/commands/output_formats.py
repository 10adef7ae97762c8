"""The translations of texts as the lines that `translate` writes."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from translate_ddp.console import printable
from translate_ddp.data.readers.streams import compression_of
from translate_ddp.modeling.engine import ignore
from translate_ddp.settings import NBestConfig
from translate_ddp.translation import OnMessage, Translation
from translate_ddp.translator import Translator

STDOUT = ("", "-", "/dev/stdout")  # values of --output
Format = Literal["text", "jsonl"]
DECIMALS = 6  # of log-probabilities: fewer differ between machines


def translated_lines(
    translator: Translator,
    texts: Sequence[str],
    search: NBestConfig,
    format: Format,
    report: OnMessage,
    on_done: Callable[[int], None] = ignore,
) -> list[str]:
    """`search.n_best` lines of each text, best first; as jsonl one line of each text."""
    settings: dict[str, Any] = asdict(search)
    n_best = settings.pop("n_best")
    if format == "text" and n_best == 1:  # without scores, which take a second pass
        return translator.translate(texts, report=report, on_done=on_done, **settings)
    found = translator.translate(texts, report=report, on_done=on_done, n_best=n_best, **settings)
    if format == "text":
        return [translation.text for translations in found for translation in translations]
    languages = translator.lang_src, translator.lang_tgt
    return [
        to_json(
            {
                "source": text,
                # The pair with the best one, in the form in which a corpus is read for training.
                "translation": dict(zip(languages, (text, translations[0].text), strict=True)),
                "translations": list(map(as_dict, translations)),
            }
        )
        for text, translations in zip(texts, found, strict=True)
    ]


def as_dict(translation: Translation) -> dict[str, Any]:
    """Text, score, and the sentences with their tokens and log-probabilities."""
    sentences = [asdict(sentence) for sentence in translation.sentences]
    for sentence in sentences:
        sentence["log_probs"] = rounded(sentence["log_probs"])
    (score,) = rounded([translation.score])
    return {"text": translation.text, "score": score, "sentences": sentences}


def rounded(values: Iterable[float]) -> list[float]:
    return [round(float(value), DECIMALS) for value in values]


def check_not_compressed(output: str) -> None:
    """Raise ValueError if the name of a file for lines has the ending of a compressed one."""
    if ending := compression_of(Path(output)):
        raise ValueError(f"--output is not compressed: pass a name without {ending}.")


def to_json(value: object) -> str:
    """JSON on one line. A lone surrogate, which is no text, becomes a question mark."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def for_stdout(lines: Sequence[str]) -> Sequence[str]:
    """The lines; for a terminal, with characters escaped that could control it.

    Texts are untrusted. Files and pipes receive them unchanged.
    """
    return list(map(printable, lines)) if sys.stdout.isatty() else lines


def to_bytes(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
