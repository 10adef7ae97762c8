"""The training losses with their gradients, computed in one traversal of the scores.

Plain PyTorch would keep the scores of all rows, R x V, several times. Here each slice of scores is
computed once, and all slices use the same memory. Shape letters are those of `transformer.py`.
"""

from typing import Any

import torch
from torch import Tensor

from translate_ddp.modeling import kernels

# Scores computed at once: on a CPU they stay in its cache; on a GPU they take 512 MiB in bf16.
CPU_SCORES_AT_ONCE, GPU_SCORES_AT_ONCE = 2**22, 2**28


def rows_at_once(hidden_RD: Tensor, vocabulary: int) -> int:
    """The number of rows whose scores are computed at once, at least 1. Plain: all."""
    scores = CPU_SCORES_AT_ONCE if hidden_RD.device.type == "cpu" else GPU_SCORES_AT_ONCE
    return max(
        1, len(hidden_RD) if kernels.is_plain() else min(len(hidden_RD), scores // vocabulary)
    )


class FusedTokenLoss(torch.autograd.Function):
    """`loss.token_loss` that computes its gradient along with its value, some rows at a time.

    Plain: cross-entropy by autograd, which keeps the scores of all rows, R x V. Here each slice of
    scores is computed once, and all use the same memory. With the softmax p of a row's scores and
    the smoothed label q = (1 - e) [label] + e / V, the loss is -q log p, and its gradient with
    respect to the scores is p - q. If p is bf16, a row's loss is exact to 0.002 nats.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden_RD: Tensor, embedding_VD: Tensor, labels_R: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        vocabulary = len(embedding_VD)
        weights_PD = kernels.pad_vocabulary(embedding_VD.to(hidden_RD.dtype))
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
            scores_CP = torch.mm(hidden_CD, weights_PD.t(), out=buffer_CP[: len(labels_C)])
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
            torch.mm(grad_CP, weights_PD, out=hidden_grad_CD)
            embedding_grad_VD += (grad_CP.t() @ hidden_CD)[:vocabulary]
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

    Plain: both softmaxes by autograd. With the softmax p of a row's scores s, the softmax q of the
    scores t of the same row from cut inputs, and d = log p - log q, the divergence is
    (KL(p, q) + KL(q, p)) / 2 = sum of (p - q) d / 2. Its gradient is
    (p (d - KL(p, q)) + p - q) / 2 for s, and (q (-d - KL(q, p)) + q - p) / 2 for t.
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
        vocabulary = len(embedding_VD)
        weights_VD = embedding_VD.to(hidden_RD.dtype)
        loss = nll = divergence = torch.zeros((), device=hidden_RD.device)
        hidden_grad_RD, cut_grad_RD = torch.empty_like(hidden_RD), torch.empty_like(cut_RD)
        embedding_grad_VD = torch.zeros_like(embedding_VD)
        rows = max(1, rows_at_once(hidden_RD, vocabulary) // 2)
        inputs = (hidden_RD, cut_RD, labels_R, hidden_grad_RD, cut_grad_RD)
        slices = (x.split(rows) for x in inputs)
        for hidden_CD, cut_CD, labels_C, hidden_grad_CD, cut_grad_CD in zip(*slices, strict=True):
            wanted = torch.arange(len(labels_C), device=labels_C.device), labels_C
            p_CV, log_sum_C, s_CV = _softmax(hidden_CD, weights_VD)
            q_CV, cut_log_sum_C, t_CV = _softmax(cut_CD, weights_VD)
            nll_C = log_sum_C - s_CV[wanted].float()
            mean_C = log_sum_C - s_CV.mean(dim=-1, dtype=torch.float32)
            d_CV = s_CV.sub_(t_CV).sub_((log_sum_C - cut_log_sum_C).to(s_CV.dtype)[:, None])
            kl_C = torch.linalg.vecdot(p_CV, d_CV)  # KL(p, q)
            cut_kl_C = -torch.linalg.vecdot(q_CV, d_CV)  # KL(q, p)
            divergence = divergence + (kl_C.float().sum() + cut_kl_C.float().sum()) / 2
            nll = nll + nll_C.sum()
            loss = loss + (1 - smoothing) * nll_C.sum() + smoothing * mean_C.sum()
            half = weight / 2
            difference_CV = p_CV - q_CV
            grad_CV = torch.addcmul(difference_CV, p_CV, d_CV - kl_C[:, None]).mul_(half)
            grad_CV += p_CV.sub_(smoothing / vocabulary)
            grad_CV[wanted] -= 1 - smoothing
            cut_grad_CV = q_CV.mul_(d_CV.add_(cut_kl_C[:, None])).add_(difference_CV).mul_(-half)
            torch.mm(grad_CV, weights_VD, out=hidden_grad_CD)
            torch.mm(cut_grad_CV, weights_VD, out=cut_grad_CD)
            embedding_grad_VD += grad_CV.t() @ hidden_CD
            embedding_grad_VD += cut_grad_CV.t() @ cut_CD
        ctx.save_for_backward(hidden_grad_RD, cut_grad_RD, embedding_grad_VD)
        ctx.mark_non_differentiable(nll, divergence)
        ctx.set_materialize_grads(False)
        return loss + weight * divergence, nll, divergence

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # In place, since they are large; autograd raises on a second backward pass.
        return *(saved.mul_(grads[0]) for saved in ctx.saved_tensors), None, None, None


def _softmax(hidden_CD: Tensor, weights_VD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax p_CV of the scores, the logarithm of its denominator in fp32, and the scores."""
    scores_CV = hidden_CD @ weights_VD.t()
    p_CV = scores_CV.softmax(dim=-1)
    # The p of the best score is exp(best) / sum of exp.
    log_sum_C = scores_CV.amax(dim=-1).float() - p_CV.amax(dim=-1).float().log()
    return p_CV, log_sum_C, scores_CV
