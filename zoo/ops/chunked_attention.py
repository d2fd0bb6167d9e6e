"""Attention inside random batches, a chunk of batches at a time: the fast twin of `random_batches`.

A chunk of batches is gathered, attended to and scattered back while it is in the caches of the
processor: the permuted rows of all batches never exist at once. The gradient of each chunk is
scattered likewise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from zoo.errors import ZooError
from zoo.ops.second_gradients import second_gradients
from zoo.registry import as_values
from zoo.system import process_group
from zoo.system.context import context, using

CHUNK_NUMBERS = {"cpu": 2**18, "cuda": 2**26}
"""Numbers in the values of a chunk of batches; on the CPU no more than its caches hold."""


_KEPT = 2**30
"""Bytes of what an attention keeps for its gradient, on a CPU, beyond which it attends again."""

Recompute = Literal["auto"] | bool
"""Whether to attend again for the gradient; `auto` asks how much memory it saves."""


class EvenBatches(NamedTuple):
    """Batches of one size, side by side in a random order: the rows they take up."""

    rows: range
    size: int


class Deal:
    """Which row goes to which batch, and which batch to which process.

    Args:
        order: (N,) a random permutation of the rows.
        size: rows in a batch at most; batches differ by one at most.
        shared: whether the processes have a share of the batches each, instead of all of them.
    """

    def __init__(self, order: Tensor, size: int, *, shared: bool):
        every = even_batches(len(order), size)
        count = process_group.count() if shared else 1
        shares = [_share(every, rank, count) for rank in range(count)]
        self.order, self.shared = order, count > 1
        self.own = shares[process_group.rank()] if self.shared else every
        self.sizes = [sum(len(batches.rows) for batches in share) for share in shares]
        if self.shared:
            stretches = [batches.rows for share in shares for batches in share]
            numbers = torch.arange(len(order), device=order.device)
            dealt = order[
                torch.cat([numbers[batches.start : batches.stop] for batches in stretches])
            ]
            self.places = torch.empty_like(order)
            self.places[dealt] = numbers

    def chunks(self, x: Tensor) -> Iterator[Chunk]:
        """Iterate over the batches of this process, a chunk at a time.

        Args:
            x: values (..., N, H, D), whose size and device say how many batches a chunk has.
        """
        device, done = x.device, 0
        per_row = max(1, x.numel() // max(1, len(self.order)))
        for batches, size in self.own:
            few = max(1, CHUNK_NUMBERS[device.type] // (per_row * size)) * size
            for start in range(batches.start, batches.stop, few):
                rows = self.order[start : min(start + few, batches.stop)].to(device)
                own = torch.arange(done, done + len(rows), device=device)
                yield Chunk(start, rows, own if self.shared else rows, size)
                done += len(rows)

    @property
    def rows(self) -> int:
        """Return how many rows this process has."""
        return self.sizes[process_group.rank()] if self.shared else len(self.order)

    def room(self, x: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """Return room for what becomes of the rows of this process, on the device of x."""
        return x.new_empty(*shape[:-3], self.rows, *shape[-2:], dtype=dtype)

    def collect(self, x: Tensor) -> Tensor:
        """Return what all processes made of their rows, in place, (..., N, H, D)."""
        if not self.shared:
            return x
        everyone = process_group.gather(x.movedim(-3, 0), self.sizes).movedim(0, -3)
        return everyone.index_select(-3, self.places.to(x.device))


class Chunk(NamedTuple):
    """A few batches of one size.

    Attributes:
        start: where their rows begin in the random order.
        rows: (m,) the rows, batch after batch.
        places: (m,) where what becomes of them is put.
        size: rows in each batch.
    """

    start: int
    rows: Tensor
    places: Tensor
    size: int

    def take(self, x: Tensor) -> Tensor:
        """Return the rows of x (..., N, H, D) in their batches, (..., m / size, size, H, D)."""
        return x.index_select(-3, self.rows).unflatten(-3, (-1, self.size))

    def take_into(self, room: Tensor, x: Tensor) -> None:
        """Fill a tensor whose memory was given back with what `take` returned."""
        room.untyped_storage().resize_(room.numel() * room.element_size())
        torch.index_select(x.detach(), -3, self.rows, out=room.data.flatten(-4, -3))

    def put(self, x: Tensor, room: Tensor) -> None:
        """Write batches (..., m / size, size, H, D) where they belong."""
        room.index_copy_(-3, self.places, x.flatten(-4, -3).to(room.dtype))


def even_batches(n: int, size: int) -> list[EvenBatches]:
    """Cut n rows into batches of at most `size` that differ by one at most, the larger first."""
    small, larger = divmod(n, max(1, -(-n // size)))  # `larger` batches hold one node more
    cut = larger * (small + 1)
    both = EvenBatches(range(0, cut), small + 1), EvenBatches(range(cut, n), small)
    return [batches for batches in both if batches.rows]


def _share(stretches: list[EvenBatches], rank: int, count: int) -> list[EvenBatches]:
    """Return the batches of one process: as many as the others have, or one more or less."""
    counts = [len(rows) // size for rows, size in stretches]
    first, last = (sum(counts) * part // count for part in (rank, rank + 1))
    share = []
    for many, (rows, size) in zip(counts, stretches, strict=True):
        start, stop = (size * min(max(bound, 0), many) for bound in (first, last))
        share.append(EvenBatches(rows[start:stop], size))
        first, last = first - many, last - many
    return [batches for batches in share if batches.rows]


def attend_in_batches(
    attend: Callable,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    order: Tensor,
    size: int,
    *,
    shared: bool = False,
    seed: int | None = None,
    recompute: Recompute = "auto",
) -> Tensor:
    """Return what `attend` makes of each batch, every row in its place, (..., N, H, D).

    Args:
        attend: an attention; it may draw numbers.
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, D).
        order: a random permutation of the nodes, (N,).
        size: nodes per batch at most.
        shared: whether the processes attend in a share of the batches each and exchange outputs.
        seed: of what the attention draws, so that the global generators are left alone; None
            where it draws nothing.
        recompute: attend again for the gradient, instead of keeping all that it needs; `auto`
            where that would be more than a GiB on a CPU.
    """
    deal = Deal(order, size, shared=shared)
    tracked = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    device = v.device.type
    modes = {"auto": "auto" if device == "cpu" else "graph", True: "inputs", False: "graph"}
    keep = modes[recompute] if tracked else "nothing"
    if keep in ("auto", "graph") and _kept_by_others():
        keep = "inputs"
    widths = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def attend_chunk(chunk: Chunk, inputs: Sequence[Tensor], gradient: bool | None):
        own = [chunk.take(x) for x in inputs]  # None: a part of their graph
        if gradient is not None:
            own = [x.detach().requires_grad_(gradient) for x in own]
        with (
            torch.set_grad_enabled(gradient is not False),
            torch.autocast(device, widths[1], enabled=widths[0]),
            private_draws(seed, chunk.start, v.device),
        ):
            return own, as_values(attend(*own), own[-1])

    return _InBatches.apply(attend_chunk, deal, keep, q, k, v)


class _InBatches(torch.autograd.Function):
    """Each chunk has an autograd graph of its own, kept until the backward pass, or made again.

    Of a kept graph the inputs are freed, and gathered again in the backward pass. Whether graphs
    are kept may depend on the bytes that the first chunk's keeps.
    """

    @staticmethod
    def forward(ctx, attend_chunk, deal, keep, q, k, v):
        ctx.attend_chunk, ctx.deal = attend_chunk, deal
        ctx.like = [(x.shape, x.dtype) for x in (q, k, v)]
        ctx.save_for_backward(*(() if keep == "nothing" else (q, k, v)))
        ctx.graphs, room = {}, deal.room(v, v.shape, v.dtype)
        for chunk in deal.chunks(v):
            with _counting(keep == "auto") as kept:
                own, out = attend_chunk(chunk, (q, k, v), keep in ("auto", "graph"))
            chunk.put(out.detach(), room)
            if keep == "auto":
                own_storages = {_storage(x) for x in own}
                size = sum(size for storage, size in kept.items() if storage not in own_storages)
                rows = max(deal.rows, context().rows)
                keep = "graph" if size * rows <= _KEPT * len(chunk.rows) else "inputs"
            if keep == "graph":
                for x in own:  # a copy of rows that are held elsewhere: taken again
                    x.untyped_storage().resize_(0)
                ctx.graphs[chunk.start] = (own, out)
        return deal.collect(room)

    @staticmethod
    def backward(ctx, gradient):
        if torch.is_grad_enabled():
            again = partial(_whole, ctx)
            return None, None, None, *second_gradients(again, ctx.saved_tensors, gradient)
        rooms = [ctx.deal.room(gradient, *like) for like in ctx.like]
        inputs = ctx.saved_tensors
        for chunk in ctx.deal.chunks(gradient):
            if chunk.start in ctx.graphs:
                own, out = ctx.graphs.pop(chunk.start)
                for copy, x in zip(own, inputs, strict=True):
                    chunk.take_into(copy, x)
            else:
                own, out = ctx.attend_chunk(chunk, inputs, True)
            if out.requires_grad:  # also where the attention looks at nothing but itself
                torch.autograd.backward(out, chunk.take(gradient).to(out.dtype))
            for copy, room in zip(own, rooms, strict=True):
                chunk.put(torch.zeros_like(copy) if copy.grad is None else copy.grad, room)
        return None, None, None, *(ctx.deal.collect(room) for room in rooms)


def _whole(ctx, *inputs: Tensor) -> Tensor:
    """Return the output as autograd knows it all through, of all chunks at once."""
    if ctx.deal.shared:
        raise ZooError("what processes share has no second gradients; write `shard: none`.")
    chunks = [*ctx.deal.chunks(inputs[-1])]
    with sdpa_kernel(SDPBackend.MATH):  # torch's other softmaxes have no second gradients
        outs = [ctx.attend_chunk(chunk, inputs, None)[1].flatten(-4, -3) for chunk in chunks]
    rows = torch.cat([chunk.rows for chunk in chunks])
    return torch.cat(outs, dim=-3).index_select(-3, rows.argsort())


def _kept_by_others() -> bool:
    """Return whether what is kept for gradients goes to others, as in `torch.utils.checkpoint`."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


@contextlib.contextmanager
def _counting(enabled: bool) -> Iterator[dict[int, int]]:
    """Give the bytes that are kept for gradients inside, by the storage that they lie in."""
    kept: dict[int, int] = {}
    if not enabled:
        yield kept
        return

    def note(x: Tensor) -> Tensor:
        kept[_storage(x)] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        yield kept


def _storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


@contextlib.contextmanager
def private_draws(seed: int | None, start: int, device: torch.device) -> Iterator[None]:
    """Draw from generators of a seed of their own, and give the global ones back as they were."""
    if seed is None:
        with using(draws=None):
            yield
        return
    devices = [device] if device.type == "cuda" else []
    with using(draws=None), torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed((seed + start) % 2**63)
        for device in devices:
            with torch.cuda.device(device):  # the one of this process, which need not be the first
                torch.cuda.manual_seed((seed + start) % 2**63)
        yield
