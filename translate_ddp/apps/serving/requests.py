"""The requests of LibreTranslate's clients: JSON or a form, within limits, and language codes.

Clients recognise errors by their texts: errors that LibreTranslate also has are in its words.
"""

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import langcodes
from langcodes.language_distance import _DISTANCE_CACHE
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from translate_ddp.apps.serving.batching import ARRIVAL_SECONDS, BYTES_PER_SECOND, LimitsConfig
from translate_ddp.data.languages import language_name
from translate_ddp.errors import UserError
from translate_ddp.spans import Markup, terms_of
from translate_ddp.text import MAX_CODE, base_language

LINE_BREAK = re.compile(r"(\r\n|\r|\n)")
FORMATS: dict[str, Markup] = {"text": "text", "html": "html"}
MISSING = "Invalid request: missing {} parameter"
ALIASES = {"zt": "zh-Hant", "pb": "pt-BR"}  # codes of LibreTranslate's models
VARIETY = re.compile("[-_][A-Za-z0-9]{5,}")  # in a code; regions and scripts are shorter
MAX_DISTANCE = 5  # between varieties that differ in their region; other scripts are farther
MAX_TERM = 200  # characters of a translation in a glossary, which may stand at each word
TOO_LONG = "Invalid request: request ({}) exceeds text limit ({})"


@dataclass(frozen=True)
class TranslationRequest:
    """A valid request of POST /translate; its languages are not checked yet."""

    documents: list[list[str]]  # texts of q, in lines and the breaks between them
    is_list: bool  # q was a list, so the answer holds lists
    source: str
    target: str
    alternatives: int
    scores: bool
    markup: Markup
    glossary: dict[str, str]  # given in the request


async def read_fields(request: Request, limits: LimitsConfig) -> Mapping[str, Any]:
    """The fields of the query and the body, q among them. Raises HTTPException 400, 408 or 413."""
    seconds = min(limits.max_seconds, ARRIVAL_SECONDS)
    try:
        body = await _body(request, limits.max_bytes, seconds)
        query = _form_fields(request.scope["query_string"].decode())
        fields = _merged([*query, *await _body_fields(request, body)])
        length = _count_characters([fields.get("q"), fields.get("glossary")])
    except TimeoutError:
        reason = f"The request did not arrive within {seconds:g} seconds."
        raise HTTPException(408, reason, {"Connection": "close"}) from None
    except (ValueError, RecursionError) as error:  # also of bytes that are not UTF-8
        raise HTTPException(400, f"Not JSON or an encoded form in UTF-8: {error}.") from None
    if not fields.get("q"):
        raise HTTPException(400, MISSING.format("q"))
    if length > limits.max_characters:
        raise HTTPException(400, TOO_LONG.format(length, limits.max_characters))
    return fields


def _count_characters(value: Any) -> int:
    """Of all texts in a value of JSON."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return sum(map(_count_characters, value))
    return len(value) if isinstance(value, str) else 0


async def _body(request: Request, max_bytes: int, seconds: float) -> bytes:
    body, latest = bytearray(), asyncio.get_running_loop().time() + seconds
    async with asyncio.timeout_at(latest) as timer:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise HTTPException(413, f"Over {max_bytes:,} bytes: send the request in parts.")
            timer.reschedule(latest + len(body) / BYTES_PER_SECOND)
    return bytes(body)


async def _body_fields(request: Request, body: bytes) -> Iterable[tuple[str, Any]]:
    text = body.decode("utf-8-sig")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if re.fullmatch(r"application/(.+\+)?json", media_type):
        fields = json.loads(text, object_pairs_hook=_merged)
        if not isinstance(fields, dict):
            raise HTTPException(400, "Invalid JSON format")
        return fields.items()
    if text.lstrip().startswith("{"):
        raise HTTPException(400, f"{MISSING.format('q')}: set Content-Type: application/json")
    if media_type == "application/x-www-form-urlencoded":
        return _form_fields(text)

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async with Request(request.scope, receive).form(max_files=0, max_part_size=2**30) as form:
        return form.multi_items()


def _form_fields(encoded: str) -> list[tuple[str, str]]:
    """The fields of a form or a query. Raises ValueError for names that show an unencoded &."""
    fields = parse_qsl(encoded, keep_blank_values=True, errors="strict")
    for name, _ in fields:
        if not re.fullmatch(r"[\w.\[\]-]*", name):
            raise ValueError(f"{name!r:.50} is no name of a field: write & in a text as %26")
    return fields


def _merged(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Each field's value. Raises HTTPException 400 if q is repeated, or a field has two values."""
    merged: dict[str, Any] = {}
    for name, value in fields:
        if name in merged and (name == "q" or value != merged[name]):
            raise HTTPException(400, f"{name!r:.50} has several values: send a list as JSON.")
        merged[name] = value
    return merged


def parse_translation(
    fields: Mapping[str, Any], limits: LimitsConfig, max_alternatives: int
) -> TranslationRequest:
    """The request of POST /translate. Raises HTTPException 400."""
    q = fields["q"]
    texts: list[Any] = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, "q is neither a text nor a list of texts.")
    source, target = _code(fields, "source"), _code(fields, "target")
    alternatives = _alternatives(fields, max_alternatives)
    glossary = _glossary(fields.get("glossary"))
    if len(texts) > limits.max_texts:
        raise HTTPException(400, TOO_LONG.format(len(texts), limits.max_texts))
    text_format = str(fields.get("format") or "text")
    if text_format not in FORMATS:
        raise HTTPException(400, f"{text_format:.50} format is not supported")
    markup, is_text = FORMATS[text_format], text_format == "text"
    # JSON may hold lone surrogates, which cannot be written in an answer.
    valid = (text.encode("utf-8", "replace").decode() for text in texts)
    return TranslationRequest(
        documents=[LINE_BREAK.split(text) if is_text else [text] for text in valid],
        is_list=isinstance(q, list),
        source=source,
        target=target,
        alternatives=alternatives,
        scores=fields.get("scores") in (True, "true", "1") and is_text,
        markup=markup,
        glossary=glossary,
    )


def _glossary(field: Any) -> dict[str, str]:
    """The terms of a request: an object, or lines with a term, a tab and its translation."""
    try:
        terms = terms_of(field or "")
    except UserError as error:
        raise HTTPException(400, f"Invalid request: glossary: {error}") from None
    if any(len(translation) > MAX_TERM for translation in terms.values()):
        raise HTTPException(400, f"Invalid request: a term has over {MAX_TERM} characters")
    return terms


def _code(fields: Mapping[str, Any], name: str) -> str:
    code = fields.get(name)
    if not code or not isinstance(code, str):
        raise HTTPException(400, MISSING.format(name))
    if len(code) > MAX_CODE:
        raise HTTPException(400, f"{code:.{MAX_CODE}}... is not supported")
    return code


def _alternatives(fields: Mapping[str, Any], maximum: int) -> int:
    value = fields.get("alternatives") or 0
    try:
        count = max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        reason = "Invalid request: alternatives parameter is not a number"
        raise HTTPException(400, reason) from None
    if count > maximum:
        raise HTTPException(400, f"Invalid request: alternatives parameter must be <= {maximum}")
    return count


def find_language(code: str, languages: Sequence[str]) -> str:
    """Which of the languages the code names, of varieties the closest; "": none of them.

    Regions do not count, but scripts do: en is en_US and en-GB; zh is zh_CN, which is not zh-Hant.
    """
    for kept in (langcodes.Language._PARSE_CACHE, langcodes.Language._INSTANCES, _DISTANCE_CACHE):
        if len(kept) > 10_000:  # langcodes keeps each code that it is given, in 2 kB
            kept.clear()
    distances = [_distance(code, known) for known in languages]
    closest = min(distances)
    return languages[distances.index(closest)] if closest <= MAX_DISTANCE else ""


def _distance(one: str, other: str) -> float:
    """The distance of two codes by `langcodes`: 0 if they mean the same, -1 if they are equal."""
    first, second = (ALIASES.get(code, code).replace("@latin", "-Latn") for code in (one, other))
    if first.lower().replace("_", "-") == second.lower().replace("_", "-"):
        return -1  # also of names that are no code
    with suppress(langcodes.LanguageTagError):
        return langcodes.tag_distance(first, second)
    return math.inf


def public_codes(languages: Sequence[str]) -> dict[str, str]:
    """Of each language the code that clients expect: en and it of en_US and it_IT.

    The whole code if others have the same language, as zh-Hans and zh-Hant, or if it names a
    variety, as de-bavarian.
    """
    counts = Counter(map(base_language, languages))
    return {
        code: code.replace("_", "-") if counts[base] > 1 or VARIETY.search(code) else base
        for code, base in zip(languages, map(base_language, languages), strict=True)
    }


def menu_name(code: str) -> str:
    """The English name of a language, with its code if that has a region or a script."""
    name = language_name(code)
    return f"{name} ({code})" if re.search("[-_]", code) and name != code else name
