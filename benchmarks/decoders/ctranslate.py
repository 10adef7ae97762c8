"""CTranslate2, a decoder in C++, with the same weights."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ctranslate2  # pyright: ignore[reportMissingImports]

from benchmarks.common import read_settings
from benchmarks.decoders.task import Decoder, Ids, Task, time_decoding
from translate_ddp.apps.exporting.ctranslate2_export import write_model
from translate_ddp.modeling.search_options import SearchConfig

BATCH_ROWS = 256  # sentences x beam; about the fastest of the sizes tried on two CPU cores


@dataclass(frozen=True)
class CTranslate(Decoder):
    compute_type: Literal["float32", "int8"] = "float32"
    """Of weights and matrix products."""
    workers: int = 1
    """Batches translated at a time."""
    threads: int = 1
    """Of each worker."""


def main() -> None:
    settings = read_settings(CTranslate, __doc__)
    task = Task.open(settings.work)
    width, most = settings.beam_width, BATCH_ROWS // settings.beam_width
    translator = ctranslate2.Translator(
        str(converted(task)),
        device="cuda" if ctranslate2.get_cuda_device_count() else "cpu",
        compute_type=settings.compute_type,
        inter_threads=settings.workers,
        intra_threads=settings.threads,
    )
    time_decoding(
        settings,
        task.sources,
        lambda sources: translate(
            translator, sources, width, min(most, -(-len(sources) // settings.workers)), task.limit
        ),
        arrangement=f"{settings.workers} x {settings.threads}",
    )


def converted(task: Task) -> Path:
    """The folder of the converted model; the first process that needs it converts it."""
    folder = task.folder / f"ct2-{Path(task.checkpoint).stem}-{task.limit}"
    partial = task.folder / "ct2.partial"
    if not folder.exists():
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        trained = task.trained()
        # The name of a token is its id.
        names = words(range(trained.vocabulary))
        write_model(partial, trained.model.state_dict(), trained.shape, names, task.limit + 1)
        partial.rename(folder)
    return folder


def translate(
    translator: ctranslate2.Translator, sources: Ids, beam_width: int, sentences: int, limit: int
) -> Ids:
    """Translations in batches of so many sentences."""
    # It sorts by length. All sentences have the limit of the longest source.
    results = translator.translate_batch(
        [words(ids) for ids in sources],  # the model appends the end marker
        max_batch_size=sentences,
        beam_size=beam_width,
        length_penalty=SearchConfig.length_penalty,
        max_input_length=0,
        min_decoding_length=0,
        max_decoding_length=limit,
    )
    return [[int(word) for word in result.hypotheses[0]] for result in results]


def words(ids: Any) -> list[str]:
    return [str(i) for i in ids]


if __name__ == "__main__":
    main()
