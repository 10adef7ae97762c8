"""Names of ranks in messages."""

from collections.abc import Sequence

MAX_NAMED = 16


def rank_names(ranks: Sequence[int]) -> str:
    """`rank 1`, `ranks 1, 4`, `ranks 1 to 7` where they follow each other; of many the first 16."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    more = " and others" if len(ranks) > MAX_NAMED else ""
    return f"ranks {', '.join(map(str, ranks[:MAX_NAMED]))}{more}"
