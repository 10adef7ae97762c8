"""Replaces the served model when a newer one appears in its folder."""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from translate_ddp.errors import UserError, first_line
from translate_ddp.modeling.ctranslate2_engine import DESCRIPTION
from translate_ddp.training.checkpoint_file import damage
from translate_ddp.translator import Translator

# Checkpoints, and the weights and the description of exported models.
MODEL_FILES = re.compile(rf"[^.].*\.(?:pt|bin)|{re.escape(DESCRIPTION)}")
Files = dict[Path, tuple[int, int]]  # time of the last change in ns, and size in bytes


def model_files(path: Path) -> Files:
    """The model files of a folder, or the file itself, as they are now."""
    found: Files = {}
    with suppress(OSError):  # deleted meanwhile: the next call finds what is left
        for file in path.iterdir() if path.is_dir() else [path]:
            if MODEL_FILES.fullmatch(file.name) and file.is_file():
                found[file] = (file.stat().st_mtime_ns, file.stat().st_size)
    return found


class ServedModel:
    """The translator that answers requests: `translator` is the newest that could be used."""

    def __init__(
        self, path: Path, open_model: Callable[[], Translator], report: Callable[[str], None]
    ) -> None:
        """Open the model; raises UserError. `path` is the folder or the file that is observed."""
        self.path = path
        self._open, self._report = open_model, report
        # Before the model is opened: a file that appears meanwhile is a newer one.
        self._opened = self._seen = model_files(path)
        self.translator = open_model()

    def check(self) -> None:
        """Open the model again if there are new or changed files, and replace the present one.

        A file that has changed since the last check may be incomplete, and is left to the next one.
        Damage and errors are reported; the present translator then stays.
        """
        found = model_files(self.path)
        if found != self._seen:
            self._seen = found
            return
        new = [file for file, state in found.items() if self._opened.get(file) != state]
        self._opened = found
        intact = []
        for file in sorted(new):
            if problem := damage(file):
                self._report(f"{file} is not used: {problem}. The model stays as it is.")
            else:
                intact.append(file)
        if intact:
            self._replace(intact[-1])

    def _replace(self, newest: Path) -> None:
        try:
            translator = self._usable()
            # The same weights: another checkpoint than the chosen one is new.
            is_new = translator.identity != self.translator.identity
        except Exception as error:  # of any kind: the current model stays
            reason = str(error) if isinstance(error, UserError) else first_line(error)
            self._report(f"{newest} is not used: {reason.rstrip('.')}. The model stays as it is.")
            return
        if is_new:
            self.translator = translator
            self._report(f"Opened the model again: {translator.name}.")

    def _usable(self) -> Translator:
        """The model, opened again. Raises UserError if it does not translate the same languages."""
        translator = self._open()
        served, found = (
            f"{model.lang_src} {'from and ' * model.is_bidirectional}to {model.lang_tgt}"
            for model in (self.translator, translator)
        )
        if served != found:
            raise UserError(f"it translates {found}, not {served}: start a server of its own.")
        translator.translate(["a"])  # weights that are not numbers raise an error here
        return translator
