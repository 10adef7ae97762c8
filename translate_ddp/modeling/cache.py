"""Keys and values that a decoder keeps, so that each decoding step computes one position only."""

from dataclasses import dataclass

from torch import Tensor

FIRST_CAPACITY = 16  # positions


class TargetCache:
    """Keys and values of the target positions so far, in buffers with room for more."""

    def __init__(self) -> None:
        self.buffers: tuple[Tensor, ...] = ()  # keys and values, each [N, H, capacity, K]
        self.length = 0

    def extend(self, *new_NHTK: Tensor) -> tuple[Tensor, ...]:
        """Append positions; return the keys and values of all positions."""
        rows, heads, added, width = new_NHTK[0].shape
        old, self.length = self.length, self.length + added
        if not self.buffers or self.length > self.buffers[0].shape[2]:
            capacity = max(2 * old, self.length, FIRST_CAPACITY)
            grown = tuple(new.new_empty(rows, heads, capacity, width) for new in new_NHTK)
            for larger, buffer in zip(grown, self.buffers, strict=False):
                larger[:, :, :old] = buffer[:, :, :old]
            self.buffers = grown
        for buffer, new in zip(self.buffers, new_NHTK, strict=True):
            buffer[:, :, old : self.length] = new
        return tuple(buffer[:, :, : self.length] for buffer in self.buffers)

    def select(self, rows_N: Tensor) -> None:
        self.buffers = tuple(buffer.index_select(0, rows_N) for buffer in self.buffers)


@dataclass
class LayerCache:
    """Keys and values of one decoder layer: of B sources, and of N target rows so far.

    N is a multiple of B: the rows of one sentence are adjacent and share its source. Without a
    target cache, a pass covers whole target sentences.
    """

    source: tuple[Tensor, Tensor]
    target: TargetCache | None = None

    def select(self, sentences_B: Tensor, rows_N: Tensor) -> None:
        """Keep these sentences, in order, and these target rows."""
        if len(sentences_B) < len(self.source[0]):
            k_BHSK, v_BHSK = self.source
            self.source = (k_BHSK[sentences_B], v_BHSK[sentences_B])
        if self.target is not None:
            self.target.select(rows_N)
