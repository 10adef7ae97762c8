"""Imports the libraries of the extras, and checks for them, where they are used."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from translate_ddp.errors import UserError

SERVER = ("starlette", "uvicorn")  # of the extra `serve`


def import_extra(name: str) -> Any:
    """The module of the extra `export`. Raises UserError if its library is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(
            f"{name.partition('.')[0]} is not installed: run "
            "pip install -r requirements-export.txt."
        ) from error


def check_server(user: str, libraries: Sequence[str] = SERVER) -> None:
    """Raise UserError if libraries of the extra `serve` are not installed."""
    if missing := [name for name in libraries if find_spec(name) is None]:
        raise UserError(
            f"{user} needs {' and '.join(missing)}, which is not installed: run "
            "pip install -r requirements-serve.txt."
        )
