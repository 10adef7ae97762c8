"""A server with a model that translates in both directions."""

# ruff: noqa: E402
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")

import asyncio
from collections.abc import Iterator

from tests.helpers.served import Client, FakeTranslator, served
from translate_ddp.apps.serving.batching import Batcher, Found


class BothWays(FakeTranslator):
    """Writes English in upper case, and Italian in lower case."""

    is_bidirectional = True

    def reverse(self) -> "BothWays":
        other = BothWays(lambda text, rank: text.lower() + " again" * rank)
        other.lang_src, other.lang_tgt = self.lang_tgt, self.lang_src
        return other


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with served(BothWays()) as found:
        yield found


def test_both_directions_are_translated(client: Client):
    assert client.translate("Sun", source="en", target="it") == {"translatedText": "SUN"}
    assert client.translate("Sole", source="it", target="en") == {"translatedText": "sole"}
    # The region of a code does not count.
    assert client.translate("Sole", source="it-IT", target="en-US") == {"translatedText": "sole"}


def test_source_auto_is_the_language_that_is_not_the_target(client: Client):
    for target, source, text in (("it", "en", "SUN"), ("en", "it", "sun")):
        answer = client.translate("Sun", source="auto", target=target)
        detected = {"confidence": 0.0, "language": source}
        assert answer == {"translatedText": text, "detectedLanguage": detected}


def test_languages_have_each_other_as_target_and_settings_say_so(client: Client):
    assert client.get("/frontend/settings")[1]["bidirectional"] is True
    assert client.get("/languages")[1] == [
        {"code": "en", "name": "English", "targets": ["it"]},
        {"code": "it", "name": "Italian", "targets": ["en"]},
    ]


def test_other_languages_are_rejected(client: Client):
    for source, target, reason in (
        ("en", "en", "English (en) is not available as a target language from English (en)"),
        ("it-IT", "it", "Italian (it) is not available as a target language from Italian (it)"),
        ("it", "de", "de is not supported"),
    ):
        status, answer = client.post(q="a", source=source, target=target)
        assert status == 400 and answer["error"] == reason


def test_scores_and_alternatives_are_those_of_the_direction(client: Client):
    fields = {"source": "it", "target": "en", "alternatives": 1, "scores": True}
    answer = client.translate("Sole", **fields)
    assert answer["alternatives"] == ["sole again"]
    assert [found["text"] for found in answer["translations"]] == ["sole", "sole again"]


def test_requests_of_different_directions_are_not_translated_together():
    calls: list[tuple[list[str], bool]] = []

    def translate(reverse: bool, texts: list[str]) -> Found:
        calls.append((texts, reverse))
        return FakeTranslator().translate(texts)

    async def send() -> None:
        batcher = Batcher(translate, 10)
        requests = [batcher.translate(text.islower(), [text], [1], 60) for text in "aBcD"]
        waiting = [asyncio.create_task(request) for request in requests]
        await asyncio.sleep(0)  # all are in the queue
        task = asyncio.create_task(batcher.run())
        await asyncio.gather(*waiting)
        task.cancel()

    asyncio.run(send())
    assert calls == [(["a", "c"], True), (["B", "D"], False)]
