"""CTranslate2, a decoder in C++, with the same weights, converted to Pegasus."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ctranslate2  # pyright: ignore[reportMissingImports]
from ctranslate2.converters import Converter, transformers  # pyright: ignore[reportMissingImports]

from benchmarks.common import read_settings
from benchmarks.decoders.pegasus import to_pegasus
from benchmarks.decoders.task import Decoder, Ids, Task, Trained, time_decoding
from translate_ddp.data.tokenizer import EOS, SOS, UNK
from translate_ddp.settings import SearchConfig

BATCH_ROWS = 256  # sentences x beam; about the fastest of the sizes tried on two CPU cores


@dataclass(frozen=True)
class CTranslate(Decoder):
    compute_type: Literal["float32", "int8"] = "float32"
    """Of weights and matrix products."""
    workers: int = 1
    """Batches translated at a time."""
    threads: int = 1
    """Of each worker."""


class FromPegasus(Converter):
    """The library's conversion, without a tokenizer: the name of a token is its id."""

    def __init__(self, trained: Trained, positions: int) -> None:
        self.trained = trained
        self.positions = positions

    def _load(self) -> Any:
        model: Any = to_pegasus(self.trained, self.positions)
        # The loader expects these two, which only old configurations of Pegasus have.
        model.config.normalize_before, model.config.normalize_embedding = True, False
        loader = transformers.PegasusLoader()
        spec: Any = loader.get_model_spec(model)
        loader.set_vocabulary(spec, words(range(len(self.trained.tokenizer))))
        spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = words([UNK, SOS, EOS])
        spec.config.decoder_start_token = str(SOS)
        return spec


def main() -> None:
    settings = read_settings(CTranslate, __doc__)
    task = Task.open(settings.work)
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
        lambda sources: translate(translator, sources, settings, task.limit),
        arrangement=f"{settings.workers} x {settings.threads}",
    )


def converted(task: Task) -> Path:
    """The folder of the converted model; the first process that needs it converts it."""
    folder = task.folder / f"ctranslate2-{Path(task.checkpoint).stem}-{task.limit}"
    partial = task.folder / "ctranslate2.partial"
    if not folder.exists():
        FromPegasus(task.trained(), task.limit + 1).convert(str(partial), force=True)
        shutil.move(partial, folder)
    return folder


def translate(
    translator: ctranslate2.Translator, sources: Ids, settings: CTranslate, limit: int
) -> Ids:
    per_worker = -(-len(sources) // settings.workers)
    # It sorts by length. Its score divides by length^p, ours by ((5 + length) / 6)^p; all sentences
    # have the limit of the longest source.
    results = translator.translate_batch(
        [words([*ids, EOS]) for ids in sources],
        max_batch_size=min(BATCH_ROWS // settings.beam_width, per_worker),
        beam_size=settings.beam_width,
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
