"""Checks of settings, with one message for each kind."""


def check_at_least(minimum: int, settings: object, *names: str) -> None:
    """Raise ValueError if one of the settings `names` is less than `minimum`, or NaN."""
    for name in names:
        if not (value := getattr(settings, name)) >= minimum:  # false for NaN
            raise ValueError(f"{name} must be at least {minimum}, but is {value}.")


def check_probability(settings: object, *names: str) -> None:
    """Raise ValueError if one of the settings `names` does not lie in [0, 1)."""
    for name in names:
        if not 0 <= (value := getattr(settings, name)) < 1:
            raise ValueError(f"{name} must lie in [0, 1), but is {value}.")


def check_port(port: int) -> None:
    """Raise ValueError if there is no such port to listen on."""
    if not 0 <= port < 2**16:
        raise ValueError(f"port must lie in 0 to {2**16 - 1}, but is {port}.")


def check_seed(seed: int) -> None:
    """Raise ValueError if `data.mix.hashes`, which takes 64 bits with a sign, cannot take it."""
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must lie in 0 to 2**63 - 1, but is {seed}.")
