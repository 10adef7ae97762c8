"""Codes of languages, as LibreTranslate's clients use them."""

import re
from collections.abc import Sequence

from translate_ddp.data.languages import language_name
from translate_ddp.text import base_language

ALIASES = {"zt": "zh-Hant", "pb": "pt-BR"}  # codes of LibreTranslate's models
CHINESE_SCRIPTS = {"tw": "hant", "hk": "hant", "mo": "hant", "cn": "hans", "sg": "hans"}


def same_language(one: str, other: str) -> bool:
    """Whether two codes name one language. Regions do not count, and scripts if both have one.

    en is en_US and en-GB; zh is zh_CN, which is not zh-Hant.
    """
    one, other = _plain(one), _plain(other)
    scripts = {script for code in (one, other) if (script := _script(code))}
    return base_language(one) == base_language(other) and len(scripts) < 2


def find_language(code: str, pair: Sequence[str]) -> int | None:
    """Which language of a pair the code names, of two varieties the closest; None: neither."""
    places = [place for place, language in enumerate(pair) if same_language(code, language)]
    wanted = _plain(code)

    def distance(place: int) -> tuple[bool, bool]:
        found = _plain(pair[place])
        return found != wanted, _script(found) != _script(wanted)

    return min(places, key=distance, default=None)


def _plain(code: str) -> str:
    """A code in lower case with hyphens, as pt-br of pt_BR and of pb."""
    return ALIASES.get(code.lower(), code).lower().replace("_", "-")


def _script(code: str) -> str:
    """The script of a code such as sr-Latn, in lower case, or ""."""
    _, *parts = re.split("[-_@]", code.lower())
    scripts = [part[:4] for part in parts if re.fullmatch("[a-z]{4}|latin", part)]
    if base_language(code) == "zh":
        scripts += [CHINESE_SCRIPTS[part] for part in parts if part in CHINESE_SCRIPTS]
    return scripts[0] if scripts else ""


def public_codes(source: str, target: str) -> tuple[str, str]:
    """The codes of a pair as clients expect them: en and it of en_US and it_IT.

    With regions and scripts if the pair differs in nothing else, as zh-Hans and zh-Hant.
    """
    codes = base_language(source), base_language(target)
    if codes[0] == codes[1]:
        return source.replace("_", "-"), target.replace("_", "-")
    return codes


def menu_name(code: str) -> str:
    """The English name of a language, with its code if that has a region or a script."""
    name = language_name(code)
    return f"{name} ({code})" if re.search("[-_]", code) and name != code else name
