"""The grammatical features that verbs and adjectives agree with."""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]
Number = Literal["singular", "plural"]
Person = Literal[1, 2, 3]
# The last three occur in short sentences only: is eating, has eaten, is going to eat.
Tense = Literal["present", "past", "future", "progressive", "perfect", "intention"]


@dataclass(frozen=True)
class Agreement:
    """Number, person and Italian gender of a noun phrase; English uses number and person only."""

    gender: Gender
    number: Number
    person: Person = 3

    @property
    def slot(self) -> int:
        """Index in a conjugation table: 0 to 5 for I, you, he, we, you all, they."""
        return self.person - 1 + (3 if self.number == "plural" else 0)
