"""Series at the nodes of a graph in the JSON files of PyTorch Geometric Temporal.

Their forms: `FX`, `X`, `block` or `y`, numbers (T, N); or `time_periods` T and under "0", "1", ...
an object with `y` (N,) and, if there are further features, `X` (N, K); or `nodes` with `y` (T,)
each. Edges are `edges` or `links` of all times, those of each time under its number, or those of
`edge_mapping`; a time that is not in there has those of the last one before. `node_ids` has names
of nodes as keys and their numbers as values.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.files.graph_arrays import Weights, check_edges, check_weights
from zoo.data.tables.series import GraphsInTime, NodeSeries
from zoo.data.tables.time_steps import Steps
from zoo.errors import ZooError, cause, reading

_TABLES = ("FX", "X", "block", "y")
_FORM = (
    "write an object with `edges`, pairs of numbers of nodes, and `FX`: at each time a number for "
    "each node; data/README.md has the other forms."
)


def read_series_json(path: Path, weights: Weights = None) -> NodeSeries:
    """Read a file of series.

    Args:
        path: the `.json`.
        weights: `use` or `ignore` those of edges; None where all are 1.

    Raises:
        ZooError: it is no such file, or has weights and nothing says what to do with them.
    """
    with reading(path, "series in JSON"):
        try:
            content = json.loads(path.read_bytes())
            _check_is_series(content)
            values, names = _read_values(content)
            graphs = _read_graphs(content, values.shape[1], len(values), weights)
            ids = _read_ids(content, values.shape[1])
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ZooError(f"it is no series in JSON ({cause(error)}); {_FORM}") from None
    return NodeSeries(np.arange(len(values)), Steps(1), values, names, ids, *graphs)


def _check_is_series(content: Any) -> None:
    """Refuse JSON that is no object, or a graph as NetworkX and D3 write it."""
    if not isinstance(content, dict):
        raise ZooError(f"this is a {type(content).__name__} of JSON; {_FORM}")
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or {*_TABLES, "time_periods"} & {*content}:
        return
    if not any(isinstance(node, dict) and isinstance(node.get("y"), list) for node in nodes):
        key = "links" if "links" in content else "edges"
        raise ZooError(
            "this looks like a graph in the node-link form, and `.json` is read as series in time; "
            "write zoo.Dataset.from_networkx(networkx.node_link_graph(json.load(file), "
            f"edges='{key}')), or a `.graphml` of it by networkx.write_graphml."
        )


def _read_values(content: dict[str, Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the numbers (T, N, F) fp32, what is predicted first, and the names of the F."""
    tables = [key for key in _TABLES if isinstance(content.get(key), list)]
    if len(tables) > 1:
        raise ZooError(
            f"it holds `{tables[0]}` and `{tables[1]}`, and one is read; keep that which is "
            "predicted."
        )
    if tables:
        return _to_array(content[tables[0]], tables[0], 2)[:, :, None], ("y",)
    if "time_periods" in content:
        times = [content[str(time)] for time in range(content["time_periods"])]
        y = _to_array([time["y"] for time in times], "y", 2)[:, :, None]
        if not all("X" in time for time in times):
            return y, ("y",)
        further = _to_array([time["X"] for time in times], "X", 3)
        names = ("y", *(f"X{column}" for column in range(further.shape[2])))
        return np.concatenate([y, further], axis=2), names
    if isinstance(content.get("nodes"), list):
        return _to_array([node["y"] for node in content["nodes"]], "y", 2).T[:, :, None], ("y",)
    raise ZooError(f"it holds {', '.join(map(repr, list(content)[:6])) or 'nothing'}; {_FORM}")


def _to_array(rows: Any, key: str, dimensions: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinite
            values = np.array(rows, dtype=np.float32)  # null is NaN
    except (ValueError, TypeError):
        values = np.zeros(0)
    if values.ndim != dimensions or 0 in values.shape or np.isinf(values).any():
        wanted = ("(T, N)", "(T, N, K)")[dimensions - 2]
        raise ZooError(
            f"`{key}` is no table of numbers {wanted}; write as many for each time, and null where "
            "one is unknown."
        )
    return values


def _read_graphs(content: dict, nodes: int, times: int, weights: Weights) -> GraphsInTime:
    """Return the graphs of a file; the last one stays to the end."""
    pairs, values = _read_edges(content, times)
    if not pairs:
        raise ZooError(f"`edge_mapping` has edges of no time; {_FORM}")
    edges = [check_edges(_to_pairs(rows), nodes) for rows in pairs]
    known = [] if weights == "ignore" else [row for row in values if row is not None]
    weighted = any((np.array(row, np.float64) != 1).any() for row in known)
    if weighted and weights is None:
        raise ZooError(
            "its edges have weights; write `weights: use` to weigh by them, or `weights: ignore` "
            "to read the graph without them."
        )
    if weights == "use" and not weighted:
        raise ZooError("weights: the edges have none to use; leave it out.")
    last, own = max(0, times - len(edges)), None
    if weights == "use":
        own = [_to_weights(row, len(ends)) for row, ends in zip(values, edges, strict=True)]
        own = [*own, *[own[-1]] * last][:times]
    return GraphsInTime.of([*edges, *[edges[-1]] * last][:times], own)


def _read_edges(content: dict, times: int) -> tuple[list[Any], list[Any]]:
    """Return the edges and the weights of each time as they are written."""
    mapping = content.get("edge_mapping")
    if isinstance(mapping, dict) and "edge_index" in mapping:
        return _read_mapping(mapping["edge_index"], mapping.get("edge_weight") or {}, times)
    if isinstance(content.get("0"), dict) and "edges" in content["0"]:
        periods = [content[str(time)] for time in range(times)]
        return [time["edges"] for time in periods], [time.get("weights") for time in periods]
    if isinstance(content.get("links"), list):
        links = content["links"]
        places = {node["bus_stop"]: place for place, node in enumerate(content["nodes"])}
        ends = [[places.get(link[end], -1) for end in ("source", "target")] for link in links]
        return [ends], [[link.get("weight", 1) for link in links]]
    return [content.get("edges")], [content.get("weights")]


def _read_mapping(index: dict, weights: dict, times: int) -> tuple[list[Any], list[Any]]:
    """Return the edges and weights of each time: of one that is not there, the last ones before.

    Before the first there are none, as in a table of edges. Where no time is there, nothing is.
    """
    rows, last = [], ([], [])
    for time in map(str, range(times)):
        last = (index[time], weights.get(time)) if time in index else last
        rows.append(last)
    if not index.keys() & {*map(str, range(times))}:
        return [], []
    return [edges for edges, _ in rows], [own for _, own in rows]


def _to_pairs(rows: Any) -> np.ndarray:
    if rows == []:
        return np.zeros((0, 2), np.int64)
    edges = np.array(rows) if isinstance(rows, list) else np.zeros(0)
    if edges.dtype.kind not in "iu":
        raise ZooError(f"`edges` are no pairs of numbers of nodes; {_FORM}")
    return edges


def _to_weights(row: Any, edges: int) -> np.ndarray:
    """Return the weights of edges, (E,) fp32."""
    weights = np.array([] if row is None else row, np.float64)
    if weights.shape != (edges,):
        raise ZooError(
            f"`weights` are no list of {edges:,} numbers, one for each edge; write one at each "
            "time that has edges, or `weights: ignore`."
        )
    return check_weights(weights, edges)


def _read_ids(content: dict[str, Any], nodes: int) -> np.ndarray | None:
    numbers = content.get("node_ids")
    if isinstance(numbers, dict) and sorted(map(str, numbers.values())) == sorted(
        map(str, range(nodes))
    ):
        return np.array(sorted(numbers, key=lambda name: int(numbers[name])), dtype=str)
    stops = content.get("nodes") if isinstance(content.get("nodes"), list) else []
    names = [stop.get("bus_stop") for stop in stops if isinstance(stop, dict)]
    if len({*map(str, names)}) == nodes == len(names) and None not in names:
        return np.array([*map(str, names)])
    return None
