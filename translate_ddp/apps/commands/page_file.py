"""The HTML file that a command writes. It replaces no file but a page of this program."""

from pathlib import Path

from translate_ddp.errors import UserError
from translate_ddp.runtime.files import explain_write_errors, write_atomically

GENERATOR = b'<meta name="generator" content="translate_ddp">'  # as in pages/page.html
START_BYTES = 1000  # that hold it


def check_page(path: Path, flag: str) -> None:
    """Raise UserError if a page cannot be written there, or would replace something else."""
    if path.is_dir():
        raise UserError(f"{flag} {path} is a folder: pass a new file in it.")
    if not path.parent.is_dir():
        raise UserError(f"{flag} {path}: there is no folder {path.parent}.")
    try:
        with path.open("rb") as file:
            start = file.read(START_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{flag} {path} cannot be read: {error.strerror}.") from error
    if GENERATOR not in start:
        raise UserError(f"{flag} {path} exists and is no page of translate_ddp: pass a new file.")


def write_page(path: Path, html: str, flag: str) -> None:
    """Write the page, or replace it at once. Raises UserError if that fails."""
    with explain_write_errors(f"{flag} {path}"):
        write_atomically(path, html)
