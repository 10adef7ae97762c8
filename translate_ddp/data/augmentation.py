"""The training pairs of a step as the model sees them in one epoch.

Both changes are a pure function of seed, epoch and row: they do not depend on ranks, passes or on
where a run was resumed. Validation and translation use neither.
"""

from dataclasses import dataclass

import numpy as np

from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.perturbation import Perturbation
from translate_ddp.data.subword_dropout import SubwordDropout

SOURCE, TARGET = range(2)


@dataclass(frozen=True)
class Augmentation:
    perturbation: Perturbation | None
    dropout: SubwordDropout | None

    def apply(self, pairs: ParallelDataset, rows: np.ndarray, epoch: int) -> ParallelDataset:
        """`pairs`, which are these rows of the training set, in another form.

        A perturbed source is segmented plainly.
        """
        source, target = pairs.source, pairs.target
        if self.dropout is not None:
            source = self.dropout.segment(SOURCE, rows, epoch)
            target = self.dropout.segment(TARGET, rows, epoch)
        if self.perturbation is not None:
            changed = self.perturbation.apply(pairs.source, rows, epoch)
            source = Ragged.of(changed.get(n, source[n]) for n in range(len(source)))
        return ParallelDataset(source, target)

    def target_lengths(self, lengths: np.ndarray, rows: np.ndarray, epoch: int) -> np.ndarray:
        """Tokens of the targets that `apply` returns for these rows, end marker included.

        `lengths` are those of the unchanged ones.
        """
        if self.dropout is None:
            return lengths
        return self.dropout.lengths(TARGET, rows, epoch) + 1
