"""The names of the two files of parallel text."""

from pathlib import Path

from translate_ddp.data.languages import spellings
from translate_ddp.data.readers.byte_stream import without_compression
from translate_ddp.data.rows import Languages

ENDINGS = (".{code}", ".{code}.txt", "-{code}.txt")  # after the common start of both names
WHOLE_NAMES = ("{code}.txt",)  # of two files without a common start


def common_start(path: Path, languages: Languages) -> Path | None:
    """The path without the ending of one of the languages; None if it is in no such language."""
    plain = without_compression(path)
    for code in (code for language in languages for code in spellings(language)):
        for ending in ENDINGS:
            start = plain.name.removesuffix(ending.replace("{code}", code))
            if start and start != plain.name:
                return plain.with_name(start)
    return None
