"""The routes of LibreTranslate, and the page."""

import asyncio
import base64
import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
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

from translate_ddp.apps.serving.batching import Batcher, Found, LimitsConfig, QueueFull
from translate_ddp.apps.serving.requests import (
    TranslationRequest,
    find_language,
    menu_name,
    parse_translation,
    public_codes,
    read_fields,
)
from translate_ddp.apps.serving.server import ServedModel
from translate_ddp.apps.serving.words import words_of
from translate_ddp.console import print_line
from translate_ddp.data.languages import language_name
from translate_ddp.directions import LanguagePair, languages_of
from translate_ddp.errors import UserError
from translate_ddp.modeling.search_options import SearchConfig
from translate_ddp.spans import Markup, Protection, texts_of
from translate_ddp.text import has_letter, normalize
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
    direction: LanguagePair
    n_best: int
    markup: Markup
    protection: Protection


class Service:
    """The answers to requests."""

    def __init__(self, model: ServedModel, limits: LimitsConfig, search: SearchConfig) -> None:
        self.model, self.limits, self.search = model, limits, search
        self.batcher = Batcher(self._translate, limits.max_waiting)

    def _translate(self, settings: Settings, texts: list[str]) -> Found:
        translator, direction, n_best, markup, protection = settings
        return translator.to(*direction.reverse).translate(
            texts,
            self.search.beam_width,
            self.search.length_penalty,
            lambda text, message: None,  # a long sentence is translated in parts
            n_best=n_best,
            markup=markup,
            protection=protection,
        )

    async def languages(self, request: Request) -> Response:
        directions = self.model.translator.directions
        codes = public_codes(languages_of(directions))
        targets = {code: [codes[tgt] for src, tgt in directions if src == code] for code in codes}
        found = ((c, menu_name(c), targets[code]) for code, c in codes.items())
        return JSONResponse([{"code": c, "name": n, "targets": t} for c, n, t in found])

    async def settings(self, request: Request) -> Response:
        """The settings of LibreTranslate's page, of which clients read the limit of characters."""
        translator = self.model.translator
        direction, codes = translator.directions[0], public_codes(translator.facts.languages)
        source, target = ({"code": codes[c], "name": menu_name(codes[c])} for c in direction)
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
                "detects": translator.facts.identifier is not None,
            }
        )

    async def detect(self, request: Request) -> Response:
        fields, translator = await read_fields(request, self.limits), self.model.translator
        codes = public_codes(translator.facts.languages)
        text = str(fields["q"]).encode("utf-8", "replace").decode()
        found = ranking(translator, text).items()
        return JSONResponse([{"confidence": p, "language": codes[code]} for code, p in found])

    async def translate(self, request: Request) -> Response:
        fields = await read_fields(request, self.limits)
        wanted = parse_translation(fields, self.limits, self.search.beam_width - 1)
        translator = self.model.translator
        pairs, detected = find_directions(translator, wanted)
        protection = translator.protection.with_terms(wanted.glossary)
        seconds, count = self.limits.max_seconds, wanted.alternatives + 1
        lines = defaultdict[LanguagePair, list[str]](list)
        found = dict[LanguagePair, Iterator[Any]]()
        for document, pair in zip(wanted.documents, pairs, strict=True):
            lines[pair] += document[::2]
        try:
            async with asyncio.timeout(seconds):
                for pair, texts in lines.items():
                    tokens = list(map(len, translator.to(*pair.reverse).encode_sources(texts)))
                    settings = Settings(translator, pair, count, wanted.markup, protection)
                    work = self.batcher.translate(settings, texts, tokens)
                    found[pair] = iter(await unless_disconnected(request, work))
        except QueueFull:
            headers = {"Retry-After": "1"}
            raise HTTPException(429, "Slowdown: too many requests are waiting.", headers) from None
        except TimeoutError:
            reason = f"The translation was not ready after {seconds:g} seconds."
            raise HTTPException(504, reason) from None
        answers = [
            answer_of(wanted, document, list(islice(found[pair], len(document[::2]))), pair.tgt)
            | language
            for document, pair, language in zip(wanted.documents, pairs, detected, strict=True)
        ]
        if not wanted.is_list:
            return JSONResponse(answers[0])
        return JSONResponse({name: [each[name] for each in answers] for name in answers[0]})


def find_directions(
    translator: Translator, wanted: TranslationRequest
) -> tuple[list[LanguagePair], list[dict[str, Any]]]:
    """The direction of each text, and the field of its answer with the language that is detected.

    Raises HTTPException 400 if the model does not translate between the languages.
    """
    directions, languages = translator.directions, translator.facts.languages
    codes, detected = public_codes(languages), [dict[str, Any]() for _ in wanted.documents]
    source, target = (find_language(code, languages) for code in (wanted.source, wanted.target))
    known = [pair.src for pair in directions if pair.tgt == target]
    pairs = [LanguagePair(source, target)] * len(detected)
    if wanted.source == "auto" and (translator.facts.identifier or len(known) < 2):
        for n, document in enumerate(wanted.documents):
            text = " ".join(texts_of(line, wanted.markup) for line in document[::2])
            found = ranking(translator, text)
            # Languages are equal for text without letters: then one that is translated.
            source = max(found, key=lambda code: (found[code], code in known))
            field = {"confidence": found[source], "language": codes[source]}
            detected[n]["detectedLanguage"] = field
            pairs[n] = LanguagePair(source, target)
    if not (source and target):
        raise HTTPException(400, f"{wanted.target if source else wanted.source} is not supported")
    for pair in set(pairs).difference(directions):
        to, origin = (f"{language_name(codes[code])} ({codes[code]})" for code in pair.reverse)
        raise HTTPException(400, f"{to} is not available as a target language from {origin}")
    return pairs, detected


def ranking(translator: Translator, text: str) -> dict[str, float]:
    """The languages in which the text may be, and their probabilities in percent, best first.

    The source languages, and 0, of text without letters, and if the model cannot detect them.
    """
    identifier = translator.facts.identifier
    if identifier is None or not has_letter(text):
        return dict.fromkeys((source for source, _ in translator.directions), 0.0)
    found = identifier.probabilities(translator.tokenizer.encode([normalize(text)])[0])
    best_first = sorted(found, key=found.__getitem__, reverse=True)
    return {code: round(100 * found[code], 1) for code in best_first}


def answer_of(
    wanted: TranslationRequest, document: list[str], lines: Found, language: str
) -> dict[str, Any]:
    """The answer to one text of a request, whose lines have these translations."""
    ranked = [
        [*zip([line[k] for line in lines], [*document[1::2], ""], strict=True)]
        for k in range(wanted.alternatives + 1)
    ]
    best, *others = ["".join(line.text + end for line, end in each) for each in ranked]
    answer: dict[str, Any] = {"translatedText": best}
    if wanted.alternatives:
        answer["alternatives"] = [text for text in dict.fromkeys(others) if text != best]
    if wanted.scores:
        answer["translations"] = [scored(each, language) for each in ranked]
    return answer


def scored(lines: Sequence[tuple[Translation, str]], language: str) -> dict[str, Any]:
    """A translation with its score, the probabilities of its words, and what is wrong with it.

    What is kept, such as line breaks, has the probability 1.
    """
    whole = Translation("", [sentence for line, _ in lines for sentence in line.sentences])
    words = [word for line, end in lines for word in (*words_of(line, language), (end, 1.0))]
    return {
        "text": "".join(text for text, _ in words),
        "score": whole.score,
        "words": [{"text": text, "probability": p} for text, p in words if text],
        "warnings": whole.warnings,
    }


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


def checksum(content: str) -> str:
    """How a content security policy names a script or style that may run."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


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
