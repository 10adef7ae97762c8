"""The demo as a newcomer meets it: training without flags, then sentences as people type them.

    python -m benchmarks.demo

A sentence is right if its translation is one of those listed here, in any case and with or without
the mark at its end. The corpus has the everyday phrases, also in lower case and without that mark,
and none of the other sentences.
"""

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import OFFLINE, ROOT, Failed, Settings, python, read_settings
from benchmarks.machine import facts
from benchmarks.report import Row, write_report
from translate_ddp.errors import report_errors
from translate_ddp.text import remove_end_punctuation
from translate_ddp.translator import Translator

TYPED = {
    "hello": ["ciao", "salve"],
    "Good morning!": ["buongiorno"],
    "how are you?": ["come stai", "come va", "come sta"],
    "thank you very much": ["grazie mille", "molte grazie"],
    "i don't understand": ["non capisco", "io non capisco"],
    "What's your name?": ["come ti chiami"],
    "My name is Anna.": ["mi chiamo anna", "il mio nome è anna"],
    "house": ["casa"],
    "where is my mother?": ["dov'è mia madre", "dove è mia madre"],
    "the red house is small": ["la casa rossa è piccola"],
    "I have two sisters.": ["ho due sorelle", "io ho due sorelle"],
    "THE CAT SLEEPS IN THE KITCHEN": ["il gatto dorme in cucina", "il gatto dorme nella cucina"],
    "what time is it": ["che ore sono", "che ora è"],
    "The children are eating an apple": [
        *("i bambini mangiano una mela", "i bambini stanno mangiando una mela"),
    ],
    "she doesn't like coffee": ["non le piace il caffè", "a lei non piace il caffè"],
}


@dataclass(frozen=True)
class DemoBenchmark(Settings):
    model_folder: str = ""
    """Folder of a finished run of the demo; '' trains one, in three minutes."""


def train(folder: Path) -> float:
    """The seconds of `torchrun train.py`, from launch to end."""
    command = [*python(), "-m", "torch.distributed.run", "train.py"]
    begin = time.perf_counter()
    done = subprocess.run(
        [*command, "--model_folder", str(folder)], cwd=ROOT, env=os.environ | OFFLINE
    )
    if done.returncode:
        raise Failed("train.py failed: see the message above")
    return time.perf_counter() - begin


def is_right(translation: str, expected: list[str]) -> bool:
    return remove_end_punctuation(translation).lower() in expected


def main() -> None:
    with report_errors(), tempfile.TemporaryDirectory() as work:
        settings = read_settings(DemoBenchmark, __doc__)
        folder = Path(settings.model_folder or work)
        measured = {} if settings.model_folder else {"seconds": round(train(folder))}
        translator = Translator.open(str(folder))
        position = translator.state.position
        found = translator.translate(list(TYPED))
        rows = [
            Row(typed, {"translation": text, "right": "yes" if is_right(text, expected) else "no"})
            for (typed, expected), text in zip(TYPED.items(), found, strict=True)
        ]
        right = sum(row.values["right"] == "yes" for row in rows)
        write_report(
            "demo",
            "The demo",
            rows,
            facts=facts() | measured | {position.best_metric: round(position.best_score, 2)},
            folder=settings.results,
            notes=[
                f"Right: {right} of {len(rows)}. Neither case nor the mark at the end is compared, "
                "so a wrong mark counts as right."
            ],
        )


if __name__ == "__main__":
    main()
