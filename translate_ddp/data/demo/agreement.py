"""What verbs and adjectives agree with, in either language; it holds no words."""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f"]
Number = Literal["singular", "plural"]
Person = Literal[1, 2, 3]
Tense = Literal["present", "past", "future"]


@dataclass(frozen=True)
class Agreement:
    """Number, person and Italian gender of a noun phrase; English looks at the first two only."""

    gender: Gender
    number: Number
    person: Person = 3

    @property
    def slot(self) -> int:
        """Place in a conjugation table: I, you, he, we, you all, they are 0 to 5."""
        return self.person - 1 + (3 if self.number == "plural" else 0)
