"""The names of the two files of parallel text."""

from pathlib import Path

from translate_ddp.data.languages import written
from translate_ddp.data.readers.byte_stream import DECOMPRESSORS, without_compression
from translate_ddp.data.rows import Languages

Pair = tuple[Path | None, Path | None]
Forms = list[tuple[str, str]]  # of the names of source and target
# Of files whose name begins with `src` or `ref`, as in test sets.
ROLES = (("src", "ref"), ("ref", "src"), ("ref", "ref"))
ONE_FORM = (".{code}", ".{code}.txt", "-{code}.txt", ".{code}.sgm")
# After the common start of both names.
ENDINGS: Forms = [(form, form) for form in ONE_FORM] + [
    (f"-{src}{form}", f"-{tgt}{form}") for form in ONE_FORM for src, tgt in ROLES
]
# Of two files without a common start.
WHOLE_NAMES: Forms = [(form, form) for form in ("{code}.txt", "{code}.dev", "{code}.devtest")] + [
    (src + form, tgt + form) for form in ONE_FORM for src, tgt in ROLES
]


def find_pair(folder: Path, start: str, languages: Languages) -> Pair:
    """The files whose names begin with `start`, or are the languages if it is ''.

    If no form of names has both, the only one that is there.
    """
    single: Pair = (None, None)
    for src, tgt in ENDINGS if start else WHOLE_NAMES:
        one, other = languages
        pair = _find_side(folder, start + src, one), _find_side(folder, start + tgt, other)
        if all(pair):
            return pair
        single = single if any(single) else pair
    return single


def _find_side(folder: Path, form: str, language: str) -> Path | None:
    for code in written(language):
        # Not str.format: a name may have braces.
        plain = folder / form.replace("{code}", code)
        for path in (plain, *(Path(f"{plain}{ending}") for ending in DECOMPRESSORS)):
            if path.is_file():
                return path
    return None


def common_start(path: Path, languages: Languages) -> Path | None:
    """The path without the ending of one of the languages; None if it is in no such language.

    If there are several, one that has files in both languages.
    """
    plain = without_compression(path)
    codes = [code for language in languages for code in written(language)]
    ends = (form.replace("{code}", code) for code in codes for forms in ENDINGS for form in forms)
    names = (plain.name.removesuffix(end) for end in ends)
    starts = [plain.with_name(name) for name in names if name not in ("", plain.name)]
    both = (start for start in starts if all(find_pair(start.parent, start.name, languages)))
    return next(both, starts[0] if starts else None)
