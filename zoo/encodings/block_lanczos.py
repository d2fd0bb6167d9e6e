"""Chebyshev-filtered block Lanczos in single precision, with thick restarts, for one component.

A Chebyshev filter spreads the eigenvalues above its cut and clusters the others, so that a Krylov
basis of a hundred columns is enough where a thousand would be needed without it (Li, Xi,
Vecharynski, Yang and Saad, SIAM J. Sci. Comput. 38 (2016) A2512).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from zoo.encodings.chebyshev import Component, Filter, degree_for
from zoo.system.environment import using_threads

SOLVED = 3e-6
"""Residual at which the iteration stops: about the accuracy of single precision."""

STEPS = 20_000
"""Matrix products after which an iteration gives up."""

_BLOCK = 8  # columns that are multiplied at a time, as wide as a vector register
_TRIVIAL = 1e8  # largest amplification of the trivial eigenvector, which the basis projects out
_FIRST = 1e2  # and of the first other one: its rounding errors would swamp the last wanted vector
_PIECE = 512  # length of the partial sums of a dot product
_ATTEMPTS = 5  # at orthogonalising a block; two are nearly always enough


def rough_eigenvectors(component: Component, k: int) -> Tensor:
    """Return k approximate eigenvectors and rougher ones after them, (N, k + 8) or more, fp64.

    Residuals are near the accuracy of single precision, or larger where the iteration gave up.
    """
    block = max(_BLOCK, k // 4 // _BLOCK * _BLOCK)
    keep, steps, last = k + block, 0, math.inf
    count, random = len(component.trivial), np.random.default_rng(0)
    size = min(4 * keep, count - 1 - block)
    basis = _KrylovBasis(component, size, torch.from_numpy(random.standard_normal((count, block))))
    polynomial = plain = Filter(component, 0.0, 1, single=True)
    while True:
        basis.grow(polynomial)
        steps += polynomial.degree
        values, turn, residual = basis.ritz()
        values, slope = polynomial.eigenvalues(values)
        wanted = (1e-4 * (1 - values)).clamp(3e-7, SOLVED)[:k]
        near = len(values) >= keep and bool(((residual * slope)[:k] <= wanted).all())
        if near or steps > STEPS:  # `residual` is an estimate, a few times too small
            x = basis.rotated(turn[:, :keep])
            left = float((plain.residual(x[:, :k].contiguous(), values[:k]) / wanted).max())
            if left <= 1 or left > 0.9 * last or steps > STEPS:
                return x.double()
            last = left
        if not basis.full:
            continue
        cut, first = max(float(values[keep - 1]), -0.9), float(values[0])
        degree = degree_for(cut, 1.0, _TRIVIAL)
        if first > cut:
            degree = min(degree, degree_for(cut, first, _FIRST))
        if near or degree <= 1.25 * polynomial.degree:
            basis.keep(turn[:, :keep])
            continue
        mixture = torch.from_numpy(random.standard_normal((keep, block)))
        basis = _KrylovBasis(component, size, basis.rotated(turn[:, :keep] @ mixture))
        polynomial = Filter(component, cut, degree, single=True)


class _KrylovBasis:
    """An orthonormal Krylov basis V of a map F, as in block Lanczos: F V = V H + Q R.

    Args:
        component: its trivial eigenvector is the first of the basis and left out of the results.
        size: largest number of vectors.
        start: (N, F) the starting block.

    Attributes:
        rows: the vectors as rows: the trivial one, V, and the next block Q.
        count: number of vectors before Q.
        recent: number of early vectors, to which F Q is orthogonal up to rounding errors.
        inner: H, its leading (count, count).
        edge: R, (F, F).
    """

    def __init__(self, component: Component, size: int, start: Tensor):
        trivial, self.threads = component.trivial, component.threads
        self.block = start.shape[1]
        self.rows = torch.empty(1 + size + self.block, len(trivial))
        self.rows[0], self.count, self.recent = trivial[:, 0], 1, 0
        self.inner = torch.zeros(1 + size, 1 + size, dtype=torch.float64)
        self._attach(start.float())

    @property
    def full(self) -> bool:
        """Whether another block does not fit: time for a restart."""
        return self.count + self.block > len(self.inner)

    def grow(self, apply) -> None:
        """Append the block Q to V; F Q, orthogonalised against the basis, is the next block."""
        following = self.rows[self.count : self.count + self.block]
        image = apply(following.T.contiguous())
        self.count += self.block
        along, own = self._attach(image), slice(self.count - self.block, self.count)
        self.inner[: self.count, own] = along
        self.inner[own, : self.count] = along.T
        self.recent = own.start

    def ritz(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the Ritz values of F, descending, their coordinates in V, and their residuals."""
        values, turn = torch.linalg.eigh(self.inner[1 : self.count, 1 : self.count])
        residual = (self.edge @ turn[-self.block :]).norm(dim=0)
        return values.flip(0), turn.flip(1), residual.flip(0)

    def rotated(self, turn: Tensor) -> Tensor:
        """Return V turn, (N, F): linear combinations of the basis."""
        return (turn.T.float() @ self.rows[1 : self.count]).T

    def keep(self, turn: Tensor) -> None:
        """Thick restart: replace V by the Ritz vectors V turn, and keep the next block."""
        values = (turn.T @ self.inner[1 : self.count, 1 : self.count] @ turn).diagonal()
        following, kept = self.rows[self.count :][: self.block].clone(), 1 + turn.shape[1]
        self.rows[1:kept] = self.rotated(turn).T
        self.rows[kept : kept + self.block] = following
        self.inner.zero_()[1:kept, 1:kept] = torch.diag(values)
        self.count, self.recent = kept, 0

    def _attach(self, x: Tensor) -> Tensor:
        """Orthogonalise x (N, F) against the basis and append an orthonormal basis of the rest.

        The coefficients in the old basis are returned, (count, F); `edge` is the triangular factor
        of the rest. The first pass is against the recent vectors only, since F Q is orthogonal to
        the early ones up to rounding errors; later passes are against all (reorthogonalisation),
        until one changes little.
        """
        x, edge = x.T, torch.eye(self.block, dtype=torch.float64)
        along = torch.zeros(self.count, self.block, dtype=torch.float64)
        for attempt in range(_ATTEMPTS):
            first = 0 if attempt else self.recent
            known = self.rows[first : self.count]
            with using_threads(self.threads):
                part = _products(x, known)  # (F, count - first)
                x, triangle = _orthonormal(torch.addmm(x, part, known, alpha=-1))
            along[first:] += part.double().T @ edge
            edge = triangle @ edge
            if attempt and triangle.diagonal().abs().min() > 0.5:
                break
        self.rows[self.count : self.count + self.block], self.edge = x, edge
        return along


def _orthonormal(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return orthonormal rows Q, (F, N), and R, (F, F) fp64, with x^T = Q^T R.

    By Cholesky QR, which is faster than Householder QR; the latter is for rows that are nearly
    linearly dependent.
    """
    inner = _products(x, x).double()
    lengths = inner.diagonal().sqrt()
    lower, _ = torch.linalg.cholesky_ex(inner / lengths.outer(lengths))
    if not lower.diagonal().min() > 1e-3:  # or not a number
        q, triangle = torch.linalg.qr(x.T)
        return q.T, triangle.double()
    triangle = lower.mT * lengths
    turn = torch.linalg.inv(triangle.mT).float()
    return turn @ x, triangle


def _products(x: Tensor, y: Tensor) -> Tensor:
    """Return x y^T for x (F, N), y (M, N), by partial sums of which each is made by one thread."""
    whole = x.shape[1] // _PIECE * _PIECE
    pieces = (z[:, :whole].unflatten(1, (-1, _PIECE)).transpose(0, 1) for z in (x, y))
    with using_threads(1):
        rest = x[:, whole:] @ y[:, whole:].T
    return rest + torch.bmm(next(pieces), next(pieces).mT).sum(dim=0)
