"""Requests that are too many, too large or too slow, and clients that go away."""

import asyncio
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.helpers.processes import wait_until
from tests.helpers.served import Client, FakeTranslator, served
from translate_ddp.apps.serving import requests, server
from translate_ddp.apps.serving.batching import (
    BATCH_TOKENS,
    Batcher,
    Found,
    LimitsConfig,
    QueueFull,
)
from translate_ddp.apps.serving.server import Connection

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


def in_upper_case(n_best: int, texts: list[str]) -> Found:
    return FakeTranslator().translate(texts, n_best=n_best)


def test_waiting_requests_are_translated_together():
    translator = FakeTranslator()
    translator.may_go_on.clear()

    async def main() -> list[str]:
        batcher = Batcher(lambda n, texts: translator.translate(texts, n_best=n), 10)
        worker = asyncio.create_task(batcher.run())

        def send(texts: list[str], n_best: int) -> asyncio.Task[Found]:
            tokens = list(map(len, texts))
            return asyncio.create_task(batcher.translate(n_best, texts, tokens))

        first = send(["first"], 1)
        while not translator.calls:
            await asyncio.sleep(0.001)
        long = "x" * (BATCH_TOKENS - 5)
        asked = [(["a", "b"], 1), ([long], 1), ([long], 1), (["c"], 2), ([], 1)]
        rest = [send(texts, n) for texts, n in asked]
        gone = send(["d"], 1)
        await asyncio.sleep(0)
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
        batcher = Batcher(in_upper_case, 1)  # nothing runs it
        waiting = asyncio.create_task(batcher.translate(1, ["a"], [1]))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await batcher.translate(1, ["b"], [1])
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for text in "cd":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await batcher.translate(1, [text], [1])

    asyncio.run(main())


def test_parts_of_a_long_request_take_turns_with_other_requests():
    calls: list[list[str]] = []
    requests: list[asyncio.Task[Found]] = []

    async def main() -> list[list[str]]:
        loop = asyncio.get_running_loop()

        def translate(n_best: int, texts: list[str]) -> Found:
            calls.append(texts)
            if len(calls) == 1:  # a request that arrives meanwhile
                loop.call_soon_threadsafe(send, "late")
            return in_upper_case(n_best, texts)

        def send(*texts: str) -> None:
            tokens = [BATCH_TOKENS] * len(texts)
            requests.append(loop.create_task(batcher.translate(1, texts, tokens)))

        batcher = Batcher(translate, 10)
        send("a", "b", "c")
        worker = loop.create_task(batcher.run())
        found = [await requests[0], await requests[1]]
        worker.cancel()
        return [[ranked[0].text for ranked in answer] for answer in found]

    assert asyncio.run(main()) == [["A", "B", "C"], ["LATE"]]
    assert calls in ([["a"], ["late"], ["b"], ["c"]], [["a"], ["b"], ["late"], ["c"]])


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
        answer = client.translate(["\U0001f600" * 5, "a\nb", "c"])
        assert answer["translatedText"][1:] == ["A\nB", "C"]
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
        assert answer["translatedText"] == "<B>A</B>" * 600


def test_translation_that_takes_too_long_gets_504():
    translator = FakeTranslator()
    translator.may_go_on.clear()
    with served(translator, LimitsConfig(max_seconds=0.5)) as client:
        status, answer = client.post(q="a", **FIELDS)
        assert status == 504 and "0.5 seconds" in answer["error"]
        translator.may_go_on.set()
        wait_until(lambda: client.post(q="a", **FIELDS)[0] == 200)


HEAD = b"GET /health HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
BODY = b'{"q": "a", "source": "en", "target": "it"}'


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (b"", []),
        (b"G", []),
        (HEAD, []),
        (POST + b"Content-Length: 9\r\n\r\n{", [408]),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n9\r\n{", [408]),
        (HEAD + b"\r\n" + HEAD, [200]),
        (HEAD + b"Content-Length: 9\r\n\r\n{", [200]),  # of a route that reads no body
        (HEAD + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n", [200]),
    ],
)
def test_connection_without_a_complete_request_is_closed(
    sent: bytes, statuses: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Connection, "seconds", 0.3)
    with (
        served(FakeTranslator(), LimitsConfig(max_seconds=0.3)) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=600) as connection,
    ):
        connection.sendall(sent)
        answer = b"".join(iter(lambda: connection.recv(10_000), b""))  # until it is closed
    assert [int(each) for each in re.findall(rb"HTTP/1.1 (\d+)", answer)] == statuses


def test_silent_connections_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Connection, "seconds", 1.0)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 3)
    with served(FakeTranslator()) as client:
        silent = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(3)]
        assert client.send("GET", "/health")[0] == 503
        assert [connection.recv(1) for connection in silent] == [b""] * 3
        assert client.send("GET", "/health")[0] == 200
        for connection in silent:
            connection.close()


def wait_for_a_timeout(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as silent:
        assert silent.recv(1) == b""


def test_time_of_a_translation_and_of_an_upload_that_goes_on_is_not_limited(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Connection, "seconds", 0.3)
    monkeypatch.setattr(requests, "ARRIVAL_SECONDS", 0.2)
    monkeypatch.setattr(requests, "BYTES_PER_SECOND", 1)
    translator = FakeTranslator()
    translator.may_go_on.clear()
    with (
        served(translator) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=600) as connection,
    ):
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:20])
        wait_for_a_timeout(client)
        connection.sendall(BODY[20:])
        wait_until(lambda: translator.calls)
        wait_for_a_timeout(client)
        wait_for_a_timeout(client)
        translator.may_go_on.set()
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_connection_whose_client_reads_no_answers_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Connection, "seconds", 0.3)
    monkeypatch.setattr(server, "BYTES_PER_SECOND", 1e9)
    with served(FakeTranslator()) as client, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", client.port))
        with pytest.raises(ConnectionError):
            while True:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100)


@pytest.mark.parametrize(
    ("q", "glossary", "length"),
    [
        ("a b", {"a": "x" * 20}, 24),
        ("b", "a\tx\nb\tx", 1 + 7),
        ("b", {"a\u0301": "x"}, 1 + 3),  # before it is normalized, which may take long
    ],
)
def test_glossary_counts_as_characters_of_the_request(q: str, glossary: Any, length: int):
    request = {"q": q, "glossary": glossary} | FIELDS
    with served(FakeTranslator(), LimitsConfig(max_characters=length)) as client:
        assert client.post(**request)[0] == 200
    with served(FakeTranslator(), LimitsConfig(max_characters=length - 1)) as client:
        reason = f"Invalid request: request ({length}) exceeds text limit ({length - 1})"
        assert client.post(**request) == (400, {"error": reason})


def test_long_term_of_a_request_is_refused_as_it_may_stand_at_each_word():
    with served(FakeTranslator()) as client:
        assert client.post(q="a", glossary={"a": "x" * 200}, **FIELDS)[0] == 200
        status, answer = client.post(q="a", glossary={"a": "x" * 201}, **FIELDS)
    assert status == 400 and "a term has over 200 characters" in answer["error"]


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
