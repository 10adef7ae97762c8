"""The training losses with their gradients, computed in one traversal of the scores.

Plain PyTorch would keep the scores of all rows, R x V, several times. Here they are computed once,
slice by slice, and no slice is kept. Shape letters are as in `transformer.py`.
"""

from typing import Any

import torch
from torch import Tensor

from translate_ddp.modeling.kernels import multiply, pad_vocabulary

# Scores computed at once: on a CPU they stay in its cache; on a GPU they take 512 MiB in bf16.
CPU_SCORES_AT_ONCE, GPU_SCORES_AT_ONCE = 2**22, 2**28


def rows_at_once(hidden_RD: Tensor, vocabulary: int) -> int:
    """The number of rows whose scores are computed at once, at least 1."""
    scores = CPU_SCORES_AT_ONCE if hidden_RD.device.type == "cpu" else GPU_SCORES_AT_ONCE
    return max(1, min(len(hidden_RD), scores // vocabulary))


class FusedTokenLoss(torch.autograd.Function):
    """`loss.token_loss` that computes its gradient along with its value, some rows at a time.

    Plain: cross-entropy by autograd, which keeps the scores of all rows, R x V. Here each slice of
    scores is computed once, and all use the same memory. With the softmax p of a row's scores and
    the smoothed label q = (1 - e) [label] + e / V, the loss is -q log p, and its gradient with
    respect to the scores is p - q. If p has 16 bits, a row's loss is exact to 0.002 nats.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary = len(embedding_VD)
        weights_PD = pad_vocabulary(embedding_VD.to(hidden_RD.dtype))
        # The part of q that is e / V for every token enters loss and gradients as sums over V.
        spread = smoothing / vocabulary
        hidden_sum_D = hidden_RD.sum(dim=0, dtype=torch.float32)
        weights_sum_D = embedding_VD.sum(dim=0, dtype=torch.float32)
        loss = -spread * (hidden_sum_D @ weights_sum_D)
        nll = torch.zeros_like(loss)
        hidden_grad_RD = torch.empty_like(hidden_RD)
        embedding_grad_VD = (-spread * hidden_sum_D).expand_as(embedding_VD).contiguous()
        rows = rows_at_once(hidden_RD, vocabulary)
        # One buffer for all slices: on a CPU, fresh memory costs more than the softmax.
        buffer_CP = hidden_RD.new_empty(rows, len(weights_PD))
        slices = (x.split(rows) for x in (hidden_RD, labels_R, hidden_grad_RD))
        for hidden_CD, labels_C, hidden_grad_CD in zip(*slices, strict=True):
            wanted = torch.arange(len(labels_C), device=labels_C.device), labels_C
            scores_CP = multiply(hidden_CD, weights_PD, out=buffer_CP[: len(labels_C)])
            if len(weights_PD) > vocabulary:
                scores_CP[:, vocabulary:] = -torch.inf
            best_C, wanted_C = scores_CP.amax(dim=-1), scores_CP[wanted]
            p_CP = torch.softmax(scores_CP, dim=-1, out=scores_CP)
            # The p of the best score is exp(best) / sum of exp.
            log_sum_C = best_C.float() - p_CP.amax(dim=-1).float().log()
            log_sum, wanted_sum = log_sum_C.sum(), wanted_C.float().sum()
            loss += log_sum - (1 - smoothing) * wanted_sum
            nll += log_sum - wanted_sum
            grad_CP = p_CP
            grad_CP[wanted] -= 1 - smoothing
            product_CD = multiply(grad_CP, weights_PD.t(), out=hidden_grad_CD)
            hidden_grad_CD.copy_(product_CD)  # nothing if it is the same memory
            embedding_grad_VD += multiply(grad_CP.t(), hidden_CD.t())[:vocabulary]
        hidden_grad_RD -= spread * weights_sum_D
        ctx.save_for_backward(hidden_grad_RD, embedding_grad_VD)
        ctx.mark_non_differentiable(nll)
        ctx.set_materialize_grads(False)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad_RD, embedding_grad_VD = ctx.saved_tensors
        # In place, since they are large; autograd raises on a second backward pass.
        return hidden_grad_RD.mul_(grads[0]), embedding_grad_VD.mul_(grads[0]), None, None


class FusedSimCutLoss(torch.autograd.Function):
    """`loss.simcut_loss` that computes its gradient along with its value, some rows at a time.

    Plain: both softmaxes by autograd. With the softmax p of a row's scores, the softmax q of the
    same row's scores from cut inputs, and d = log p - log q, the divergence is
    (KL(p, q) + KL(q, p)) / 2. Its gradient with respect to the scores is
    (p (d - KL(p, q) + 1) - q) / 2, and (q (-d - KL(q, p) + 1) - p) / 2 for cut inputs.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_RD: Tensor,
        cut_RD: Tensor,
        embedding_VD: Tensor,
        labels_R: Tensor,
        smoothing: float,
        weight: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        spread, half = smoothing / len(embedding_VD), weight / 2
        weights_VD = embedding_VD.to(hidden_RD.dtype)
        loss = nll = divergence = torch.zeros((), device=hidden_RD.device)
        # The part of the smoothed label that is equal for all tokens enters as a sum over tokens.
        hidden_grad_RD = torch.empty_like(hidden_RD)
        cut_grad_RD = torch.empty_like(cut_RD)
        hidden_sum_D = hidden_RD.sum(dim=0, dtype=torch.float32)
        embedding_grad_VD = (-spread * hidden_sum_D).expand_as(embedding_VD).contiguous()
        rows = max(1, rows_at_once(hidden_RD, len(embedding_VD)) // 2)
        tensors = (hidden_RD, cut_RD, labels_R, hidden_grad_RD, cut_grad_RD)
        slices = (tensor.split(rows) for tensor in tensors)
        for hidden_CD, cut_CD, labels_C, hidden_grad_CD, cut_grad_CD in zip(*slices, strict=True):
            wanted = torch.arange(len(labels_C), device=labels_C.device), labels_C
            log_p_CV = multiply(hidden_CD, weights_VD).log_softmax(dim=-1)
            log_q_CV = multiply(cut_CD, weights_VD).log_softmax(dim=-1)
            part = -log_p_CV[wanted].float().sum()
            nll = nll + part
            loss = loss + (1 - smoothing) * part - spread * log_p_CV.sum(dtype=torch.float32)
            d_CV, p_CV, q_CV = log_p_CV - log_q_CV, log_p_CV.exp_(), log_q_CV.exp_()
            kl_C1 = torch.linalg.vecdot(p_CV, d_CV)[:, None]
            cut_kl_C1 = -torch.linalg.vecdot(q_CV, d_CV)[:, None]
            divergence = divergence + (kl_C1.float().sum() + cut_kl_C1.float().sum()) / 2
            grad_CV = torch.add(1 + half - half * kl_C1, d_CV, alpha=half).mul_(p_CV)
            grad_CV.add_(q_CV, alpha=-half)[wanted] -= 1 - smoothing
            cut_grad_CV = torch.add(half - half * cut_kl_C1, d_CV, alpha=-half).mul_(q_CV)
            cut_grad_CV.add_(p_CV, alpha=-half)
            hidden_grad_CD.copy_(multiply(grad_CV, weights_VD.t(), out=hidden_grad_CD))
            cut_grad_CD.copy_(multiply(cut_grad_CV, weights_VD.t(), out=cut_grad_CD))
            embedding_grad_VD += multiply(grad_CV.t(), hidden_CD.t())
            embedding_grad_VD += multiply(cut_grad_CV.t(), cut_CD.t())
        hidden_grad_RD -= spread * embedding_VD.sum(dim=0, dtype=torch.float32)
        ctx.save_for_backward(hidden_grad_RD, cut_grad_RD, embedding_grad_VD)
        ctx.mark_non_differentiable(nll, divergence)
        ctx.set_materialize_grads(False)
        return loss + weight * divergence, nll, divergence

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place, since they are large; autograd raises on a second backward pass.
        return *(saved.mul_(grads[0]) for saved in ctx.saved_tensors), None, None, None
