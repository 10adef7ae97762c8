"""The names of the two files of parallel text."""

from collections.abc import Iterator
from pathlib import Path

from translate_ddp.data.languages import written
from translate_ddp.data.readers.byte_stream import DECOMPRESSORS, without_compression
from translate_ddp.data.rows import Languages

ROLES = ("src", "ref")  # in names of test sets: newstest2019-src.eng.txt, newstest2019-ref.deu.txt
# After the common start of both names. The roles of the files may differ.
ENDINGS = (
    *(".{code}", ".{code}.txt", "-{code}.txt", ".{code}.sgm"),
    *("-{role}.{code}", "-{role}.{code}.txt", "-{role}.{code}.sgm"),
)
# Of two files without a common start.
WHOLE_NAMES = ("{code}.txt", "{code}.dev", "{code}.devtest", "{role}.{code}", "{role}.{code}.txt")
Pair = tuple[Path | None, Path | None]


def find_pair(folder: Path, start: str, languages: Languages) -> Pair:
    """The files whose names begin with `start`, or are the languages if it is ''.

    If no form of names has both, the only one that is there.
    """
    single: Pair = (None, None)
    for form in [start + ending for ending in ENDINGS] if start else WHOLE_NAMES:
        src = _find_side(folder, form, languages[0], ROLES)
        tgt = _find_side(folder, form, languages[1], ROLES[::-1])
        if src and tgt:
            return src, tgt
        single = single if any(single) else (src, tgt)
    return single


def _find_side(folder: Path, form: str, language: str, roles: tuple[str, ...]) -> Path | None:
    for role in roles if "{role}" in form else roles[:1]:
        for code in written(language):
            # Not str.format: a name may have braces.
            plain = folder / form.replace("{role}", role).replace("{code}", code)
            for path in (plain, *(Path(f"{plain}{ending}") for ending in DECOMPRESSORS)):
                if path.is_file():
                    return path
    return None


def common_start(path: Path, languages: Languages) -> Path | None:
    """The path without the ending of one of the languages; None if it is in no such language.

    If there are several, one that has files in both languages.
    """
    found = list(_starts(path, languages))
    both = (start for start in found if all(find_pair(start.parent, start.name, languages)))
    return next(both, None) or next(iter(found), None)


def _starts(path: Path, languages: Languages) -> Iterator[Path]:
    plain = without_compression(path)
    for code in (code for language in languages for code in written(language)):
        for role in ROLES:
            for ending in ENDINGS:
                end = ending.replace("{role}", role).replace("{code}", code)
                start = plain.name.removesuffix(end)
                if start and start != plain.name:
                    yield plain.with_name(start)
