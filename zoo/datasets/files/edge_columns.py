"""Which edge data are weights and features; plain arrays of data that lists or tensors hold."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from scipy import sparse

from zoo.errors import ZooError, cause, suggestion
from zoo.system.memory import available_memory

Weights = Literal["use", "ignore"] | None
"""Whether weights of edges are read; None: only where something says which they are."""


class EdgeColumns(NamedTuple):
    """What is read of the data of edges.

    Attributes:
        weight: the name of their weight; None: nothing says it.
        weights: `use` the only one there is, or `ignore` all of them.
        features: names of what are features: numbers, one or several for each edge.
    """

    weight: str | None = None
    weights: Weights = None
    features: Sequence[str] = ()

    @classmethod
    def of(cls, weight: str | None, weights: Weights, features: str | Sequence[str] | None) -> Self:
        """Return what options say; several names may be one text with commas between."""
        names = features.split(",") if isinstance(features, str) else features or ()
        return cls(weight, weights, [each.strip() for each in names])

    def refuse_features(self) -> None:
        """Raise ZooError where features are named: edges of several kinds have none in common."""
        if self.features:
            raise ZooError(
                "edge_features: edges of several kinds are read with their weights, and not with "
                "features. Leave `edge_features` out, or join the kinds into one table."
            )

    def named(self, names: Sequence[Any], wide: Collection[Any] = ()) -> str | None:
        """Return which of the names is the weight, None where none is.

        Args:
            names: of all that edges have.
            wide: those of several numbers for each edge, which no weight is.

        Raises:
            ZooError: there are some, and nothing says what they are; or one that is named is not.
        """
        for each in self.features:
            if each not in names:
                fix = suggestion(each, map(str, names)) if names else "leave it out."
                raise ZooError(f"edge_features: the edges have no {each!r}; {fix}")
        if self.features and self.weight is None and self.weights is None:
            return None
        others = [each for each in names if each not in self.features]
        return weight_name(others, self.weight, self.weights, wide)

    def read(self, data: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
        """Return `weights` (E,), `edge_features` (E, F) and their names of edge data, or None."""
        shapes = {name: getattr(each, "shape", ()) for name, each in data.items()}
        named = self.named([*data], [name for name, shape in shapes.items() if shape[1:] > (1,)])
        features = [several_columns(each, data[each]) for each in self.features]
        names = [
            name if each.shape[1] == 1 else f"{name}[{column}]"
            for name, each in zip(self.features, features, strict=True)
            for column in range(each.shape[1])
        ]
        return {
            "weights": None if named is None else one_column(named, data[named]),
            "edge_features": np.concatenate(features, axis=1) if features else None,
            "edge_feature_names": tuple(names) or None,
        }


def weight_name(
    names: Sequence[Any], weight: str | None, weights: Weights, wide: Collection[Any] = ()
) -> str | None:
    """Return which edge data of these names are weights; None: none. `wide` are no weights.

    Raises:
        ZooError: there are some, and nothing says which to use or that they are ignored.
    """
    if weights == "ignore" or (not names and weight is None and weights is None):
        return None
    held = ", ".join(map(repr, map(str, names)))
    if weight is not None:
        if weight not in names:
            fix = (
                suggestion(weight, map(str, names))
                if names
                else "leave `weight` out; or write `weights: ignore`."
            )
            raise ZooError(f"weight: the edges have no {weight!r}; {fix}")
        return weight
    if weights == "use" and len(names) == 1:
        return names[0]
    if not names:
        raise ZooError("weights: the edges have none to use; leave it out.")
    one = next((each for each in names if each not in wide), None)
    fix = f"`edge_features: {names[0]}` to read features of them"
    fix = fix if one is None else f"`weight: {one}` to weigh them by it"
    raise ZooError(
        f"the edges have {held}; write {fix}, or `weights: ignore` to read the graph without them."
    )


def refuse_idle(table: str, option: str, **given: Any) -> None:
    """Refuse options that are about a table which an option did not name: nothing would read them.

    Args:
        table: what they are about.
        option: what names it.
        given: them; None where they are not given.
    """
    for name, value in given.items():
        if value is not None:
            raise ZooError(
                f"{name}: it is about {table}, and none is named; write `{option}: PATH`, or leave "
                f"`{name}` out."
            )


def one_column(name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number for each edge, (E,)."""
    found = array_of(values, name)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim == 1 and found.dtype.kind in "iufb":
        return found
    raise ZooError(
        f"weight: {name!r} is of the shape {found.shape}, {found.dtype}, and a weight is one "
        "number for each edge. Choose one, or write `weights: ignore`."
    )


def several_columns(name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number or several for each edge, as (E, F)."""
    found = array_of(values, name)
    if found.ndim in (1, 2) and found.dtype.kind in "iufb":
        return found.reshape(len(found), -1)
    raise ZooError(
        f"edge_features: {name!r} is of the shape {found.shape}, {found.dtype}, and a feature is "
        "a number, or as many for each edge. Write words as numbers, or as kinds of edges of their "
        "own."
    )


def array_of(values: Any, name: str) -> np.ndarray:
    """Return what is like an array as one: a list, a table, a matrix of scipy, a tensor on a GPU.

    Numbers of 8 or 16 bits with a fraction, such as bfloat16, of which numpy has not all, become
    float32; what is missing, in pandas or behind a mask of numpy, NaN.

    Args:
        values: what is read.
        name: what it is called in errors.

    Raises:
        ZooError: it is no array, such as lists of several lengths, or does not fit into memory.
    """
    if (matrix := sparse_of(values)) is not None:
        _check_fits(8 * math.prod(matrix.shape), f"`{name}`")
        return matrix.toarray()
    if isinstance(values, list | tuple) and any(isinstance(each, torch.Tensor) for each in values):
        values = [array_of(each, name) for each in values]
    if isinstance(values, torch.Tensor):
        return _of_tensor(values, name)
    try:
        found = np.asarray(values)
    except Exception as error:  # libraries of arrays raise what they like
        raise ZooError(
            f"`{name}` cannot be read as an array of numbers: it is a {type(values).__name__} "
            f"({cause(error)})."
        ) from error
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        found = found.astype(float if found.dtype.kind in "iufb" else object)
        found[np.ma.getmaskarray(values)] = np.nan  # among text it is missing, too
        return found
    if found.dtype == object and hasattr(values, "dtypes"):  # a table of pandas with holes
        return _of_table(values, found)
    return found.astype(np.float32) if _is_short(found.dtype.name) else found


def _of_table(table: Any, found: np.ndarray) -> np.ndarray:
    """Return a table of pandas as numbers where all of its columns are, else as it is found."""
    kinds = {getattr(each, "kind", "O") for each in np.atleast_1d(table.dtypes)}
    if found.ndim != 2 or not kinds <= {*"iufb"}:
        return found
    numbers = table.to_numpy(np.float64, na_value=np.nan)
    whole = kinds <= {*"iu"} and not np.isnan(numbers).any()
    return table.to_numpy(np.int64) if whole else numbers


def sparse_of(values: Any) -> Any | None:
    """Return a sparse matrix of scipy, torch or torch_sparse as one of scipy; None of all else."""
    if sparse.issparse(values):
        return values
    if (found := entries_of(values)) is None:
        return None
    ends, numbers, shape = found
    return sparse.csr_array((numbers, tuple(ends.T)), shape=shape)


def entries_of(values: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, int]] | None:
    """Return the entries of a sparse matrix of torch or torch_sparse; None of all else.

    These are their rows and columns (E, 2), row by row, their values (E,), and the shape.
    """
    if hasattr(values, "sparse_sizes") and hasattr(values, "coo"):  # of torch_sparse
        *ends, numbers = values.coo()
        numbers = torch.ones(len(ends[0])) if numbers is None else numbers
        ends, shape = torch.stack(ends), values.sparse_sizes()
    elif isinstance(values, torch.Tensor) and values.layout != torch.strided and values.ndim == 2:
        whole = values.detach().to_sparse_coo().coalesce()
        ends, numbers, shape = whole.indices(), whole.values(), whole.shape
    else:
        return None
    if numbers.ndim > 1:
        return None
    return array_of(ends.T, "indices"), array_of(numbers, "values"), tuple(map(int, shape))


def _of_tensor(values: torch.Tensor, name: str) -> np.ndarray:
    if values.is_nested:
        raise ZooError(f"`{name}` is a nested tensor, of rows of several lengths; pad them.")
    values = values.detach().cpu().to_dense()
    values = values.dequantize() if values.is_quantized else values
    if values.nbytes > values.untyped_storage().nbytes():  # a few bytes, of which copies are made
        _check_fits(8 * values.nbytes, f"`{name}`, one number written as many,")
    values = values.float() if _is_short(str(values.dtype)) else values
    return values.resolve_conj().resolve_neg().numpy()


def _is_short(kind: str) -> bool:
    """Return whether a type of numbers with a fraction has fewer bits than float32."""
    return kind.removeprefix("torch.").startswith(("bfloat16", "float16", "float8"))


def _check_fits(size: int, what: str) -> None:
    if size > available_memory():
        raise ZooError(f"{what} would take {size / 1e9:,.0f} GB, more than there is memory.")
