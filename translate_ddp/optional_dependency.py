"""Imports the libraries that only some commands need, where they are used."""

from importlib import import_module
from typing import Any

from translate_ddp.errors import UserError


def import_optional(name: str, requirements_file: str) -> Any:
    """The module `name`. Raises UserError with the file to install if its library is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        library = name.partition(".")[0].replace("_", "-")
        raise UserError(
            f"{library} is not installed: run pip install -r {requirements_file}."
        ) from error
