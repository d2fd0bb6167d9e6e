"""Which edge data are weights and features; plain arrays of data that lists or tensors hold."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from zoo.errors import ZooError, suggestion

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

    def named(self, names: Sequence[Any]) -> str | None:
        """Return which of the names is the weight, None where none is.

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
        return weight_name(others, self.weight, self.weights)

    def read(self, data: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
        """Return `weights` (E,), `edge_features` (E, F) and their names of edge data, or None."""
        named = self.named(list(data))
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


def several_columns(name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number or several for each edge, as (E, F)."""
    try:
        found = array_of(values)
        if found.ndim in (1, 2) and found.dtype.kind in "iufb":
            return found.reshape(len(found), -1)
        what = f"of the shape {found.shape}, {found.dtype}"
    except ValueError:
        what = "of lists of several lengths"
    raise ZooError(
        f"edge_features: {name!r} is {what}, and a feature is a number, or as many for each edge. "
        "Write words as numbers, or as kinds of edges of their own."
    )


def array_of(values: Any) -> np.ndarray:
    """Return a list, array or tensor, perhaps on a GPU, as an array."""
    detach = getattr(values, "detach", None)  # a tensor, perhaps on a GPU
    return np.asarray(values if detach is None else detach().cpu())
