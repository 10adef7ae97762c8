"""The log-probabilities of given translations."""

from collections.abc import Callable

import numpy as np
import torch

from translate_ddp.data.batches import split_into_micro_batches
from translate_ddp.data.dataset import ParallelDataset
from translate_ddp.errors import UserError
from translate_ddp.modeling.fused_losses import rows_at_once
from translate_ddp.modeling.loss import at_real_positions
from translate_ddp.modeling.search import SCORES_ARE_NAN
from translate_ddp.modeling.transformer import Transformer


@torch.inference_mode()
def token_log_probs(
    model: Transformer,
    pairs: ParallelDataset,
    device: torch.device,
    max_tokens: int,
    on_done: Callable[[int], None],
) -> list[np.ndarray]:
    """For each pair the log-probability, in nats, of each target token and of the final [EOS].

    A pass holds up to `max_tokens` tokens a side; `on_done` receives the number of its pairs.
    Raises UserError if a log-probability is not a number.
    """
    if not len(pairs):
        return []
    order = np.lexsort((pairs.source.lengths, pairs.target.lengths))
    by_length = pairs.take(order)
    found = []
    for batch in split_into_micro_batches(by_length, [len(order)], max_tokens):
        batch = batch.to(device)
        hidden_RD = at_real_positions(model(batch.source_BS, batch.target_BT), batch)
        rows = rows_at_once(hidden_RD, len(model.embedding.weight))
        parts = zip(hidden_RD.split(rows), batch.labels_R.split(rows), strict=True)
        for hidden_CD, labels_C in parts:
            log_p_CV = model.logits(hidden_CD).float().log_softmax(dim=-1)
            found.append(log_p_CV.gather(1, labels_C[:, None])[:, 0].cpu())
        on_done(len(batch.target_BT))
    ends = np.cumsum(by_length.target.lengths + 1)
    log_probs = torch.cat(found).numpy()
    if np.isnan(log_probs).any():
        raise UserError(SCORES_ARE_NAN)
    in_order = np.split(log_probs, ends[:-1])
    return [in_order[place] for place in np.argsort(order)]
