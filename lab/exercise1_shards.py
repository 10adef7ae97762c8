"""Exercise 1: which sentences does a rank compute in an epoch?

Sentences have the indices 0 to count - 1. In each epoch, each index is in the list of exactly one
rank, and the lengths of two lists differ by at most one, for any count. Another epoch has another
order, and no rank keeps its indices. Every rank calls the function with its own rank.

Forbidden: to send anything; to repeat or drop an index; DistributedSampler, which does one of both.
In the product: `shard` and `plan_epoch` in translate_ddp/data/plan.py.
"""


def indices_of_rank(count: int, rank: int, size: int, epoch: int) -> list[int]:
    """The indices of this rank, of `size` ranks, in this epoch, in the order of their use."""
    raise NotImplementedError
