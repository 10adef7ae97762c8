"""Tables of all records: scores by recipe, and differences to some of them."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from benchmarks.common import Settings, Values
from benchmarks.recipe.record import Record, load_records
from benchmarks.recipe.scoring import CONVENTIONS, TEST, VALIDATION
from benchmarks.report import Row, table, write_report
from translate_ddp.errors import UserError

RESAMPLES = 1000
ORDERS = 4  # of n-grams
TITLE = "Recipes on Multi30k en-de"
NOTE = (
    "BLEU: mean over the seeds (least to most). Greedy and beam on validation with their best "
    "average and length penalty; test with the settings chosen on validation for each seed. "
    "Tokens: target tokens seen, end markers included. Minutes: of the training, validations "
    "included. tok: `.lc.norm.tok`, tokens as given; raw: cased, detokenised, 13a. Protocol: "
    "`docs/recipe.md`."
)
INTERVALS = (
    f"Intervals of 95 % and two-sided p by paired bootstrap over the sentences, {RESAMPLES:,} "
    "resamples, all seeds with the same sentences."
)
Runs = dict[tuple[str, str], list[Record]]  # (convention, name) -> records by seed


@dataclass(frozen=True)
class Difference:
    """A mean difference, the bounds of its 95 % interval, and a two-sided p-value."""

    mean: float
    low: float
    high: float
    p: float

    def shown(self) -> Values:
        interval = f"{self.low:+.2f} to {self.high:+.2f}"
        return {"BLEU": f"{self.mean:+.2f}", "95 %": interval, "p": f"{self.p:.3f}"}


def sentence_counts(
    metric: sacrebleu.BLEU, hypotheses: Sequence[str], references: Sequence[str]
) -> np.ndarray:
    """A row per sentence: matches and totals of each order, and both lengths. BLEU adds them."""
    scores = [
        metric.corpus_score([hypothesis], [[reference]])
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])


def bleu_of(counts: np.ndarray) -> float:
    """BLEU of summed rows of `sentence_counts`."""
    matches, totals, (length, reference) = np.split(counts, (ORDERS, 2 * ORDERS))
    return BLEU.compute_bleu(matches.tolist(), totals.tolist(), int(length), int(reference)).score


def compare(system: Sequence[np.ndarray], baseline: Sequence[np.ndarray]) -> Difference:
    """The difference of two systems, each given as the counts of every seed."""
    sentences = len(system[0])
    draws = np.random.default_rng(0).integers(sentences, size=(RESAMPLES, sentences))

    def scores(seeds: Sequence[np.ndarray]) -> np.ndarray:
        return np.mean([[bleu_of(s[rows].sum(0)) for rows in draws] for s in seeds], axis=0)

    found = np.mean([bleu_of(s.sum(0)) for s in system])
    mean = float(found - np.mean([bleu_of(s.sum(0)) for s in baseline]))
    resampled = scores(system) - scores(baseline)
    low, high = np.quantile(resampled, (0.025, 0.975))
    # How often chance alone, the resamples around their mean, differs as much.
    more = np.sum(np.abs(resampled - resampled.mean()) >= abs(mean))
    return Difference(mean, float(low), float(high), float((more + 1) / (RESAMPLES + 1)))


@dataclass(frozen=True)
class RecipeReport(Settings):
    corpus: Path = Path("multi30k")
    """Folder of the references, as for the training."""
    against: tuple[str, ...] = ()
    """Recipes with each of which all others are compared."""


def write_recipe_report(settings: RecipeReport) -> None:
    """Write recipe.json and recipe.md. Raises UserError if there is no record."""
    folder = settings.results / "recipe"
    runs: Runs = defaultdict(list)
    for record in load_records(folder):
        runs[record.convention, record.name].append(record)
    if not runs:
        raise UserError(f"{folder} holds no record: run `python -m benchmarks.recipe` first.")
    names = sorted({name for _, name in runs})
    for name in settings.against:
        if name not in names:
            raise UserError(f"There is no record of {name!r}, only of {', '.join(names)}.")
    found = {name: compare_all(runs, name, settings) for name in settings.against}
    notes = [NOTE]
    for name, differences in found.items():
        title = f"Difference to {name}, BLEU"
        rows = [
            Row(f"{label}, {split}", difference.shown())
            for label, by_split in differences.items()
            for split, difference in by_split.items()
        ]
        notes += [f"## {title}", table(rows), INTERVALS]
    write_report(
        "recipe",
        TITLE,
        [Row(f"{convention}, {name}", summary(each)) for (convention, name), each in runs.items()],
        folder=settings.results,
        raw={
            name: {label: {s: vars(d) for s, d in each.items()} for label, each in by_label.items()}
            for name, by_label in found.items()
        },
        notes=[*notes, *origins([record for each in runs.values() for record in each])],
    )


def summary(records: Sequence[Record]) -> Values:
    """The row of one recipe under one convention."""
    first = records[0]
    values: Values = {
        "seeds": ", ".join(str(record.seed) for record in records),
        "parameters": f"{first.parameters / 1e6:.2f} M",
        "epochs": over_seeds(records, lambda r: r.epochs, "{:.0f}"),
        "steps": over_seeds(records, lambda r: r.steps, "{:,.0f}"),
        "tokens": over_seeds(records, lambda r: r.target_tokens / 1e6, "{:.1f} M"),
        "minutes": over_seeds(records, lambda r: r.minutes, "{:.0f}"),
        "val greedy": over_seeds(records, lambda r: best_score(r, greedy=True)),
        "val beam": over_seeds(records, lambda r: best_score(r, greedy=False)),
        "chosen": "; ".join(dict.fromkeys(str(record.chosen) for record in records)),
    }
    tested = [record for record in records if record.test]
    for name in tested[0].test if tested else ():
        values[f"test, {name}"] = over_seeds(tested, lambda r, name=name: r.test[name].bleu)
    return values


def best_score(record: Record, greedy: bool) -> float:
    return max(s.bleu for s in record.validation if (s.setting.beam_width == 1) == greedy)


def over_seeds(
    records: Sequence[Record], value: Callable[[Record], float], text: str = "{:.2f}"
) -> str:
    """The mean, with the least and the most if they are shown differently."""
    found = [value(record) for record in records]
    least, mean, most = (text.format(f(found)) for f in (np.min, np.mean, np.max))
    return mean if least == most else f"{mean} ({least} to {most})"


def compare_all(
    runs: Runs, against: str, settings: RecipeReport
) -> dict[str, dict[str, Difference]]:
    """By recipe and split: the difference to `against`, where both have translated the split."""
    found: dict[str, dict[str, Difference]] = defaultdict(dict)
    for (convention, name), records in runs.items():
        baseline = runs.get((convention, against), []) if name != against else []
        for split in (VALIDATION, TEST):
            sides = [[r for r in side if split in r.sha256] for side in (records, baseline)]
            if all(sides):
                difference = compare(*(count(side, split, settings) for side in sides))
                found[f"{convention}, {name}"][split] = difference
    return found


def count(records: Sequence[Record], split: str, settings: RecipeReport) -> list[np.ndarray]:
    """The n-gram counts of the translations of each record."""
    convention = CONVENTIONS[records[0].convention]
    _, references = convention.read(settings.corpus, split)
    folder = settings.results / "recipe"
    metric = convention.metric()
    return [sentence_counts(metric, r.translations(folder, split), references) for r in records]


def origins(records: Sequence[Record]) -> list[str]:
    """Signatures, machines and versions of the records."""
    signatures = dict.fromkeys(f"{r.convention}: `{r.signature}`" for r in records)
    facts = (r.facts for r in records)
    names = ("gpu", "cpu", "cores", "processes", "threads", "precision", "torch", "commit")
    machines = dict.fromkeys(
        "; ".join(f"{name}: {found[name]}" for name in names if name in found) for found in facts
    )
    return [f"Signatures: {', '.join(signatures)}."] + [f"Trained on: {m}." for m in machines]
