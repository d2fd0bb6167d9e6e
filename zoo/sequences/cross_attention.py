"""Attention from the places of one sequence to those of another, by name.

A cross attention maps queries (R, T, H, D), keys (R, S, H, D), values (R, S, H, E) and which keys
there are, (R, S) bool, to (R, T, H, E). What it knows of keys and values it can `remember`, so that
queries may come one place at a time; nothing of it depends on the queries.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from zoo.config.options import Count, Spec, Table, pick
from zoo.sequences.kernel_attention import Kernel, Memory


class KernelCross(nn.Module):
    """By a kernel: linear in S and T, see `zoo.sequences.kernel_attention`."""

    def __init__(self, kernel: Kernel):
        super().__init__()
        self.kernel = kernel

    def forward(self, q: Tensor, k: Tensor, v: Tensor, present: Tensor) -> Tensor:
        """Return (R, T, H, E)."""
        queries, keys = self.kernel(q, k)
        out = Memory.of(keys, v.to(keys.dtype), present).read(queries, self.kernel.floor)
        return out.to(v.dtype)

    def within(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return (..., N, H, E): an attention of whole sets, all of q, k and v (..., N, H, D)."""
        sets = [x.reshape(-1, *x.shape[-3:]) for x in (q, k, v)]
        return self(*sets, sets[0].new_ones(sets[0].shape[:2], dtype=torch.bool)).view(v.shape)

    def remember(self, k: Tensor, v: Tensor, present: Tensor) -> Memory:
        """Return what is read of keys and values."""
        keys = self.kernel.keys(k)
        return Memory.of(keys, v.to(keys.dtype), present)

    def read(self, q: Tensor, memory: Memory) -> Tensor:
        """Return (R, T, H, E) of what has been remembered."""
        return memory.read(self.kernel.queries(q), self.kernel.floor)


class KeysAndValues(NamedTuple):
    """Keys (R, S, H, D) and values (R, S, H, E), and which of them there are, (R, S)."""

    keys: Tensor
    values: Tensor
    present: Tensor

    def select(self, rows: Tensor) -> Self:
        """Return those of some of the R, any of them more than once."""
        return type(self)(*(tensor.index_select(0, rows) for tensor in self))


class SoftmaxCross(nn.Module):
    """By the softmax over j of q_i . k_j / sqrt(D), (arXiv 1706.03762), equation 1: T x S."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, present: Tensor) -> Tensor:
        """Return (R, T, H, E); 0 where no key is present."""
        scores = torch.einsum("rthd,rshd->rhts", q, k) * q.shape[-1] ** -0.5
        there = present[:, None, None, :]
        weights = scores.masked_fill(~there, torch.finfo(scores.dtype).min).softmax(-1)
        return torch.einsum("rhts,rshe->rthe", (weights * there).to(v.dtype), v)

    def remember(self, k: Tensor, v: Tensor, present: Tensor) -> KeysAndValues:
        """Return what is read of keys and values: they themselves."""
        return KeysAndValues(k, v, present)

    def read(self, q: Tensor, memory: KeysAndValues) -> Tensor:
        """Return (R, T, H, E) of what has been remembered."""
        return self(q, *memory)


class RandomBatchCross(nn.Module):
    """Another cross attention inside random batches (arXiv 2511.06044), of both sequences at once.

    Queries and keys are dealt at random into as many batches, of at most `size` places each, drawn
    anew in every training call; the queries of a batch see its keys. The keys that there are of a
    sequence are dealt evenly, so that no query is without one. Evaluation sees all keys.
    """

    def __init__(self, inner: KernelCross | SoftmaxCross, size: int):
        super().__init__()
        self.inner, self.size = inner, size

    def forward(self, q: Tensor, k: Tensor, v: Tensor, present: Tensor) -> Tensor:
        """Return (R, T, H, E)."""
        many = -(-max(q.shape[1], k.shape[1]) // self.size)
        if not self.training or many == 1:
            return self.inner(q, k, v, present)
        order = torch.randperm(q.shape[1], device="cpu").to(q.device)
        key_order, there = _deal_keys(present, many)
        outs = []
        for batch, rows in enumerate(order.tensor_split(many)):
            slots = slice(batch, None, many)
            keys, values = (x.take_along_dim(key_order[:, slots, None, None], 1) for x in (k, v))
            outs.append(self.inner(q[:, rows], keys, values, there[:, slots]))
        return torch.cat(outs, 1).index_select(1, order.argsort())

    def remember(self, k: Tensor, v: Tensor, present: Tensor) -> Memory | KeysAndValues:
        """Return what is read of keys and values."""
        return self.inner.remember(k, v, present)

    def read(self, q: Tensor, memory: Memory | KeysAndValues) -> Tensor:
        """Return (R, T, H, E) of what has been remembered."""
        return self.inner.read(q, memory)


def _deal_keys(present: Tensor, many: int) -> tuple[Tensor, Tensor]:
    """Return keys dealt at random, slot j to batch j modulo `many`, and which slots hold one.

    The slots of each sequence (R, L) begin with the keys that are `present`, (R, S); of fewer keys
    than batches some are dealt several times.
    """
    draws = torch.rand(present.shape, device="cpu").to(present.device)
    order = draws.masked_fill(~present, 2.0).argsort(1)
    count = present.sum(1, keepdim=True)
    slots = torch.arange(max(many, present.shape[1]), device=present.device)
    there = (slots < count.clamp(min=many)) & (count > 0)
    return order.gather(1, slots % count.clamp(min=1)), there


Cross = KernelCross | SoftmaxCross | RandomBatchCross


def _native(kernel: Kernel) -> KernelCross:
    """The model's own kernel; time T + S."""
    return KernelCross(kernel)


def _softmax(kernel: Kernel) -> SoftmaxCross:
    """Softmax over all keys; time T * S."""
    return SoftmaxCross()


def _rba(
    kernel: Kernel, *, size: Count = 512, inner: Literal["native", "softmax"] = "softmax"
) -> RandomBatchCross:
    """Random batches of both sequences in training, all keys in evaluation; time T * size.

    Args:
        size: places of either sequence in a batch at most.
        inner: the cross attention inside a batch.
    """
    return RandomBatchCross(CROSS_ATTENTIONS[inner](kernel), size)


CROSS_ATTENTIONS = Table("cross attention", {"native": _native, "softmax": _softmax, "rba": _rba})
"""Word to builder `(kernel, *, options) -> cross attention`."""

CrossSpec = Annotated[Spec, CROSS_ATTENTIONS]
"""The type of an option `cross`."""


def build_cross(spec: Spec, kernel: Kernel) -> Cross:
    """Return the cross attention that a word of `CROSS_ATTENTIONS` names.

    Raises:
        ZooError: an unknown word or option.
    """
    return pick(CROSS_ATTENTIONS, spec, kernel)
