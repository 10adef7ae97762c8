"""Random numbers that are a pure function of integers, for many keys at once."""

import numpy as np

Key = int | np.ndarray


def hashes(*keys: Key) -> np.ndarray:
    """64 random bits for each element of the keys, which broadcast; uint64.

    It is splitmix64 (Steele et al. 2014), applied to one key after the other.
    """
    bits: np.ndarray = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2**64
        for key in keys:
            bits = (bits ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits = bits ^ (bits >> np.uint64(31))
    return bits


def uniform(*keys: Key) -> np.ndarray:
    """A number in [0, 1) for each element of the keys, which broadcast; float64."""
    return (hashes(*keys) >> np.uint64(11)) * 2.0**-53
