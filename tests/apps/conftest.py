"""Tests of the server need the libraries of requirements-serve.txt."""

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.helpers import browser
from tests.helpers.browser import Browser
from translate_ddp.decoding import Decoder

LIBRARIES = ("starlette", "uvicorn", "python_multipart")
OF_SERVER = ["test_serve*.py", "test_export_steps.py"]
collect_ignore_glob = [] if all(map(find_spec, LIBRARIES)) else OF_SERVER


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.chromium() as found:
        yield found


@pytest.fixture
def one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """No translation is searched again: translations of small models repeat themselves."""
    monkeypatch.setattr(Decoder, "_fault", lambda *_: "")
