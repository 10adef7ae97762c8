"""Figures of the benchmarks as SVG files, drawn by `translate_ddp.apps.reporting`."""

from benchmarks.common import OWN
from benchmarks.report import shown
from benchmarks.rounds import Outcomes
from translate_ddp.apps.reporting.svg_charts import Bar, bars, standalone


def bar_figure(outcomes: Outcomes, key: str, label: str, title: str) -> str:
    """A bar for each contestant, the median, with minimum and maximum as text."""
    items = []
    for name, outcome in outcomes.items():
        if not outcome.failure:
            values, length = outcome.all(key), outcome.median(key)
            color = 0 if name.startswith(OWN) else 7
            text = f"{shown(length)} ({shown(min(values))} to {shown(max(values))})"
            items.append(Bar(name, length, text, color))
    return standalone(bars(f"{title}, {label}", items))
