"""The first eigenvectors of one component in single precision: block Lanczos on a filter of S.

A Chebyshev filter spreads the eigenvalues above its cut and crowds the others, so that a basis of
a hundred columns sees what would take a thousand without it (Li, Xi, Vecharynski, Yang and Saad,
SIAM J. Sci. Comput. 38 (2016) A2512).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from zoo.encodings.chebyshev import Component, Filter, degree_for
from zoo.system.threads import using_threads

SOLVED = 3e-6
"""Residual at which the iteration stops, about the best of single precision."""

STEPS = 20_000
"""Products with the matrix before an iteration gives up."""

_BLOCK = 8  # columns that are multiplied at a time, as wide as a vector register
_TRIVIAL = 1e8  # how much a filter may amplify the trivial eigenvector, which the basis removes
_FIRST = 1e2  # and the first of the others, whose rounding errors would bury the last
_PIECE = 512  # numbers that a product of two rows sums at a time
_ATTEMPTS = 5  # at making a block orthogonal, two of which are enough but in rare cases


def roughly(component: Component, k: int) -> Tensor:
    """Return k eigenvectors and some that nearly are, (N, k + 8) or more, fp64.

    Their residuals are as small as single precision lets them be here, or larger where the
    iteration gave up.
    """
    block = max(_BLOCK, k // 4 // _BLOCK * _BLOCK)
    keep, steps, last = k + block, 0, math.inf
    count, random = len(component.trivial), np.random.default_rng(0)
    size = min(4 * keep, count - 1 - block)
    basis = _Basis(component, size, torch.from_numpy(random.standard_normal((count, block))))
    polynomial = plain = Filter(component, 0.0, 1, single=True)
    while True:
        basis.grow(polynomial)
        steps += polynomial.degree
        values, turn, residual = basis.ritz()
        values, slope = polynomial.eigenvalues(values)
        wanted = (1e-4 * (1 - values)).clamp(3e-7, SOLVED)[:k]
        near = len(values) >= keep and bool(((residual * slope)[:k] <= wanted).all())
        if near or steps > STEPS:  # a guess, a few times too small
            x = basis.turned(turn[:, :keep])
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
        basis = _Basis(component, size, basis.turned(turn[:, :keep] @ mixture))
        polynomial = Filter(component, cut, degree, single=True)


class _Basis:
    """An orthonormal basis, and what a map F makes of it: F V = V H + Q R.

    Args:
        component: whose trivial vector is the first one, and not a part of what is found.
        size: vectors there are at most.
        start: (N, F) the block that the others grow from.

    Attributes:
        rows: the vectors, one below the other: the trivial one, V, and the block Q that follows.
        count: vectors before Q.
        recent: how many came long before Q, so that F Q has little of them.
        inner: H, (count, count) of it.
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
        """Whether there is no room for another block."""
        return self.count + self.block > len(self.inner)

    def grow(self, apply) -> None:
        """Take the block Q into the basis, and F Q without what the basis has as the next one."""
        following = self.rows[self.count : self.count + self.block]
        image = apply(following.T.contiguous())
        self.count += self.block
        along, own = self._attach(image), slice(self.count - self.block, self.count)
        self.inner[: self.count, own] = along
        self.inner[own, : self.count] = along.T
        self.recent = own.start

    def ritz(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the Ritz values of F, descending, their vectors in V, and their residuals."""
        values, turn = torch.linalg.eigh(self.inner[1 : self.count, 1 : self.count])
        residual = (self.edge @ turn[-self.block :]).norm(dim=0)
        return values.flip(0), turn.flip(1), residual.flip(0)

    def turned(self, turn: Tensor) -> Tensor:
        """Return V turn, (N, F)."""
        return (turn.T.float() @ self.rows[1 : self.count]).T

    def keep(self, turn: Tensor) -> None:
        """Let the Ritz vectors V turn be the basis, with the same block to follow."""
        values = (turn.T @ self.inner[1 : self.count, 1 : self.count] @ turn).diagonal()
        following, kept = self.rows[self.count :][: self.block].clone(), 1 + turn.shape[1]
        self.rows[1:kept] = self.turned(turn).T
        self.rows[kept : kept + self.block] = following
        self.inner.zero_()[1:kept, 1:kept] = torch.diag(values)
        self.count, self.recent = kept, 0

    def _attach(self, x: Tensor) -> Tensor:
        """Put an orthonormal basis of what x (N, F) has beyond this one behind it.

        What the basis had of x is returned, (count, F), and `edge` takes the rest to it. F Q has
        little but rounding errors of what came long before Q: the last vectors are removed first,
        and then what is left of all. That is done again until little changes: where hardly
        anything of x was left it was rounding errors.
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

    By Cholesky's factor of x x^T, sooner than Householder's way, which is left for rows that are
    nearly one.
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
    """Return x y^T for x (F, N), y (M, N): sums of pieces, each of them made by one thread."""
    whole = x.shape[1] // _PIECE * _PIECE
    pieces = (each[:, :whole].unflatten(1, (-1, _PIECE)).transpose(0, 1) for each in (x, y))
    with using_threads(1):
        rest = x[:, whole:] @ y[:, whole:].T
    return rest + torch.bmm(next(pieces), next(pieces).mT).sum(dim=0)
