"""Attention inside of the clusters of a graph: METIS parts in the place of random batches.

"Less is More: on the Over-Globalizing Problem in Graph Transformers" (arXiv 2405.01102, CoBFormer):
nodes attend inside of parts that cut few edges, and the means of the parts attend to each other.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from zoo.graphs.clusters import parts
from zoo.graphs.shard import Graph
from zoo.nn.sets import in_sets
from zoo.system.memory import upload


class ClusterAttention(nn.Module):
    """An attention inside of the clusters of a graph, cut by METIS once for each graph.

    out_i = attend(Q, K, V over the part c of i)_i, and with `means` besides
    + attend(means of Q, K, V over each part)_c. CoBFormer projects the means by weights of their
    own and joins the two by a linear map; an attention of the zoo has no weights: it adds them.

    It has no weights, and is a module only so that `train()` and `eval()` reach `attend`.

    Args:
        attend: an attention of sets.
        size: nodes per part, about: a graph of N nodes is cut into N / size parts, rounded up.
        parts: how many parts each graph is cut into instead; 0: as `size` says.
        means: let the means of the parts of a graph attend to each other as well.
    """

    takes_graph = True

    def __init__(self, attend, size: int, *, parts: int = 0, means: bool = False):
        super().__init__()
        self.attend, self.size, self.parts, self.means = attend, size, parts, means

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, graph: Graph | None = None) -> Tensor:
        """Attend from q to k, v, all (N, H, D), inside the parts of each graph of a batch.

        Without a graph there is no edge to cut: a set (..., N, H, D) is one part.
        """
        if graph is None:
            return self.attend(q, k, v)
        found, order = parts(graph, self.size, v.device, self.parts)
        sizes = [size for each in found for size in each]
        out = in_sets(self.attend, sizes, order, q, k, v)
        if not self.means:
            return out
        counts, owner = _owners(tuple(sizes), v.device)
        if order is not None:
            owner = torch.empty_like(owner).index_copy_(0, order, owner)
        averages = (
            x.new_zeros(len(sizes), *x.shape[1:]).index_add(0, owner, x) / counts.view(-1, 1, 1)
            for x in (q, k, v)
        )
        between = in_sets(self.attend, [len(each) for each in found], None, *averages)
        return out + between.index_select(0, owner)


@functools.lru_cache(8)  # layers of a step ask for the same
@torch.inference_mode(False)
def _owners(sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the nodes of each part, and the part of each node, part after part."""
    counts = torch.tensor(sizes)
    owner = torch.repeat_interleave(counts, output_size=sum(sizes))
    return upload(counts, device), upload(owner, device)
