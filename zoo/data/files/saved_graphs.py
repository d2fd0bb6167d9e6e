"""Read graphs that DGL and PyTorch Geometric have saved, neither of which need be trusted.

What PyG saves whole are objects of its classes: they are read where PyG is installed, with those
classes allowed and no others, and never unpickled freely. A dict of tensors needs no PyG.
"""

import logging
import pickletools
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.data.files.graph_arrays import (
    PARTS,
    EdgeColumns,
    GraphArrays,
    Weights,
    are_canonical,
    array_of,
    entries_of,
)
from zoo.data.files.graph_set_arrays import GraphSetArrays, set_of_graphs
from zoo.data.files.node_kinds import of_tensors
from zoo.data.files.objects import (
    FEATURES,
    LABELS,
    chosen,
    described,
    from_tensors,
    shape_of,
    tell_unread,
    unread,
)
from zoo.dgl import DGLGraph, dgl
from zoo.errors import ZooError, cause, suggestion

_MAGIC = (0xDD2E4FF046B4A13F).to_bytes(8, "little")
_COUNT = slice(24, 32)  # the bytes of a file of DGL that say how many graphs it holds


def read_graph(
    path: Path,
    task: str | None,
    *,
    label: str | None = None,
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: str | list[str] | None = None,
) -> GraphArrays:
    """Read the one graph that DGL or PyTorch Geometric has saved.

    Of DGL it is what `dgl.save_graphs(path, [graph])` writes; of PyG `torch.save(data, path)`,
    where PyG is installed, or `torch.save(data.to_dict(), path)`.

    Args:
        path: the `.bin` of DGL; or the `.pt`, a `Data` or a dict of tensors: `edge_index` (2, E),
            `x`, `y` and masks.
        task: what the labels are for.
        label: the node data that is the label; left out, `label`, `labels` or `y`. Of several kinds
            of nodes that of one, such as `paper.label`.
        feature: the node data that is the features; left out, `feat`, `x` and the like.
        weight: the edge data that is their weight, such as `edge_weight`.
        weights: `ignore` reads the graph without weights of edges.
        edge_features: the edge data that are features, such as `edge_attr`: numbers, one or several
            for each edge.
    """
    choice = EdgeColumns.of(weight, weights, edge_features)
    if _is_dgl(path):
        graphs, labels = read_bin(path)
        if len(graphs) != 1:
            raise ZooError(
                f"the file holds {len(graphs)} graphs; write `task: graph-classification`."
            )
        if labels:
            logging.getLogger(__name__).warning(
                "%s holds %s beside its graph, not read: labels of nodes are node data, and those "
                "of whole graphs are read by `task: graph-classification`.",
                path.name, " and ".join(map(repr, labels)),
            )  # fmt: skip
        return from_dgl(graphs[0], label, feature, choice, task)
    held = unpacked(read_pt(path))
    if isinstance(held, list):
        if held and not _is_graph(held[0]):
            raise ZooError(f"this is {described(held)}, and no graph; {_WANTED}")
        raise ZooError(f"this is a set of {len(held)} graphs; write `task: graph-classification`.")
    return from_pyg(held, label, feature, choice, task)


def read_graphs(
    path: Path,
    label: str | None = None,
    feature: str | None = None,
    choice: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    degrees: int | None = None,
) -> GraphSetArrays:
    """Read the graphs, with a label each, that DGL or PyTorch Geometric has saved.

    Of DGL it is what `dgl.save_graphs(path, graphs, {"labels": classes})` writes; of PyG a list of
    `Data`, of their `to_dict()`, or what it keeps in its folder `processed`. Arguments are those of
    `from_dgl_list` and `from_pyg_list`.

    Raises:
        ZooError: the file cannot be read, the graphs are unlike, or the labels are no classes.
    """
    if _is_dgl(path):
        return from_dgl_list(*read_bin(path), label, feature, choice, degrees)
    held = unpacked(read_pt(path))
    graphs = held if isinstance(held, list) else [held]
    return from_pyg_list(graphs, label, feature, choice, degrees)


def from_dgl(
    graph: DGLGraph,
    label: str | None = None,
    feature: str | None = None,
    choice: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    task: str | None = None,
    left: set[str] | None = None,
    without: Collection[str] = (),
) -> GraphArrays:
    """Return a DGLGraph with its data, of one kind or several, as one graph; see `read_graph`.

    What of its nodes is not read is told, or kept in `left`; what is called as in `without` does
    not count.

    Raises:
        ZooError: edge data that nobody named, no such node data, or several that may be meant.
    """
    edges = {
        kind: (
            array_of(torch.stack(graph.edges(etype=kind), dim=1), "edges"),
            _named_openly(graph.edges[kind].data),
        )
        for kind in graph.canonical_etypes
    }
    nodes = {kind: _named_openly(graph.nodes[kind].data, without) for kind in graph.ntypes}
    counts = {kind: graph.num_nodes(kind) for kind in graph.ntypes}
    if len(nodes) > 1 or len(edges) > 1:
        return of_tensors(nodes, counts, edges, label, feature, choice, task, left)
    ((kind, data),) = nodes.items()
    ((ends, edge_data),) = edges.values()
    found = choice.read(edge_data)
    tell_unread(unread(data, *chosen(data, label, feature)), left)
    arrays = from_tensors(data, ends, counts[kind], label, feature, task)._replace(**found)
    known = arrays.weights is not None and are_canonical(ends, counts[kind])
    return arrays._replace(form="canonical") if known else arrays  # as the zoo's own are


def _named_openly(data: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """Return data without what DGL keeps for itself, such as `_ID`, and without some names."""
    return {k: each for k, each in data.items() if not (k.startswith("_") or k in without)}


def _is_dgl(path: Path) -> bool:
    return Path(path.name.removesuffix(".gz")).suffix.lower() == ".bin"


def graphs_of_dgl(path: Path) -> int:
    """Return how many graphs a file of DGL says that it holds; 0 of one that is none."""
    try:
        with path.open("rb") as file:
            begins = file.read(_COUNT.stop)
    except OSError:
        return 0
    return int.from_bytes(begins[_COUNT], "little") if begins.startswith(_MAGIC) else 0


def read_bin(path: Path) -> tuple[list[DGLGraph], dict[str, torch.Tensor]]:
    """Return what a file of DGL holds: its graphs, and the labels that were saved with them.

    Raises:
        ZooError: it is not DGL's.
    """
    if not graphs_of_dgl(path):
        raise ZooError("this is no file of DGL; write it with dgl.save_graphs(path, [graph]).")
    return dgl.load_graphs(str(path))


def from_dgl_list(
    graphs: Sequence[Any],
    labels: Any = None,
    label: str | None = None,
    feature: str | None = None,
    choice: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    degrees: int | None = None,
) -> GraphSetArrays:
    """Return a list of DGLGraphs, or of pairs of one and its label; see `read_graphs`.

    Args:
        graphs: all of the same kinds of nodes and edges.
        labels: a class for each; or several by name, as `dgl.load_graphs` gives them.
        label: which of these.
        feature: the node data that is the features.
        choice: what is read of edge data.
        degrees: columns for the degrees of nodes.

    Raises:
        ZooError: something else is in the list, the graphs are unlike, or the labels no classes.
    """
    if any(isinstance(each, list | tuple) for each in graphs):
        if labels is not None or not all(
            isinstance(e, list | tuple) and len(e) == 2 for e in graphs
        ):
            raise ZooError("write a list of graphs and `labels`, or a list of pairs of both.")
        graphs, labels = zip(*graphs, strict=True)
    for number, each in enumerate(graphs):
        if not hasattr(each, "canonical_etypes"):
            raise ZooError(f"number {number} of the list is {described(each)}, and no DGLGraph.")
    labels = labels if isinstance(labels, Mapping) else {} if labels is None else {"labels": labels}
    if label is not None and label not in labels:
        fix = (
            suggestion(label, labels) if labels else "write `labels` of a list, in a file with it."
        )
        raise ZooError(f"label: there are no labels {label!r} of the graphs; {fix}")
    if label is None and len(labels) > 1:
        held = ", ".join(map(repr, labels))
        raise ZooError(f"there are several labels, {held}; write which, `label: {min(labels)}`.")
    called = label or next(iter(labels), "labels")
    left = {key for each in graphs for kind in each.ntypes for key in each.nodes[kind].data}
    left &= {*LABELS}
    held = {
        key for each in graphs for kind in each.canonical_etypes for key in each.edges[kind].data
    }
    return _set(
        lambda each, own: from_dgl(each, None, feature, own, None, left, LABELS),
        graphs, [*labels.get(called, [None] * len(graphs))], called, choice, degrees, held, left,
    )  # fmt: skip


def _set(
    read: Callable[[Any, EdgeColumns], GraphArrays],
    graphs: Sequence[Any],
    labels: Sequence[Any],
    called: str,
    choice: EdgeColumns,
    degrees: int | None,
    of_edges: Collection[str],
    left: set[str],
) -> GraphSetArrays:
    """Return graphs as a set; edge data that nobody names is left out, and told once.

    Args:
        read: what reads one of them, and keeps in `left` what it does not read.
        graphs: all of them.
        labels: of each, None where it is unknown.
        called: what labels are called.
        choice: what is read of edge data.
        degrees: columns for the degrees of nodes.
        of_edges: names of the data that edges have.
        left: names of the data of nodes that is not read.
    """
    unnamed = choice.weight is None and choice.weights is None
    own = choice._replace(weights="ignore") if unnamed else choice
    arrays = []
    for number, each in enumerate(graphs):
        try:
            arrays.append(read(each, own))
        except ZooError as error:
            raise ZooError(f"graph {number} of the list: {error}") from None
    if unnamed and (more := sorted({*of_edges} - {*choice.features})):
        logging.getLogger(__name__).warning(
            "the edges of the graphs have %s, not read; `edge_features: %s` makes features of it, "
            "`weight` weighs edges, `weights: ignore` leaves it out.", " and ".join(more), more[0],
        )  # fmt: skip
    tell_unread(left)
    return set_of_graphs(arrays, labels, called, degrees)


_DICT = "torch.save({'edge_index': edge_index, 'x': x, 'y': y}, path), tensors"
_WANTED = "write a Data of PyG, its to_dict(), or a dict of tensors: `edge_index` (2, E), `x`, `y`."
_EDGES = ("edge_weight", "edge_attr")


def unpacked(held: Any) -> Any:
    """Return the graphs of a set as a list: a list, a data set of PyG or DGL, or what PyG saves.

    One graph comes back as it is; so does that of a data set of one, whose labels are of nodes.

    Raises:
        ZooError: it is a set whose graphs have several kinds of nodes, saved as one.
    """
    joined = isinstance(held, tuple) and len(held) > 1 and _is_graph(held[0])
    if joined and _are_slices(held[1]):
        data = held[0].to_dict() if hasattr(held[0], "to_dict") else held[0]
        return data if held[1] is None else _separated(data, held[1])
    if isinstance(held, list | tuple):
        return list(held)
    like_one = ("to_dict", "keys", "shape", "ntypes", "nodes", "encode")
    if any(hasattr(held, each) for each in like_one) or not hasattr(held, "__getitem__"):
        return held
    graphs = [held[each] for each in range(len(held))]
    return graphs[0] if len(graphs) == 1 else graphs


def _is_graph(held: Any) -> bool:
    return isinstance(held, Mapping) or hasattr(held, "to_dict")


def _are_slices(given: Any) -> bool:
    """Return whether it says where the graphs of a set begin, in tensors that all of them share."""
    if not isinstance(given, Mapping):
        return given is None
    return all(isinstance(each, Mapping) or np.ndim(each) == 1 for each in given.values())


def _separated(data: Mapping[str, Any], slices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the graphs of a set that PyG has saved as one, in its folder `processed`."""
    if any(isinstance(each, Mapping) for each in slices.values()):
        raise ZooError(
            "this is a set of graphs with several kinds of nodes, saved as one; write "
            "torch.save([each.to_dict() for each in dataset], path)."
        )
    begins = {key: each.tolist() for key, each in slices.items()}
    graphs = []
    for number in range(min(map(len, begins.values()), default=1) - 1):
        one = {}
        for key, places in begins.items():
            first, last = places[number : number + 2]
            if isinstance(data[key], list):
                one[key] = data[key][first] if last == first + 1 else data[key][first:last]
            else:
                along = -1 if "index" in key or key == "face" else 0  # as PyG joins them
                one[key] = data[key].narrow(along, first, last - first)
        if "_num_nodes" in data:
            one["num_nodes"] = data["_num_nodes"][number]
        graphs.append(one)
    return graphs


def from_pyg_list(
    graphs: Sequence[Any],
    label: str | None = None,
    feature: str | None = None,
    choice: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    degrees: int | None = None,
) -> GraphSetArrays:
    """Return a list of PyG's `Data`, or of their `to_dict()`, with a label each.

    Args:
        graphs: each with its class, such as `y`; unknown where a graph has none.
        label: what the classes are called; None: the one of `LABELS` that is there.
        feature: the tensor that is the features of nodes.
        choice: what is read of edge data.
        degrees: columns for the degrees of nodes.

    Raises:
        ZooError: it is no such list, or the graphs are unlike.
    """
    dicts = []
    for number, each in enumerate(graphs):
        if not _is_graph(each):
            raise ZooError(
                f"number {number} of the list is {described(each)}, and no graph; write a list of "
                "each.to_dict(), dicts with `edge_index`, `x` and `y`."
            )
        data = each.to_dict() if hasattr(each, "to_dict") else each
        dicts.append({**data.get("_global_store", {}), **data})
    found = [each for each in LABELS if any(own.get(each) is not None for own in dicts)]
    if label is None and len(found) > 1:
        raise ZooError(f"the graphs have {' and '.join(map(repr, found))}; write which is the "
                       f"class, `label: {found[-1]}`.")  # fmt: skip
    called = label or (found or ["y"])[0]
    if label is not None and not any(label in each for each in dicts):
        held = sorted({str(key) for each in dicts for key in each})
        raise ZooError(f"label: no graph has {label!r}; {suggestion(label, held)}")
    left = {*found} - {called}
    bare = [{key: x for key, x in each.items() if key not in (*LABELS, called)} for each in dicts]
    held = {key for each in dicts for key in _EDGES if each.get(key) is not None}
    return _set(
        lambda each, own: from_pyg(each, None, feature, own, None, left),
        bare, [each.get(called) for each in dicts], called, choice, degrees, held, left,
    )  # fmt: skip


def from_pyg(
    data: Any,
    label: str | None = None,
    feature: str | None = None,
    edges: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    task: str | None = None,
    left: set[str] | None = None,
) -> GraphArrays:
    """Return a PyG `Data` or `HeteroData`, or what its `to_dict()` gives; see `read_graph`.

    What of its nodes is not read is told, or kept in `left`.

    Raises:
        ZooError: no graph, labels of several kinds of nodes, or weights that nobody named.
    """
    if not _is_graph(data):
        raise ZooError(f"this is {described(data)}, and no graph; {_WANTED}")
    data = data.to_dict() if hasattr(data, "to_dict") else data
    kinds = {key: each for key, each in data.items() if isinstance(each, Mapping)}
    kinds.pop("_global_store", None)
    relations = {key: each for key, each in kinds.items() if isinstance(key, tuple)}
    if relations:
        return _of_kinds(kinds, relations, label, feature, edges, task, left)
    ends, of_edges = _ends(data, edges)
    found = edges.read(of_edges)
    of_nodes = _of_nodes(data, of_edges, (label, feature))
    label, feature = chosen(of_nodes, label, feature)
    nodes = _count(data, of_nodes, ends, label, feature)
    if (
        "ptr" in data
        and label is not None
        and len(of_nodes[label]) == len(data["ptr"]) - 1 != nodes
    ):
        raise ZooError(
            f"this is a batch of {len(data['ptr']) - 1:,} graphs with a label each; write a list, "
            "batch.to_data_list(), in a file each.to_dict() of them."
        )
    tell_unread(unread(of_nodes, label, feature), left)
    return from_tensors(of_nodes, ends, nodes, label, feature, task)._replace(**found)


def _of_kinds(kinds, relations, label, feature, choice: EdgeColumns, task, left) -> GraphArrays:
    """Return what the `to_dict()` of a `HeteroData` holds as one graph."""
    edges = {key: _ends(each, choice) for key, each in relations.items()}
    names = (label, label and label.rpartition(".")[2], feature)
    nodes = {key: _of_nodes(each, (), names) for key, each in kinds.items() if isinstance(key, str)}
    none = np.zeros((0, 2), np.int64)
    counts = {key: _count(kinds[key], each, none, None, feature) for key, each in nodes.items()}
    lost = [kind for key in edges for kind in (key[0], key[2]) if not counts.get(kind)]
    if lost:
        raise ZooError(f"nothing says how many nodes of the kind {lost[0]!r} there are; write `x`.")
    return of_tensors(nodes, counts, edges, label, feature, choice, task, left)


def _ends(data: Mapping[str, Any], choice: EdgeColumns) -> tuple[np.ndarray, dict[str, Any]]:
    """Return edges (E, 2), of `edge_index` or the transposed matrix `adj_t`, and their data."""
    named = (*_EDGES, choice.weight, *choice.features)
    found = {key: data[key] for key in dict.fromkeys(named) if data.get(key) is not None}
    if data.get("edge_index") is None:
        entries = entries_of(data.get("adj_t"))
        if entries is None:
            held = ", ".join(repr(str(each)) for each in list(data)[:8]) or "nothing"
            raise ZooError(f"there is no `edge_index`, but {held}; {_WANTED}")
        ends, values, _ = entries
        if (values != 1).any():
            found = {"edge_weight": values, **found}
        return ends[:, ::-1], found
    ends = array_of(data["edge_index"], "edge_index")
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        turned = "; write edge_index.T" if ends.ndim == 2 and ends.shape[1] == 2 else ""
        raise ZooError(
            f"`edge_index` is {ends.dtype} of the shape {ends.shape}, and should be int64 of the "
            f"shape (2, E){turned}."
        )
    return np.ascontiguousarray(ends.T), found


def _of_nodes(
    data: Mapping[str, Any], of_edges: Collection[str], named: Collection[str | None]
) -> dict[str, Any]:
    """Return data of nodes: tensors and arrays, and whatever has a name that is read."""
    read = {*LABELS, *FEATURES, *(f"{part}_mask" for part in PARTS), *named}
    return {
        key: each
        for key, each in data.items()
        if (hasattr(each, "shape") or hasattr(each, "sparse_sizes") or key in read)
        and each is not None
        and key not in of_edges
        and not key.startswith(("edge_", "adj"))
        and key != "num_nodes"
    }


def _count(
    data: Mapping[str, Any],
    of_nodes: Mapping[str, Any],
    ends: np.ndarray,
    label: str | None,
    feature: str | None,
) -> int:
    """Return how many nodes there are: as is said, as the features have rows, or the edges ends."""
    if data.get("num_nodes"):
        return int(data["num_nodes"])
    by_edges = 1 + int(ends.max(initial=-1))
    masks = (f"{part}_mask" for part in PARTS)
    for name in (feature, *FEATURES, *masks, "pos", "z", "batch"):
        if name in of_nodes and (shape := shape_of(of_nodes[name])):
            return shape[0]
    labels = shape_of(of_nodes[label]) if label in of_nodes else ()
    rest = [shape[0] for each in of_nodes.values() if (shape := shape_of(each))]
    return max(by_edges, *labels[:1], *(rest if not len(ends) else ()))


def read_pt(path: Path) -> Any:
    """Return what a `.pt` holds: plain tensors, or objects of PyG where it is installed."""
    try:
        with torch.serialization.safe_globals(_classes()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what the bytes suggest
        said = _held(path, error)
    raise ZooError(f"this is no file of plain tensors{said}")


def is_list(path: Path) -> bool:
    """Return whether a `.pt` holds a list, or a long tuple, by the first bytes of its pickle."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(each for each in archive.namelist() if each.endswith("/data.pkl"))
            with archive.open(name) as file:
                begins = file.read(64)
        words = (each.name for each, _, _ in pickletools.genops(begins))
        return next(each for each in words if each not in ("PROTO", "FRAME")) in (
            "EMPTY_LIST",
            "MARK",
        )
    except Exception:  # of another file, which its reader answers
        return False


def _classes() -> list[type]:
    """Return the classes of PyG that its saved graphs consist of; none where it is not there."""
    try:
        from torch_geometric.data import Data, HeteroData, data, storage
    except ImportError:
        return []
    edges = [getattr(data, name) for name in ("DataEdgeAttr", "DataTensorAttr")]
    return [
        Data,
        HeteroData,
        storage.BaseStorage,
        storage.GlobalStorage,
        storage.NodeStorage,
        storage.EdgeStorage,
        *edges,
    ]


def _held(path: Path, error: Exception) -> str:
    """Return what a file holds beside tensors, or what torch says of it, and what to write."""
    try:
        held = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # torch raises what the bytes suggest
        held = []
    known = {f"{each.__module__}.{each.__qualname__}" for each in _classes()}
    held = sorted({*held} - known)
    if not held:
        said = str(error).partition("WeightsUnpickler error:")[2].strip().partition("\n\n")[0]
        return f" ({said[:160] or cause(error).partition('. ')[0]}); {_WANTED}"
    others = [each for each in held if not each.startswith("torch_geometric.")]
    fix = next((said for start, said in _ADVICE.items() for each in held if each.startswith(start)),
               _OF_CLASSES if others or known else _OF_PYG)  # fmt: skip
    return f", but of {', '.join((others or held)[:3])}: {fix}."


_OF_SET = "torch.save([each.to_dict() for each in {}], path)"
_OF_CLASSES = (
    "objects of other classes are never unpickled. Write a graph of PyG as torch.save("
    f"data.to_dict(), path), a data set of them as {_OF_SET.format('dataset')}, and else {_DICT}"
)
_OF_PYG = (
    "these are classes of PyG; install torch_geometric, which reads them here, or write "
    f"torch.save(data.to_dict(), path), of a list {_OF_SET.format('graphs')}"
)
_ADVICE = {
    "torch_geometric.data.batch": f"write its graphs, {_OF_SET.format('batch.to_data_list()')}",
    "torch_sparse": "write `edge_index` in the place of `adj_t`: row, col, _ = data.adj_t.coo(), "
    "and torch.stack([col, row])",
    "dgl.": "graphs of DGL are written by dgl.save_graphs('graphs.bin', graphs)",
    "networkx.": "write it with networkx.write_graphml(graph, 'graph.graphml')",
    "numpy.": "write arrays as tensors, torch.from_numpy(array)",
    "scipy.": "write a matrix as an array of numbers, or with scipy.sparse.save_npz",
}
"""What the names of classes begin with, to what is written in the place of their objects."""
