"""COMET, a metric that a neural network computes (Rei et al. 2020), if `comet` is installed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

BATCH_SIZE = 16  # sentences


def comet_score(
    model: str, sources: Sequence[str], predictions: Sequence[str], references: Sequence[str]
) -> float:
    """The score of `model`, a checkpoint file or a name on the Hugging Face hub."""
    import comet  # pyright: ignore[reportMissingImports]

    file = model if Path(model).is_file() else comet.download_model(model)
    rows: list[dict[str, Any]] = [
        {"src": source, "mt": prediction, "ref": reference}
        for source, prediction, reference in zip(sources, predictions, references, strict=True)
    ]
    gpus = int(torch.cuda.is_available())
    found = comet.load_from_checkpoint(file).predict(
        rows, batch_size=BATCH_SIZE, gpus=gpus, progress_bar=False
    )
    return float(found.system_score)
