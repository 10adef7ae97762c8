"""The routes of LibreTranslate, and the page."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from translate_ddp.apps.reporting.page_template import checksum
from translate_ddp.apps.serving.batching import Batcher, Found, LimitsConfig, QueueFull
from translate_ddp.apps.serving.documents import Document, words_of
from translate_ddp.apps.serving.requests import (
    TranslationRequest,
    find_language,
    menu_name,
    parse_translation,
    public_codes,
    read_fields,
)
from translate_ddp.apps.serving.server import ServedModel
from translate_ddp.console import print_line
from translate_ddp.data.languages import language_name
from translate_ddp.errors import UserError
from translate_ddp.settings import SearchConfig
from translate_ddp.translator import Translation, Translator

CLIENT_CLOSED_REQUEST = 499  # nginx's status, for the log; the connection is closed already
Result = TypeVar("Result")


def create_app(
    model: ServedModel, limits: LimitsConfig, search: SearchConfig, reload_seconds: float = 0.0
) -> Starlette:
    """The application. It looks for a newer model every `reload_seconds`; 0: never."""
    service = Service(model, limits, search)

    @asynccontextmanager
    async def run_tasks(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(service.batcher.run())]
        if reload_seconds:
            tasks.append(asyncio.create_task(check_regularly(model, reload_seconds)))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    folder = files("translate_ddp.apps.serving")
    page = folder.joinpath("page.html").read_text(encoding="utf-8")
    spec = folder.joinpath("spec.json").read_text(encoding="utf-8")
    endpoints: list[tuple[str, str, Callable[..., Any]]] = [
        ("GET", "/", Response(page, media_type="text/html", headers=page_headers(page))),
        ("POST", "/translate", service.translate),
        ("POST", "/detect", service.detect),
        ("GET", "/languages", service.languages),
        ("GET", "/health", JSONResponse({"status": "ok"})),
        ("GET", "/frontend/settings", service.settings),
        ("GET", "/spec", Response(spec, media_type="application/json")),
        ("POST", "/suggest", disabled("Suggestions")),
        ("POST", "/translate_file", disabled("Files translation")),
    ]
    errors = (HTTPException, ClientDisconnect, UserError, Exception)
    # As LibreTranslate: pages of other origins may translate. There is nothing to log in to.
    cors = Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
    return Starlette(
        routes=[AnySlashes(path, each, methods=[method]) for method, path, each in endpoints],
        middleware=[cors],
        exception_handlers=dict.fromkeys(errors, describe_error),
        lifespan=run_tasks,
    )


class AnySlashes(Route):
    """A route that also matches more slashes: a client's base address may end with one."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        names = filter(None, scope["path"].split("/"))
        return super().matches({**scope, "path": f"/{'/'.join(names)}"})


def disabled(name: str) -> Response:
    return JSONResponse({"error": f"{name} are disabled on this server."}, 403)


async def check_regularly(model: ServedModel, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(model.check)


class Settings(NamedTuple):
    """What requests have in common that are translated together."""

    translator: Translator
    reverse: bool
    n_best: int


class Service:
    """The answers to requests."""

    def __init__(self, model: ServedModel, limits: LimitsConfig, search: SearchConfig) -> None:
        self.model, self.limits, self.search = model, limits, search
        self.batcher = Batcher(self._translate, limits.max_waiting)

    def _translate(self, settings: Settings, texts: list[str]) -> Found:
        translator, reverse, n_best = settings
        return (translator.reverse() if reverse else translator).translate(
            texts,
            self.search.beam_width,
            self.search.length_penalty,
            lambda text, message: None,  # a long sentence is translated in parts
            n_best=n_best,
        )

    @property
    def codes(self) -> tuple[str, str]:
        translator = self.model.translator
        return public_codes(translator.lang_src, translator.lang_tgt)

    async def languages(self, request: Request) -> Response:
        source, target = self.codes
        targets = {source: [target], target: [source] * self.model.translator.is_bidirectional}
        return JSONResponse(
            [{"code": c, "name": menu_name(c), "targets": found} for c, found in targets.items()]
        )

    async def settings(self, request: Request) -> Response:
        """The settings of LibreTranslate's page, of which clients read the limit of characters."""
        source, target = ({"code": code, "name": menu_name(code)} for code in self.codes)
        return JSONResponse(
            {
                "charLimit": self.limits.max_characters,
                "frontendTimeout": 500,
                "apiKeys": False,
                "keyRequired": False,
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
                "language": {"source": source, "target": target},
                # For our page:
                "alternatives": min(3, self.search.beam_width - 1),
                "bidirectional": self.model.translator.is_bidirectional,
            }
        )

    async def detect(self, request: Request) -> Response:
        await read_fields(request, self.limits)
        return JSONResponse([self._detected()])

    def _detected(self, reverse: bool = False) -> dict[str, Any]:
        """The language of every source; nothing is detected, so the confidence is 0."""
        return {"confidence": 0.0, "language": self.codes[reverse]}

    async def translate(self, request: Request) -> Response:
        fields = await read_fields(request, self.limits)
        wanted = parse_translation(fields, self.limits, self.search.beam_width - 1)
        translator, reverse = self.model.translator, self._is_reverse(wanted)
        settings = Settings(translator, reverse, wanted.alternatives + 1)
        tokens = list(map(len, translator.encode_sources(wanted.texts)))
        seconds = self.limits.max_seconds
        work = self.batcher.translate(settings, wanted.texts, tokens, seconds)
        try:
            found = await unless_disconnected(request, work)
        except QueueFull:
            headers = {"Retry-After": "1"}
            raise HTTPException(429, "Slowdown: too many requests are waiting.", headers) from None
        except TimeoutError:
            reason = f"The translation was not ready after {seconds:g} seconds."
            raise HTTPException(504, reason) from None
        rest = iter(found)
        answers = [
            self._answer(wanted, document, list(islice(rest, len(document.texts))), reverse)
            for document in wanted.documents
        ]
        if not wanted.is_list:
            return JSONResponse(answers[0])
        return JSONResponse({name: [each[name] for each in answers] for name in answers[0]})

    def _is_reverse(self, wanted: TranslationRequest) -> bool:
        """Whether the request is for the model's other direction.

        Raises HTTPException 400 if the model does not translate between them.
        """
        translator = self.model.translator
        pair = (translator.lang_src, translator.lang_tgt)
        source, target = (find_language(code, pair) for code in (wanted.source, wanted.target))
        if source is None and wanted.source != "auto":
            raise HTTPException(400, f"{wanted.source} is not supported")
        if target is None:
            raise HTTPException(400, f"{wanted.target} is not supported")
        if source == target or target == 0 and not translator.is_bidirectional:
            codes = self.codes[target], self.codes[source or 0]
            to, origin = (f"{language_name(code)} ({code})" for code in codes)
            raise HTTPException(400, f"{to} is not available as a target language from {origin}")
        return target == 0

    def _answer(
        self, wanted: TranslationRequest, document: Document, lines: Found, reverse: bool
    ) -> dict[str, Any]:
        """The answer to one text of a request, whose lines have these translations."""
        ranked = [[line[k] for line in lines] for k in range(wanted.alternatives + 1)]
        best, *others = [document.fill([line.text for line in lines]) for lines in ranked]
        answer: dict[str, Any] = {"translatedText": best}
        if wanted.alternatives:
            answer["alternatives"] = [text for text in dict.fromkeys(others) if text != best]
        if wanted.source == "auto":
            answer["detectedLanguage"] = self._detected(reverse)
        if wanted.scores:
            answer["translations"] = [self._scored(document, lines, reverse) for lines in ranked]
        return answer

    def _scored(
        self, document: Document, lines: list[Translation], reverse: bool
    ) -> dict[str, Any]:
        """A translation of a document with its score and the probabilities of its words.

        What is kept from the document, such as line breaks, has the probability 1.
        """
        translator = self.model.translator
        language = translator.lang_src if reverse else translator.lang_tgt
        whole = Translation("", [sentence for line in lines for sentence in line.sentences])
        rest, words = iter(lines), []
        for part in document.parts:
            found = [(part.text, 1.0)] if part.is_kept else words_of(next(rest), language)
            words += [{"text": text, "probability": p} for text, p in found if text]
        text = "".join(word["text"] for word in words)
        return {"text": text, "score": whole.score, "words": words}


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of `work`, cancelled with ClientDisconnect if the client closes the connection."""
    task = asyncio.ensure_future(work)
    closed = asyncio.ensure_future(request.receive())  # the body has been read
    try:
        await asyncio.wait((task, closed), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        closed.cancel()


def page_headers(page: str) -> dict[str, str]:
    """Headers that let the page run its own style and script only, and connect to this server."""
    hashes = {
        tag: " ".join(map(checksum, re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)))
        for tag in ("style", "script")
    }
    policy = [
        *("default-src 'none'", f"style-src {hashes['style']}", f"script-src {hashes['script']}"),
        *("connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'"),
        "frame-ancestors 'none'",
    ]
    return {
        "Content-Security-Policy": "; ".join(policy),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


async def describe_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        detail = error.detail.encode("utf-8", "replace").decode()  # JSON may hold lone surrogates
        return JSONResponse({"error": detail}, error.status_code, error.headers)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    if isinstance(error, UserError):
        print_line(f"error: {error}", sys.stderr)
        return JSONResponse({"error": str(error)}, 500)
    return JSONResponse({"error": "The server could not translate: see its log."}, 500)
