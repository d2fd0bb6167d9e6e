"""The equations of what the kernels of this room compute, each in plain torch: their naive twins.

A twin has the name of its kernel, takes all products of N x N nodes at once, and leaves gradients,
and gradients of these, to autograd. It is there to be read, and to be compared with: nothing else
of the zoo imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def linear_attention(q: Tensor, k: Tensor, v: Tensor, *, qk_norm: str, base: str) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, w_ij = q_i . k_j + b_ij, (..., N, H, E).

    SGFormer (arXiv 2306.10759), equations 2 to 4, times N: b_ij is N where i = j, else 0 (`own`).
    DIFFormer-s (arXiv 2301.09474): it is 1 (`all`). Polynormer (arXiv 2403.01232): 0 (`none`).

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, E).
        qk_norm: what divides q and k: the `frobenius` norm over N, H and D, that of a `row`, or
            `none`.
        base: which b_ij.
    """
    n = q.shape[-3]
    if qk_norm != "none":
        over = {"frobenius": (-3, -2, -1), "row": -1}[qk_norm]
        q, k = (x / x.square().sum(over, keepdim=True).sqrt() for x in (q, k))
    b = {"own": n * torch.eye(n), "all": torch.ones(n, n), "none": torch.zeros(n, n)}[base]
    return weighted_mean(torch.einsum("...ihd,...jhd->...hij", q, k) + b.to(q), v)


def gumbel_attention(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, noise: Tensor | None = None, *, epsilon: float = 0.0
) -> Tensor:
    """Return the mean over noises of sum_j f(q_i) . f(k_j) u_j v_j / sum_j f(q_i) . f(k_j) u_j.

    NodeFormer (arXiv 2306.08385), equations 5 to 7, with all N x N products of features.

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, D).
        w: random directions (M, D).
        noise: log u, (K, ..., N, H); u = 1 when left out.
        epsilon: added to every feature, see `positive_features`.
    """
    queries = positive_features(q, w, epsilon)
    keys = positive_features(k, w, epsilon, over=(-3, -1))
    scores = torch.einsum("...ihm,...jhm->...hij", queries, keys)
    if noise is None:
        return weighted_mean(scores, v)
    shares = noise.to(q).exp().mT.unsqueeze(-2)  # u, (K, ..., H, 1, N)
    return torch.stack([weighted_mean(scores * u, v) for u in shares]).mean(0)


def positive_features(
    x: Tensor, w: Tensor, epsilon: float = 0.0, over: tuple[int, ...] = (-1,)
) -> Tensor:
    """Return f(x) = exp(w_m . x - |x|^2 / 2 - s) + epsilon, (..., M), x divided by D^1/4 first.

    Performers (arXiv 2009.14794), lemma 1: with an epsilon of 0 the mean over Gaussian w of
    f(x) f(y) is exp(x . y). What s is then does not matter: it cancels out of a ratio. With one, s
    is the largest w_m . x, as in the program of NodeFormer's authors.

    Args:
        x: (..., D).
        w: directions (M, D).
        epsilon: what is added.
        over: the dimensions of the result over which s is the largest.
    """
    x = x / x.shape[-1] ** 0.25
    along = x @ w.to(x).mT
    largest = along.amax(over, keepdim=True)
    return (along - x.square().sum(-1, keepdim=True) / 2 - largest).exp() + epsilon


def weighted_mean(weights: Tensor, v: Tensor) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, (..., N, H, E), of weights (..., H, N, N)."""
    return torch.einsum("...hij,...jhd->...ihd", weights / weights.sum(-1, keepdim=True), v)


def attend_in_batches(
    attend: Callable, q: Tensor, k: Tensor, v: Tensor, order: Tensor, size: int
) -> Tensor:
    """Return what `attend` makes of one batch of nodes after the other, (..., N, H, D).

    Random Batch Attention (arXiv 2511.06044), Algorithm 2, with batches that differ by one at most.

    Args:
        attend: an attention.
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, D).
        order: a random permutation of the nodes, (N,).
        size: nodes per batch at most.
    """
    out = torch.zeros_like(v)
    for batch in order.tensor_split(max(1, -(-len(order) // size))):
        inside = (x[..., batch, :, :] for x in (q, k, v))
        out = out.index_copy(-3, batch, attend(*inside))
    return out


def attend_to_sets(
    attend: Callable, q: Tensor, k: Tensor, v: Tensor, sizes: Sequence[int]
) -> Tensor:
    """Return what `attend` makes of one set after the other, (N, H, E): the twin of `ragged`.

    Args:
        attend: an attention.
        q: queries (N, H, D).
        k: keys (N, H, D).
        v: values (N, H, E).
        sizes: how many of the N rows belong to each set.
    """
    sets = zip(*(x.split(sizes) for x in (q, k, v)), strict=True)
    return torch.cat([attend(*own) for own in sets])


def random_order(identities: Tensor, seed: int) -> Tensor:
    """Return nodes (N,) in the order of a hash of identity (N,) and seed.

    The hash is that of splitmix64 ("Fast Splittable Pseudorandom Number Generators", Steele et al.,
    OOPSLA 2014): the sum of both is mixed, and is the state that gives the next number.
    """

    def mixed(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    def hashed(identity: int) -> int:
        return mixed((mixed((identity + seed) % 2**64) + 0x9E3779B97F4A7C15) % 2**64)

    names = identities.tolist()
    return torch.tensor(sorted(range(len(names)), key=lambda node: hashed(names[node])))


def dropout(x: Tensor, rate: float) -> Tensor:
    """Return x_i m_i / (1 - p), m_i = 0 at the rate p, else 1, in the shape of x.

    "Dropout" (Srivastava et al., JMLR 2014), section 10, inverted. m_i is 0 where the integer of B
    random bits is among the lowest p 2^B; B is 8 where p 2^8 is whole, else 16. The bits are those
    of the global generator, 64 at a time: with its seed m is that of the kernel.
    """
    bits, kind = (8, torch.int8) if (rate * 2**8).is_integer() else (16, torch.int16)
    words = torch.empty(-(-x.numel() * bits // 64), dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(kind)[: x.numel()].reshape(x.shape)
    dropped = round(rate * 2**bits)
    kept = numbers >= dropped - 2**bits // 2  # the integers begin at -2^(B - 1)
    return x * kept * (2**bits / (2**bits - dropped))


def relu_dropout(x: Tensor, rate: float, onto: Tensor | None = None) -> Tensor:
    """Return Drop(ReLU(x)), or onto + Drop(ReLU(x)), in the shape of x."""
    out = dropout(x.relu(), rate)
    return out if onto is None else onto + out


def linear_map(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, (N, out_dim), for x (N, in_dim), W (out_dim, in_dim), b (out_dim,)."""
    out = torch.einsum("ni,oi->no", x, weight)
    return out if bias is None else out + bias


def sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """Return sum_n x_n y_n^T, (D, E), for x (N, D) and y (N, E)."""
    return (x.unsqueeze(2) * y.unsqueeze(1)).sum(0)


def cross_entropy(logits: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the mean over rows of -(1 - s) log p_y - s mean_c log p_c, a scalar.

    "Rethinking the Inception Architecture" (arXiv 1512.00567), section 7.

    Args:
        logits: (N, C), p their softmax.
        y: classes (N,), -1 where unknown: such rows are left out.
        smoothing: s.
    """
    logits, y = logits[y >= 0], y[y >= 0]
    logs = logits - logits.exp().sum(1, keepdim=True).log()
    own = logs.gather(1, y.unsqueeze(1)).squeeze(1)
    return (-(1 - smoothing) * own - smoothing * logs.mean(1)).mean()


def squared_error(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of (z - y)^2 for logits z (N, T) and y (N, T), NaN where unknown."""
    return (logits - y)[~y.isnan()].square().mean()


def binary_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of `_of_bits` for logits (N, 1) and classes 0 or 1, y (N,), -1 if unknown."""
    return _of_bits(logits.squeeze(1)[y >= 0], y[y >= 0])


def multilabel_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of `_of_bits` for logits (N, T) and 0 or 1, y (N, T), NaN where unknown."""
    return _of_bits(logits[~y.isnan()], y[~y.isnan()])


def one_hot_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of `_of_bits` for logits (N, C) and classes y (N,), -1 where unknown."""
    logits, y = logits[y >= 0], y[y >= 0]
    return _of_bits(logits, torch.eye(logits.shape[1])[y])


def _of_bits(z: Tensor, y: Tensor) -> Tensor:
    """Return the mean of -y log p - (1 - y) log (1 - p), p = 1 / (1 + exp(-z)), a scalar."""
    p = 1 / (1 + (-z).exp())
    return (-y * p.log() - (1 - y) * (1 - p).log()).mean()
