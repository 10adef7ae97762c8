"""Decoding settings chosen on validation, and the scores of the chosen ones."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.recipe.convention import Convention
from benchmarks.recipe.record import Scored, Setting, best
from translate_ddp.settings import NBestConfig
from translate_ddp.text import normalize
from translate_ddp.translator import Translator

Texts = Sequence[str]


class Decoder:
    """Translates with the checkpoints of a run; keeps the translator of the last average."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._average, self._translator = 0, None

    def translator(self, average: int) -> Translator:
        if self._translator is None or average != self._average:
            self._translator = Translator.open(str(self.folder), average=average)
            self._average = average
        return self._translator

    def translate(self, setting: Setting, sources: Texts) -> list[str]:
        """Each line as one sentence, as in training; `Translator.translate` would split it."""
        translator = self.translator(setting.average)
        found = translator.engine.translate(
            translator.tokenizer.encode([normalize(text) for text in sources]),
            # Greedy search ignores the length penalty.
            NBestConfig(setting.beam_width, setting.length_penalty or 0.0),
        )
        return translator.tokenizer.decode([best.ids for best, *_ in found])


def score_all(
    decoder: Decoder,
    settings: Sequence[Setting],
    convention: Convention,
    texts: tuple[Texts, Texts],
) -> tuple[list[Scored], dict[Setting, list[str]]]:
    """The score and the translations of each setting, in order; a setting is decoded once."""
    sources, references = texts
    found = {setting: decoder.translate(setting, sources) for setting in dict.fromkeys(settings)}
    scores = {setting: convention.bleu(lines, references) for setting, lines in found.items()}
    return [Scored(setting, scores[setting]) for setting in settings], found


def grid(
    averages: Sequence[int], beam_width: int, length_penalties: Sequence[float]
) -> list[Setting]:
    """Every setting that is tried on validation."""
    beams = [
        Setting(average, beam_width, penalty)
        for average in averages
        for penalty in length_penalties
    ]
    return [Setting(average, 1) for average in averages] + beams


def test_settings(validation: Sequence[Scored], beam_width: int) -> dict[str, Setting]:
    """The settings that are scored on the test set, by name; all are chosen on validation."""
    last = min(scored.setting.average for scored in validation)
    return {
        "chosen": best(validation, beam_width=beam_width),
        "greedy": best(validation, beam_width=1),
        "last, beam": best(validation, beam_width=beam_width, average=last),
        "last, greedy": best(validation, beam_width=1, average=last),
    }
