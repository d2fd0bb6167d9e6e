"""Attention to a codebook: the means of groups of keys and values, kept from step to step.

"GOAT: A Global Transformer on Large-scale Graphs" (ICML 2023), its global half: k-means of the
nodes, whose centres are moved by exponential moving averages, and softmax attention to them, each
of which counts as many nodes as it stands for. Where it departs from the paper: groups are those of
the keys of each head, not of the features before their projection; and averages are mixed with the
nodes at hand before they are attended to, so that keys and values have their gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.nn.random_features import random_directions
from zoo.nn.sets import per_set
from zoo.ops.precision import in_fp32
from zoo.ops.ragged import Ragged

NONE = 1e-6
"""A group of fewer nodes, on average over the steps, is empty."""


class CodebookAttention(nn.Module):
    """softmax over m of q_i . c_m / sqrt(D) + log n_m, times u_m: M groups in the place of N nodes.

    n_m, c_m and u_m are how many nodes are in group m and the means of their keys and values, for
    each head. A node is in the group whose centre is nearest to its key. In a step of training sums
    and counts are mixed with those of the steps before, s = decay s_before + (1 - decay) s_now, and
    the centres are those of the mixture; gradients reach keys and values by s_now. The first step,
    and evaluation before it, groups the nodes at hand by centres of their mean and deviation.

    In training all sets share one codebook, and in evaluation it is the one that is kept, so that
    the nodes of a graph look at what it was trained on: a set is not attended to by itself. It has
    no weights; what is kept is in buffers, which are made in the first step, of the shape of what
    it is given. Several processes keep one each, of what they were given.

    Args:
        codes: M, groups.
        decay: share of what was before in the mixture, below 1.
        seed: of the first centres.
    """

    keeps_state = True
    takes_ragged = True
    names = ("counts", "keys", "values")

    def __init__(self, codes: int, *, decay: float, seed: int):
        super().__init__()
        self.codes, self.decay, self.seed = codes, decay, seed
        for name in self.names:
            self.register_buffer(name, torch.empty(0))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, ragged: Ragged | None = None) -> Tensor:
        """Attend from q to the groups of k and v, all (..., N, H, D); in fp32 at least."""
        attend = in_fp32(self._to_kept if self.training or self.counts.numel() else self._to_own)
        if ragged is not None and not (self.training or self.counts.numel()):
            return per_set(attend, ragged.sizes, q, k, v)
        return attend(q, k, v)

    def _to_own(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to the groups of the same set: nothing is kept yet."""
        return attend_to_groups(q, *group_sums(k, v, self._first(k)))

    def _to_kept(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend to the groups that are kept, in training after moving them."""
        kept = tuple(getattr(self, name).to(v) for name in self.names)
        queries, keys, values = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))  # of all sets
        if self.training and len(keys):
            first = not self.counts.numel()
            centres = self._first(keys) if first else means(*kept[:2])
            now = group_sums(keys, values, centres.detach())
            mixed = zip(kept, now, strict=True)
            kept = now if first else tuple(old.lerp(new, 1 - self.decay) for old, new in mixed)
            self._keep(kept)
        return attend_to_groups(queries, *kept).reshape(v.shape)

    @torch.no_grad()
    def _first(self, k: Tensor) -> Tensor:
        """Return the first centres (..., H, M, D): means and deviations of k, along directions."""
        directions = random_directions(self.codes, k.shape[-1], self.seed, k.device).to(k)
        middle, spread = k.mean(-3), k.std(-3, correction=0)  # (..., H, D)
        return middle.unsqueeze(-2) + spread.unsqueeze(-2) * directions

    @torch.no_grad()
    def _keep(self, sums: tuple[Tensor, ...]) -> None:
        for name, new in zip(self.names, sums, strict=True):
            kept = getattr(self, name)
            if kept.shape == new.shape:
                kept.copy_(new)
            else:
                setattr(self, name, new.detach().clone())

    def take_shapes(self, state: dict[str, Tensor], prefix: str) -> None:
        """Have buffers of the shapes of those that are to be loaded."""
        for name in self.names:
            kept, other = getattr(self, name), state.get(prefix + name)
            if other is not None and other.shape != kept.shape:
                setattr(self, name, kept.new_zeros(other.shape))

    def _load_from_state_dict(self, state_dict, prefix, *arguments):
        self.take_shapes(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def means(counts: Tensor, sums: Tensor) -> Tensor:
    """Return the mean of each group (..., H, M, D); far away where it is empty."""
    empty = (counts < NONE).unsqueeze(-1)
    return (sums / counts.clamp(min=NONE).unsqueeze(-1)).masked_fill(empty, torch.inf)


def group_sums(k: Tensor, v: Tensor, centres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts (..., H, M) and sums of keys and values (..., H, M, D) of the nearest centres.

    Args:
        k: keys (..., N, H, D).
        v: values (..., N, H, E).
        centres: (..., H, M, D), detached; an empty one is of infinite numbers.
    """
    with torch.no_grad():
        empty = centres.isinf().any(-1)  # (..., H, M)
        at = centres.masked_fill(empty.unsqueeze(-1), 0)
        distance = at.square().sum(-1).masked_fill(empty, torch.inf)
        near = distance.unsqueeze(-3) - 2 * torch.einsum("...nhd,...hmd->...nhm", k, at)
        group = near.argmin(-1, keepdim=True)
        belongs = torch.zeros_like(near).scatter_(-1, group, 1.0)  # (..., N, H, M)
    keys, values = (torch.einsum("...nhm,...nhd->...hmd", belongs, x) for x in (k, v))
    return belongs.sum(-3), keys, values


def attend_to_groups(q: Tensor, counts: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the softmax attention of q (..., N, H, D) to groups, each of as many nodes as it has.

    Args:
        q: queries.
        counts: (..., H, M) nodes of each group, at least one not empty.
        keys: (..., H, M, D) sums of their keys.
        values: (..., H, M, E) sums of their values.
    """
    empty = counts < NONE
    many = counts.masked_fill(empty, 1).unsqueeze(-1)
    scores = torch.einsum("...nhd,...hmd->...nhm", q, keys / many) * q.shape[-1] ** -0.5
    logs = counts.masked_fill(empty, 1).log().masked_fill(empty, -torch.inf)
    shares = (scores + logs.unsqueeze(-3)).softmax(-1)
    return torch.einsum("...nhm,...hme->...nhe", shares, values / many)
