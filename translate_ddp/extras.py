"""Imports the libraries of the extra `export`, where they are used."""

from importlib import import_module
from typing import Any

from translate_ddp.errors import UserError


def import_extra(name: str) -> Any:
    """The module. Raises UserError if its library is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(
            f"{name.partition('.')[0]} is not installed: run "
            "pip install -r requirements-export.txt."
        ) from error
