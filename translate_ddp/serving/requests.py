"""Reads the requests of LibreTranslate's clients, as JSON or as a form, within limits."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from translate_ddp.serving.documents import Document, html_text, plain_text
from translate_ddp.serving.limits import LimitsConfig

DOCUMENTS = {"text": plain_text, "html": html_text}


@dataclass(frozen=True)
class TranslationRequest:
    """A valid request of POST /translate; its languages are not checked yet."""

    documents: list[Document]
    is_list: bool  # q was a list, so the answer holds lists
    source: str
    target: str
    alternatives: int
    scores: bool

    @property
    def texts(self) -> list[str]:
        return [text for document in self.documents for text in document.texts]


async def read_fields(request: Request, limits: LimitsConfig) -> Mapping[str, Any]:
    """The fields of the query and the body. Raises HTTPException 400, 408 or 413."""
    if request.headers.get("content-length", "0").isdecimal():
        _check_bytes(int(request.headers.get("content-length", "0")), limits)
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        _check_bytes(received, limits)
        return message

    try:
        limited = Request(request.scope, receive)
        body = await asyncio.wait_for(_parse_body(limited), limits.max_seconds)
        return {**request.query_params, **body}
    except TimeoutError:
        raise HTTPException(
            408, f"The request did not arrive within {limits.max_seconds:g} seconds."
        ) from None


def _check_bytes(count: int, limits: LimitsConfig) -> None:
    if count > limits.max_bytes:
        raise HTTPException(
            413, f"The request has more than {limits.max_bytes:,} bytes: send it in parts."
        )


async def _parse_body(request: Request) -> Mapping[str, Any]:
    body = await request.body()  # to its end, also if it is neither JSON nor a form
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        async with request.form(max_files=0, max_part_size=2**30) as form:
            return form
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):  # also of bytes that are not UTF-8
        raise HTTPException(400, "The body is not JSON.") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, "The body is not a JSON object with q, source and target.")
    return fields


def parse_translation(
    fields: Mapping[str, Any], limits: LimitsConfig, max_alternatives: int
) -> TranslationRequest:
    """The request of POST /translate. Raises HTTPException 400 or 413."""
    q = fields.get("q")
    texts: list[Any] = q if isinstance(q, list) else [q]
    if not q or not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, "q is missing, or neither a text nor a list of texts.")
    if (count := sum(map(len, texts))) > limits.max_characters:
        maximum = limits.max_characters
        raise HTTPException(413, f"q has {count:,} characters, more than {maximum:,}.")
    text_format = str(fields.get("format") or "text")
    if text_format not in DOCUMENTS:
        raise HTTPException(400, f"format is {text_format!r:.50}, but must be text or html.")
    # JSON may hold lone surrogates, which cannot be written in an answer.
    valid = (text.encode("utf-8", "replace").decode() for text in texts)
    request = TranslationRequest(
        documents=[DOCUMENTS[text_format](text) for text in valid],
        is_list=isinstance(q, list),
        source=_code(fields, "source"),
        target=_code(fields, "target"),
        # Not for HTML, whose runs of text are translated one by one.
        alternatives=_alternatives(fields, max_alternatives) * (text_format == "text"),
        scores=fields.get("scores") in (True, "true", "1") and text_format == "text",
    )
    if max(len(texts), len(request.texts)) > limits.max_texts:
        maximum = limits.max_texts
        raise HTTPException(413, f"q has more than {maximum:,} texts and lines: send it in parts.")
    return request


def _code(fields: Mapping[str, Any], name: str) -> str:
    code = fields.get(name)
    if not code or not isinstance(code, str):
        raise HTTPException(400, f"{name} is missing: the code of a language.")
    return code


def _alternatives(fields: Mapping[str, Any], maximum: int) -> int:
    value = fields.get("alternatives") or 0
    try:
        count = max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        raise HTTPException(400, "alternatives is not a number.") from None
    if count > maximum:
        raise HTTPException(
            400,
            f"alternatives is {count:,}, but this server computes at most {maximum}: start it "
            "with a wider --beam_width for more.",
        )
    return count
