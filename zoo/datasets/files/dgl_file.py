"""Read a file of `dgl.save_graphs` as plain arrays, in a subprocess.

DGL's reader trusts what it reads: a damaged file may end the whole process. So this file is run as
a program, and what it leaves is read like any other `.npz`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

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
arrays["edge data"] = numpy.array([key for key in graph.edata if key[:1] != "_"], str)
ends = [each.numpy() for each in graph.edges()]
numpy.savez(sys.argv[2], edges=numpy.stack(ends, axis=1), nodes=graph.num_nodes(), **arrays)
"""


def dgl_arrays(path: Path) -> tuple[dict[str, np.ndarray], np.ndarray, int, list[str]]:
    """Return node data by name, edges (E, 2), how many nodes there are, and names of edge data.

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
            data = {
                key.removeprefix("node "): stored[key]
                for key in stored.files
                if key.startswith("node ")
            }
            return data, stored["edges"], int(stored["nodes"]), stored["edge data"].tolist()
