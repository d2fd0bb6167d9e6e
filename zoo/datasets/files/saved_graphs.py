"""Read graphs that DGL and PyTorch Geometric have saved, neither of which need be trusted.

DGL's reader trusts what it reads: a damaged file may end the whole process. So it runs in a
subprocess, and what that leaves is read like any other `.npz`. What PyG saves whole are objects of
its classes: they are read where PyG is installed, with those classes allowed and no others, and
never unpickled freely. A dict of tensors needs no PyG.
"""

import logging
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from zoo.datasets.files.edge_columns import EdgeColumns, Weights
from zoo.datasets.files.graph_arrays import GraphArrays
from zoo.datasets.files.graph_set_arrays import GraphSetArrays, classes_of_graphs, set_of_graphs
from zoo.datasets.files.node_kinds import Relation, of_tensors
from zoo.datasets.files.objects import from_tensors, in_form
from zoo.errors import ZooError

_HOME = str(Path(__file__).parents[3])  # of the zoo, installed or not
_MAGIC = (0xDD2E4FF046B4A13F).to_bytes(8, "little")
# A damaged size must not take all memory of the machine either.
_CODE = """
import os, resource, sys
os.environ.setdefault("DGLBACKEND", "pytorch")
sys.path.append(sys.argv[3])
import numpy
from zoo.dgl import dgl
most = 2**34 + 4 * os.path.getsize(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
graphs, _ = dgl.load_graphs(sys.argv[1])
if len(graphs) != 1: sys.exit(f"the file holds {len(graphs)} graphs; save the one to train on.")
graph, = graphs
arrays, kinds, relations = {}, list(graph.ntypes), [list(each) for each in graph.canonical_etypes]
for number, kind in enumerate(kinds):
    arrays[f"{number} count"] = graph.num_nodes(kind)
    arrays |= {f"{number} node {key}": x.numpy() for key, x in graph.nodes[kind].data.items()}
for number, kind in enumerate(map(tuple, relations)):
    arrays[f"{number} ends"] = numpy.stack([x.numpy() for x in graph.edges(etype=kind)], axis=1)
    arrays |= {f"{number} edge {key}": x.numpy() for key, x in graph.edges[kind].data.items()}
arrays |= {"kinds": numpy.array(kinds, str), "relations": numpy.array(relations, str)}
numpy.savez(sys.argv[2], **arrays)
"""


class Saved(NamedTuple):
    """What a file of DGL holds: by kind the data of nodes and of edges, and how many there are."""

    nodes: dict[str, dict[str, np.ndarray]]
    counts: dict[str, int]
    edges: dict[Relation, tuple[np.ndarray, dict[str, np.ndarray]]]


def read_dgl(
    path: Path,
    task: str | None,
    *,
    label: str | None = None,
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: str | list[str] | None = None,
) -> GraphArrays:
    """Read the one graph that `dgl.save_graphs` has written.

    Args:
        path: the `.bin`.
        task: what the labels are for.
        label: the node data that is the label; left out, `label`, `labels` or `y`.
        feature: the node data that is the features; left out, `feat`, `x` and the like.
        weight: the edge data that is their weight.
        weights: `ignore` reads the graph without its edge data.
        edge_features: the edge data that are features: numbers, one or several for each edge.
    """
    choice = EdgeColumns.of(weight, weights, edge_features)
    saved = _saved(path)
    if len(saved.nodes) > 1 or len(saved.edges) > 1:
        return of_tensors(saved.nodes, saved.counts, saved.edges, label, feature, choice, task)
    ((kind, data),) = saved.nodes.items()
    ((edges, edge_data),) = saved.edges.values()
    arrays = from_tensors(data, edges, saved.counts[kind], label, feature, task)
    return in_form(arrays._replace(**choice.read(edge_data)))


def _saved(path: Path) -> Saved:
    """Return what a file of DGL holds; raise ZooError where it is damaged, or is not DGL's."""
    with path.open("rb") as file:
        if file.read(8) != _MAGIC:
            raise ZooError("this is no file of DGL; write it with dgl.save_graphs(path, [graph]).")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "graph.npz"
        command = [sys.executable, "-P", "-c", _CODE, str(path), str(written), _HOME]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()[-1:]
            raise ZooError(
                said[0]
                if said and said[0].startswith("the file holds")
                else "the file is damaged: DGL cannot read it. Write it again with "
                "dgl.save_graphs(path, [graph])."
            )
        with np.load(written, allow_pickle=False) as stored:
            return _by_kind({key: stored[key] for key in stored.files})


def _by_kind(arrays: dict[str, np.ndarray]) -> Saved:
    def named(start: str) -> dict[str, np.ndarray]:
        found = {key: each for key, each in arrays.items() if key.startswith(start)}
        own = {key.removeprefix(start): each for key, each in found.items()}
        return {key: each for key, each in own.items() if not key.startswith("_")}

    kinds, relations = (
        arrays["kinds"].tolist(),
        [tuple(each) for each in arrays["relations"].tolist()],
    )
    nodes = {kind: named(f"{number} node ") for number, kind in enumerate(kinds)}
    counts = {kind: int(arrays[f"{number} count"]) for number, kind in enumerate(kinds)}
    edges = {
        kind: (arrays[f"{number} ends"], named(f"{number} edge "))
        for number, kind in enumerate(relations)
    }
    return Saved(nodes, counts, edges)


_WANTED = "write it with torch.save(data.to_dict(), path): a dict of plain tensors."
_EDGES = ("edge_weight", "edge_attr")


def read_pyg(
    path: Path,
    task: str | None,
    *,
    label: str | None = None,
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: str | list[str] | None = None,
) -> GraphArrays:
    """Read a PyG graph: `torch.save(data, path)` where PyG is installed, or `data.to_dict()`.

    Args:
        path: the `.pt`, a `Data` or a dict of tensors: `edge_index` (2, E), `x`, `y` and masks.
        task: what the labels are for.
        label: the tensor that is the label; left out, `y` or `label`.
        feature: the tensor that is the features; left out, `x` and the like.
        weight: the tensor that is the weight of edges, such as `edge_weight`.
        weights: `ignore` reads the graph without weights of edges.
        edge_features: the tensor that is features of edges, such as `edge_attr`.
    """
    choice = EdgeColumns.of(weight, weights, edge_features)
    return from_pyg(read_pt(path), label, feature, choice, task)


def from_pyg_list(
    graphs: Any, edge_features: str | None = None, degrees: int | None = None
) -> GraphSetArrays:
    """Return a list of PyG's `Data`, or of their `to_dict()`, with a label `y` each.

    Raises:
        ZooError: it is no such list, or the graphs are unlike.
    """
    if not isinstance(graphs, list | tuple) or not graphs:
        raise ZooError("there is no list of graphs; write torch.save([each.to_dict(), ...], path).")
    choice = EdgeColumns.of(None, "ignore", edge_features)
    labels, parts, unread = [], [], set[str]()
    for number, each in enumerate(graphs):
        data = each.to_dict() if hasattr(each, "to_dict") else each
        try:
            arrays = from_pyg({key: x for key, x in data.items() if key != "y"}, edges=choice)
            labels.append(data.get("y"))
        except (ZooError, AttributeError, IndexError) as error:
            raise ZooError(f"graph {number} of the list: {error}") from None
        unread |= {key for key in _EDGES if data.get(key) is not None} - {*choice.features}
        count = len(arrays.labels)
        features = arrays.features if "x" in data else np.zeros((count, 0), np.float32)
        parts.append(GraphSetArrays(arrays.edges, np.zeros(count, np.int64), features,
                                    np.array([-1]), None, arrays.edge_features))  # fmt: skip
    if unread:
        logging.getLogger(__name__).warning(
            "the edges of the graphs have %s, not read; `edge_features: %s` makes features of it.",
            " and ".join(sorted(unread)), min(unread),
        )  # fmt: skip
    known, names = classes_of_graphs(labels)
    parts = [each._replace(labels=known[place : place + 1]) for place, each in enumerate(parts)]
    return set_of_graphs(parts, degrees)._replace(label_names=names)


def from_pyg(
    data: Any,
    label: str | None = None,
    feature: str | None = None,
    edges: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    task: str | None = None,
) -> GraphArrays:
    """Return a PyG `Data` or `HeteroData`, or what its `to_dict()` gives; see `read_pyg`.

    Raises:
        ZooError: no graph, labels of several kinds of nodes, or weights that nobody named.
    """
    data = data.to_dict() if hasattr(data, "to_dict") else data
    if not isinstance(data, Mapping):
        raise ZooError(f"there is no `edge_index`; {_WANTED}")
    kinds = {key: each for key, each in data.items() if isinstance(each, Mapping)}
    kinds.pop("_global_store", None)
    relations = {key: each for key, each in kinds.items() if isinstance(key, tuple)}
    if relations:
        return _of_kinds(kinds, relations, label, feature, edges, task)
    ends = _ends(data.get("edge_index"))
    tensors = _tensors(data)
    found = edges.read({key: tensors[key] for key in _EDGES if key in tensors})
    of_nodes = {key: each for key, each in tensors.items() if not key.startswith("edge_")}
    nodes = _count(data, of_nodes) or 1 + int(ends.max(initial=-1))
    return from_tensors(of_nodes, ends, nodes, label, feature, task)._replace(**found)


def _of_kinds(kinds, relations, label, feature, choice: EdgeColumns, task) -> GraphArrays:
    """Return what the `to_dict()` of a `HeteroData` holds as one graph."""
    nodes = {key: _tensors(each) for key, each in kinds.items() if isinstance(key, str)}
    edges = {
        key: (_ends(each.get("edge_index")), {
            name: value for name, value in _tensors(each).items() if name in _EDGES
        })
        for key, each in relations.items()
    }  # fmt: skip
    counts = {key: _count(kinds[key], each) for key, each in nodes.items()}
    lost = [kind for key in edges for kind in (key[0], key[2]) if not counts.get(kind)]
    if lost:
        raise ZooError(f"nothing says how many nodes of the kind {lost[0]!r} there are; write `x`.")
    return of_tensors(nodes, counts, edges, label, feature, choice, task)


def _ends(edges: Any) -> np.ndarray:
    if not hasattr(edges, "shape"):
        raise ZooError(f"there is no `edge_index`; {_WANTED}")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise ZooError(f"`edge_index` has the shape {tuple(edges.shape)}; write (2, E), int64.")
    _tensors({"edge_index": edges})
    return np.ascontiguousarray(edges.detach().cpu().T.numpy())


def _tensors(data: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    tensors = {key: each for key, each in data.items() if hasattr(each, "shape")}
    for key, each in tensors.items():
        if each.layout != torch.strided or each.nbytes > each.untyped_storage().nbytes():
            raise ZooError(f"`{key}` is sparse, or one number written as many; {_WANTED}")
    return tensors


def _count(data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> int:
    sizes = [len(each) for each in tensors.values() if each.ndim]
    return data.get("num_nodes") or max(sizes, default=0)


def read_pt(path: Path) -> Any:
    """Return what a `.pt` holds: plain tensors, or objects of PyG where it is installed."""
    try:
        with torch.serialization.safe_globals(_classes()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what the bytes suggest
        said = _held(path, error)
    raise ZooError(f"this is no file of plain tensors{said}; {_WANTED}")


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
    """Return what a file holds beside tensors, or what torch says of it in short."""
    try:
        held = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # torch raises what the bytes suggest
        held = []
    if any(each.startswith("torch_geometric") for each in held):
        return ", but of classes of PyG; install torch_geometric, which reads them here, or else"
    if held:
        return f", but of {', '.join(sorted(held)[:3])}"
    return f" ({' '.join(str(error).split()).partition('. ')[0]})"
