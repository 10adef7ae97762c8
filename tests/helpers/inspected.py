"""Inspections of corpora whose numbers are known by construction."""

import random
from collections.abc import Sequence
from pathlib import Path

from translate_ddp.apps.inspecting.inspection import Inspection, inspect
from translate_ddp.apps.inspecting.inspection_report import find_problems
from translate_ddp.apps.reporting.page_template import Problem
from translate_ddp.data.pair_store import Pair
from translate_ddp.presets import with_values
from translate_ddp.settings import Config

ENGLISH = "the man and woman with that dog have seen this house from far".split()
GERMAN = "der mann und die frau mit einem hund haben ein haus nicht gesehen".split()


def sentences(count: int, seed: int = 0) -> list[Pair]:
    """Different pairs of English and German words, without numbers."""
    generator = random.Random(seed)
    found: dict[Pair, None] = {}
    while len(found) < count:
        src, tgt = (" ".join(generator.choices(words, k=8)) for words in (ENGLISH, GERMAN))
        found[src, tgt] = None
    return list(found)


VALIDATION = sentences(100, seed=1)


def inspected(
    folder: Path,
    pairs: Sequence[Pair],
    validation: Sequence[Pair] | str = VALIDATION,
    languages: tuple[str, str] = ("en", "de"),
    seconds: float = 0,
    **settings: object,
) -> Inspection:
    """The inspection of these pairs, with training steps for so many seconds.

    `validation`: its pairs, or the value of the flag.
    """
    (folder / "work").mkdir(parents=True)
    is_flag = isinstance(validation, str)
    for name, rows in (("train", pairs), ("valid", [] if is_flag else validation)):
        for side, language in enumerate(languages):
            lines = "".join(f"{pair[side]}\n" for pair in rows)
            (folder / f"{name}.{language}").write_text(lines)
    values: dict[str, object] = {
        **{
            "dataset": (str(folder / "train"),),
            "validation": validation if is_flag else str(folder / "valid"),
        },
        **{"lang_src": languages[0], "lang_tgt": languages[1]},
    }
    config = with_values(Config(), values | settings)
    return inspect(config.corpus, lambda _: (config, "small"), folder / "work", seconds)


def problem(found: Inspection, text: str) -> Problem:
    problems = find_problems(found)
    matching = [each for each in problems if text in each.what]
    assert len(matching) == 1, [each.what for each in problems]
    return matching[0]
