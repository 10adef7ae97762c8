"""Writes small corpora with the defects of real ones, each in a folder that names its defect.

    python -m benchmarks.dirty_corpora --folder dirty
    python train.py --dataset dirty/truncated-gz --lang_src en --lang_tgt de

Each folder is a corpus in files named train. No command may end in a traceback with any of them,
and its report must name the defect. Equal flags give equal files.
"""

import gzip
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import read_settings
from benchmarks.generated_text import generate
from translate_ddp.errors import UserError, report_errors

Pair = tuple[str, str]
Defect = Callable[[Path, list[Pair]], None]  # writes pairs with the defect to a new folder

LONG_LINE_BYTES = 5_000_000
QUOTE = '"'
BOILERPLATE = ("Read more about our use of cookies.", "Lesen Sie mehr über unsere Cookies.")
BOILERPLATE_COPIES = 10_000
CYRILLIC = str.maketrans("abcdefghiklmnoprstuvwzyöüäßéàç", "абцдефгхиклмнопрстувьзыёюэшъяч")
OTHER_LANGUAGES = [
    "Старый врач читает письмо в саду.",
    "老医生在花园里读信。",
    "医者がニワで手紙を読む。",
    "의사가 편지를 읽는다.",
    "الطبيب يقرأ الرسالة.",
    "הרופא קורא את המכתב.",
    "Ο γιατρός διαβάζει το γράμμα.",
    "हिन्दी भाषा में लिखा है।",
    "ผู้หญิงอ่านจดหมาย",
    "Le vieux médecin lit la lettre dans le jardin.",
]
CONTROLS = "\0\x07\x08\x0b\x0c\x1b\x7f\x85\u2028\u200b\u202e\ufeff\ufffd"


def main() -> None:
    with report_errors():
        settings = read_settings(DirtyCorpora, __doc__)
        try:
            names = write_corpora(settings)
        except OSError as error:
            raise UserError(f"{settings.folder} cannot be written: {error.strerror}.") from error
        print("\n".join(str(settings.folder / name) for name in names))
        print("Pass one of them with --dataset, and --lang_src en --lang_tgt de.", file=sys.stderr)


@dataclass(frozen=True)
class DirtyCorpora:
    folder: Path
    """Folder that receives one folder for each defect."""
    pairs: int = 2000
    """Pairs of each corpus, apart from those that the defect adds."""
    only: tuple[str, ...] = ()
    """Names of defects; none: all."""

    def __post_init__(self) -> None:
        if self.pairs < 100:
            raise ValueError(f"pairs must be at least 100, but is {self.pairs}.")
        if unknown := sorted(set(self.only) - set(DEFECTS)):
            raise ValueError(f"only names {unknown[0]!r}, which is none of: {', '.join(DEFECTS)}.")


def write_corpora(settings: DirtyCorpora) -> list[str]:
    """Write the corpora; returns the names of their folders. Raises OSError."""
    pairs = [
        (source.decode(), target.decode())
        for chunk in generate(settings.pairs)
        for source, target in zip(*chunk, strict=True)
    ]
    names = [name for name in DEFECTS if name in (settings.only or DEFECTS)]
    for name in names:
        folder = settings.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        DEFECTS[name](folder, list(pairs))
    return names


# Each function writes one corpus; the table below has their names.


def mixed_encodings(folder: Path, pairs: list[Pair], share: float) -> None:
    write_text(folder, pairs)
    lines = (folder / "train.de").read_bytes().split(b"\n")
    is_latin_1 = np.random.default_rng(0).random(len(lines)) < share
    for row in np.flatnonzero(is_latin_1):
        lines[row] = ("äöüß " + lines[row].decode()).encode("latin-1", "replace")
    (folder / "train.de").write_bytes(b"\n".join(lines))


def mojibake(pair: Pair) -> Pair:
    """UTF-8 that was read as Windows-1252 and written again."""
    return pair[0], pair[1].encode().decode("cp1252", "ignore")


def swapped_scripts(folder: Path, pairs: list[Pair]) -> None:
    in_cyrillic = [(src, tgt.lower().translate(CYRILLIC)) for src, tgt in pairs]
    write_rows(folder, "train.tsv", tsv(mixed(in_cyrillic, 0.2, swap)))


def swap(pair: Pair) -> Pair:
    return pair[1], pair[0]


def html(pair: Pair) -> Pair:
    page = '<p class="x">{} &amp; &nbsp;<a href="https://example.org/?a=1&amp;b=2">x</a><br/></p>'
    return page.format(pair[0]), page.format(pair[1])


def long_lines(folder: Path, pairs: list[Pair]) -> None:
    for row, text in enumerate(("word ", "字", "x")):
        count = LONG_LINE_BYTES // len(text.encode())
        pairs[row * 30] = (text * count, pairs[0][1])
        pairs[row * 30 + 1] = (pairs[1][0], text * count)
    write_text(folder, pairs)


def copies(folder: Path, pairs: list[Pair]) -> None:
    chosen = np.random.default_rng(0).integers(0, len(pairs), round(len(pairs) * 0.4 / 0.6))
    write_text(folder, pairs + [pairs[row] for row in chosen])


def near_duplicate(pair: Pair) -> Pair:
    return pair[0].upper() + " 1", pair[1].upper() + " 2!"


def in_another_language(pair: Pair) -> Pair:
    number = len(pair[0]) % len(OTHER_LANGUAGES)
    return pair[0], f"{OTHER_LANGUAGES[number]} {len(pair[1])}"


def with_controls(pair: Pair) -> Pair:
    place = len(pair[0]) % len(CONTROLS)
    return pair[0][:5] + CONTROLS[place] + pair[0][5:], pair[1] + CONTROLS[-1 - place]


def truncated_gz(folder: Path, pairs: list[Pair]) -> None:
    data = gzip.compress("\n".join(tsv(pairs)).encode(), mtime=0)
    (folder / "train.tsv.gz").write_bytes(data[: len(data) // 2])


def ragged_tsv(folder: Path, pairs: list[Pair]) -> None:
    rows = tsv(pairs)
    rows[len(rows) // 3] += "\tthird field"
    rows[len(rows) // 2] = "one field"
    write_rows(folder, "train.tsv", rows)


def unbalanced_quotes(folder: Path, pairs: list[Pair]) -> None:
    rows = [f'"{src.replace(QUOTE, "")}","{tgt.replace(QUOTE, "")}"' for src, tgt in pairs]
    rows[len(rows) // 3] = f'"{pairs[0][0]}, never closed'
    write_rows(folder, "train.csv", ["en,de", *rows])


def different_line_counts(folder: Path, pairs: list[Pair]) -> None:
    write_text(folder, pairs)
    write_rows(folder, "train.de", [tgt for _, tgt in pairs[:-7]])


def misaligned(folder: Path, pairs: list[Pair]) -> None:
    targets = [tgt for _, tgt in pairs]
    sources = [src for src, _ in pairs]
    write_text(folder, list(zip(sources, targets[1:] + targets[:1], strict=True)))


def jsonl(folder: Path, pairs: list[Pair], bad_rows: Sequence[str]) -> None:
    rows = [json.dumps({"en": src, "de": tgt}, ensure_ascii=False) for src, tgt in pairs]
    for number, row in enumerate(bad_rows):
        rows.insert(90 + number, row)
    write_rows(folder, "train.jsonl", rows)


def everything(folder: Path, pairs: list[Pair]) -> None:
    """Several defects of rows at once; the file as a whole can be read."""
    changes = (html, mojibake, swap, near_duplicate, in_another_language, with_controls)
    for seed, change in enumerate(changes):
        pairs = mixed(pairs, 0.05, change, seed)
    pairs += [BOILERPLATE] * BOILERPLATE_COPIES + pairs[:500] + [("", ""), ("NA", "null")]
    mixed_encodings(folder, pairs, 0.001)


def write_text(
    folder: Path, pairs: Sequence[Pair], encoding: str = "utf-8", end: str = "\n"
) -> None:
    """Parallel text; the encoding is that of the targets."""
    for side, language, codec in ((0, "en", "utf-8"), (1, "de", encoding)):
        text = "".join(pair[side] + end for pair in pairs)
        (folder / f"train.{language}").write_bytes(text.encode(codec, "replace"))


def write_rows(folder: Path, name: str, rows: Sequence[str]) -> None:
    (folder / name).write_bytes("".join(f"{row}\n" for row in rows).encode())


def tsv(pairs: Sequence[Pair]) -> list[str]:
    return [f"{src}\t{tgt}" for src, tgt in pairs]


def mixed(
    pairs: list[Pair], share: float, change: Callable[[Pair], Pair], seed: int = 0
) -> list[Pair]:
    """The pairs, with a random share of them changed."""
    chances = np.random.default_rng(seed).random(len(pairs))
    return [
        change(pair) if chance < share else pair
        for pair, chance in zip(pairs, chances, strict=True)
    ]


def changed(share: float, change: Callable[[Pair], Pair]) -> Defect:
    """Parallel text, with a share of the pairs changed."""
    return lambda folder, pairs: write_text(folder, mixed(pairs, share, change))


def text(**settings: str) -> Defect:
    return lambda folder, pairs: write_text(folder, pairs, **settings)


DEFECTS: dict[str, Defect] = {
    "no-defect": text(),
    "mixed-encodings-some-lines": partial(mixed_encodings, share=0.005),
    "mixed-encodings-many-lines": partial(mixed_encodings, share=0.2),
    "latin-1": text(encoding="latin-1"),
    "utf-16": text(encoding="utf-16"),
    "utf-16-without-bom": text(encoding="utf-16-le"),
    "utf-8-with-bom": text(encoding="utf-8-sig"),
    "mojibake": changed(0.2, mojibake),
    "swapped-columns": changed(0.2, swap),
    "swapped-columns-of-two-scripts": swapped_scripts,
    "html": changed(0.3, html),
    "boilerplate-10000-times": lambda folder, pairs: write_text(
        folder, pairs + [BOILERPLATE] * BOILERPLATE_COPIES
    ),
    "lines-of-5-mb": long_lines,
    "duplicates-40-percent": copies,
    "near-duplicates": lambda folder, pairs: write_text(
        folder, pairs + [near_duplicate(pair) for pair in pairs]
    ),
    "other-languages": changed(0.2, in_another_language),
    "control-characters": changed(0.1, with_controls),
    "untranslated": changed(0.3, lambda pair: (pair[0], pair[0])),
    "misaligned": misaligned,
    "digits-only": changed(0.2, lambda pair: (str(len(pair[0])), str(len(pair[1])))),
    "na-and-null": changed(0.1, lambda pair: ("NA", "null")),
    "empty-lines": changed(0.3, lambda pair: (pair[0], "")),
    "one-side-empty": lambda folder, pairs: write_text(folder, [(src, "") for src, _ in pairs]),
    "empty-file": lambda folder, pairs: write_text(folder, []),
    "one-pair-only": lambda folder, pairs: write_text(folder, pairs[:1]),
    "one-source-sentence": changed(1, lambda pair: ("The same.", pair[1])),
    "different-line-counts": different_line_counts,
    "windows-line-ends": text(end="\r\n"),
    "old-mac-line-ends": text(end="\r"),
    "truncated-gz": truncated_gz,
    "plain-text-named-gz": lambda folder, pairs: write_rows(folder, "train.tsv.gz", tsv(pairs)),
    "ragged-tsv": ragged_tsv,
    "unbalanced-csv-quotes": unbalanced_quotes,
    "broken-jsonl": partial(jsonl, bad_rows=['{"en": "cut off', "no JSON"]),
    "jsonl-without-text": partial(
        jsonl, bad_rows=['{"en": null, "de": 3}', '{"en": "a"}', '{"en": ["a"], "de": {}}', "[]"]
    ),
    "jsonl-half-surrogates": partial(jsonl, bad_rows=[r'{"en": "\ud83d", "de": "\udc00 a"}']),
    "everything": everything,
}


if __name__ == "__main__":
    main()
