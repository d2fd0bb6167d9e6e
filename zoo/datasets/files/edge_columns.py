"""Which edge data are weights, and plain arrays of data that lists or tensors hold."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from zoo.errors import ZooError, suggestion

Weights = Literal["use", "ignore"] | None
"""Whether weights of edges are read; None: only where something says which they are."""


def weight_name(names: Sequence[Any], weight: str | None, weights: Weights) -> str | None:
    """Return which edge data of these names are weights; None: none.

    Raises:
        ZooError: there are some, and nothing says which to use or that they are ignored.
    """
    if weights == "ignore" or (not names and weight is None and weights is None):
        return None
    held = ", ".join(map(repr, map(str, names)))
    if weight is not None:
        if weight not in names:
            fix = suggestion(weight, map(str, names)) if names else "leave `weight` out."
            raise ZooError(f"weight: the edges have no {weight!r}; {fix}")
        return weight
    if weights == "use" and len(names) == 1:
        return names[0]
    if not names:
        raise ZooError("weights: the edges have none to use; leave it out.")
    raise ZooError(
        f"the edges have {held}; write `weight: {names[0]}` to weigh them by it, or "
        "`weights: ignore` to read the graph without them."
    )


def one_column(name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number for each edge, (E,)."""
    try:
        found = array_of(values)
        found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
        if found.ndim == 1 and found.dtype.kind in "iufb":
            return found
        what = f"of the shape {found.shape}, {found.dtype}"
    except ValueError:
        what = "of lists"
    raise ZooError(
        f"weight: {name!r} is {what}, and a weight is one number for each edge. Choose one, or "
        "write `weights: ignore`."
    )


def array_of(values: Any) -> np.ndarray:
    """Return a list, array or tensor, perhaps on a GPU, as an array."""
    detach = getattr(values, "detach", None)  # a tensor, perhaps on a GPU
    return np.asarray(values if detach is None else detach().cpu())
