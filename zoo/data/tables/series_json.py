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
from zoo.data.tables.times import Steps
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
            _refuse_others(content)
            values, names = _values(content)
            graphs = _graphs(content, values.shape[1], len(values), weights)
            ids = _ids(content, values.shape[1])
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ZooError(f"it is no series in JSON ({cause(error)}); {_FORM}") from None
    return NodeSeries(np.arange(len(values)), Steps(1), values, names, ids, *graphs)


def _refuse_others(content: Any) -> None:
    """Refuse JSON that is no object, or a graph as NetworkX and D3 write it."""
    if not isinstance(content, dict):
        raise ZooError(f"this is a {type(content).__name__} of JSON; {_FORM}")
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or {*_TABLES, "time_periods"} & {*content}:
        return
    if not any(isinstance(each, dict) and isinstance(each.get("y"), list) for each in nodes):
        key = "links" if "links" in content else "edges"
        raise ZooError(
            "this looks like a graph in the node-link form, and `.json` is read as series in time; "
            "write zoo.Dataset.from_networkx(networkx.node_link_graph(json.load(file), "
            f"edges='{key}')), or a `.graphml` of it by networkx.write_graphml."
        )


def _values(content: dict[str, Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the numbers (T, N, F) fp32, what is predicted first, and the names of the F."""
    held = [each for each in _TABLES if isinstance(content.get(each), list)]
    if len(held) > 1:
        raise ZooError(f"it holds `{held[0]}` and `{held[1]}`, and one is read; keep that which is "
                       "predicted.")  # fmt: skip
    if held:
        return _numbers(content[held[0]], held[0], 2)[:, :, None], ("y",)
    if "time_periods" in content:
        times = [content[str(each)] for each in range(content["time_periods"])]
        y = _numbers([each["y"] for each in times], "y", 2)[:, :, None]
        if not all("X" in each for each in times):
            return y, ("y",)
        further = _numbers([each["X"] for each in times], "X", 3)
        names = ("y", *(f"X{each}" for each in range(further.shape[2])))
        return np.concatenate([y, further], axis=2), names
    if isinstance(content.get("nodes"), list):
        return _numbers([each["y"] for each in content["nodes"]], "y", 2).T[:, :, None], ("y",)
    raise ZooError(f"it holds {', '.join(map(repr, list(content)[:6])) or 'nothing'}; {_FORM}")


def _numbers(rows: Any, key: str, dimensions: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinite and is found below
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


def _graphs(content: dict, nodes: int, times: int, weights: Weights) -> GraphsInTime:
    """Return the graphs of a file; the last one stays to the end."""
    given, counts = _edges(content, times)
    if not given:
        raise ZooError(f"`edge_mapping` has edges of no time; {_FORM}")
    edges = [check_edges(_pairs(each), nodes) for each in given]
    known = [] if weights == "ignore" else [each for each in counts if each is not None]
    told = any((np.array(each, np.float64) != 1).any() for each in known)
    if told and weights is None:
        raise ZooError(
            "its edges have weights; write `weights: use` to weigh by them, or `weights: ignore` "
            "to read the graph without them."
        )
    if weights == "use" and not told:
        raise ZooError("weights: the edges have none to use; leave it out.")
    last = max(0, times - len(edges))
    found = None
    if weights == "use":
        found = [_counts(count, len(each)) for count, each in zip(counts, edges, strict=True)]
        found = [*found, *[found[-1]] * last][:times]
    return GraphsInTime.of([*edges, *[edges[-1]] * last][:times], found)


def _edges(content: dict, times: int) -> tuple[list[Any], list[Any]]:
    """Return the edges and the weights of each time as they are written."""
    mapping = content.get("edge_mapping")
    if isinstance(mapping, dict) and "edge_index" in mapping:
        return _of_each_time(mapping["edge_index"], mapping.get("edge_weight") or {}, times)
    if isinstance(content.get("0"), dict) and "edges" in content["0"]:
        held = [content[str(each)] for each in range(times)]
        return [each["edges"] for each in held], [each.get("weights") for each in held]
    if isinstance(content.get("links"), list):
        links = content["links"]
        places = {each["bus_stop"]: place for place, each in enumerate(content["nodes"])}
        ends = [[places.get(each[end], -1) for end in ("source", "target")] for each in links]
        return [ends], [[each.get("weight", 1) for each in links]]
    return [content.get("edges")], [content.get("weights")]


def _of_each_time(index: dict, told: dict, times: int) -> tuple[list[Any], list[Any]]:
    """Return the edges and weights of each time: of one that is not there, the last ones before.

    Before the first there are none, as in a table of edges. Where no time is there, nothing is.
    """
    named = [*map(str, range(times))]
    if not index.keys() & named:
        return [], []
    edges, weights, last = [], [], ([], [])
    for time in named:
        last = (index[time], told.get(time)) if time in index else last
        edges.append(last[0])
        weights.append(last[1])
    return edges, weights


def _pairs(given: Any) -> np.ndarray:
    edges = np.array(given) if isinstance(given, list) else np.zeros(0)
    if given == []:
        return np.zeros((0, 2), np.int64)
    if edges.dtype.kind not in "iu":
        raise ZooError(f"`edges` are no pairs of numbers of nodes; {_FORM}")
    return edges


def _counts(given: Any, edges: int) -> np.ndarray:
    """Return the weights of edges as written, (E,) fp32."""
    counts = np.array([] if given is None else given, np.float64)
    if counts.shape != (edges,):
        raise ZooError(
            f"`weights` are no list of {edges:,} numbers, one for each edge; write one at each "
            "time that has edges, or `weights: ignore`."
        )
    return check_weights(counts, edges)


def _ids(content: dict[str, Any], nodes: int) -> np.ndarray | None:
    given, stops = content.get("node_ids"), content.get("nodes")
    if isinstance(given, dict) and sorted(map(str, given.values())) == sorted(
        map(str, range(nodes))
    ):
        return np.array(sorted(given, key=lambda each: int(given[each])), dtype=str)
    named = [each.get("bus_stop") for each in stops if type(each) is dict] \
        if isinstance(stops, list) else []  # fmt: skip
    if len(named) == nodes and None not in named and len({*map(str, named)}) == nodes:
        return np.array([*map(str, named)])
    return None
