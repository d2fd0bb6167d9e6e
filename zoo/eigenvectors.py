"""The first eigenvectors of the normalised Laplacian of one large component, and their checks.

Solvers are tried in turn until one gives eigenvectors whose residual, orthogonality and
completeness have been measured and found good.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator, eigsh, splu
from torch import Tensor

from zoo.errors import ZooError

_SOLVED = 1e-7  # residual at which the iteration stops, in double precision
_LIMIT = 1e-5  # residual and orthogonality that a result may have, in single precision
_GUARDS = 16  # columns iterated beyond those asked for, so that no copy of an eigenvalue is missed
_STEPS = 20_000  # products with the matrix before the iteration gives up
_BAND = 1e8  # entries of a banded factor that fit in memory (0.8 GB)


class _Failed(RuntimeError):
    """Why a solver gave no result, or one that cannot be trusted."""


def first_pairs(matrix: sparse.csr_array, trivial: np.ndarray, k: int) -> tuple:
    """Return (solver, growth, values (k,), vectors (k, N)) of one component that pass the checks.

    Residuals do not show an eigenvector that was passed over: `_growth` looks for those.
    """
    reasons = []
    for name, solver in _SOLVERS.items():
        try:
            vectors = solver(matrix, trivial, k)
            values = 1 - (vectors * (matrix @ vectors)).sum(axis=0)
            order = np.argsort(values)
            values, vectors = values[order], vectors[:, order]
            if not np.isfinite(values).all():
                raise _Failed("the vectors are not finite")
            residual, orthogonality = quality(matrix, trivial, values, vectors)
            growth = _growth(matrix, trivial, values, vectors)
            limits = {"residual": _LIMIT, "orthogonality": _LIMIT, "growth": 2}
            measured = {"residual": residual, "orthogonality": orthogonality, "growth": growth}
            wrong = [key for key in limits if measured[key] > limits[key]]
            if wrong or values[0] <= 0:
                found = ", ".join(f"{key} is {measured[key]:.0e}" for key in wrong)
                raise _Failed(found or "an eigenvalue is not positive")
            return name, growth, values, vectors.T
        except (RuntimeError, ValueError, MemoryError) as error:
            reasons.append(f"{name}: {error}")
            logging.getLogger(__name__).warning("encoding laplacian, %s", reasons[-1])
    raise ZooError(
        f"encoding laplacian: no solver found the k={k} first eigenvectors of a component of "
        f"{matrix.shape[0]} nodes and {matrix.nnz // 2} edges ({'; '.join(reasons)}); "
        "ask for a smaller k, or use the encoding random_walk."
    )


def quality(matrix, trivial, values, vectors) -> tuple[float, float]:
    """Return the largest |L v - lambda v|, and the largest entry of |V^T V - I| and |t^T V|."""
    vectors = vectors.astype(np.float64)
    residual = np.linalg.norm(vectors - matrix @ vectors - vectors * values, axis=0)
    overlap = vectors.T @ np.column_stack([vectors, trivial])
    overlap[np.diag_indices(len(values))] -= 1
    return residual.max(initial=0), np.abs(overlap).max(initial=0)


def _growth(matrix, trivial, values, vectors) -> float:
    """Return how much a filter amplifies what is orthogonal to all the eigenvectors found.

    The filter amplifies eigenvalues below the k-th only, so that independent vectors grow beyond 1
    only where such an eigenvalue was missed. One less than about 2 % below the k-th is not seen.
    """
    known = torch.from_numpy(np.column_stack([trivial, vectors]))  # (N, k + 1)
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((len(trivial), 8)))
    cut, top = 1 - values[-1], 1 - min(values[0], 0.98 * values[-1])
    for _ in range(3):
        x -= known @ (known.T @ x)
        x /= x.norm(dim=0)
        x = _filter(matrix, known, x, cut, _degree(cut, top, 1e4))
    return float(x.norm(dim=0).max())


def _chebyshev(matrix: sparse.csr_array, trivial: np.ndarray, k: int) -> np.ndarray:
    """Return k eigenvectors (N, k) by subspace iteration with a Chebyshev filter.

    After Zhou et al., J. Comput. Phys. 219 (2006) 172. The block has more columns than asked for,
    hence all copies of a multiple eigenvalue. Each round the cut is the last Ritz value and the
    degree what double precision bears: a higher one would leave nothing but the first eigenvector.
    """
    operator, known = csr_tensor(matrix), torch.from_numpy(trivial)[:, None]
    start = np.random.default_rng(0).standard_normal((len(trivial), k + k // 4 + _GUARDS))
    x, steps = torch.from_numpy(start), 0
    while True:
        x -= known @ (known.T @ x)
        x = torch.linalg.qr(x / x.norm(dim=0))[0]
        y = operator @ x
        ritz, turn = torch.linalg.eigh(x.T @ y)
        ritz, turn = ritz.flip(0), turn.flip(1)
        x, y = x @ turn, y @ turn
        residual = (y - x * ritz).norm(dim=0)
        # Small eigenvalues lie close together: their vectors need smaller residuals.
        rough = residual > (1e-4 * (1 - ritz)).clamp(1e-12, _SOLVED)
        if not rough[:k].any():
            return x[:, :k].numpy()
        error, cut = float(residual[:k].max()), max(float(ritz[-1]), -0.9)
        top = min(1.0, float(ritz[0]) + error)
        # With the cut below the last Ritz value, a block inside one multiple eigenvalue improves.
        margin = (1 + cut) / 2 * (math.cosh(2 / _degree(cut, top, 1e8)) - 1)
        cut = max(cut - max(margin, error), -0.9)
        degree = _degree(cut, top, 1e8)
        steps += degree
        if steps > _STEPS:
            raise _Failed(f"residual {error:.0e}, {steps} products are more than {_STEPS}")
        x[:, rough] = _filter(matrix, known, x[:, rough], cut, degree)


def _degree(cut: float, top: float, growth: float) -> int:
    """Return the degree at which the filter amplifies the eigenvalue `top` by `growth`."""
    return max(2, int(math.log(2 * growth) / math.acosh(1 + 2 * (top - cut) / (1 + cut))))


def _filter(matrix, known: Tensor, x: Tensor, cut: float, degree: int) -> Tensor:
    """Return T_degree(S') x for x (N, F): S' maps [-1, cut] to [-1, 1], T damps there, grows above.

    x is orthogonal to the eigenvectors `known` (N, m) and stays so: rounding errors in their
    direction are removed before they have grown by 1e6.
    """
    centre, half = (cut - 1) / 2, (cut + 1) / 2
    mapped = csr_tensor((matrix - centre * sparse.eye_array(len(x))) / half)
    stride = _degree(cut, 1.0, 1e6)
    before, x = x.clone(), mapped @ x
    for step in range(1, degree):
        before, x = x, torch.addmm(before, mapped, x, beta=-1, alpha=2, out=before)
        if step % stride == 0:
            before -= known @ (known.T @ before)
            x -= known @ (known.T @ x)
    return x


def csr_tensor(matrix: sparse.csr_array) -> Tensor:
    """Return the matrix as a torch CSR tensor."""
    matrix = matrix.tocsr()
    parts = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # "in beta state"
        return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=matrix.shape)


def _lanczos(matrix, trivial, k: int) -> np.ndarray:
    """Return k eigenvectors (N, k) by ARPACK, to machine precision: a looser one misses copies."""
    return _arpack(lambda x: matrix @ x, trivial, k)


def _shift_invert(matrix, trivial, k: int) -> np.ndarray:
    """Return k eigenvectors (N, k) by ARPACK on (L + 1e-9)^-1, for paths, trees and narrow meshes.

    Ordered by reverse Cuthill-McKee, a factor has no more than N times the bandwidth entries.
    """
    order = csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
    ordered = matrix[order][:, order].tocoo()
    band = int(np.abs(ordered.row - ordered.col).max())
    if band * len(order) > _BAND:
        raise _Failed(f"a factor of up to {band * len(order):.0e} numbers is too large")
    shifted = ((1 + 1e-9) * sparse.eye_array(len(order)) - ordered).tocsc()
    plain = {"permc_spec": "NATURAL", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    factor, back = splu(shifted, **plain), np.argsort(order)
    return _arpack(lambda x: factor.solve(x[order])[back], trivial, k)


def _arpack(apply: Callable, trivial, k: int) -> np.ndarray:
    """Return the eigenvectors of the k largest eigenvalues of a map, the trivial one sent to -2."""

    def deflated(x):
        along = trivial * (trivial @ x)
        y = apply(x - along)
        return y - trivial * (trivial @ y) - 2 * along

    operator = LinearOperator((len(trivial), len(trivial)), deflated, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(trivial))
    return eigsh(operator, k, which="LA", v0=start, ncv=2 * k + 20, maxiter=500)[1]


# In this order they are tried: ARPACK alone takes minutes where eigenvalues crowd at 0.
_SOLVERS = {"chebyshev": _chebyshev, "shift_invert": _shift_invert, "lanczos": _lanczos}
