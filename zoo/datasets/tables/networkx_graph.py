"""Read a NetworkX graph: the attributes of its nodes are the columns of a table."""

import dataclasses
from typing import Any

import numpy as np

from zoo.datasets.files.edge_columns import EdgeColumns
from zoo.datasets.files.graph_arrays import GraphArrays
from zoo.datasets.tables.columns import Columns, node_arrays
from zoo.errors import ZooError, suggestion


def from_networkx(
    graph: Any,
    choice: Columns,
    of_edges: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
) -> GraphArrays:
    """Return a NetworkX graph; node attributes are columns, and the nodes themselves the ids.

    An attribute that is a list of numbers, as many for each node, is as many columns. Where columns
    are named, no other attribute is looked at but those of the split.

    Args:
        graph: any graph of NetworkX.
        choice: what its attributes are.
        of_edges: what is read of attributes of edges; a weight is 1 where an edge has none.

    Raises:
        ZooError: edge attributes that nobody named, or attributes that are no numbers or text.
    """
    import pyarrow

    attributes = {key for *_, data in graph.edges(data=True) for key in data}
    held = sorted(attributes - {"id"})  # GraphML numbers them
    rest = {key: None if key in of_edges.features else 1 for key in held}  # of edges without
    data_of = {
        key: [data.get(key, rest[key]) for *_, data in graph.edges(data=True)] for key in held
    }
    found = of_edges.read(data_of)
    rows = [data for _, data in graph.nodes(data=True)]
    rows, choice = _with_vectors(rows, choice)
    names = sorted({str(key) for row in rows for key in row})
    wanted = {*choice.as_text(names), *choice.features(names)}
    columns, masks = {}, choice.masks(names)
    for name in (name for name in names if name in wanted or name in masks):
        try:
            columns[name] = _column(name, [row.get(name) for row in rows])
        except ZooError:
            if name in wanted or masks[name].sure:  # of any type is what nobody has named
                raise
    said = {"label": choice.labels, "columns": choice.features, "split_column": choice.split}
    for option, given in said.items():
        for each in given(names):
            if each not in names:
                raise ZooError(f"{option}: no node has {each!r}; {suggestion(each, names)}")
    table = pyarrow.table(columns) if columns else pyarrow.table({"": pyarrow.nulls(len(rows))})
    choice = dataclasses.replace(choice, id=None, columns=choice.columns if columns else [])
    arrays = node_arrays(table, choice, "the nodes")
    places = {node: place for place, node in enumerate(graph.nodes)}
    edges = np.array([(places[a], places[b]) for a, b, *_ in graph.edges], np.int64).reshape(-1, 2)
    form = None if graph.is_directed() else "undirected"
    return arrays._replace(edges=edges, ids=_ids(graph), form=form, **found)


def _ids(graph: Any) -> np.ndarray:
    """Return the nodes (N,) as whole numbers where all are, else as text."""
    nodes = list(graph.nodes)
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        numbers = np.array(nodes)
        if numbers.dtype.kind in "iu":  # objects past 64 bits
            return numbers
    return np.array([str(node) for node in nodes], dtype=str)


def _with_vectors(rows: list[dict], choice: Columns) -> tuple[list[dict], Columns]:
    """Return rows whose lists of numbers are columns of their own, and what is chosen of them."""
    kinds = (list, tuple, np.ndarray)
    found: dict[str, set[int]] = {}
    for row in rows:
        for key, value in row.items():
            if isinstance(value, kinds):
                found.setdefault(str(key), set()).add(len(value))
    if choice.columns is not None:
        wanted = [*choice.columns, *choice.masks(list(found))]
        found = {key: sizes for key, sizes in found.items() if key in wanted}
    if not found:
        return rows, choice
    for key, sizes in found.items():
        if len(sizes) > 1 or sum(key in row for row in rows) < len(rows):
            raise ZooError(
                f"the node attribute {key!r} is a list of {min(sizes)} to {max(sizes)} numbers, or "
                "of none; give every node as many."
            )
    names = {key: [f"{key}.{place}" for place in range(max(found[key]))] for key in found}
    spread = [
        {key: each for key, each in row.items() if str(key) not in found}
        | {
            name: v
            for key in found
            for name, v in zip(names[key], map(_plain, row[key]), strict=True)
        }
        for row in rows
    ]
    if choice.columns is None:
        return spread, choice
    columns = [name for each in choice.columns for name in names.get(each, [each])]
    return spread, dataclasses.replace(choice, columns=columns)


def _plain(number: Any) -> Any:
    """Return a scalar of numpy or torch as Python has it."""
    return number.item() if getattr(number, "shape", None) == () else number


def _column(name: str, values: list):
    import pyarrow

    values = [_plain(each) for each in values]
    kinds = {type(each) for each in values if each is not None}
    if kinds <= {str}:
        return pyarrow.array(values, pyarrow.string())
    if kinds <= {bool, int, float}:
        whole = kinds == {int} and None not in values
        kind = pyarrow.int64() if whole else pyarrow.float64()
        return pyarrow.array([None if v is None else int(v) if whole else float(v) for v in values],
                             kind)  # fmt: skip
    found = ", ".join(sorted(each.__name__ for each in kinds))
    raise ZooError(f"the node attribute {name!r} is of type {found}; write numbers, or text.")
