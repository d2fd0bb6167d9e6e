"""Read a NetworkX graph: the attributes of its nodes are the columns of a table."""

import dataclasses
import datetime
import decimal
import numbers
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.objects import EdgeColumns, described, to_numpy
from zoo.data.tables.columns import OF_TEXT, Columns, list_names
from zoo.data.tables.nodes_and_edges import node_arrays
from zoo.data.tables.read import frame_of
from zoo.errors import ZooError, brief, suggestion

if TYPE_CHECKING:
    import pyarrow


def from_networkx(
    graph: Any,
    choice: Columns,
    edge_columns: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
) -> GraphArrays:
    """Return a NetworkX graph; node attributes are columns, and the nodes themselves the ids.

    An attribute is numbers, text, dates, or lists, as long at each node, which are as many columns;
    they may be scalars and arrays of numpy or torch. Where columns are named, no other attribute is
    looked at but those of the split.

    Args:
        graph: any graph of NetworkX.
        choice: what its attributes are.
        edge_columns: what is read of attributes of edges; a weight is 1 where an edge has none.

    Raises:
        ZooError: edge attributes that nobody named; or an attribute that is none of these, or not
            the same at all nodes: which, at which node, and what to write.
    """
    import pyarrow

    nodes, rows = [*graph.nodes], [data for _, data in graph.nodes(data=True)]
    keys = _keys_by_name((key for data in rows for key in data), "nodes")
    names = sorted(keys)
    roles = choice.roles(names)
    wanted = {*roles.text, *roles.features}
    wanted |= {name.rpartition(".")[0] for name in wanted if name not in keys}  # x of x.0
    columns_of: dict[str, list[str]] = {}  # of each attribute
    columns: dict[str, pyarrow.Array] = {}
    for name in (name for name in names if name in wanted or name in roles.masks):
        try:
            own = _columns(name, nodes, [data.get(keys[name]) for data in rows])
        except ZooError:
            if name in wanted or roles.masks[name].sure:  # of any kind is what nobody has named
                raise
            continue
        if both := next((column for column in own if column in columns), None):
            raise ZooError(
                f"the nodes have the attribute {both!r}, which is also a place in the list "
                f"{both.rpartition('.')[0]!r}; rename one."
            )
        columns |= own
        columns_of[name] = [*own]
    for option in ("label", "split_column", "columns", *OF_TEXT):
        for name in list_names(getattr(choice, option)) or []:
            if name not in keys and name not in columns:
                raise ZooError(f"{option}: no node has {name!r}; {suggestion(name, names)}")
    table = pyarrow.table(columns or {"": pyarrow.nulls(len(rows))})
    choice = _with_list_columns(choice, roles.labels, columns_of)
    choice = dataclasses.replace(choice, id=None, columns=choice.columns if columns else [])
    arrays = node_arrays(frame_of(table), choice, "the nodes")
    places = {node: place for place, node in enumerate(nodes)}
    edges = np.array([(places[a], places[b]) for a, b, *_ in graph.edges], np.int64).reshape(-1, 2)
    form = None if graph.is_directed() else "undirected"
    values = _read_edge_attributes(graph, edge_columns)
    return arrays._replace(edges=edges, ids=_ids(nodes), form=form, **values)


def _ids(nodes: list[Any]) -> np.ndarray:
    """Return the nodes (N,) as whole numbers where all are, else as text."""
    if all(isinstance(node, int | np.integer) and not isinstance(node, bool) for node in nodes):
        ids = np.array(nodes)
        if ids.dtype.kind in "iu":  # objects past 64 bits
            return ids
    return np.array([str(node) for node in nodes], dtype=str)


def _keys_by_name(keys: Iterable[Hashable], what: str) -> dict[str, Hashable]:
    """Return attributes by their names as text, such as "1" of 1.

    Raises:
        ZooError: two have one name.
    """
    by_name: dict[str, Hashable] = {}
    for key in keys:
        if (other := by_name.setdefault(str(key), key)) != key:
            raise ZooError(
                f"the {what} have the attributes {other!r} and {key!r}, which have one name; "
                "rename one."
            )
    return by_name


def _with_list_columns(
    choice: Columns, labels: list[str], columns_of: dict[str, list[str]]
) -> Columns:
    """Return a choice with the columns of an attribute of lists in the place of its name."""

    def spread(names: list[str]) -> list[str]:
        return [column for name in names for column in columns_of.get(name, [name])]

    options = {option: getattr(choice, option) for option in ("columns", *OF_TEXT)}
    options = {option: spread(names) for option, names in options.items() if names is not None}
    if spread(labels) != labels:
        options["label"] = spread(labels)
    return dataclasses.replace(choice, **options)


def _read_edge_attributes(graph: Any, choice: EdgeColumns) -> dict[str, np.ndarray | None]:
    """Return what `EdgeColumns.read` does of the attributes of edges."""
    rows = [data for *_, data in graph.edges(data=True)]
    keys = _keys_by_name((key for data in rows for key in data), "edges")
    if "id" not in (choice.weight, *choice.features):
        keys.pop("id", None)  # GraphML numbers them
    weight, edges, columns = choice.named(sorted(keys)), [*graph.edges], {}
    for name in dict.fromkeys([*choice.features, *([] if weight is None else [weight])]):
        default = 1 if name == weight else None
        values = [data.get(keys[name], default) for data in rows]
        kind, plain = _plain_values("edge", name, edges, values)
        if None in plain or kind == "text":
            place = plain.index(None) if None in plain else 0
            raise ZooError(
                f"the edge attribute {name!r} is {brief(values[place])} at the edge "
                f"{brief(edges[place])}; write a number, or as many for each edge, at all edges."
            )
        columns[name] = np.array(plain)
    return choice._replace(weight=weight).read(columns)


def _columns(name: str, nodes: Sequence[Any], values: Sequence[Any]) -> dict[str, "pyarrow.Array"]:
    """Return an attribute as a column, or, of lists, as one for each place in them, by name."""
    import pandas
    import pyarrow

    kind, plain = _plain_values("node", name, nodes, values)
    if kind == "list":
        columns: dict[str, pyarrow.Array] = {}
        for place, column in enumerate(zip(*plain, strict=True)):
            columns |= _columns(f"{name}.{place}", nodes, column)
        return columns
    if kind == "date":
        return {name: pyarrow.array(pandas.Series(pandas.to_datetime(plain, utc=True)))}
    if kind == "number" and not all(type(value) in (int, type(None)) for value in plain):
        plain = [None if value is None else float(value) for value in plain]
    return {name: pyarrow.array(plain)}


_KINDS: dict[str, type | tuple[type, ...]] = {
    "nothing": type(None), "text": str, "number": (int, float), "date": datetime.date
}  # fmt: skip


def _plain_values(
    of: str, name: str, places: Sequence[Any], values: Sequence[Any]
) -> tuple[str, list[Any]]:
    """Return what kind of values an attribute has, and them as Python has them, None if missing.

    The kinds are those of `_KINDS`, and `list`; `nothing` where all are missing.
    """

    def wrong(place: int, text: str) -> ZooError:
        what = f"the {of} attribute {name!r} is {described(values[place])}"
        return ZooError(f"{what} at the {of} {brief(places[place])}{text}")

    plain = [_plain(value) for value in values]
    first: dict[str, int] = {}
    for place, value in enumerate(plain):
        kind = _kind(value)
        if kind == "strange":
            raise wrong(place, "; write a number, text, a date, or a flat list of numbers.")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise wrong(place, ", of more than 64 bits; write text, or a float.")
        first.setdefault(kind, place)
    first.pop("nothing", None)
    (kind, begin), *others = [*first.items()] or [("nothing", 0)]
    if others:
        place = others[0][1]
        raise wrong(begin, f", and {described(values[place])} at the {of} {brief(places[place])}; "
                           f"write values of one kind at each {of}.")  # fmt: skip
    if kind == "list" and not plain[begin]:
        raise wrong(begin, "; leave it out (`columns` names what is read).")
    sizes = [len(value or ()) for value in plain] if kind == "list" else []
    odd = next((place for place, size in enumerate(sizes) if size != sizes[begin]), None)
    if odd is not None:
        raise wrong(begin, f", and of {sizes[odd]} at the {of} {brief(places[odd])}; give every "
                           f"{of} as many numbers.")  # fmt: skip
    return kind, plain


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return "list" if {*map(_kind, value)} <= {"number", "text", "nothing"} else "strange"
    return next((kind for kind, types in _KINDS.items() if isinstance(value, types)), "strange")


def _plain(value: Any) -> Any:
    """Return a value of numpy, torch or pandas as Python has it, None where it is missing."""
    import pandas

    if pandas.api.types.is_scalar(value) and pandas.isna(value):
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real | decimal.Decimal):
        return float(value)
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    is_array = hasattr(value, "__array__") and not isinstance(value, np.generic)
    return _plain_array(value) if is_array else value


def _plain_array(value: Any) -> Any:
    """Return an array, or a tensor, as lists of what `_plain` returns, of one number as this."""
    array = to_numpy(value, "attribute")
    if array.dtype.kind in "iub" or (array.dtype.kind == "f" and not np.isnan(array).any()):
        return array.tolist()
    if array.ndim:
        return [_plain(item) for item in array]
    return value if array.dtype == object else _plain(array[()])
