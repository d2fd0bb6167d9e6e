"""Random Batch Attention: any attention, inside random batches of the nodes.

"How Particle-System Random Batch Methods Enhance Graph Transformer" (arXiv 2511.06044): nodes are
dealt at random into batches of size p and attend inside each, O(N p) instead of O(N^2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.table import Count, value_problems

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function of q, k, v, all (..., N, H, D), to (..., N, H, D)."""


def random_batch(
    attend: Attention,
    size: int,
    *,
    evaluate: Literal["fixed", "full", "mean"] = "fixed",
    draws: int = 8,
    seed: int = 0,
    layer: int = 0,
) -> RandomBatch:
    """Return `attend` in random batches: nodes are dealt into batches and attend inside each.

    Algorithm 2 of Random Batch Attention (arXiv 2511.06044): O(N size) instead of O(N^2).

    Args:
        attend: any attention; it is called on `(..., batches, size, H, D)`.
        size: nodes per batch, p in the paper. Batches differ by one node at most, so that none
            is padded. With `size >= N` the result is that of `attend` exactly.
        evaluate: what happens in evaluation: one partition `fixed` by seed and layer, the `full`
            attention, or the `mean` over `draws` fixed partitions.
        draws: number of partitions that `mean` averages.
        seed: of the partitions used in evaluation.
        layer: number of the layer, so that layers differ in evaluation as they do in training.

    >>> from zoo.attention import softmax
    >>> q, k, v = torch.randn(3, 1000, 4, 16)
    >>> random_batch(softmax, 100)(q, k, v).shape
    torch.Size([1000, 4, 16])
    """
    return RandomBatch(attend, size, evaluate=evaluate, draws=draws, seed=seed, layer=layer)


class RandomBatch(nn.Module):
    """An attention in random batches; made by `random_batch`. It has no weights.

    It is a module only so that `train()` and `eval()` reach it. In training each call draws a new
    partition, from a generator of its own that the global one seeds; in evaluation the global
    generator is left alone.
    """

    def __init__(self, attend, size, *, evaluate, draws, seed, layer):
        super().__init__()
        self.attend, self.size = attend, size
        counts = {"fixed": 1, "full": 0, "mean": draws}
        wrong = value_problems(Count, size, ("size",)) + value_problems(Count, draws, ("draws",))
        if wrong or evaluate not in counts:
            raise ZooError(
                f"random_batch(size={size!r}, evaluate={evaluate!r}, draws={draws!r}): size and "
                "draws are counts of at least 1, evaluate is 'fixed', 'full' or 'mean'."
            )
        self.keys = [(seed, layer, draw) for draw in range(counts[evaluate])]

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend from q to k, v, all (..., N, H, D), inside random batches of the N nodes."""
        if self.size >= q.shape[-3]:
            return self.attend(q, k, v)
        if self.training:
            seed = int(torch.randint(2**62, ()))
            return self._one_draw(q, k, v, partition(q.shape[-3], seed, device=q.device))
        if not self.keys:
            return self.attend(q, k, v)
        # Drawn on the CPU, so that a model answers the same wherever it is loaded.
        orders = (partition(q.shape[-3], seed_of(key)).to(q.device) for key in self.keys)
        outs = [self._one_draw(q, k, v, order) for order in orders]
        return outs[0] if len(outs) == 1 else torch.stack(outs).mean(0)

    def _one_draw(self, q: Tensor, k: Tensor, v: Tensor, order: Tensor) -> Tensor:
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order), device=order.device)
        dealt = [_Permute.apply(each, order, inverse) for each in (q, k, v)]
        return _Permute.apply(self._in_batches(*dealt), inverse, order)

    def _in_batches(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n = q.shape[-3]
        batches = -(-n // self.size)
        small, larger = divmod(n, batches)  # `larger` batches hold one node more
        cut = larger * (small + 1)
        parts = ((slice(0, cut), small + 1), (slice(cut, n), small))
        outs = [
            self.attend(*(x[..., rows, :, :].unflatten(-3, (-1, size)) for x in (q, k, v)))
            for rows, size in parts
            if rows.start < rows.stop
        ]
        return torch.cat([out.flatten(-4, -3) for out in outs], dim=-3)


def partition(n: int, seed: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Return a random order of n nodes, (n,) int64, from a generator of its own."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randperm(n, generator=generator, device=device)


class _Permute(torch.autograd.Function):
    """Rows in another order; the gradient is a gather too, not a scatter with collisions."""

    @staticmethod
    def forward(ctx, x, order, inverse):
        ctx.save_for_backward(order, inverse)
        return x.index_select(-3, order)

    @staticmethod
    def backward(ctx, gradient):
        order, inverse = ctx.saved_tensors
        return _Permute.apply(gradient, inverse, order), None, None


def seed_of(key: tuple[int, ...]) -> int:
    """Return a seed for a generator of its own, from the numbers that make it different."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
