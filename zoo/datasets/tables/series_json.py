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

from zoo.datasets.files.graph_arrays import Weights, check_edges, check_weights
from zoo.datasets.tables.series import GraphsInTime, NodeSeries
from zoo.datasets.tables.times import Steps
from zoo.errors import ZooError, cause, reading

LARGEST = 2**30
"""The largest file that is read, in bytes."""

_TABLES = ("FX", "X", "block", "y")


def read_series_json(path: Path, weights: Weights = None) -> NodeSeries:
    """Read a file of series.

    Args:
        path: the `.json`.
        weights: `use` or `ignore` those of edges; None where all are 1.

    Raises:
        ZooError: it is no such file, or has weights and nothing says what to do with them.
    """
    with reading(path, "series in JSON"):
        content = _content(path)
        values, names = _values(content)
        graphs = _graphs(content, values.shape[1], len(values), weights)
        ids = _ids(content, values.shape[1])
    times = np.arange(len(values))
    return NodeSeries(times, Steps(1), values, names, ids, *graphs)


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise ZooError(f"it is larger than {LARGEST:,} bytes; write a table instead.")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ZooError(f"it cannot be read ({error.strerror}); write the path of a file.") from None
    except (ValueError, RecursionError) as error:
        raise ZooError(f"this is no JSON ({cause(error)}); {_FORM}") from None
    if not isinstance(content, dict):
        raise ZooError(f"this is a {type(content).__name__} of JSON; {_FORM}")
    nodes = content.get("nodes")
    alike = isinstance(nodes, list) and {"links", "edges"} & {*content}
    if alike and not ({*_TABLES, "time_periods"} & {*content}) and all(
        isinstance(each, dict) and not isinstance(each.get("y"), list) for each in nodes
    ):  # fmt: skip
        key = "links" if "links" in content else "edges"
        raise ZooError(
            "this looks like a graph in the node-link form, and `.json` is read as series in time; "
            "write zoo.Dataset.from_networkx(networkx.node_link_graph(json.load(file), "
            f"edges='{key}')), or a `.graphml` of it by networkx.write_graphml."
        )
    return content


_FORM = (
    "write an object with `edges`, pairs of numbers of nodes, and `FX`: at each time a number for "
    "each node; data/README.md has the other forms."
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
        times = _times(content)
        y = _numbers([_of(each, "y") for each in times], "y", 2)
        if not all("X" in each for each in times):
            return y[:, :, None], ("y",)
        further = _numbers([each["X"] for each in times], "X", 3)
        if further.shape[:2] != y.shape:
            raise ZooError(f"`X` has the shape {further.shape}, and `y` {y.shape}: (T, N, K), "
                           "(T, N).")  # fmt: skip
        names = ("y", *(f"X{each}" for each in range(further.shape[2])))
        return np.concatenate([y[:, :, None], further], axis=2), names
    if isinstance(content.get("nodes"), list):
        return _numbers([_of(each, "y") for each in content["nodes"]], "y", 2).T[:, :, None], ("y",)
    raise ZooError(f"it holds {', '.join(map(repr, list(content)[:6])) or 'nothing'}; {_FORM}")


def _times(content: dict[str, Any]) -> list[dict[str, Any]]:
    count = content["time_periods"]
    if type(count) is not int or not 0 < count <= len(content):
        raise ZooError(f"`time_periods` is {count!r}, and has to be the number of times in it.")
    found = [content.get(str(each)) for each in range(count)]
    lost = next((place for place, each in enumerate(found) if not isinstance(each, dict)), None)
    if lost is not None:
        raise ZooError(f'there is no object of the time "{lost}", of {count:,} `time_periods`.')
    return found


def _of(each: Any, key: str) -> Any:
    if not isinstance(each, dict) or key not in each:
        raise ZooError(f"one of the nodes, or times, has no `{key}`; write it for each.")
    return each[key]


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
    told = any(map(_differs, counts))
    if told and weights is None:
        raise ZooError(
            "its edges have weights; write `weights: use` to weigh by them, or `weights: ignore` "
            "to read the graph without them."
        )
    if weights == "use" and not told:
        raise ZooError("weights: the edges have none to use; leave it out.")
    found = None
    if weights == "use":
        found = [_counts(count, len(each)) for count, each in zip(counts, edges, strict=True)]
    last = max(0, times - len(edges))
    edges += [edges[-1]] * last
    return GraphsInTime.of(edges[:times], found and [*found, *[found[-1]] * last][:times])


def _edges(content: dict, times: int) -> tuple[list[Any], list[Any]]:
    """Return the edges and the weights of each time as they are written."""
    mapping = content.get("edge_mapping")
    if isinstance(mapping, dict) and isinstance(mapping.get("edge_index"), dict):
        index, told = mapping["edge_index"], mapping.get("edge_weight")
        told = told if isinstance(told, dict) else {}
        return _of_each_time(index, told, times)
    if isinstance(content.get("0"), dict) and "edges" in content["0"]:
        held = [content.get(str(each)) for each in range(times)]
        return [_of(each, "edges") for each in held], [each.get("weights") for each in held]
    if isinstance(content.get("links"), list):
        places = {each: place for place, each in enumerate(_stops(content))}
        ends = [(_of(each, "source"), _of(each, "target")) for each in content["links"]]
        given = [[places.get(_name(end), -1) for end in both] for both in ends]
        return [given], [[each.get("weight", 1) for each in content["links"]]]
    return [content.get("edges")], [content.get("weights")]


def _stops(content: dict) -> list[Any]:
    """Return what the nodes are called that links are between."""
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(each, dict) for each in nodes):
        raise ZooError(
            "`links` are between `nodes`, a list of objects with a `bus_stop` each, and there is "
            f"no such list; {_FORM}"
        )
    return [_name(each.get("bus_stop")) for each in nodes]


def _name(given: Any) -> Any:
    if isinstance(given, dict | list):
        raise ZooError(f"a node is called by a {type(given).__name__}, and no text; {_FORM}")
    return given


def _of_each_time(index: dict, told: dict, times: int) -> tuple[list[Any], list[Any]]:
    """Return the edges and weights of each time: of one that is not there, the last ones before.

    Before the first there are none, as in a table of edges. Where no time is there, nothing is.
    """
    named = [*map(str, range(times))]
    if not index.keys() & named:
        return [], []
    found, last = [], ([], [])
    for time in named:
        last = (index[time], told.get(time)) if time in index else last
        found.append(last)
    edges, weights = zip(*found, strict=True)
    return list(edges), list(weights)


def _pairs(given: Any) -> np.ndarray:
    try:
        edges = np.array(given)
    except ValueError:
        edges = np.zeros(0)
    if isinstance(given, list) and not given:
        return np.zeros((0, 2), np.int64)
    if edges.dtype.kind not in "iu":
        raise ZooError(f"`edges` are no pairs of numbers of nodes; {_FORM}")
    return edges


def _counts(given: Any, edges: int) -> np.ndarray:
    """Return the weights of edges as written, (E,) fp32."""
    try:
        counts = np.array(given, np.float64)
    except (ValueError, TypeError):
        counts = np.zeros(0)
    if counts.shape != (edges,):
        raise ZooError(
            f"`weights` are no list of {edges:,} numbers, one for each edge; write one at each "
            "time that has edges, or `weights: ignore`."
        )
    return check_weights(counts, edges)


def _differs(given: Any) -> bool:
    """Return whether a number other than 1 is in lists and objects of any depth."""
    if isinstance(given, dict | list):
        return any(map(_differs, given.values() if isinstance(given, dict) else given))
    return isinstance(given, int | float) and given != 1 and given is not False


def _ids(content: dict[str, Any], nodes: int) -> np.ndarray | None:
    given = content.get("node_ids")
    if isinstance(given, dict) and sorted(map(str, given.values())) == sorted(
        map(str, range(nodes))
    ):
        return np.array(sorted(given, key=lambda each: int(given[each])), dtype=str)
    held = content.get("nodes") if isinstance(content.get("nodes"), list) else []
    stops = [each.get("bus_stop") for each in held if isinstance(each, dict)]
    if len(stops) == nodes and None not in stops and len(set(map(str, stops))) == nodes:
        return np.array(list(map(str, stops)))
    return None
