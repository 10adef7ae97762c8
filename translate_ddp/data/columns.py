"""Any table -> one with the text columns `src` and `tgt`, and what went wrong as a sentence."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from translate_ddp.errors import UserError

if TYPE_CHECKING:
    # At run time the functions import it: 0.6 s that reading the command line need not wait for.
    from datasets import Dataset, Features

Languages = tuple[str, str]  # source, target

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def all_pair_columns(
    splits: Mapping[str, Dataset], languages: Languages, source: str
) -> dict[str, Dataset]:
    return {name: pair_columns(table, languages, source) for name, table in splits.items()}


def pair_columns(table: Dataset, languages: Languages, source: str | Path) -> Dataset:
    if "translation" in table.column_names:
        table = _unnested(table.select_columns("translation"), languages)
    for names in (languages, ("src", "tgt")):
        if set(names) <= set(table.column_names):
            src, tgt = names
            pairs = table.select_columns([src, tgt]).rename_columns({src: "src", tgt: "tgt"})
            plain = pairs.features == text_features("src", "tgt")
            return pairs if plain else mapped_text(pairs, _only_text, ("src", "tgt"))
    raise UserError(
        f"{source} does not hold {' and '.join(languages)}, but {listing(table.column_names)}."
        f" Choose languages that are there, or name the columns so (or src and tgt)."
    )


def _unnested(table: Dataset, languages: Languages) -> Dataset:
    """The languages inside the column `translation` as columns of their own."""
    from datasets.features import Json

    if isinstance(table.features["translation"], Json):  # rows that differ in keys or types
        return mapped_text(table, _looked_up, languages, languages=languages)
    flat = table.flatten()
    return flat.rename_columns({name: name.rpartition(".")[2] for name in flat.column_names})


def _looked_up(batch: dict[str, list[Any]], languages: Languages) -> dict[str, list[str | None]]:
    rows = [row if isinstance(row, dict) else {} for row in batch["translation"]]
    return _only_text({language: [row.get(language) for row in rows] for language in languages})


def _only_text(batch: dict[str, list[Any]]) -> dict[str, list[str | None]]:
    return {
        name: [value if isinstance(value, str) else None for value in values]
        for name, values in batch.items()
    }


def mapped_text(
    table: Dataset, function: Callable[..., Any], columns: tuple[str, ...], **settings: Any
) -> Dataset:
    """Text `columns` made by `function` from batches of the table, on disk if the table is.

    Never from the cache of `map`: it knows a function of a module by its name alone, so what an
    older version of the function made would outlive it.
    """
    return table.map(
        function,
        batched=True,
        fn_kwargs=settings,
        features=text_features(*columns),
        remove_columns=table.column_names,
        load_from_cache_file=False,
    )


def text_features(*columns: str) -> Features:
    from datasets import Features, Value

    return Features({column: Value("string") for column in columns})


@contextmanager
def reading(what: str | Path, advice: str) -> Iterator[None]:
    """Say in a sentence what a reading library raised; what it may raise is written nowhere."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, OSError) and cause.errno in NO_ROOM:
            raise UserError(
                f"No room to read {what} into the cache of `datasets`: {cause.strerror}. Free "
                "some, or set HF_HOME to a folder on another disk."
            ) from error
        first_line = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise UserError(f"{what} cannot be read: {first_line.rstrip('.')}. {advice}") from error


def listing(names: Iterable[str], at_most: int = 20) -> str:
    names = list(names)
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return (", ".join(names[:at_most]) or "nothing") + more
