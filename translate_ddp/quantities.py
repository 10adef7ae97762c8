"""Numbers, durations and sizes as short text."""


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
