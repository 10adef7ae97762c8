"""The routes: those of LibreTranslate, and the page."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import islice
from typing import Any, Protocol, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from translate_ddp.console import print_line
from translate_ddp.errors import UserError
from translate_ddp.pages.page import checksum
from translate_ddp.serving.batching import Batcher, Found, QueueFull
from translate_ddp.serving.documents import Document
from translate_ddp.serving.languages import find_language, menu_name, public_codes
from translate_ddp.serving.limits import LimitsConfig
from translate_ddp.serving.requests import TranslationRequest, parse_translation, read_fields
from translate_ddp.serving.words import words_of
from translate_ddp.settings import SearchConfig
from translate_ddp.translation import Translation
from translate_ddp.translator import Translator

CLIENT_CLOSED_REQUEST = 499  # nginx's status; the connection is closed already
Result = TypeVar("Result")


class Model(Protocol):
    """What is served, such as a `ServedModel`."""

    @property
    def translator(self) -> Translator: ...

    def check(self) -> None:
        """Replace the translator if there is a newer one."""
        ...


def create_app(
    model: Model, limits: LimitsConfig, search: SearchConfig, reload_seconds: float = 0.0
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

    return Starlette(
        routes=[
            Route("/", service.page, methods=["GET"]),
            Route("/translate", service.translate, methods=["POST"]),
            Route("/detect", service.detect, methods=["POST"]),
            Route("/languages", service.languages, methods=["GET"]),
            Route("/health", service.health, methods=["GET"]),
            Route("/frontend/settings", service.settings, methods=["GET"]),
        ],
        # As LibreTranslate: pages of other origins may translate. There is nothing to log in to.
        middleware=[
            Middleware(
                CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"]
            )
        ],
        exception_handlers={
            HTTPException: describe_http_error,
            ClientDisconnect: answer_disconnect,
            UserError: describe_user_error,
            Exception: describe_other_error,
        },
        lifespan=run_tasks,
    )


async def check_regularly(model: Model, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await asyncio.to_thread(model.check)


class Service:
    """The answers to requests."""

    def __init__(self, model: Model, limits: LimitsConfig, search: SearchConfig) -> None:
        self.model, self.limits, self.search = model, limits, search
        self.batcher = Batcher(self._translate, limits.max_waiting)
        page = files("translate_ddp.serving").joinpath("page.html").read_text(encoding="utf-8")
        self.page_response = Response(page, media_type="text/html", headers=page_headers(page))

    def _translate(
        self, texts: list[str], n_best: int, reverse: bool, on_done: Callable[[int], None]
    ) -> Found:
        translator = self.model.translator
        return (translator.reverse() if reverse else translator).translate(
            texts,
            self.search.beam_width,
            self.search.length_penalty,
            lambda text, message: None,  # a long sentence is translated in parts
            on_done,
            n_best=n_best,
        )

    @property
    def codes(self) -> tuple[str, str]:
        translator = self.model.translator
        return public_codes(translator.lang_src, translator.lang_tgt)

    async def page(self, request: Request) -> Response:
        return self.page_response

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def languages(self, request: Request) -> Response:
        source, target = self.codes
        back = [source] if self.model.translator.is_bidirectional else []
        return JSONResponse(
            [
                {"code": source, "name": menu_name(source), "targets": [target]},
                {"code": target, "name": menu_name(target), "targets": back},
            ]
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
        if not (await read_fields(request, self.limits)).get("q"):
            raise HTTPException(400, "q is missing: a text.")
        return JSONResponse([self._detected()])

    def _detected(self, reverse: bool = False) -> dict[str, Any]:
        """The language of every source; nothing is detected, so the confidence is 0."""
        return {"confidence": 0.0, "language": self.codes[reverse]}

    async def translate(self, request: Request) -> Response:
        fields = await read_fields(request, self.limits)
        wanted = parse_translation(fields, self.limits, self.search.beam_width - 1)
        reverse = self._is_reverse(wanted)
        try:
            found = await unless_disconnected(
                request,
                self.batcher.translate(
                    wanted.texts, wanted.alternatives + 1, self.limits.max_seconds, reverse
                ),
            )
        except QueueFull:
            headers = {"Retry-After": "1"}
            raise HTTPException(429, "Too many requests are waiting: try again.", headers) from None
        except TimeoutError:
            seconds = f"{self.limits.max_seconds:g} seconds"
            raise HTTPException(504, f"The translation was not ready after {seconds}.") from None
        return JSONResponse(self._answer(wanted, found, reverse))

    def _is_reverse(self, wanted: TranslationRequest) -> bool:
        """Whether the languages are those of the model's other direction.

        Raises HTTPException 400 if the model does not translate between them.
        """
        translator = self.model.translator
        pair = (translator.lang_src, translator.lang_tgt)
        source, target = (find_language(code, pair) for code in (wanted.source, wanted.target))
        for number in range(1 + translator.is_bidirectional):
            if target == 1 - number and (wanted.source == "auto" or source == number):
                return number == 1
        source, target = self.codes
        to = "from and to" if translator.is_bidirectional else "to"
        raise HTTPException(
            400,
            f"{wanted.source!r:.20} to {wanted.target!r:.20} is not available: this server "
            f"translates {source} ({menu_name(source)}) {to} {target} ({menu_name(target)}).",
        )

    def _answer(
        self, wanted: TranslationRequest, found: Found, reverse: bool = False
    ) -> dict[str, Any]:
        rest = iter(found)
        answers: dict[str, list[Any]] = {"translatedText": []}
        for document in wanted.documents:
            lines = list(islice(rest, len(document.texts)))
            ranked = [[line[k] for line in lines] for k in range(wanted.alternatives + 1)]
            best, *others = [document.fill([t.text for t in lines_]) for lines_ in ranked]
            answers["translatedText"].append(best)
            if wanted.alternatives:
                unique = [text for text in dict.fromkeys(others) if text != best]
                answers.setdefault("alternatives", []).append(unique)
            if wanted.source == "auto":
                answers.setdefault("detectedLanguage", []).append(self._detected(reverse))
            if wanted.scores:
                scored = [self._scored(document, lines_, reverse) for lines_ in ranked]
                answers.setdefault("translations", []).append(scored)
        if wanted.is_list:
            return answers
        return {name: value for name, (value,) in answers.items()}

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
        text = document.fill([line.text for line in lines])
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


async def describe_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def answer_disconnect(request: Request, error: Exception) -> Response:
    """The response for the access log; the client is gone."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def describe_user_error(request: Request, error: Exception) -> Response:
    print_line(f"error: {error}", sys.stderr)
    return JSONResponse({"error": str(error)}, 500)


async def describe_other_error(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "The server could not translate: see its log."}, 500)
