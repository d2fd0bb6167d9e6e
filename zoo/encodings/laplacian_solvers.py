"""Eigensolvers: the smallest eigenpairs of the normalised Laplacian of one large component.

Solvers are tried one after the other until the residual, orthogonality and completeness of the
eigenvectors, which are measured, are within their limits.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, SuperLU, eigsh, splu
from torch import Tensor

from zoo.encodings.block_lanczos import SOLVED, STEPS, rough_eigenvectors
from zoo.encodings.chebyshev import Component, Filter, degree_for
from zoo.errors import ZooError

_SOLVED = 1e-7  # residual at which the iteration stops
_LIMIT = 1e-5  # residual and orthogonality that a result may have, in single precision
_BAND = 1e8  # entries of a banded factor that fit in memory (0.8 GB)


class _Failed(RuntimeError):
    """Why a solver gave no result, or one that cannot be trusted."""


def first_pairs(matrix: sparse.csr_array, trivial: np.ndarray, k: int, threads: int = 1) -> tuple:
    """Return (solver, growth, values (k,), vectors (k, N)) of one component that pass the checks.

    Residuals do not show that an eigenvector was missed: `_missed` checks completeness.
    """
    component, reasons = Component(matrix, trivial, threads), []
    for name in _solver_order(component):
        try:
            vectors = _SOLVERS[name](component, k)
            values, residual, orthogonality = quality(matrix, trivial, vectors)
            if not np.isfinite(values).all():
                raise _Failed("the vectors are not finite")
            order = np.argsort(values)
            values, vectors = values[order], vectors[:, order]
            growth = _missed(component, values, vectors)
            limits = {"residual": _LIMIT, "orthogonality": _LIMIT, "growth": 2}
            measured = {"residual": residual, "orthogonality": orthogonality, "growth": growth}
            wrong = [key for key in limits if measured[key] > limits[key]]
            if wrong or values[0] <= 0:
                measurements = ", ".join(f"{key} is {measured[key]:.0e}" for key in wrong)
                raise _Failed(measurements or "an eigenvalue is not positive")
            return name, growth, values, vectors.T
        except (RuntimeError, ValueError, MemoryError) as error:
            reasons.append(f"{name}: {error}")
            logging.getLogger(__name__).warning("encoding laplacian, %s", reasons[-1])
    raise ZooError(
        f"encoding laplacian: no solver found the k={k} first eigenvectors of a component of "
        f"{matrix.shape[0]} nodes and {matrix.nnz // 2} edges ({'; '.join(reasons)}); "
        "ask for a smaller k, or use the encoding random_walk."
    )


def _solver_order(component: Component) -> list[str]:
    """Return the solvers in the order in which they are tried."""
    solvers = [name for name in _SOLVERS if component.large or name != "krylov"]
    return sorted(solvers, key=lambda name: component.factored_first and name != "shift_invert")


def quality(matrix, trivial, vectors) -> tuple[np.ndarray, float, float]:
    """Return the accuracy of eigenvectors (N, k) of L = I - S.

    Args:
        matrix: S (N, N).
        trivial: the sum of the eigenvectors of eigenvalue 0, one per component, (N,).
        vectors: (N, k).

    Returns:
        their eigenvalues (k,), the largest |L v - lambda v|, and the largest entry of |V^T V - I|
        and |t^T V|.
    """
    vectors = vectors.astype(np.float64)
    image = vectors - matrix @ vectors
    values = (vectors * image).sum(axis=0)
    residual = np.linalg.norm(image - vectors * values, axis=0)
    overlap = vectors.T @ np.column_stack([vectors, trivial])
    overlap[np.diag_indices(len(values))] -= 1
    return values, residual.max(initial=0), np.abs(overlap).max(initial=0)


def _missed(component: Component, values: np.ndarray, vectors: np.ndarray) -> float:
    """Return more than 2 where an eigenvalue smaller than the k-th was missed.

    Where a factorisation is cheap it counts eigenvalues (inertia); else see `_growth`.
    """
    if component.factored_first:
        below = 0.999 * values[-1]
        counted = _count_below(component.matrix, below)
        if counted is not None:
            return 0.0 if counted == 1 + (values < below).sum() else math.inf
    return _growth(component, values, vectors)


def _count_below(matrix: sparse.csr_array, value: float) -> int | None:
    """Return the number of eigenvalues of L below a value, that of the trivial vector included.

    It is the number of negative pivots of L - value (Sylvester's law of inertia); None where the
    factorisation needed pivots off the diagonal.
    """
    factor = _factorisation(matrix, 1 - value)
    if not np.array_equal(factor.perm_r, factor.perm_c):
        return None
    return int((factor.U.diagonal() < 0).sum())


def _growth(component: Component, values: np.ndarray, vectors: np.ndarray) -> float:
    """Return how much a filter amplifies random vectors orthogonal to the eigenvectors found.

    The filter amplifies only eigenvalues below the k-th: such vectors grow beyond 1 only where one
    was missed. One that is less than about 2 % below the k-th is not detected.
    """
    known = torch.cat([component.trivial, torch.from_numpy(vectors)], dim=1)  # (N, k + 1)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((len(known), 8)))
    x -= known @ (known.T @ x)
    x /= x.norm(dim=0)
    cut, top = 1 - values[-1], 1 - min(values[0], 0.98 * values[-1])
    look = Filter(component, cut, degree_for(cut, top, 1e6), single=component.large)
    x = look(x.float() if component.large else x, component.trivial).double()
    x -= known @ (known.T @ x)
    return float(x.norm(dim=0).max())


def _krylov(component: Component, k: int) -> np.ndarray:
    """Return k eigenvectors (N, k) by block Lanczos in single precision, then refined."""
    return _refined(component, k, rough_eigenvectors(component, k))


def _chebyshev(component: Component, k: int) -> np.ndarray:
    """Return k eigenvectors (N, k) by subspace iteration from random columns.

    The subspace has more than k columns, so that it holds all copies of a multiple eigenvalue.
    """
    columns = k + 16 + k // 4
    start = np.random.default_rng(0).standard_normal((len(component.trivial), columns))
    return _refined(component, k, torch.from_numpy(start))


def _refined(component: Component, k: int, x: Tensor) -> np.ndarray:
    """Return k eigenvectors (N, k) by Chebyshev-filtered subspace iteration from x (N, F).

    In each iteration the cut is the last Ritz value, and the degree is limited by the precision: a
    higher one would leave only the first eigenvector. A large component begins in single precision.
    """
    single, solved = component.large, SOLVED if component.large else _SOLVED
    steps, last = 0, math.inf
    while True:
        ritz, x, residual = _ritz(component, x)
        # Small eigenvalues are clustered: their vectors need smaller residuals.
        wanted = (1e-4 * (1 - ritz)).clamp(1e-12, solved)
        rough = residual > wanted
        if not rough[:k].any():
            return x[:, :k].numpy()
        error, cut = float(residual[:k].max()), max(float(ritz[-1]), -0.9)
        # Single precision, as long as the residual falls.
        single = single and (error > 1e-3 or solved < error < last / 2)
        last, growth = error, 1e4 if single else 1e8
        top = min(1.0, float(ritz[0]) + error)
        # The cut is below the last Ritz value: a block in one multiple eigenvalue converges.
        margin = (1 + cut) / 2 * (math.cosh(2 / degree_for(cut, top, growth)) - 1)
        cut = max(cut - max(margin, error), -0.9)
        degree = degree_for(cut, top, growth)
        steps += degree
        if steps > STEPS:
            raise _Failed(f"residual {error:.0e}, {steps} products are more than {STEPS}")
        better = Filter(component, cut, degree, single=single)
        start = x[:, rough].float() if single else x[:, rough]
        x[:, rough] = better(start, component.trivial).double()


def _ritz(component: Component, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the Ritz values of the span of x (N, F), descending, their vectors and residuals."""
    x = x - component.trivial @ (component.trivial.T @ x)
    x /= x.norm(dim=0)
    triangle, singular = torch.linalg.cholesky_ex(x.T @ x)
    if singular or triangle.diagonal().min() < 1e-4:  # nearly dependent columns
        x = torch.linalg.qr(x)[0]
        triangle = torch.eye(x.shape[1], dtype=x.dtype)
    y = component.product(x)
    inner = torch.linalg.solve_triangular(triangle, x.T @ y, upper=False)
    inner = torch.linalg.solve_triangular(triangle, inner.T, upper=False)
    ritz, turn = torch.linalg.eigh((inner + inner.T) / 2)
    turn = torch.linalg.solve_triangular(triangle.T, turn, upper=True).flip(1)
    x, y, ritz = x @ turn, y @ turn, ritz.flip(0)
    return ritz, x, (y - x * ritz).norm(dim=0)


def _lanczos(component: Component, k: int) -> np.ndarray:
    """Return k eigenvectors (N, k) by ARPACK to machine precision; a looser one misses copies."""
    return _arpack(lambda x: component.matrix @ x, component, k)


def _shift_invert(component: Component, k: int) -> np.ndarray:
    """Return k eigenvectors (N, k) by ARPACK on (L + 1e-9)^-1, for paths, trees and meshes."""
    most = component.band * len(component.trivial)
    if most > _BAND and not component.factored_first:
        raise _Failed(f"a factor of up to {most:.0e} numbers is too large")
    return _arpack(_factorisation(component.matrix, 1 + 1e-9).solve, component, k)


def _factorisation(matrix: sparse.csr_array, shift: float) -> SuperLU:
    """Return the LU factors of shift - S, in minimum-degree order, with pivots on the diagonal."""
    shifted = (shift * sparse.eye_array(matrix.shape[0]) - matrix).tocsc()
    plain = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    return splu(shifted, permc_spec="MMD_AT_PLUS_A", **plain)


def _arpack(apply: Callable, component: Component, k: int) -> np.ndarray:
    """Return eigenvectors of the k largest eigenvalues of a map, the trivial one moved to -2."""
    trivial = component.trivial[:, 0].numpy()

    def deflated(x):
        along = trivial * (trivial @ x)
        y = apply(x - along)
        return y - trivial * (trivial @ y) - 2 * along

    operator = LinearOperator((len(trivial), len(trivial)), deflated, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(trivial))
    return eigsh(operator, k, which="LA", v0=start, ncv=2 * k + 20, maxiter=500)[1]


# They are tried in this order, except where `factored_first`: without a factorisation ARPACK takes
# minutes where eigenvalues cluster at 0.
_SOLVERS = {
    "krylov": _krylov,
    "chebyshev": _chebyshev,
    "shift_invert": _shift_invert,
    "lanczos": _lanczos,
}
