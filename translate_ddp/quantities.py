"""Numbers, durations, sizes and ranks as short text."""

from collections.abc import Sequence

MAX_NAMED = 16  # ranks


def number(value: float) -> str:
    """The value with four significant digits, or rounded if it has more: 0.0003, 92.13, 53,120."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def counted(count: int, noun: str) -> str:
    """`1 pair`, `1,200 pairs`: the count and the noun, whose plural ends in s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def describe_seconds(seconds: float) -> str:
    """`45 s`, `2 min 5 s` or `3 h 20 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def size(count: int) -> str:
    """`640 kB`, `12.3 MB`, `4.5 GB`."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count / 1e3:,.0f} kB"


def rank_names(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 4`, `ranks 1 to 7` where they follow each other; of many the first 16."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    more = " and others" if len(ranks) > MAX_NAMED else ""
    return f"ranks {', '.join(map(str, ranks[:MAX_NAMED]))}{more}"
