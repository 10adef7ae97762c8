"""How the pace depends on the tokens of a step, all in one pass, up to what memory holds."""

from collections.abc import Iterator

from benchmarks.gpu.lab import Case, Found, Lab
from benchmarks.gpu.steps import measure_steps
from translate_ddp.runtime.out_of_memory import OutOfMemory, is_out_of_memory

STEP_TOKENS = (8_000, 25_000, 50_000, 100_000)


def cases(lab: Lab) -> Iterator[Case]:
    """Ends after the first number of tokens that the memory does not hold."""
    full: list[int] = []

    def measure(tokens: int) -> Found:
        try:
            return measure_steps(lab, lab.flags("base", tokens))
        except Exception as error:
            if isinstance(error, OutOfMemory) or is_out_of_memory(error):
                full.append(tokens)
            raise

    for tokens in STEP_TOKENS:
        if full:
            return
        name = f"base, {lab.tokens(tokens):,} tokens"
        yield Case(name, lambda tokens=tokens: measure(tokens), 8)
