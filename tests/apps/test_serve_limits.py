"""Requests that are too many, too large or too slow, and clients that go away."""

# ruff: noqa: E402
import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("python_multipart")

from functools import partial

from tests.helpers.processes import wait_until
from tests.helpers.served import FakeTranslator, served
from translate_ddp.apps.serving.batching import (
    BATCH_TOKENS,
    Batcher,
    Found,
    QueueFull,
    Unfinished,
    in_turns,
)
from translate_ddp.apps.serving.limits import LimitsConfig
from translate_ddp.translator import Translator

FIELDS = {"source": "en", "target": "it"}


def test_requests_beyond_the_queue_get_429():
    translator = FakeTranslator()
    translator.may_go_on.clear()
    answers: list[int] = []
    with served(translator, LimitsConfig(max_waiting=2)) as client, ThreadPoolExecutor(6) as pool:

        def post() -> None:
            answers.append(client.post(q="a", **FIELDS)[0])

        jobs = [pool.submit(post)]
        wait_until(lambda: translator.calls)
        jobs += [pool.submit(post) for _ in range(5)]
        wait_until(lambda: len(answers) == 3)
        assert answers == [429] * 3
        translator.may_go_on.set()
        for job in jobs:
            job.result()
    assert answers == [429] * 3 + [200] * 3


def test_waiting_requests_are_translated_together():
    translator = FakeTranslator()
    translator.may_go_on.clear()

    async def main() -> list[str]:
        batcher = Batcher(
            lambda texts, n, reverse: partial(translator.translate, texts, n_best=n), 10
        )
        worker = asyncio.create_task(batcher.run())
        first = asyncio.create_task(batcher.translate(["first"], 1, 60))
        while not translator.calls:
            await asyncio.sleep(0.001)
        long = "x" * (BATCH_TOKENS - 5)
        asked = [(["a", "b"], 1), ([long], 1), ([long], 1), (["c"], 2), (["d"], 1), ([], 1)]
        rest = [
            asyncio.create_task(batcher.translate(texts, n, 60, False, len("".join(texts))))
            for texts, n in asked
        ]
        await asyncio.sleep(0)
        gone = rest.pop(0 + 4)  # "d"
        gone.cancel()
        await asyncio.sleep(0)
        translator.may_go_on.set()
        found = await asyncio.gather(first, *rest)
        worker.cancel()
        assert [[len(texts) for texts in answer] for answer in found] == [
            *([1], [1, 1], [1], [1], [2], []),
        ]
        return [ranked[0].text for answer in found for ranked in answer]

    texts = asyncio.run(main())
    assert texts == ["FIRST", "A", "B", "X" * (BATCH_TOKENS - 5), texts[3], "C"]
    first, together, alone, of_two = translator.calls
    assert (first, alone, of_two) == (["first"], ["x" * (BATCH_TOKENS - 5)], ["c"])
    assert together == ["a", "b", "x" * (BATCH_TOKENS - 5)]  # and not "d"


def test_cancelled_request_leaves_the_queue():
    async def main() -> None:
        batcher = Batcher(lambda texts, n, reverse: list, 1)  # nothing runs it
        waiting = asyncio.create_task(batcher.translate(["a"], 1, 60))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await batcher.translate(["b"], 1, 60)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with pytest.raises(TimeoutError):
            await batcher.translate(["c"], 1, 0.001)
        with pytest.raises(TimeoutError):
            await batcher.translate(["d"], 1, 0.001)

    asyncio.run(main())


def test_request_of_a_closed_connection_is_not_translated():
    translator = FakeTranslator()
    translator.may_go_on.clear()
    with served(translator) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.translate, "first")
        wait_until(lambda: translator.calls)
        body = "q=gone&source=en&target=it"
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            head = "POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n"
            head += "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
            connection.sendall((head + body).encode())
            for _ in range(3):  # until the server has read the request
                client.get("/health")
        for _ in range(3):  # and until it has noticed the end of the connection
            client.get("/health")
        translator.may_go_on.set()
        assert first.result()["translatedText"] == "FIRST"
        assert client.translate("last")["translatedText"] == "LAST"
    assert translator.calls == [["first"], ["last"]]


def test_request_that_is_broken_off_leaves_no_traceback(capfd: pytest.CaptureFixture[str]):
    with served(FakeTranslator()) as client:
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            head = "POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n"
            head += "Content-Type: application/json\r\n\r\n{"
            connection.sendall(head.encode())
            for _ in range(3):  # until the server waits for the rest
                client.get("/health")
        for _ in range(3):
            client.get("/health")
        assert client.translate("last")["translatedText"] == "LAST"
    assert "Traceback" not in "".join(capfd.readouterr())


def test_too_large_requests_are_rejected():
    limits = LimitsConfig(max_characters=10, max_texts=3)
    with served(FakeTranslator(), limits) as client:
        assert client.translate("x" * 10)["translatedText"] == "X" * 10
        assert client.translate(["\U0001f600" * 5, "a\nb"])["translatedText"][1] == "A\nB"
        for q in ("x" * 11, ["x" * 6] * 2, ["a", "b", "c", "d"], [""] * 4):
            assert client.post(q=q, **FIELDS)[0] == 400, q
        large = b"q=" + b"x" * limits.max_bytes
        for route, kind in (("/translate", "x-www-form-urlencoded"), ("/detect", "json")):
            headers = {"Content-Type": f"application/{kind}"}
            assert client.send("POST", route, large, **headers)[0] == 413
            chunks = iter([large[:9000], large[9000:]])  # without Content-Length
            assert client.send("POST", route, chunks, **headers)[0] == 413


def test_text_may_have_any_number_of_lines():
    with served(FakeTranslator()) as client:
        assert client.translate("a\n" * 2500)["translatedText"] == "A\n" * 2500
        answer = client.translate("<b>a</b>" * 600, format="html")
        assert answer["translatedText"] == "<b>A</b>" * 600


def test_requests_wait_for_one_turn_of_those_that_take_several():
    left = {"long": 3, "longer": 5, "gone": 99}  # turns
    log: list[str] = []

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        requests: dict[str, asyncio.Task[Found]] = {}

        def send(text: str, tokens: int = 1) -> None:
            requests[text] = loop.create_task(batcher.translate([text], 1, 60, tokens=tokens))

        def start(texts: list[str], n_best: int, reverse: bool) -> Callable[[], Found]:
            def turn() -> Found:
                log.append(texts[0])
                if log == ["short", "long", "longer"]:
                    loop.call_soon_threadsafe(send, "late")
                    loop.call_soon_threadsafe(requests["gone"].cancel)
                left[texts[0]] = left.get(texts[0], 1) - 1
                if left[texts[0]]:
                    raise Unfinished
                return FakeTranslator().translate(texts)

            return turn

        batcher = Batcher(start, 4)
        for text in left:
            send(text, BATCH_TOKENS + 1)
        send("short")
        await asyncio.sleep(0)  # all are in the queue
        with pytest.raises(QueueFull):
            await batcher.translate(["one more"], 1, 60)
        worker = asyncio.create_task(batcher.run())
        found = [await requests[text] for text in ("short", "long", "longer", "late")]
        worker.cancel()
        return [ranked[0].text for (ranked,) in found]

    assert asyncio.run(main()) == ["SHORT", "LONG", "LONGER", "LATE"]
    assert log == ["short", "long", "longer", "late", *["long", "longer"] * 2, "longer", "longer"]


def test_translation_in_turns_is_the_same(trained: Path):
    translator = Translator.open(str(trained))
    texts = ["sun moon river. Tree", "", "x" * 4000, "stone\u2028wolf", *["sun"] * 2000]
    whole = translator.translate(texts, 2, report=lambda *_: None, n_best=2)
    resumed, turns = in_turns(translator), 1
    while True:
        try:
            found = resumed.translate(texts, 2, report=lambda *_: None, n_best=2)
            break
        except Unfinished:
            turns += 1
    assert turns > 3
    assert [[t.text for t in ranked] for ranked in found] == [
        [t.text for t in ranked] for ranked in whole
    ]
    scores = [[t.score for t in ranked] for ranked in found]
    assert scores == [pytest.approx([t.score for t in ranked]) for ranked in whole]


def test_translation_that_takes_too_long_gets_504():
    translator = FakeTranslator()
    translator.may_go_on.clear()
    with served(translator, LimitsConfig(max_seconds=0.5)) as client:
        status, answer = client.post(q="a", **FIELDS)
        assert status == 504 and "0.5 seconds" in answer["error"]
        translator.may_go_on.set()
        wait_until(lambda: client.post(q="a", **FIELDS)[0] == 200)


def test_request_that_does_not_arrive_gets_408():
    with (
        served(FakeTranslator(), LimitsConfig(max_seconds=0.2)) as client,
        socket.create_connection(("127.0.0.1", client.port)) as connection,
    ):
        head = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n"
        connection.sendall(head + b"Content-Type: application/json\r\n\r\n{")
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")


def test_server_that_stops_finishes_its_requests():
    translator = FakeTranslator()
    translator.may_go_on.clear()
    found = []
    with served(translator) as client:
        thread = threading.Thread(target=lambda: found.append(client.translate("a")))
        thread.start()
        wait_until(lambda: translator.calls)
        server = client.server
        assert server is not None
        server.should_exit = True
        wait_until(lambda: not server.servers[0].is_serving())
        translator.may_go_on.set()
        thread.join()
    assert found == [{"translatedText": "A"}]


def test_connection_without_a_complete_header_is_closed():
    limits = LimitsConfig(max_seconds=0.2)
    with served(FakeTranslator(), limits) as client:
        for begun in (b"", b"GET /health HTTP/1.1\r\nHost: a\r\n"):
            with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
                connection.sendall(begun)
                assert connection.recv(1000) == b""  # closed by the server
        assert client.get("/health")[0] == 200
