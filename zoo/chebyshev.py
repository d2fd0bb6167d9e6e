"""The matrix S = D^-1/2 A D^-1/2 of one component, and Chebyshev polynomials of it.

A polynomial that is small on [-1, cut] and grows above it turns a block of columns towards the
eigenvectors of the largest eigenvalues (Zhou et al., J. Comput. Phys. 219 (2006) 172).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from zoo.kernels import neighbour_sum
from zoo.quiet import quiet_beta
from zoo.structure import from_neighbours

LARGE = 5000
"""Nodes of a component beyond which single precision and several threads are used."""

FACTORED = 1000
"""And those beyond which a factorisation is worth looking at."""


class Component:
    """S of one component of N nodes, with what is known of it.

    Args:
        matrix: S (N, N), fp64, zeros on its diagonal.
        trivial: its eigenvector of eigenvalue 1, (N,).
        threads: for products of a large component; each row is summed by one thread, so that the
            bytes do not depend on how many there are.
    """

    def __init__(self, matrix: sparse.csr_array, trivial: np.ndarray, threads: int = 1):
        self.matrix, self.trivial = matrix, torch.from_numpy(trivial)[:, None]  # (N, 1)
        self.large = len(trivial) > LARGE
        self.threads = threads if self.large else 1

    def product(self, x: Tensor) -> Tensor:
        """Return S x for x (N, F), fp64."""
        with using_threads(self.threads):
            return self._double @ x

    def filtered(self, x: Tensor, known: Tensor, cut: float, degree: int) -> Tensor:
        """Return T_degree(S') x for x (N, F), up to its sign: S' maps [-1, cut] to [-1, 1].

        x is orthogonal to the eigenvectors `known` (N, m) and stays so: rounding errors in their
        direction are removed before they have grown by 1e6, or 1e3 in single precision.
        """
        with using_threads(self.threads):
            return (self._in_single if x.dtype == torch.float32 else self._in_double)(
                x, known, cut, degree
            )

    @functools.cached_property
    def band(self) -> int:
        """Return how far from the diagonal an entry is at most, neighbours put side by side."""
        order = csgraph.reverse_cuthill_mckee(self.matrix, symmetric_mode=True)
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        rows = np.repeat(place, np.diff(self.matrix.indptr))
        return int(np.abs(rows - place[self.matrix.indices]).max())

    @property
    def factored_first(self) -> bool:
        """Whether a factorisation is the way to go.

        So it is where nodes lie in layers of a few times sqrt(N), as in a mesh or on a path: few of
        them separate one half from the other, and the factors fill in little.
        """
        return len(self.trivial) > FACTORED and self.band**2 <= 16 * len(self.trivial)

    @functools.cached_property
    def _double(self) -> Tensor:
        return csr_tensor(self.matrix)

    @functools.cached_property
    def _graph(self):
        parts = self.matrix.indptr.astype(np.int32), self.matrix.indices.astype(np.int32)
        return from_neighbours(*map(torch.from_numpy, parts))

    def _in_double(self, x: Tensor, known: Tensor, cut: float, degree: int) -> Tensor:
        centre, half = (cut - 1) / 2, (cut + 1) / 2
        mapped = csr_tensor((self.matrix - centre * sparse.eye_array(len(x))) / half)
        stride = degree_for(cut, 1.0, 1e6)
        before, x = x.clone(), mapped @ x
        for step in range(1, degree):
            before, x = x, torch.addmm(before, mapped, x, beta=-1, alpha=2, out=before)
            if step % stride == 0:
                _remove(known, known, before, x)
        return x

    def _in_single(self, x: Tensor, known: Tensor, cut: float, degree: int) -> Tensor:
        """The same in the place of D^-1/2 x: S is D^1/2 (D^-1 A) D^-1/2, sums of neighbours.

        x_t = 2 S' x_(t-1) - x_(t-2) is made in the place of x_(t-2) by additions alone: what is
        stored is x_t times +1, +1, -1, -1 in turns.
        """
        centre, half = (cut - 1) / 2, (cut + 1) / 2
        root = self._graph.in_degrees()[:, None].double().sqrt()  # (N, 1)
        share = (1 / (half * root.square())).float()
        left, right = (known * root).float(), (known / root).float()
        stride = degree_for(cut, 1.0, 1e3)
        before = (x / root).float()
        x = neighbour_sum(self._graph, before).mul_(share).add_(before, alpha=-centre / half)
        for step in range(1, degree):
            sign = -2 if step % 2 else 2
            before.addcmul_(neighbour_sum(self._graph, x), share, value=sign)
            before.add_(x, alpha=-sign * centre / half)
            before, x = x, before
            if step % stride == 0:
                _remove(left, right, before, x)
        return x * root.float()


def _remove(left: Tensor, right: Tensor, *blocks: Tensor) -> None:
    """Subtract right left^T x from each x (N, F); several threads would sum in another order."""
    with using_threads(1):
        for x in blocks:
            x -= right @ (left.T @ x)


def degree_for(cut: float, top: float, growth: float) -> int:
    """Return the degree at which the filter amplifies the eigenvalue `top` by `growth`."""
    return max(2, int(math.log(2 * growth) / math.acosh(1 + 2 * (top - cut) / (1 + cut))))


def csr_tensor(matrix: sparse.csr_array) -> Tensor:
    """Return the matrix as a torch CSR tensor."""
    matrix = matrix.tocsr()
    parts = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
    with quiet_beta():
        tensors = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(*tensors, size=matrix.shape, check_invariants=False)


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads inside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
