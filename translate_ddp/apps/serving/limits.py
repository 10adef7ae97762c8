"""What a server accepts, so that no client can use up its memory or its time."""

import math
from dataclasses import dataclass

from translate_ddp.settings import check_at_least

# JSON writes a character in up to 12 bytes (two escapes), and a form in up to as many.
BYTES_PER_CHARACTER = 12
OTHER_BYTES = 16_384  # of the other fields, and of the quotation marks of a list


@dataclass(frozen=True)
class LimitsConfig:
    max_characters: int = 5000
    """Characters of a request, in all of its texts; more: status 400."""
    max_texts: int = 256
    """Texts of a request whose q is a list; more: status 400."""
    max_waiting: int = 256
    """Requests that may wait for the model; further ones: status 429."""
    max_seconds: float = 30.0
    """Seconds to receive a request (then status 408), and to translate it (then status 504)."""

    def __post_init__(self) -> None:
        check_at_least(1, self, "max_characters", "max_texts", "max_waiting")
        if not 0 < self.max_seconds < math.inf:
            raise ValueError(f"max_seconds must be positive and finite, but is {self.max_seconds}.")

    @property
    def max_bytes(self) -> int:
        """Bytes of the body of a request."""
        return self.max_characters * BYTES_PER_CHARACTER + OTHER_BYTES
