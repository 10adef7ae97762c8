"""Servers on loopback whose translator is a fake, and requests to them."""

import copy
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import numpy as np
import uvicorn

from tests.helpers.processes import wait_until
from tests.helpers.states import TOKENIZER, make_facts
from translate_ddp.apps.serving.app import create_app
from translate_ddp.apps.serving.batching import LimitsConfig
from translate_ddp.apps.serving.server import listen, make_server
from translate_ddp.data.identifier import Identifier
from translate_ddp.decoding import Sentence
from translate_ddp.directions import LanguagePair
from translate_ddp.modeling.search_options import SearchConfig
from translate_ddp.spans import Protection
from translate_ddp.translator import Translation


def upper(text: str, rank: int) -> str:
    return text.upper() + " AGAIN" * rank


class FakeTranslator:
    """Translates a text by a function of the text and the rank; all words have probability 1/4."""

    protection = Protection()
    tokenizer = SimpleNamespace(encode=lambda texts: [list(text.encode()) for text in texts])

    def __init__(
        self,
        function: Callable[[str, int], str] = upper,
        directions: Sequence[tuple[str, str]] = (("en_US", "it"),),
    ) -> None:
        self.function = function
        self.facts = make_facts(TOKENIZER, *directions)
        self.directions = self.facts.directions
        self.direction = self.directions[0]
        self.calls: list[list[str]] = []
        self.settings: dict[str, Any] = {}
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def to(self, target: str, source: str) -> "FakeTranslator":
        other = copy.copy(self)
        other.direction = LanguagePair(source, target)
        return other

    def encode_sources(self, texts: Sequence[str]) -> Sequence[str]:
        return texts  # a character is a token

    def translate(
        self, texts: Sequence[str], *settings: Any, n_best: int = 1, **kept: Any
    ) -> list[list[Translation]]:
        self.calls.append(list(texts))
        self.settings.update(kept)
        assert self.may_go_on.wait(60)
        return [[self._translation(text, rank) for rank in range(n_best)] for text in texts]

    def _translation(self, text: str, rank: int) -> Translation:
        found = self.function(text, rank)
        tokens = [*found.split(), ""]
        log_probs = [-1.3862943611198906] * (len(tokens) - 1) + [0.0]
        return Translation(found, [Sentence(text, found, tokens, log_probs)])


BOTH = (("en_US", "it"), ("it", "en_US"))
MANY = (("en", "hau"), ("en", "lug"), ("hau", "en"), ("lug", "en"))


class Named(FakeTranslator):
    """Writes a text after the direction of its translation; hau is text with h, lug with l."""

    def __init__(self, directions: Sequence[tuple[str, str]] = MANY) -> None:
        super().__init__(upper, directions)
        counts = np.eye(256, dtype=int)[[ord("e"), ord("h"), ord("l")]] * 1000
        identifier = Identifier.of(("en", "hau", "lug"), counts)
        self.facts = replace(self.facts, identifier=identifier)

    def _translation(self, text: str, rank: int) -> Translation:
        return super()._translation(f"{self.direction} {text}".lower(), rank)


@dataclass
class Client:
    port: int
    server: uvicorn.Server | None = None  # that in a thread of this process

    def send(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, Any]:
        status, _, body = self.send("GET", path)
        return status, json.loads(body)

    def post(self, path: str = "/translate", **fields: Any) -> tuple[int, Any]:
        """Status and answer of a request with JSON."""
        headers = {"Content-Type": "application/json"}
        status, _, body = self.send("POST", path, json.dumps(fields), **headers)
        return status, json.loads(body)

    def post_form(self, path: str = "/translate", **fields: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        status, _, body = self.send("POST", path, urlencode(fields), **headers)
        return status, json.loads(body)

    def translate(self, q: Any, **fields: Any) -> Any:
        """The answer to a request that must succeed."""
        status, answer = self.post(q=q, **{"source": "en", "target": "it"} | fields)
        assert status == 200, answer
        return answer


@contextmanager
def served(
    model: Any, limits: LimitsConfig | None = None, reload_seconds: float = 0.0
) -> Iterator[Client]:
    """A server in a thread; `model` is a translator or a `ServedModel`."""
    if not hasattr(model, "check"):
        model = SimpleNamespace(translator=model, check=lambda: None)
    limits = limits or LimitsConfig()
    app = create_app(model, limits, SearchConfig(), reload_seconds)
    bound = listen("127.0.0.1", 0)
    server = make_server(app, limits.max_seconds)
    thread = threading.Thread(target=server.run, args=([bound],))
    port = bound.getsockname()[1]
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started
        yield Client(port, server)
    finally:
        server.should_exit = True
        thread.join()
