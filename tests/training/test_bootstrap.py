"""Intervals and paired tests, against the numbers of sacreBLEU's own functions and command."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from translate_ddp.training.metrics import compare_systems, score_intervals

RANDOM = random.Random(0)
WORDS = "the old man reads a long letter in his garden and then goes home".split()
REFERENCES = [" ".join(RANDOM.choices(WORDS, k=9)) for _ in range(60)]


def changed(words: int) -> list[str]:
    """The references with that many other words in each."""
    texts = [text.split() for text in REFERENCES]
    for text in texts:
        for _ in range(words):
            text[RANDOM.randrange(len(text))] = RANDOM.choice(WORDS)
    return list(map(" ".join, texts))


GOOD, BAD = changed(2), changed(2)


@pytest.mark.parametrize(("language", "tokenizer"), [("it", "13a"), ("zh", "zh")])
def test_intervals_equal_those_of_sacrebleu(language: str, tokenizer: str):
    found = score_intervals(GOOD, REFERENCES, language)
    metrics = {"BLEU": sacrebleu.BLEU(tokenize=tokenizer), "chrf": sacrebleu.CHRF()}
    assert list(found) == list(metrics)
    for name, metric in metrics.items():
        score = metric.corpus_score(GOOD, [REFERENCES], n_bootstrap=1000)
        expected = (score._mean, score._ci)
        assert tuple(found[name]) == pytest.approx(expected) and found[name].half_width > 0


def test_paired_test_equals_that_of_the_sacrebleu_command(tmp_path: Path):
    files = {"references": REFERENCES, "bad": BAD, "good": GOOD}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    reference, *systems = (str(tmp_path / name) for name in files)
    words = ["sacrebleu", reference, "-i", *systems, "-m", "bleu", "chrf", "--paired-bs"]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--format", "text"], capture_output=True, text=True
    )
    (base,) = re.findall(r"bad +│ +([\d.]+) .*│ +([\d.]+) ", done.stdout)
    (system,) = re.findall(r"good +│ +([\d.]+) .*│ +([\d.]+) ", done.stdout)
    p_values = re.findall(r"\(p = ([\d.]+)\)", done.stdout)
    found = compare_systems(GOOD, BAD, REFERENCES, "it").values()
    assert [f"{each.baseline:.1f}" for each in found] == list(base)
    assert [f"{each.score:.1f}" for each in found] == list(system)
    assert [f"{each.p_value:.4f}" for each in found] == p_values != ["0.0010"] * 2


def test_equal_systems_do_not_differ():
    # sacreBLEU's p-value would be 0.001.
    found = compare_systems(GOOD, GOOD, REFERENCES, "it")
    assert {each.p_value for each in found.values()} == {1.0}
