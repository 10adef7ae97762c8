"""Names under which the two files of parallel text are found, and what the messages advise."""

import re
from pathlib import Path

import pytest

from tests.helpers.corpora import error_of, read, write

PAIRS = [("one", "eins"), ("two", "zwei"), ("three", "drei")]


@pytest.mark.parametrize(
    ("source", "names", "languages"),
    [
        ("x", ("x.en", "x.de"), ("eng", "deu")),
        ("x", ("x.en.txt.gz", "x.de.txt.xz"), ("en", "de")),
        ("x", ("x-en.txt.zst", "x-de.txt.zst"), ("en", "de")),
        ("", ("train-en.txt", "train-de.txt"), ("en", "de")),
        ("", ("de.txt", "en.txt"), ("de", "en")),
        ("", ("train.eng.gz", "train.deu.gz"), ("en", "de")),
        ("", ("train.en", "train.ger"), ("en", "de")),
        (
            "",
            tuple(f"train-parts/Statmt-9-deu-eng.{code}" for code in ("eng", "deu")),
            ("en", "de"),
        ),
        ("x", ("x.zho-CN", "x.eng"), ("zho_CN", "en")),
        ("x", ("x.zh_cn.txt", "x.eng_latn.txt"), ("zho-CN", "eng_Latn")),
        ("x", ("x.sr@latin.gz", "x.de"), ("sr_latin", "deu")),
        ("x", ("x-pt-BR.txt", "x-pt-pt.txt"), ("pt_BR", "por_PT")),
        ("dev", ("dev/eng_Latn.dev", "dev/deu_Latn.dev"), ("eng_Latn", "deu_Latn")),
        ("", ("eng.devtest", "deu.devtest"), ("en", "de")),
        ("", ("src.eng.txt", "ref.deu.txt"), ("en", "de")),
        ("", ("ref.eng.txt", "src.deu.txt"), ("en", "de")),
        ("n19", ("n19-src.eng.txt", "n19-ref.zho-CN.txt"), ("eng", "zho_CN")),
        ("n19", ("n19-ref.fra.txt", "n19-ref.deu.txt"), ("fra", "deu")),
        ("n14", ("n14-src.de.sgm", "n14-ref.en.sgm"), ("de", "en")),
        ("n14", ("n14-ref.en.sgm.gz", "n14-src.de.sgm.gz"), ("en", "de")),
    ],
)
def test_two_files_are_found_under_the_usual_names_and_those_of_test_sets(
    folder: Path, source: str, names: tuple[str, str], languages: tuple[str, str]
):
    for side, name in enumerate(names):
        texts = [pair[side] for pair in PAIRS]
        segments = "".join(f"<seg>{text}</seg>" for text in texts)
        write(
            folder / re.sub("deu(?!-)", "deu_AT", name).replace("zho-CN", "zho-TW"), "other\n" * 3
        )
        write(folder / name, segments if ".sgm" in name else "\n".join(texts))
    assert read(folder / source, languages) == PAIRS


def test_exact_spelling_of_a_code_is_found_first(folder: Path):
    for code in ("zh-CN", "zho_CN", "zh_cn", "zho_TW"):
        write(folder / f"x.{code}", f"{code}\n")
        write(folder / f"{code}.tsv", f"{code}\ten\tzho-cn\nfound\ta\tb\n")
    write(folder / "x.en", "a\n")
    for code in ("zh-CN", "zho_CN", "zh_cn", "zho_TW"):
        assert read(folder / "x", (code, "en")) == [(code, "a")]
        assert read(folder / f"{code}.tsv", (code, "en")) == [("found", "a")]
    assert read(folder / "zho_TW.tsv", ("zho_CN", "en")) == [("b", "a")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("src.eng.txt", "ref.deu.txt"), "pass the folder of both files, {folder}."),
        (("eng.dev", "deu.dev"), "pass the folder of both files, {folder}."),
        (("x-src.eng.txt", "x-ref.deu.txt"), "pass the start of both file names, {folder}/x."),
        (("x.eng", "x.deu"), "pass the start of both file names, {folder}/x."),
    ],
)
def test_one_side_as_a_dataset_is_an_error_with_the_way_out(
    folder: Path, names: tuple[str, str], expected: str
):
    for name in (*names, "en.txt"):
        write(folder / name, "a\n")
    message = error_of(folder / names[0])
    assert message.endswith(f"is one side of parallel text: {expected.format(folder=folder)}")
