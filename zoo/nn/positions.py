"""Positions of tokens: rotations of queries and keys, sinusoids, eigenvectors of a path.

These are the parts of a hierarchical relative encoding on sequences, of which there may be several
in a batch, one after the other and without padding. Angles are found in double precision: in single
precision those of position 65,536 would be wrong in the third digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.graphs.adjacency import node_counts
from zoo.graphs.shard import Graph, Shard
from zoo.ops.precision import wide


def rotation(
    positions: Tensor, width: int, *, base: float = 10000.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return how far `rotate` turns each pair of columns, e^(i p w_f), (N, D // 2) complex.

    Its real part is the cosine and its imaginary part the sine of the angle; w_f = base^(-2 f / D)
    for f = 0 to D // 2 - 1. Found once, it serves all layers and heads.

    Args:
        positions: (N,).
        width: D, columns of a head's queries and keys.
        base: the longest wave is that of 2 pi base positions, nearly.
        dtype: of the queries; the angles are in fp32, or in fp64 where these are so.
    """
    angles = _angles(positions, width // 2, width, base)
    kind = torch.promote_types(dtype, torch.float32)
    return torch.complex(angles.cos().to(kind), angles.sin().to(kind))


def rotate(x: Tensor, by: Tensor) -> Tensor:
    """Return queries or keys with each pair of columns turned, in the shape and type of x.

    RoFormer (arXiv 2104.09864), equation 34: columns 2 f and 2 f + 1 turn by the angle p w_f of
    the token's position p; a last odd column stays. The product of a rotated query at i and a
    rotated key at j is a function of i - j, with w = w_f and summed over f:
    (q_1 k_1 + q_2 k_2) cos((i - j) w) + (q_1 k_2 - q_2 k_1) sin((i - j) w).
    So is any attention of them relative, in linear time where the attention is: no N x N x D table
    of sinusoids of i - j is ever made. Half precision is turned in fp32.

    Args:
        x: (..., N, H, D).
        by: (N, D // 2), from `rotation`.

    Raises:
        ZooError: the rotation is that of another width.
    """
    pairs = x.shape[-1] // 2
    if by.shape[-1] != pairs:
        raise ZooError(
            f"a rotation of {by.shape[-1]} pairs of columns does not fit queries and keys of width "
            f"{x.shape[-1]}. Write `rotation(positions, {x.shape[-1]})`."
        )
    if not pairs:
        return x
    even = wide(x[..., : 2 * pairs]).contiguous()
    if even.storage_offset() % 2:  # a complex number begins at an even place
        even = even.clone()
    turned = torch.view_as_complex(even.unflatten(-1, (pairs, 2))) * by.unsqueeze(-2)
    out = torch.view_as_real(turned).flatten(-2).to(x.dtype)
    return torch.cat([out, x[..., 2 * pairs :]], dim=-1) if x.shape[-1] % 2 else out


def sinusoids(positions: Tensor, dim: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the absolute encoding of positions (N,), (N, dim): sines and cosines, alternating.

    "Attention is all you need" (arXiv 1706.03762), section 3.5: column 2 f is sin(p w_f), column
    2 f + 1 is cos(p w_f), w_f = 10000^(-2 f / dim). An odd width ends with a sine.
    """
    angles = _angles(positions, (dim + 1) // 2, dim, 10000.0)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :dim].to(dtype)


def path_eigenvectors(
    positions: Tensor, lengths: Tensor, k: int, *, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return eigenvectors 1 to k of the Laplacian D - A of each token's sequence, (N, k).

    A sequence is a path of n nodes. Column m - 1 is sqrt(2) cos(pi m (p + 1/2) / n), of eigenvalue
    2 - 2 cos(pi m / n) and mean square 1 over the path; 0 where m >= n, for there are n - 1 besides
    the constant one. Beyond the end the cosine goes on: a decoder that does not know its length
    yet takes that of its source.

    Args:
        positions: (N,) p, from 0.
        lengths: (N,) n, of the sequence of each token.
        k: number of columns.
        dtype: of the result.
    """
    orders = torch.arange(1, k + 1, dtype=torch.double, device=positions.device)
    shares = ((positions.double() + 0.5) / lengths).unsqueeze(-1)
    waves = math.sqrt(2) * (math.pi * shares * orders).cos()
    return (waves * (orders < lengths.unsqueeze(-1))).to(dtype)


def node_positions(graph: Graph) -> Tensor:
    """Return the place of each row's node in its graph, 0 to n - 1, (N,) int64."""
    if isinstance(graph, Shard):  # whose nodes have their places in the whole graph
        return graph.nodes
    return token_positions(node_counts(graph))


def token_positions(lengths: Tensor | Sequence[int]) -> Tensor:
    """Return 0 to n - 1 for each of the lengths n (B,), one after the other, (N,) int64."""
    sizes, owners = torch.as_tensor(lengths, dtype=torch.long), token_owners(lengths)
    return torch.arange(len(owners), device=owners.device) - (sizes.cumsum(0) - sizes)[owners]


def token_owners(lengths: Tensor | Sequence[int]) -> Tensor:
    """Return which of the sequences of these lengths (B,) each token is of, (N,) int64.

    `lengths[token_owners(lengths)]` is the length of each token's sequence.
    """
    sizes = torch.as_tensor(lengths, dtype=torch.long)
    return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes)


def _angles(positions: Tensor, many: int, width: int, base: float) -> Tensor:
    """Return p base^(-2 f / width) for f = 0 to many - 1, (N, many) fp64."""
    f = torch.arange(many, dtype=torch.double, device=positions.device)
    return positions.double().unsqueeze(-1) * base ** (-2 * f / max(width, 1))
