"""Tables with the text columns `src` and `tgt`, made from tables of any layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from translate_ddp.data.read_errors import list_names
from translate_ddp.errors import UserError
from translate_ddp.runtime.heartbeat import heartbeat

if TYPE_CHECKING:
    # `datasets` takes 0.6 s to import: functions import it, so that --help need not wait.
    from datasets import Dataset, Features

Languages = tuple[str, str]  # source, target
Sides = Mapping[str, str]  # src, tgt or both -> their languages


def sides_of(languages: Languages) -> Sides:
    return dict(zip(("src", "tgt"), languages, strict=True))


def text_columns(table: Dataset, sides: Sides, source: str | Path) -> Dataset:
    """The columns of the languages as `src` and `tgt`, null where a value is not text.

    They are named by language or `src` and `tgt`, or are keys inside the column `translation`.
    Raises UserError if one is not in the table, which its message calls `source`.
    """
    languages = tuple(sides.values())
    if "translation" in table.column_names:
        table = _unnest(table.select_columns("translation"), languages)
    for names in (languages, tuple(sides)):
        if set(names) <= set(table.column_names):
            renamed = dict(zip(names, sides, strict=True))
            texts = table.select_columns(list(names)).rename_columns(renamed)
            is_text = texts.features == text_features(*sides)
            return texts if is_text else map_text(texts, _only_text, tuple(sides))
    raise UserError(
        f"{source} has no {named(languages)}, but {list_names(table.column_names)}. Choose"
        f" languages that it has, or rename its columns to these, or to {' and '.join(sides)}."
    )


def named(columns: Sequence[str]) -> str:
    """`column en`, or `columns en and it`."""
    return f"column{'s' * (len(columns) > 1)} {' and '.join(columns)}"


def _unnest(table: Dataset, languages: Sequence[str]) -> Dataset:
    """The keys of the column `translation` as columns of their own."""
    flat = table.flatten()
    if flat.column_names == ["translation"]:  # no struct: JSON rows that differ in keys or types
        return map_text(table, _look_up, tuple(languages), languages=languages)
    return flat.rename_columns({name: name.rpartition(".")[2] for name in flat.column_names})


def _look_up(batch: dict[str, list[Any]], languages: Sequence[str]) -> dict[str, list[str | None]]:
    rows = [row if isinstance(row, dict) else {} for row in batch["translation"]]
    return _only_text({language: [row.get(language) for row in rows] for language in languages})


def _only_text(batch: dict[str, list[Any]]) -> dict[str, list[str | None]]:
    return {
        name: [value if isinstance(value, str) else None for value in values]
        for name, values in batch.items()
    }


def map_text(
    table: Dataset, function: Callable[..., Any], columns: tuple[str, ...], **settings: Any
) -> Dataset:
    """Text `columns` computed by `function` from batches of the table, on disk if the table is.

    The cache of `map` is not used: it identifies a function of a module by its name, so it would
    return rows that an older version of the function computed.
    """

    def compute(*batch: Any, **values: Any) -> Any:
        heartbeat()
        return function(*batch, **values)

    return table.map(
        compute,
        batched=True,
        fn_kwargs=settings,
        features=text_features(*columns),
        remove_columns=table.column_names,
        load_from_cache_file=False,
    )


def iterate_batches(pairs: Dataset) -> Iterator[tuple[list[str], list[str]]]:
    """The columns `src` and `tgt` of up to 10,000 rows at a time."""
    for batch in cast("Iterator[dict[str, list[str]]]", pairs.iter(batch_size=10_000)):
        heartbeat()
        yield batch["src"], batch["tgt"]


def text_features(*columns: str) -> Features:
    from datasets import Features, Value

    return Features({column: Value("string") for column in columns})
