"""Random Batch Attention: any attention, inside random batches of the nodes.

"How Particle-System Random Batch Methods Enhance Graph Transformer" (arXiv 2511.06044): nodes are
dealt at random into batches of size p and attend inside each, O(N p) instead of O(N^2).
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from zoo.config.options import Count, value_problems
from zoo.errors import ZooError
from zoo.ops.chunked_attention import Deal, Recompute, attend_in_batches
from zoo.ops.global_sums import is_by_sums

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function of q, k, v, all (..., N, H, D), to (..., N, H, D)."""

Shard = Literal["none", "replicated", "local"]
"""How several processes divide the batches among them, see `random_batch`."""


def random_batch(
    attend: Attention,
    size: int,
    *,
    evaluate: Literal["fixed", "full", "mean"] = "fixed",
    draws: int = 8,
    seed: int = 0,
    layer: int = 0,
    shard: Shard = "none",
    redeal: int = 1,
    recompute: Recompute = "auto",
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
        shard: what several processes do. `none`: each attends in all batches. `replicated`: each
            has all rows and attends in its share of the batches, whose outputs are then exchanged;
            partition and output are those of one process. `local`: each is given a share of the
            nodes by the training loop, and batches are drawn inside of it; nothing is exchanged.
        redeal: steps after which the training loop deals the nodes anew, with `local`.
        recompute: attend again for the gradient instead of keeping what it needs: less memory
            and more time; `auto` where that is more than a GiB on a CPU.

    >>> from zoo.nn.attention import softmax
    >>> q, k, v = torch.randn(3, 1000, 4, 16)
    >>> random_batch(softmax, 100)(q, k, v).shape
    torch.Size([1000, 4, 16])
    """
    keys = {"evaluate": evaluate, "draws": draws, "seed": seed, "layer": layer}
    return RandomBatch(attend, size, **keys, shard=shard, redeal=redeal, recompute=recompute)


def local_redeal(model: nn.Module) -> int | None:
    """Return after how many steps a model's nodes are dealt anew; None where they are not dealt."""
    inside = (each for each in model.modules() if isinstance(each, RandomBatch))
    return next((each.redeal for each in inside if each.shard == "local"), None)


@contextlib.contextmanager
def node_identities(identities: Tensor) -> Iterator[None]:
    """Deal nodes by what they are instead of where they stand, as long as this lasts.

    A node then meets the same others whatever the order of the rows: predictions for a graph
    whose nodes are renumbered are the same, exactly so with one partition or their mean.

    Args:
        identities: (N,) int64, different for each node of the graph.
    """
    token = _identities.set(identities)
    try:
        yield
    finally:
        _identities.reset(token)


_identities: contextvars.ContextVar[Tensor | None] = contextvars.ContextVar("ids", default=None)


class RandomBatch(nn.Module):
    """An attention in random batches; made by `random_batch`. It has no weights.

    It is a module only so that `train()` and `eval()` reach it. In training each call draws a new
    partition, from a generator of its own that the global one seeds; in evaluation the global
    generator is left alone.
    """

    def __init__(self, attend, size, *, evaluate, draws, seed, layer, shard, redeal, recompute):
        super().__init__()
        self.attend, self.size, self.shard, self.redeal = attend, size, shard, redeal
        self.recompute = recompute
        counts = {"fixed": 1, "full": 0, "mean": draws}
        wrong = value_problems(Count, size, ("size",)) + value_problems(Count, draws, ("draws",))
        if wrong or evaluate not in counts:
            raise ZooError(
                f"random_batch(size={size!r}, evaluate={evaluate!r}, draws={draws!r}): size and "
                "draws are counts of at least 1, evaluate is 'fixed', 'full' or 'mean'."
            )
        self.keys = [(seed, layer, draw) for draw in range(counts[evaluate])]

    @property
    def by_sums(self) -> bool:
        """Whether evaluation needs nothing of other nodes but sums over all."""
        return not self.keys and is_by_sums(self.attend)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend from q to k, v, all (..., N, H, D), inside random batches of the N nodes."""
        if self.size >= q.shape[-3]:
            return self.attend(q, k, v)
        if self.training:
            seed = int(torch.randint(2**62, ()))
            return self._attended(q, k, v, partition(q.shape[-3], seed, device=q.device), seed)
        if not self.keys:
            return self.attend(q, k, v)
        # Drawn on the CPU, so that a model answers the same wherever it is loaded.
        orders = (partition(q.shape[-3], seed_of(key)).to(q.device) for key in self.keys)
        outs = [self._attended(q, k, v, order) for order in orders]
        return outs[0] if len(outs) == 1 else torch.stack(outs).mean(0)

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, order: Tensor, seed=None) -> Tensor:
        deal = Deal(order, self.size, shared=self.shard == "replicated")
        options = {"seed": seed, "recompute": self.recompute}
        return attend_in_batches(self.attend, q, k, v, deal, **options)


def partition(n: int, seed: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Return a random order of n nodes, (n,) int64, from a generator of its own."""
    identities = _identities.get()
    if identities is not None:
        return _by_identity(identities, n, seed).to(device)
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randperm(n, generator=generator, device=device)


def _by_identity(identities: Tensor, n: int, seed: int) -> Tensor:
    """Order the nodes by a number that each draws for itself (splitmix64 of identity and seed)."""
    if identities.shape != (n,):
        raise ZooError(
            f"node_identities: {tuple(identities.shape)} identities for {n} nodes; give one "
            "number to each node of a single graph."
        )
    keys = identities.cpu().numpy().astype(np.uint64)
    for added in (np.uint64(seed), np.uint64(0x9E3779B97F4A7C15)):
        keys = keys + added  # wraps around
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
        keys ^= keys >> np.uint64(31)
    return torch.from_numpy(np.argsort(keys, kind="stable"))


def seed_of(key: tuple[int, ...]) -> int:
    """Return a seed for a generator of its own, from the numbers that make it different."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
