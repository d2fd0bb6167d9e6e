"""Sets of several sizes, whose rows stand one set after the other, without a loop over the sizes.

The rows are copied to where each set has room for all of its own, in one of two ways: `Blocks` of a
few rows, several for a large set, whose sums are added up; or `Buckets` of sets of like size, for
what looks at pairs of rows. Both have little room to spare, and take few calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.ops.global_sums import has_mark
from zoo.system.memory import upload

BLOCK = 16
"""Rows of a block: the fewer, the fewer zeros, and the more sums to be added up."""

BUCKET_ROWS, BUCKET_PAIRS = 300, 100
"""What one more bucket takes as long as, in rows; how many pairs of rows take as long as a row."""


class Ragged(NamedTuple):
    """How many of N rows belong to each set.

    Attributes:
        sizes: rows of each set, at least 1; their sum is N.
        device: where the rows are.
        order: (N,) the rows, set after set; None where they stand so.
    """

    sizes: tuple[int, ...]
    device: torch.device
    order: Tensor | None = None

    def blocks(self) -> Blocks:
        """Return the sets cut into blocks of a few rows."""
        blocks = _blocks(self.sizes, self.device)
        return blocks._replace(places=self._ordered(blocks.places))

    def buckets(self) -> Buckets:
        """Return the sets put together by their sizes."""
        buckets = _buckets(self.sizes, self.device)
        rows = buckets.rows if self.order is None else self.order[buckets.rows]
        return buckets._replace(rows=rows, places=self._ordered(buckets.places))

    def distinct(self) -> list[int]:
        """Return the sizes that occur, ascending."""
        return sorted(set(self.sizes))

    def divided(self, size: int, orders: Mapping[int, Tensor]) -> Ragged:
        """Return the sets divided into sets of at most `size` rows that differ by one at most.

        Args:
            size: the most rows.
            orders: for each size of a set that is larger, the order (n,) in which its rows are
                divided.
        """
        parts, rows, first = _divided(self.sizes, size, self.device)
        ranges = torch.arange(size, device=self.device)
        table = torch.cat([ranges, *(orders[n] for n in self.distinct() if n > size)])
        order = table[rows] + first
        return Ragged(parts, self.device, order if self.order is None else self.order[order])

    def _ordered(self, places: Tensor) -> Tensor:
        """Return where each row goes, for where the rows of each set go, (N,) both."""
        if self.order is None:
            return places
        return torch.empty_like(places).index_copy_(0, self.order, places)


class Blocks(NamedTuple):
    """Blocks of rows, some of a set each, zeros behind the last rows of a set.

    A block is a set of its own to an attention, which brings those of one set together by
    `sum_over_nodes`, as where only some of the nodes are at hand: see `zoo.ops.global_sums`.

    Attributes:
        places: (N,) where each row goes among those of all blocks.
        owners: (B,) the set of each block, ascending.
        count: (B, 1, 1, 1) fp32, how many rows this set has.
        filled: (B, P, 1, 1) bool, where there is a row.
        sets: how many there are.
    """

    places: Tensor
    owners: Tensor
    count: Tensor
    filled: Tensor
    sets: int

    def cut(self, x: Tensor) -> Tensor:
        """Return rows (N, ...) in blocks, (B, P, ...)."""
        return _Spread.apply(x, self.places, self.filled.numel()).unflatten(
            0, self.filled.shape[:2]
        )

    def join(self, x: Tensor) -> Tensor:
        """Return the rows (N, ...) of blocks (B, P, ...)."""
        return _Gather.apply(x.flatten(0, 1), self.places)

    def total(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Return the sums over the blocks of the set of each block, for sums (B, ...)."""
        return tuple(_Total.apply(part, self.owners, self.sets) for part in parts)

    def rows(self, x: Tensor) -> Tensor:
        """Return how many rows the set of each block has, (B, 1, 1, 1)."""
        return self.count

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean over the rows of a set, (B, 1, H, D), for x (B, P, H, D)."""
        filled = self.filled.squeeze(-1).to(x.dtype)  # (B, P, 1)
        (sums,) = self.total(torch.einsum("bphd,bpx->bxhd", x, filled))
        return sums / self.count

    def largest(self, x: Tensor) -> Tensor:
        """Return the largest over the rows of a set, (B, 1, ...), for x (B, P, ...)."""
        x = x.amax(1, keepdim=True)
        owners = self.owners.view(-1, *(1,) * (x.dim() - 1)).expand_as(x)
        peaks = x.new_full((self.sets, *x.shape[1:]), -torch.inf)
        return peaks.scatter_reduce(0, owners, x, "amax").index_select(0, self.owners)

    def only(self, x: Tensor, other: float) -> Tensor:
        """Return x (B, P, H, D), another number where there is no row."""
        return x.masked_fill(~self.filled, other)

    def averages(self, logs: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the averages of v by exp(logs), (B, H, M, E), and their log sums, (B, 1, H, M).

        Args:
            logs: (B, P, H, M), -inf where there is no row.
            v: (B, P, H, E).
        """
        peaks = self.largest(logs.detach())
        terms = (logs - peaks).exp_()
        sums, averages = self.total(terms.sum(1, keepdim=True), _state(terms, v))
        return averages / sums.squeeze(1).unsqueeze(-1), sums.log() + peaks


class Even:
    """What `Blocks` does, of sets of one size each, (..., N, H, D), which are left as they are."""

    @staticmethod
    def cut(x: Tensor) -> Tensor:
        """Return x."""
        return x

    join = cut

    @staticmethod
    def total(*parts: Tensor) -> tuple[Tensor, ...]:
        """Return the parts."""
        return parts

    @staticmethod
    def rows(x: Tensor) -> int:
        """Return how many rows each set has."""
        return x.shape[-3]

    @staticmethod
    def mean(x: Tensor) -> Tensor:
        """Return the mean over the rows of each set, (..., 1, H, D)."""
        return x.mean(-3, keepdim=True)

    @staticmethod
    def only(x: Tensor, other: float) -> Tensor:
        """Return x: no row is missing."""
        return x

    @staticmethod
    def averages(logs: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the averages of v by exp(logs), (..., H, M, E), and their log sums."""
        sums = logs.logsumexp(-3, keepdim=True)  # (..., 1, H, M)
        return _state(logs.softmax(-3), v), sums


def _state(k: Tensor, v: Tensor) -> Tensor:
    """Return k^T v of each head, (..., H, M, E)."""
    return torch.einsum("...nhm,...nhe->...hme", k, v)


class Buckets(NamedTuple):
    """Sets of like size side by side; a smaller one repeats its first row behind the others.

    Attributes:
        rows: which row is in each place of all buckets.
        places: (N,) where each row is among these, for the first time.
        shapes: how many sets, and rows of each, a bucket has.
        masks: (S, 1, 1, P) fp32 of each bucket, -inf where there is no row; None where all are.
    """

    rows: Tensor
    places: Tensor
    shapes: tuple[tuple[int, int], ...]
    masks: tuple[Tensor | None, ...]

    def cut(self, x: Tensor) -> Iterator[Tensor]:
        """Give the sets of each bucket, (S, P, ...), of rows (N, ...).

        Rows that are repeated are to be left out: no gradient comes back from them.
        """
        counts = [sets * rows for sets, rows in self.shapes]
        parts = _Repeat.apply(x, self.rows, self.places).split(counts)
        return (part.unflatten(0, shape) for part, shape in zip(parts, self.shapes, strict=True))

    def join(self, parts: list[Tensor]) -> Tensor:
        """Return the rows (N, ...) of the sets of each bucket, (S, P, ...)."""
        return _Gather.apply(torch.cat([part.flatten(0, 1) for part in parts]), self.places)


def sets_of(ragged: Ragged | None) -> Blocks | Even:
    """Return how the rows of sets are put together, of several sizes or, None, of one."""
    return Even() if ragged is None else ragged.blocks()


def for_ragged(attend: Callable) -> Callable:
    """Mark an attention `(q, k, v, *, ragged=None)` that takes sets of several sizes in one call.

    It is then given q, k and v (N, H, D) with the rows of all sets, and a `Ragged`.
    """
    attend.takes_ragged = True
    return attend


def takes_ragged(attend: Callable) -> bool:
    """Return whether an attention is marked, with some of its options given or none."""
    return has_mark(attend, "takes_ragged")


class _Spread(torch.autograd.Function):
    """Rows (N, ...) in their places among `count` rows, the others 0."""

    @staticmethod
    def forward(ctx, x, places, count):
        ctx.save_for_backward(places)
        return x.new_zeros(count, *x.shape[1:]).index_copy_(0, places, x)

    @staticmethod
    def backward(ctx, grad):
        return _Gather.apply(grad, *ctx.saved_tensors), None, None


class _Gather(torch.autograd.Function):
    """The rows in some places, each of which is one row's: quicker back than `index_select`."""

    @staticmethod
    def forward(ctx, x, places):
        ctx.save_for_backward(places)
        ctx.count = len(x)
        return x.index_select(0, places)

    @staticmethod
    def backward(ctx, grad):
        return _Spread.apply(grad, *ctx.saved_tensors, ctx.count), None


class _Repeat(torch.autograd.Function):
    """Rows (N, ...) in all of their places, those of the first of which have the gradient."""

    @staticmethod
    def forward(ctx, x, rows, places):
        ctx.save_for_backward(places)
        return x.index_select(0, rows)

    @staticmethod
    def backward(ctx, grad):
        return _Gather.apply(grad, *ctx.saved_tensors), None, None


class _Total(torch.autograd.Function):
    """The sum over all rows of the same owner, for each row."""

    @staticmethod
    def forward(ctx, x, owners, count):
        ctx.save_for_backward(owners)
        ctx.count = count
        return x.new_zeros(count, *x.shape[1:]).index_add_(0, owners, x).index_select(0, owners)

    @staticmethod
    def backward(ctx, grad):
        return _Total.apply(grad, *ctx.saved_tensors, ctx.count), None, None


@functools.lru_cache(8)  # layers of a step ask for the same
@torch.inference_mode(False)
def _blocks(sizes: tuple[int, ...], device: torch.device) -> Blocks:
    counts = torch.tensor(sizes)
    many = (counts + BLOCK - 1) // BLOCK
    owners = torch.repeat_interleave(many)
    total = BLOCK * len(owners)
    places = _places(counts, BLOCK * (many.cumsum(0) - many))
    filled = torch.zeros(total, dtype=torch.bool).index_fill_(0, places, True)
    parts = (
        places,
        owners,
        counts[owners].float().view(-1, 1, 1, 1),
        filled.view(-1, BLOCK, 1, 1),
    )
    return Blocks(*(upload(part, device) for part in parts), len(sizes))


@functools.lru_cache(8)
@torch.inference_mode(False)
def _divided(
    sizes: tuple[int, ...], most: int, device: torch.device
) -> tuple[tuple[int, ...], Tensor, Tensor]:
    """Return the sizes of all parts, and of each row (N,) where it and its set begin.

    Where it begins is a number of a table: 0 to `most` - 1, and the orders of larger sizes.
    """
    larger = [size for size in sorted(set(sizes)) if size > most]
    begins = dict(zip(larger, np.cumsum([most, *larger]).tolist(), strict=False))
    counts = torch.tensor(sizes)
    rows = _places(counts, torch.tensor([begins.get(size, 0) for size in sizes]))
    first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    parts = []
    for size in sizes:
        small, more = divmod(size, -(-size // most))  # `more` parts hold one row more
        parts += [small + 1] * more + [small] * (-(-size // most) - more)
    return tuple(parts), upload(rows, device), upload(first, device)


@functools.lru_cache(8)
@torch.inference_mode(False)
def _buckets(sizes: tuple[int, ...], device: torch.device) -> Buckets:
    shapes = _bucket_shapes(sizes)
    counts = torch.tensor(sizes)
    by_size, order = counts.sort(stable=True)
    sets, rows = torch.tensor(shapes).unbind(1)
    room = rows.repeat_interleave(sets)  # (S,) by size
    start = torch.empty_like(counts).index_copy_(0, order, room.cumsum(0) - room)
    places = _places(counts, start)
    repeated = (counts.cumsum(0) - counts)[order].repeat_interleave(room)
    repeated[places] = torch.arange(len(places))
    masks = []
    for own, most in zip(by_size.split(sets.tolist()), rows.tolist(), strict=True):
        lacking = torch.arange(most) >= own.view(-1, 1, 1, 1)
        mask = torch.zeros(lacking.shape).masked_fill_(lacking, -torch.inf)
        masks.append(upload(mask, device) if lacking.any() else None)
    return Buckets(upload(repeated, device), upload(places, device), shapes, tuple(masks))


def _places(counts: Tensor, start: Tensor) -> Tensor:
    """Return start, start + 1, ..., start + count - 1 of each set, one set after the other."""
    first = torch.repeat_interleave(start - (counts.cumsum(0) - counts), counts)
    return first + torch.arange(len(first))


def _bucket_shapes(sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return sets and rows of each bucket, so that zeros and calls together take least time."""
    rows, sets = np.unique(sizes, return_counts=True)
    before = np.concatenate([[0], np.cumsum(sets)])
    least, first = np.zeros(len(before)), np.zeros(len(before), dtype=int)
    for last, most in enumerate(rows, 1):  # the best buckets of the sizes up to each
        padded = (before[last] - before[:last]) * (most + most**2 / BUCKET_PAIRS)
        times = least[:last] + BUCKET_ROWS + padded
        first[last] = times.argmin()
        least[last] = times[first[last]]
    shapes, last = [], len(rows)
    while last:
        shapes.append((int(before[last] - before[first[last]]), int(rows[last - 1])))
        last = first[last]
    return tuple(shapes[::-1])
