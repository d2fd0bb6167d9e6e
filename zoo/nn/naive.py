"""The equations of attentions in plain torch, with all N x N weights: the naive twins of this room.

Each has the name of the function that models call. Random Batch Attention's is
`zoo.ops.naive.attend_in_batches`. Nothing else of the zoo imports this file.
"""

import torch
from torch import Tensor

from zoo.ops.naive import positive_features, weighted_mean


def softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, w_ij = exp(q_i . k_j / sqrt(D)), (..., N, H, E).

    "Attention is all you need" (arXiv 1706.03762), equation 1.
    """
    scores = torch.einsum("...ihd,...jhd->...hij", q, k)
    return weighted_mean((scores / q.shape[-1] ** 0.5).exp(), v)


def performer(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, w_ij = f(q_i) . f(k_j), (..., N, H, E).

    Performers (arXiv 2009.14794), lemma 1, for directions w (M, D).
    """
    queries, keys = positive_features(q, w), positive_features(k, w, over=(-3, -1))
    return weighted_mean(torch.einsum("...ihm,...jhm->...hij", queries, keys), v)


def sine_attention(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, w_ij = s_ij + c_i, (..., N, H, E).

    s_ij is the mean over directions w (M, D) of cos w . (q_i - k_j), q and k divided by D^1/4
    ("Random Features for Large-Scale Kernel Machines", Rahimi and Recht 2007), and c_i =
    max(0, (2 M)^-1/2 - mean_j s_ij).
    """
    along = ((x @ w.to(x).mT / q.shape[-1] ** 0.25).transpose(-3, -2) for x in (q, k))
    queries, keys = along  # (..., H, N, M)
    scores = (queries.unsqueeze(-2) - keys.unsqueeze(-3)).cos().mean(-1)  # (..., H, N, N)
    lacking = (2 * len(w)) ** -0.5 - scores.mean(-1, keepdim=True)
    return weighted_mean(scores + lacking.clamp(min=0), v)
