"""Arrays of any library as arrays of NumPy, and sparse matrices as those of SciPy."""

import math
from typing import Any

import numpy as np
import torch
from scipy import sparse

from zoo.errors import ZooError, cause
from zoo.system.memory import available_memory


def to_numpy(values: Any, name: str) -> np.ndarray:
    """Return what is like an array as one: a list, a table, a matrix of scipy, a tensor on a GPU.

    Numbers of 8 or 16 bits with a fraction, such as bfloat16, of which numpy has not all, become
    float32; what is missing, in pandas or behind a mask of numpy, NaN.

    Args:
        values: what is read.
        name: what it is called in errors.

    Raises:
        ZooError: it is no array, such as lists of several lengths, or does not fit into memory.
    """
    if (matrix := to_scipy(values)) is not None:
        if (size := 8 * math.prod(matrix.shape)) > available_memory():
            raise ZooError(f"`{name}` would take {size / 1e9:,.0f} GB, more than there is memory.")
        return matrix.toarray()
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().to_dense()
        return (values.float() if _is_short(str(values.dtype)) else values).numpy()
    if isinstance(values, list | tuple) and any(isinstance(row, torch.Tensor) for row in values):
        values = [to_numpy(row, name) for row in values]
    try:
        array = np.asarray(values)
    except Exception as error:  # libraries of arrays raise what they like
        raise ZooError(
            f"`{name}` cannot be read as an array of numbers: it is a {type(values).__name__} "
            f"({cause(error)})."
        ) from error
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        array = array.astype(float if array.dtype.kind in "iufb" else object)
        array[np.ma.getmaskarray(values)] = np.nan  # among text it is missing, too
    elif array.dtype == object and hasattr(values, "dtypes"):  # a table of pandas with holes
        kinds = {getattr(kind, "kind", "O") for kind in np.atleast_1d(values.dtypes)}
        if array.ndim == 2 and kinds <= {*"iufb"}:
            numbers = values.to_numpy(np.float64, na_value=np.nan)
            whole = kinds <= {*"iu"} and not np.isnan(numbers).any()
            return values.to_numpy(np.int64) if whole else numbers
    if not array.flags.writeable and not isinstance(values, np.ndarray):
        array = array.copy()  # pandas lends its own
    return array.astype(np.float32) if _is_short(array.dtype.name) else array


def to_scipy(values: Any) -> Any | None:
    """Return a sparse matrix of scipy, torch or torch_sparse as one of scipy; None of all else."""
    if sparse.issparse(values):
        return values
    if (entries := sparse_entries(values)) is None:
        return None
    places, numbers, shape = entries
    return sparse.csr_array((numbers, tuple(places.T)), shape=shape)


def sparse_entries(values: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, int]] | None:
    """Return the entries of a sparse matrix of torch or torch_sparse; None of all else.

    These are their rows and columns (E, 2), row by row, their values (E,), and the shape.
    """
    if hasattr(values, "sparse_sizes") and hasattr(values, "coo"):  # of torch_sparse
        *places, numbers = values.coo()
        numbers = torch.ones(len(places[0])) if numbers is None else numbers
        places, shape = torch.stack(places), values.sparse_sizes()
    elif isinstance(values, torch.Tensor) and values.layout != torch.strided and values.ndim == 2:
        matrix = values.detach().to_sparse_coo().coalesce()
        places, numbers, shape = matrix.indices(), matrix.values(), matrix.shape
    else:
        return None
    return to_numpy(places.T, "indices"), to_numpy(numbers, "values"), tuple(map(int, shape))


def _is_short(kind: str) -> bool:
    """Return whether a type of numbers with a fraction has fewer bits than float32."""
    return kind.removeprefix("torch.").startswith(("bfloat16", "float16", "float8"))
