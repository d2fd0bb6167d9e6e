"""Kernel attention of sequences: causal, across to others, and one place at a time.

A kernel is a product of features, f(q_i) . f(k_j), so that its sums over j are sums of f(k_j) v_j:
linear in the length, and carried along when places come one by one. The three forms here give the
same numbers. What is said of `Kernel.floor` is what `zoo.nn.sine_attention` explains.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.nn.random_features import random_directions
from zoo.ops.precision import wide
from zoo.ops.random_order import Kept, drawn_seed
from zoo.sequences.causal_attention import causal_product

KernelName = Literal["softmax", "sine", "elu"]
"""`softmax` by positive random features, `sine` and cosine of random Fourier features, `elu`."""


class Kernel(nn.Module):
    """Features of queries and keys, (..., D) each, to (..., M); it has no weights.

    `softmax` estimates exp(q . k / sqrt(D)) by M positive random features (arXiv 2009.14794, lemma
    1); `sine` the Gaussian kernel by M directions, 2 M columns (Rahimi and Recht 2007); `elu` is
    elu(x) + 1 (arXiv 2006.16236), without anything random, M = D.

    Args:
        name: which.
        count: number M of random directions; new ones in every training call.
        seed: of those of evaluation.
    """

    def __init__(self, name: KernelName, count: int, *, seed: int):
        super().__init__()
        self.features, self.count, self.seed = _FEATURES[name], count, seed
        self.floor = (2 * count) ** -0.5 if name == "sine" else 0.0
        self._kept = Kept()

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features of the queries and of the keys, by the same directions, in fp32."""
        w = self._directions(q)
        return self._features(q, w, True), self._features(k, w, False)

    def queries(self, q: Tensor) -> Tensor:
        """Return the features of queries alone, in evaluation: directions stay the same."""
        return self._features(q, self._directions(q), True)

    def keys(self, k: Tensor) -> Tensor:
        """Return the features of keys alone, in evaluation."""
        return self._features(k, self._directions(k), False)

    def _features(self, x: Tensor, w: Tensor, queries: bool) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return self.features(wide(x), w.to(wide(x)), queries)

    def _directions(self, x: Tensor) -> Tensor:
        seed = drawn_seed() if self.training else self.seed
        draw = partial(random_directions, self.count, x.shape[-1], seed, x.device)
        return draw() if self.training else self._kept.get((x.shape[-1], x.device), draw)


def _positive(x: Tensor, w: Tensor, queries: bool) -> Tensor:
    x = x * x.shape[-1] ** -0.25
    logs = x @ w.mT
    # Of a query any factor cancels; of a key none may depend on the keys that are to come.
    logs = logs - (
        logs.detach().amax(-1, keepdim=True) if queries else x.square().sum(-1, keepdim=True) / 2
    )
    return logs.exp()


def _waves(x: Tensor, w: Tensor, queries: bool) -> Tensor:
    angles = x @ w.mT * x.shape[-1] ** -0.25
    return torch.cat([angles.cos(), angles.sin()], dim=-1) * len(w) ** -0.5


def _elu(x: Tensor, w: Tensor, queries: bool) -> Tensor:
    return functional.elu(x) + 1


_FEATURES = {"softmax": _positive, "sine": _waves, "elu": _elu}


_LEAST = 1e-24
"""Sum of weights below which what is gathered fades to 0; its inverse times long sums is finite."""


class Memory(NamedTuple):
    """Sums over keys and values, of any number of them, that kernel attention reads.

    Attributes:
        products: sum_j f(k_j) [v_j, 1], (R, H, M, E + 1).
        values: sum_j [v_j, 1], (R, H, E + 1).
    """

    products: Tensor
    values: Tensor

    @classmethod
    def of(cls, features: Tensor, values: Tensor, present: Tensor) -> Self:
        """Return the sums over tiles of keys and values.

        Args:
            features: of the keys (R, N, H, M).
            values: (R, N, H, E).
            present: which of them there are, (R, N) bool.
        """
        there = present.to(values)[..., None, None]
        values = _with_ones(values) * there
        with torch.autocast(values.device.type, enabled=False):
            return cls(torch.einsum("rnhm,rnhe->rhme", features, values), values.sum(1))

    def add(self, features: Tensor, values: Tensor) -> Self:
        """Return the sums with one more key and value each, (R, H, M) and (R, H, E)."""
        values = _with_ones(values)
        return type(self)(
            self.products + features.unsqueeze(-1) * values.unsqueeze(-2), self.values + values
        )

    def read(self, features: Tensor, floor: float) -> Tensor:
        """Return the weighted means of the values, (R, N, H, E), for queries (R, N, H, M)."""
        with torch.autocast(features.device.type, enabled=False):
            sums = torch.einsum("rnhm,rhme->rnhe", features, self.products)
        return _mean(sums, self.values.unsqueeze(1), floor)

    def select(self, rows: Tensor) -> Self:
        """Return the sums of some of the R, any of them more than once."""
        return type(self)(*(tensor.index_select(0, rows) for tensor in self))


def causal_attention(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return for each place the weighted mean of the values up to it, (..., N, H, E).

    Args:
        kernel: whose products are the weights.
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, E).
    """
    queries, keys = kernel(q, k)
    values = _with_ones(wide(v))
    sums = causal_product(queries, keys, values)
    return _mean(sums, values.cumsum(-3) if kernel.floor else values, kernel.floor).to(v.dtype)


def _with_ones(values: Tensor) -> Tensor:
    return torch.cat([values, values.new_ones(*values.shape[:-1], 1)], dim=-1)


def _mean(sums: Tensor, values: Tensor, floor: float) -> Tensor:
    """Return sums of weighted values over those of weights, both (..., E + 1)."""
    if not floor:
        return sums[..., :-1] / sums[..., -1:].clamp(min=_LEAST)
    count = values[..., -1:]
    lacking = (floor - sums[..., -1:] / count).clamp(min=0)
    sums = sums + lacking * values
    return sums[..., :-1] / sums[..., -1:]
