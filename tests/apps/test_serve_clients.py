"""LibreTranslate's own client for Python works with the server."""

# ruff: noqa: E402
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")
pytest.importorskip("libretranslatepy")

from urllib.error import HTTPError

from libretranslatepy import LibreTranslateAPI

from tests.helpers.served import FakeTranslator, served


def test_client_translates_detects_and_lists_languages():
    with served(FakeTranslator()) as server:
        client = LibreTranslateAPI(f"http://127.0.0.1:{server.port}", api_key="any")
        assert client.translate("two\nmoons & \u00e9", "en", "it") == "TWO\nMOONS & \u00c9"
        assert client.translate("two", "auto", "it") == "TWO"
        assert client.detect("two moons") == [{"confidence": 0.0, "language": "en"}]
        assert [language["code"] for language in client.languages()] == ["en", "it"]
        with pytest.raises(HTTPError, match="400") as error:
            client.translate("two", "en", "es")
        error.value.close()
