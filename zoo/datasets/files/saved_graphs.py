"""Read graphs that DGL and PyTorch Geometric have saved, neither of which need be trusted.

DGL's reader trusts what it reads: a damaged file may end the whole process. So it runs in a
subprocess, and what that leaves is read like any other `.npz`. What PyG saves whole are objects of
its classes: they are read where PyG is installed, with those classes allowed and no others, and
never unpickled freely. A dict of tensors needs no PyG.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.datasets.files.graph_arrays import GraphArrays, Weights, weight_name
from zoo.datasets.files.objects import from_tensors, one_column
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
if not graph.is_homogeneous: sys.exit(
    "the graph has several kinds of nodes or edges; save dgl.to_homogeneous(graph).")
arrays = {f"node {key}": value.numpy() for key, value in graph.ndata.items()}
arrays |= {f"edge {key}": value.numpy() for key, value in graph.edata.items() if key[:1] != "_"}
ends = [each.numpy() for each in graph.edges()]
numpy.savez(sys.argv[2], edges=numpy.stack(ends, axis=1), nodes=graph.num_nodes(), **arrays)
"""


def dgl_arrays(
    path: Path,
) -> tuple[dict[str, np.ndarray], np.ndarray, int, dict[str, np.ndarray]]:
    """Return node data by name, edges (E, 2), how many nodes there are, and edge data by name.

    Raises:
        ZooError: the file is damaged, is not DGL's, or holds not one graph of one kind.
    """
    with path.open("rb") as file:
        if file.read(8) != _MAGIC:
            raise ZooError("this is no file of DGL; write it with dgl.save_graphs(path, [graph]).")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "graph.npz"
        command = [sys.executable, "-P", "-c", _CODE, str(path), str(written), _HOME]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()[-1:]
            known = said and said[0].startswith(("the file holds", "the graph has"))
            raise ZooError(
                said[0]
                if known
                else "the file is damaged: DGL cannot read it. Write it again with "
                "dgl.save_graphs(path, [graph])."
            )
        with np.load(written, allow_pickle=False) as stored:
            of_nodes, of_edges = (
                {
                    key.removeprefix(kind): stored[key]
                    for key in stored.files
                    if key.startswith(kind)
                }
                for kind in ("node ", "edge ")
            )
            return of_nodes, stored["edges"], int(stored["nodes"]), of_edges


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
) -> GraphArrays:
    """Read a PyG graph: `torch.save(data, path)` where PyG is installed, or `data.to_dict()`.

    Args:
        path: the `.pt`, a `Data` or a dict of tensors: `edge_index` (2, E), `x`, `y` and masks.
        task: what the labels are for.
        label: the tensor that is the label; left out, `y` or `label`.
        feature: the tensor that is the features; left out, `x` and the like.
        weight: the tensor that is the weight of edges, such as `edge_weight`.
        weights: `ignore` reads the graph without weights or features of edges.
    """
    return from_pyg(_read(path), label, feature, weight, weights)


def from_pyg(
    data: Any,
    label: str | None = None,
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
) -> GraphArrays:
    """Return a PyG `Data`, or what its `to_dict()` gives, as arrays; see `read_pyg`.

    Raises:
        ZooError: no graph, one of several kinds of nodes, or weights that nobody named.
    """
    if hasattr(data, "node_types"):
        raise ZooError(
            f"the graph has several kinds of nodes ({', '.join(map(str, data.node_types))}); write "
            "data.to_homogeneous() first."
        )
    data = data.to_dict() if hasattr(data, "to_dict") else data
    if not isinstance(data, Mapping) or not hasattr(data.get("edge_index"), "shape"):
        raise ZooError(f"there is no `edge_index`; {_WANTED}")
    edges = data["edge_index"]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise ZooError(f"`edge_index` has the shape {tuple(edges.shape)}; write (2, E), int64.")
    tensors = {key: each for key, each in data.items() if hasattr(each, "shape")}
    for key, each in tensors.items():
        if each.layout != torch.strided or each.nbytes > each.untyped_storage().nbytes():
            raise ZooError(f"`{key}` is sparse, or one number written as many; {_WANTED}")
    named = weight_name([key for key in _EDGES if key in tensors], weight, weights)
    values = None if named is None else one_column(named, tensors[named])
    of_nodes = {key: each for key, each in tensors.items() if not key.startswith("edge_")}
    sizes = [len(each) for each in of_nodes.values() if each.ndim]
    nodes = data.get("num_nodes") or max(sizes, default=0) or 1 + int(edges.max())
    ends = np.ascontiguousarray(edges.detach().cpu().T.numpy())
    return from_tensors(of_nodes, ends, nodes, label, feature)._replace(weights=values)


def _read(path: Path) -> Any:
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
        from torch_geometric.data import Data, data, storage
    except ImportError:
        return []
    edges = [getattr(data, name) for name in ("DataEdgeAttr", "DataTensorAttr")]
    return [Data, storage.GlobalStorage, storage.NodeStorage, storage.EdgeStorage, *edges]


def _held(path: Path, error: Exception) -> str:
    """Return what a file holds beside tensors, or what torch says of it in short."""
    try:
        held = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # torch raises what the bytes suggest
        held = []
    if held:
        return f", but of {', '.join(sorted(held)[:3])}"
    return f" ({' '.join(str(error).split()).partition('. ')[0]})"
