"""The settings of decoding. Commands show them in --help, so this module does not import torch."""

from dataclasses import dataclass

from translate_ddp.settings import Checked, at_least, between, setting

MAX_LENGTH_PENALTY = 10  # beyond, only the length matters, and its power overflows
MIN_TEMPERATURE = 0.01  # below, the most probable token is drawn, and quotients overflow


@dataclass(frozen=True)
class SearchConfig(Checked):
    """Settings of decoding; not of training."""

    beam_width: int = setting(4, check=at_least(1))
    """Beam width; 1 is greedy decoding."""
    length_penalty: float = setting(1.0, check=between(-MAX_LENGTH_PENALTY, MAX_LENGTH_PENALTY))
    """A beam search divides the log-probability by length ** this: more makes output longer."""


@dataclass(frozen=True)
class NBestConfig(SearchConfig):
    n_best: int = setting(1, check=at_least(1))
    """Translations of each text; at most beam_width, unless they are sampled."""
    temperature: float = setting(0.0, check=at_least(0))
    """Sample tokens at this temperature instead of searching for the best; 0: search."""
    seed: int = setting(0, check=at_least(0))
    """Random seed of sampling; the same text and seed give the same translation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.temperature < MIN_TEMPERATURE:
            raise ValueError(
                f"temperature must be 0 or at least {MIN_TEMPERATURE}, but is {self.temperature}: "
                "pass --beam_width 1 for the most probable tokens."
            )
        if not (self.temperature or self.n_best <= self.beam_width):
            raise ValueError(
                f"n_best {self.n_best} is more than beam_width {self.beam_width}: "
                f"pass --beam_width {self.n_best}."
            )

    @property
    def rows_per_sentence(self) -> int:
        """Hypotheses that are computed side by side."""
        return self.n_best if self.temperature else self.beam_width


GREEDY = NBestConfig(beam_width=1)
