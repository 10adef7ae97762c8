"""CTranslate2, a decoder in C++, with the same weights by way of Pegasus."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ctranslate2
from ctranslate2.converters import Converter
from ctranslate2.converters.transformers import PegasusLoader

from benchmarks.decoders.pegasus import to_pegasus
from benchmarks.decoders.task import Decoder, Ids, Task, Trained, read_flags, time_decoding
from translate_ddp.data.tokenizer import EOS, SOS, UNK
from translate_ddp.modeling.decoding import LENGTH_REWARD

BATCH_ROWS = 256  # sentences times beam, about the fastest of those tried on two CPU cores


@dataclass(frozen=True)
class CTranslate(Decoder):
    compute_type: Literal["float32", "int8"] = "float32"
    """Of weights and matrix products."""
    workers: int = 1
    """Batches translated at a time."""
    threads: int = 1
    """Of each worker."""


class FromPegasus(Converter):
    """The library's own conversion, without a tokenizer: a token's name is its id."""

    def __init__(self, trained: Trained, positions: int) -> None:
        self.trained = trained
        self.positions = positions

    def _load(self) -> Any:
        model: Any = to_pegasus(self.trained, self.positions)
        # Old configurations of Pegasus say these two themselves.
        model.config.normalize_before, model.config.normalize_embedding = True, False
        loader = PegasusLoader()
        spec: Any = loader.get_model_spec(model)
        loader.set_vocabulary(spec, words(range(len(self.trained.tokenizer))))
        spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = words([UNK, SOS, EOS])
        spec.config.decoder_start_token = str(SOS)
        return spec


def main() -> None:
    asked = read_flags(CTranslate, __doc__)
    task = Task.open(asked.work)
    translator = ctranslate2.Translator(
        str(converted(task)),
        device="cuda" if ctranslate2.get_cuda_device_count() else "cpu",
        compute_type=asked.compute_type,
        inter_threads=asked.workers,
        intra_threads=asked.threads,
    )
    time_decoding(
        asked,
        task.sources,
        lambda sources: translate(translator, sources, asked, task.limit),
        arrangement=f"{asked.workers} x {asked.threads}",
    )


def converted(task: Task) -> Path:
    """The folder of the model in the library's own form, written by whoever needs it first."""
    folder = task.folder / f"ctranslate2-{Path(task.checkpoint).stem}-{task.limit}"
    partial = task.folder / "ctranslate2.partial"
    if not folder.exists():
        FromPegasus(task.trained(), task.limit + 1).convert(str(partial), force=True)
        shutil.move(partial, folder)
    return folder


def translate(
    translator: ctranslate2.Translator, sources: Ids, asked: CTranslate, limit: int
) -> Ids:
    a_worker = -(-len(sources) // asked.workers)
    # It sorts by length itself. Its score divides by length^p, ours by ((5 + length) / 6)^p; the
    # limit is that of the longest source for all.
    results = translator.translate_batch(
        [words([*ids, EOS]) for ids in sources],
        max_batch_size=min(BATCH_ROWS // asked.beam_width, a_worker),
        beam_size=asked.beam_width,
        length_penalty=LENGTH_REWARD,
        max_input_length=0,
        min_decoding_length=0,
        max_decoding_length=limit,
    )
    return [[int(word) for word in result.hypotheses[0]] for result in results]


def words(ids: Any) -> list[str]:
    return [str(i) for i in ids]


if __name__ == "__main__":
    main()
