"""Reads an exported folder with `transformers`, an extra, to verify that it is the same model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from translate_ddp.data.batches import collate, pad
from translate_ddp.data.dataset import ParallelDataset, Ragged
from translate_ddp.data.tokenizer import EOS, PAD
from translate_ddp.extras import import_extra
from translate_ddp.modeling.engine import CPU_MAX_TOKENS, Ids, ignore, length_limit, longest_first
from translate_ddp.modeling.search import Hypothesis
from translate_ddp.settings import NBestConfig


class HuggingFaceEngine:
    """The model and the tokenizer of a folder, in fp32 on the CPU. It translates greedily."""

    device = torch.device("cpu")

    def __init__(self, folder: Path) -> None:
        """Raises UserError if `transformers` is not installed."""
        transformers = import_extra("transformers")
        log = transformers.utils.logging
        log.set_verbosity_error()
        log.disable_progress_bar()
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
        self.model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32
        ).eval()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, with the end marker."""
        return self.tokenizer(list(texts))["input_ids"] if texts else []

    def decode(self, rows: Ids) -> list[str]:
        rows = [list(map(int, row)) for row in rows]
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)

    @torch.inference_mode()
    def translate(
        self, sources: Ids, config: NBestConfig, on_done: Callable[[int], None] = ignore
    ) -> list[list[Hypothesis]]:
        assert config.beam_width == 1 and not config.temperature
        outputs: dict[int, list[Hypothesis]] = {}
        for rows in longest_first(sources, CPU_MAX_TOKENS):
            batch = [sources[row] for row in rows]
            source_BS = pad(Ragged.of(batch), last=EOS)
            target_BT = self.model.generate(
                input_ids=source_BS,
                attention_mask=(source_BS != PAD).long(),
                num_beams=1,
                do_sample=False,
                early_stopping=False,  # of the folder's beam search
                max_new_tokens=length_limit(len(batch[0])),  # of the longest
            )
            for row, ids in zip(rows, target_BT[:, 1:].tolist(), strict=True):
                ids = ids[: min([*ids, EOS].index(EOS), length_limit(len(sources[row])))]
                outputs[row] = [Hypothesis(ids, None)]
            on_done(len(rows))
        return [outputs[row] for row in range(len(sources))]

    @torch.inference_mode()
    def log_probs(
        self, sources: Ids, targets: Ids, on_done: Callable[[int], None] = ignore
    ) -> list[np.ndarray]:
        found: dict[int, np.ndarray] = {}
        longer = [max(pair, key=len) for pair in zip(sources, targets, strict=True)]
        for rows in longest_first(longer, CPU_MAX_TOKENS):
            sides = (Ragged.of(side[row] for row in rows) for side in (sources, targets))
            batch = collate(ParallelDataset(*sides))
            logits_BTV = self.model(
                input_ids=batch.source_BS,
                attention_mask=(batch.source_BS != PAD).long(),
                decoder_input_ids=batch.target_BT,
            ).logits
            log_p_BTV = logits_BTV.log_softmax(dim=-1)
            for place, row in enumerate(rows):
                labels_T = torch.tensor([*targets[row], EOS])
                log_p_TV = log_p_BTV[place, : len(labels_T)]
                found[row] = log_p_TV.gather(1, labels_T[:, None])[:, 0].numpy()
            on_done(len(rows))
        return [found[row] for row in range(len(sources))]
