"""The matrix S = D^-1/2 A D^-1/2 of one component, and Chebyshev polynomials of it.

A polynomial that is small on [-1, cut] and large above it amplifies the eigenvectors of the largest
eigenvalues in a block of columns (Zhou et al., J. Comput. Phys. 219 (2006) 172).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from torch import Tensor

from zoo.graphs.adjacency import Lists, quiet_beta
from zoo.graphs.spmm import summed
from zoo.system.environment import using_threads

LARGE = 5000
"""Number of nodes above which a component uses single precision and several threads."""

FACTORED = 1000
"""Number of nodes above which a sparse factorisation is considered."""


class Component:
    """The matrix S of one connected component of N nodes.

    Args:
        matrix: S (N, N), fp64, zeros on its diagonal.
        trivial: its eigenvector of eigenvalue 1, (N,).
        threads: for products of a large component. Each row is summed by one thread: results are
            bitwise the same for any number of threads.
    """

    def __init__(self, matrix: sparse.csr_array, trivial: np.ndarray, threads: int = 1):
        self.matrix, self.trivial = matrix, torch.from_numpy(trivial)[:, None]  # (N, 1)
        self.large = len(trivial) > LARGE
        self.threads = threads if self.large else 1

    def product(self, x: Tensor) -> Tensor:
        """Return S x for x (N, F), fp64."""
        with using_threads(self.threads):
            return self._double @ x

    @functools.cached_property
    def band(self) -> int:
        """Return the bandwidth of S after reordering by reverse Cuthill-McKee."""
        order = csgraph.reverse_cuthill_mckee(self.matrix, symmetric_mode=True)
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        rows = np.repeat(place, np.diff(self.matrix.indptr))
        return int(np.abs(rows - place[self.matrix.indices]).max())

    @property
    def factored_first(self) -> bool:
        """Whether shift-invert by a sparse factorisation is tried first.

        It is where the bandwidth is a few times sqrt(N), as for a mesh or a path: separators are
        small, and so is the fill-in of the factors.
        """
        narrow = 4 * math.sqrt(len(self.trivial))
        hub = int(np.diff(self.matrix.indptr).max())  # largest degree, at most twice the bandwidth
        return len(self.trivial) > FACTORED and hub <= 2 * narrow and self.band <= narrow

    def shifted(self, shift: float, factor: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return factor (S - shift) as CSR: row offsets, columns (int32) and values (fp64)."""
        offsets, columns, data, diagonal = self._with_diagonal
        return offsets, columns, (data * factor).index_fill_(0, diagonal, -shift * factor)

    @functools.cached_property
    def _with_diagonal(self) -> tuple[Tensor, ...]:
        """Return S as CSR with an explicit diagonal, and the places of the diagonal entries."""
        matrix = (self.matrix + sparse.eye_array(len(self.trivial))).tocsr()
        parts = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
        rows = np.repeat(np.arange(len(self.trivial), dtype=np.int32), np.diff(parts[0]))
        return tuple(map(torch.from_numpy, (*parts, np.flatnonzero(rows == parts[1]))))

    @functools.cached_property
    def _double(self) -> Tensor:
        return csr_tensor(self.matrix)


class Filter:
    """The Chebyshev filter T_degree(S'), S' being S scaled so that [-1, cut] is [-1, 1].

    Args:
        component: holds S.
        cut: eigenvalues of S up to here stay in [-1, 1]; those above are amplified.
        degree: of the polynomial.
        single: whether it is computed in single precision.
    """

    def __init__(self, component: Component, cut: float, degree: int, *, single: bool = False):
        self.degree, self.threads = degree, component.threads
        self.stride = degree_for(cut, 1.0, 1e4 if single else 1e6)
        self.centre, self.half = (cut - 1) / 2, (cut + 1) / 2
        twice = component.shifted(self.centre, 2 / self.half)
        self._twice = (
            _single_product(*twice) if single else _csr(*twice, len(component.trivial)).matmul
        )

    def __call__(self, x: Tensor, known: Tensor | None = None) -> Tensor:
        """Return T_degree(S') x for x (N, F).

        Args:
            x: columns orthogonal to `known`. They stay so: rounding errors in that direction are
                projected out before they are amplified by 1e6, or 1e4 in single precision.
            known: (N, m) eigenvectors of S to deflate; none if None.
        """
        known = None if known is None else known.to(x.dtype)
        with using_threads(self.threads):
            before, x = x.clone(), self._twice(x) / 2
            for step in range(1, self.degree):
                torch.sub(self._twice(x), before, out=before)
                before, x = x, before
                if known is not None and step % self.stride == 0:
                    _deflate(known, before, x)
        return x

    def residual(self, x: Tensor, values: Tensor) -> Tensor:
        """Return |S v - lambda v|, (F,), for the columns v of x (N, F); of degree 1 only."""
        mapped = ((values - self.centre) / self.half).to(x.dtype)
        return self.half * (self(x) - x * mapped).norm(dim=0).double()

    def eigenvalues(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Invert the filter: return the eigenvalues of S for these of T, and d lambda / d value.

        The inverse is not unique in [-1, 1]: there the cut and an infinite slope are returned. A
        polynomial of degree 1 is invertible everywhere.
        """
        if self.degree == 1:
            return self.centre + self.half * values, torch.full_like(values, self.half)
        angle = values.clamp(min=1).acosh() / self.degree
        slope = self.half * angle.sinh() / (self.degree * (self.degree * angle).sinh())
        slope = torch.where(values > 1, slope, math.inf)
        return self.centre + self.half * angle.cosh(), slope


def _single_product(offsets: Tensor, columns: Tensor, data: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the product with a matrix in single precision."""
    lists, weights = Lists(offsets, columns, columns[:0]), data.float()
    return lambda x: summed(x, lists, weights)


def _deflate(known: Tensor, *blocks: Tensor) -> None:
    """Subtract known known^T x from each x (N, F), on one thread: its order of sums is fixed."""
    with using_threads(1):
        for x in blocks:
            x -= known @ (known.T @ x)


def degree_for(cut: float, top: float, growth: float) -> int:
    """Return the degree at which the filter amplifies the eigenvalue `top` by `growth`."""
    return max(2, int(math.log(2 * growth) / math.acosh(1 + 2 * (top - cut) / (1 + cut))))


def csr_tensor(matrix: sparse.csr_array) -> Tensor:
    """Return the matrix as a torch CSR tensor."""
    parts = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
    return _csr(*map(torch.from_numpy, parts), matrix.shape[1])


def _csr(offsets: Tensor, columns: Tensor, data: Tensor, width: int) -> Tensor:
    size = (len(offsets) - 1, width)
    with quiet_beta():
        return torch.sparse_csr_tensor(offsets, columns, data, size, check_invariants=False)
