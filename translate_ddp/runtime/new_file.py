"""The file or folder that a command makes as its --output. It replaces nothing."""

from pathlib import Path

from translate_ddp.errors import UserError
from translate_ddp.runtime.files import explain_write_errors, write_atomically


def check_new(output: Path) -> None:
    """Raise UserError if the output exists, or if there is no folder for it."""
    if output.exists() or output.is_symlink():
        raise UserError(f"{output} exists already: delete it, or pass another --output.")
    if not output.parent.is_dir():
        raise UserError(f"There is no folder {output.parent}: create it, or pass another --output.")


def write_new(output: Path, data: bytes) -> None:
    """Write the file as a whole. Raises UserError if it exists, or if that fails."""
    check_new(output)  # what is written may have taken minutes
    with explain_write_errors(output):
        write_atomically(output, data)
