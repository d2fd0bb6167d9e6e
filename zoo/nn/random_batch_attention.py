"""Random Batch Attention: any attention, inside random batches of the nodes.

"How Particle-System Random Batch Methods Enhance Graph Transformer" (arXiv 2511.06044): nodes are
dealt at random into batches of size p and attend inside each, O(N p) instead of O(N^2).

`random_batches` is its Algorithm 2 as it is written. `RandomBatchAttention` draws the order and
runs the algorithm by its fast twin, `zoo.ops.chunked_attention.attend_in_batches`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from zoo.config.options import Count, value_problems
from zoo.errors import ZooError
from zoo.ops.chunked_attention import (
    CHUNK_NUMBERS,
    Recompute,
    attend_in_batches,
    even_batches,
    private_draws,
)
from zoo.ops.global_sums import Sums, is_by_sums
from zoo.ops.pair_attention import Bias, PairBias, takes_bias
from zoo.ops.ragged import Ragged, takes_ragged
from zoo.ops.random_order import Kept, drawn, random_order, seed_of
from zoo.system.context import context
from zoo.system.memory import upload

Share = Literal["none", "replicated", "local"]
"""How several processes divide the batches among them, see `RandomBatchAttention`."""


def random_batches(
    attend,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    order: Tensor,
    size: int,
    bias: Bias | None = None,
) -> Tensor:
    """Return what nodes gather inside their random batches, (..., N, H, D).

    Algorithm 2 of Random Batch Attention (arXiv 2511.06044): permute, split, attend inside each
    batch, concatenate, un-permute. It departs from the paper in one point: where `size` does not
    divide N, the paper pads the nodes to a multiple of `size` and truncates the output; here the
    batches are even instead, differing by one node at most, and nothing is padded (docs/rba.md).

    Args:
        attend: an attention of sets; leading dimensions are separate sets.
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, D).
        order: a random permutation of the nodes, (N,).
        size: nodes per batch at most, p in the paper.
        bias: what `attend` is told of pairs; it is asked for those inside a batch alone.
    """
    if not len(order):
        return attend(q, k, v)
    permuted = [x.index_select(-3, order) for x in (q, k, v)]
    keywords = {}
    outs = []
    for rows, p in even_batches(len(order), size):  # of two sizes at most
        batches = [x[..., rows.start : rows.stop, :, :] for x in permuted]
        batches = [x.unflatten(-3, (-1, p)) for x in batches]  # (..., batches, p, H, D)
        if bias is not None:
            nodes = bias.nodes.index_select(-1, order[rows.start : rows.stop])
            keywords = {"bias": bias._replace(nodes=nodes.unflatten(-1, (-1, p)))}
        outs.append(attend(*batches, **keywords).flatten(-4, -3))
    return torch.cat(outs, dim=-3).index_select(-3, torch.argsort(order))


class RandomBatchAttention(nn.Module):
    """An attention inside random batches: `RandomBatchAttention(softmax, 512)(q, k, v)`.

    It has no weights, and is a module only so that `train()` and `eval()` reach it. In training
    each call draws new batches, from a generator of its own that the global one seeds; in
    evaluation the global generator is left alone.

    Args:
        attend: any attention; it is called on `(..., batches, size, H, D)`.
        size: nodes per batch, p in the paper. With `size >= N` the result is that of `attend`.
        inference: what happens in evaluation: one partition `fixed` by seed and layer, the `full`
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

    Raises:
        ZooError: a size or number of draws below 1, or an unknown word.

    >>> from zoo.nn import softmax
    >>> q, k, v = torch.randn(3, 1000, 4, 16)
    >>> RandomBatchAttention(softmax, 100)(q, k, v).shape
    torch.Size([1000, 4, 16])
    """

    def __init__(
        self,
        attend,
        size: int,
        *,
        inference: Literal["fixed", "full", "mean"] = "fixed",
        draws: int = 8,
        seed: int = 0,
        layer: int = 0,
        shard: Share = "none",
        redeal: int = 1,
        recompute: Recompute = "auto",
    ):
        super().__init__()
        self.attend, self.size, self.shard, self.redeal = attend, size, shard, redeal
        self.recompute = recompute
        counts = {"fixed": 1, "full": 0, "mean": draws}
        wrong = value_problems(Count, size, ("size",)) + value_problems(Count, draws, ("draws",))
        if wrong or inference not in counts:
            raise ZooError(
                f"rba: size={size!r}, inference={inference!r}, draws={draws!r}: size and draws are "
                "counts of at least 1, inference is 'fixed', 'full' or 'mean'."
            )
        for key, word, known in (("shard", shard, Share), ("recompute", recompute, Recompute)):
            for problem in value_problems(known, word, (key,)):
                raise ZooError(f"rba: {problem}.")
        self.seeds = [seed_of((seed, layer, draw)) for draw in range(counts[inference])]
        self._kept = Kept()

    @property
    def by_sums(self) -> bool:
        """Whether evaluation needs nothing of other nodes but sums over all."""
        return not self.seeds and is_by_sums(self.attend)

    @property
    def takes_ragged(self) -> bool:
        """Whether sets of several sizes are attended to in one call."""
        by_itself = self.shard != "replicated" and self.recompute is not True
        return by_itself and takes_ragged(self.attend)

    @property
    def takes_bias(self) -> PairBias:
        """What a batch is told of its pairs of nodes; nothing where processes share the nodes."""
        return takes_bias(self.attend) if self.shard == "none" else "none"

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        sums: Sums | None = None,
        ragged: Ragged | None = None,
        bias: Bias | None = None,
    ) -> Tensor:
        """Attend from q to k, v, all (..., N, H, D), inside random batches of the N nodes.

        `sums`, over all nodes, is for an `attend` that is `by_sums`, evaluated in `full`; `ragged`
        where q, k and v (N, H, D) are the rows of sets of several sizes; a `bias` for one that
        takes it, which then decides by itself what it keeps for the gradient.
        """
        keywords = {} if bias is None else {"bias": bias}
        if ragged is not None:
            return self._in_ragged_batches(q, k, v, ragged, keywords)
        n = q.shape[-3]
        if sums is not None:
            return self.attend(q, k, v, sums=sums)
        if self.size >= n or not (self.training or self.seeds):
            return self.attend(q, k, v, **keywords)
        if self.training:
            return self._in_batches(q, k, v, *_drawn_order(n, q.device), bias)
        outs = [self._in_batches(q, k, v, order, None, bias) for order in self._fixed(n, q.device)]
        return outs[0] if len(outs) == 1 else torch.stack(outs).mean(0)

    def _in_ragged_batches(
        self, q: Tensor, k: Tensor, v: Tensor, ragged: Ragged, keywords
    ) -> Tensor:
        """Attend in the batches of all sets at once; sets of one size are dealt alike."""
        dealt = [size for size in ragged.distinct() if size > self.size]
        if not dealt or not (self.training or self.seeds):
            return self.attend(q, k, v, ragged=ragged, **keywords)
        if self.training:
            draws = [_drawn_order(size, q.device) for size in dealt]
            partitions = [[order for order, _ in draws]]
            seed = draws[0][1]
        else:
            partitions = [*zip(*(self._fixed(size, q.device) for size in dealt), strict=True)]
            seed = None
        outs = []
        for orders in partitions:
            batches = ragged.divided(self.size, dict(zip(dealt, orders, strict=True)))
            with private_draws(seed, 0, v.device):
                outs.append(self.attend(q, k, v, ragged=batches, **keywords))
        return outs[0] if len(outs) == 1 else torch.stack(outs).mean(0)

    def _fixed(self, n: int, device: torch.device) -> Iterator[Tensor]:
        """Return the orders of evaluation, which are drawn once and kept.

        They are drawn on the CPU, so that a model answers the same wherever it is loaded.
        """
        for seed in self.seeds:
            draw = partial(_order, n, seed, device)
            renamed = context().identities is not None
            yield draw() if renamed else self._kept.get((n, seed, device), draw)

    def _in_batches(
        self, q, k, v, order: Tensor, seed: int | None = None, bias: Bias | None = None
    ) -> Tensor:
        """Run `random_batches`, by its fast twin where the device has one and nothing is traced."""
        traced = torch.compiler.is_compiling() and self.shard != "replicated"
        if traced or v.device.type not in CHUNK_NUMBERS:
            return random_batches(self.attend, q, k, v, order, self.size, bias)
        if bias is not None:
            with private_draws(seed, 0, v.device):
                return random_batches(self.attend, q, k, v, order, self.size, bias)
        return attend_in_batches(
            self.attend,
            *(q, k, v),
            order,
            self.size,
            shared=self.shard == "replicated",
            seed=seed,
            recompute=self.recompute,
        )


def _drawn_order(n: int, device: torch.device) -> tuple[Tensor, int | None]:
    return drawn(lambda seed: random_order(n, seed, device=device))


def _order(n: int, seed: int, device: torch.device) -> Tensor:
    return upload(random_order(n, seed), device)


def local_redeal(model: nn.Module) -> int | None:
    """Return after how many steps a model's nodes are dealt anew; None where they are not dealt."""
    inside = (module for module in model.modules() if isinstance(module, RandomBatchAttention))
    return next((module.redeal for module in inside if module.shard == "local"), None)
