"""Readers of files and folders by what they end in: one graph, or many with a label each.

A reader of one graph returns `GraphArrays`; those of series in time, sets of graphs and pairs of
sentences return their data set. An option of a recipe is a keyword of the reader.
"""

import gzip
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy import sparse

from zoo.config.learnt_columns import Missing
from zoo.config.options import Spec, Table
from zoo.data.files.dgl_and_pyg import count_graphs_in_bin, is_list, read_graph
from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.objects import EdgeColumns, Weights, from_scipy, refuse_idle
from zoo.data.files.prepared import read_unchecked
from zoo.data.files.text_lines import has_pairs, read_terms
from zoo.data.load.graph_sets import (
    read_graph_tables,
    read_list,
    read_tu,
    tu_folder,
)
from zoo.data.load.series import series_of_json, series_of_table
from zoo.data.mapped.reader import is_on_disk, read_whole
from zoo.data.molecules import has_smiles, read_molecules
from zoo.data.samples import Separate
from zoo.data.tables.columns import Columns, Names, Numbers
from zoo.data.tables.networkx_graph import from_networkx
from zoo.data.tables.nodes_and_edges import (
    has_graph_table,
    read_node_table,
    read_tables,
)
from zoo.data.tables.read import EXCEL, SUFFIXES, CsvFormat
from zoo.errors import ZooError
from zoo.system.files import user_path
from zoo.tasks.labels import FORECASTING, GRAPH_METRICS, NODE_METRICS, Labels

Forecasting = Literal["node-forecasting"]
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


_COLUMNS = {"pattern": 2, "integer": 3, "real": 3, "double": 3}
_HALVES = {"general": None, "symmetric": 1, "hermitian": 1, "skew-symmetric": -1}
"""What the other half of a matrix is of the one in the file; None: all of it is there."""

_LONGEST = 10_000  # bytes of a line


def read_npz(path: Path, task: str | None, *, weights: Weights = None) -> GraphArrays:
    """Read a prepared file.

    Args:
        path: the `.npz`; `data/README.md` describes it.
        task: what the labels are for; None: what the file says.
        weights: `ignore` reads the graph without weights of edges, if it has some.
    """
    arrays = read_unchecked(path)
    if weights == "use" and arrays.weights is None:
        raise ZooError("weights: the edges have none to use; leave it out.")
    return arrays._replace(weights=None) if weights == "ignore" else arrays


def read_matrix(
    path: Path,
    task: str | None,
    *,
    nodes: str | None = None,
    label: Names | None = None,
    labels: Labels = "use",
    numbers: Numbers = "standard",
    weights: Weights = None,
) -> GraphArrays:
    """Read an adjacency matrix: of `scipy.sparse.save_npz`, or in the Matrix Market format.

    Args:
        path: the `.npz` or `.mtx`.
        task: what the labels are for.
        nodes: a table with labels and features, a row per node in the order of the matrix.
        label: its column, or columns, of labels; left out, `label`.
        labels: `ignore` reads nodes that are to be predicted: this column is not looked at.
        numbers: of the table: `standard` gives them mean 0 and deviation 1, by the training nodes;
            `raw` leaves them as they are.
        weights: `use` weighs edges by the values of the matrix, `ignore` reads it without.
    """
    of_scipy = path.suffix.lower() == ".npz"
    adjacency, symmetric = (sparse.load_npz(path), False) if of_scipy else read_coordinates(path)
    of_nodes = None
    if nodes is None:
        refuse_idle("a table of nodes", "nodes", label=label)
    else:
        choice = Columns(label=label, task=task, numbers=numbers, unlabelled=labels == "ignore")
        of_nodes = read_node_table(user_path(nodes), choice)
    arrays = from_scipy(adjacency, of_nodes, weights, task)
    return arrays._replace(form="undirected" if symmetric else None)


def read_coordinates(path: Path) -> tuple[sparse.coo_array, bool]:
    """Return the entries of a matrix, and whether it is symmetric and lists one of each pair.

    That is a line that says what follows, the size, then a line per entry. SciPy's own reader ends
    the process on some damaged files, so the few lines are read here.

    Raises:
        ZooError: the file is no sparse matrix of numbers, is cut short or damaged.
    """
    with path.open("rb") as file:
        banner = file.readline(_LONGEST).lower().split()
        if banner and banner[0].startswith(b"\x1f\x8b"):
            raise ZooError("the file is packed by gzip, which is not read here; unpack it, gunzip.")
        if banner[:3] != [b"%%matrixmarket", b"matrix", b"coordinate"] or len(banner) != 5:
            raise ZooError(
                "this is no sparse Matrix Market file: its first line should be "
                "%%MatrixMarket matrix coordinate pattern general, or real, or symmetric."
            )
        kind, form = (word.decode(errors="replace") for word in banner[3:])
        if kind not in _COLUMNS or form not in _HALVES:
            raise ZooError(
                f"the matrix is {kind} {form}, which is not read; write it as "
                f"{', '.join(_COLUMNS)}, and {', '.join(_HALVES)}."
            )
        columns, half = _COLUMNS[kind], _HALVES[form]
        line = file.readline(_LONGEST)
        while line.startswith(b"%") or (line and not line.strip()):
            line = file.readline(_LONGEST)
        rows, width, count = map(int, line.split())
        lines = [line for line in file if line.strip() and not line.startswith(b"%")]
    if len(lines) != count:
        raise ZooError(
            f"the file is damaged: it says {count:,} entries and lists {len(lines):,}. Write it "
            "again."
        )
    table = np.loadtxt(lines, ndmin=2) if lines else np.zeros((0, columns))
    places = table[:, :2].astype(np.int64) - 1
    if table.shape[1] != columns or (places < 0).any() or (places >= (rows, width)).any():
        raise ZooError(
            f"an entry leaves the matrix, {rows:,} by {width:,}, or has not {columns} numbers; "
            "rows and columns are counted from 1."
        )
    values = table[:, 2] if columns == 3 else np.ones(count)
    if half == -1:
        places = np.concatenate([places, places[:, ::-1]])
        values = np.concatenate([values, -values])
    return sparse.coo_array((values, tuple(places.T)), shape=(rows, width)), half == 1


def read_attributed(
    path: Path,
    task: str | None,
    *,
    label: str | None = None,
    labels: Labels = "use",
    split_column: str | None = None,
    columns: Names | None = None,
    one_hot: Names | None = None,
    text: Names | None = None,
    dates: Names | None = None,
    missing: Missing = "refuse",
    numbers: Numbers = "standard",
    unknown: str | int | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: Names | None = None,
) -> GraphArrays:
    """Read GraphML or GML; node attributes are labels and features.

    What GML calls `label` is a node's id.

    Args:
        path: the `.graphml` or `.gml`.
        task: what the labels are for.
        label: the attribute that is the class or number to predict; left out, `label`.
        labels: `ignore` reads nodes that are to be predicted: this attribute is not looked at.
        split_column: the attribute that is train, val, test; left out, `split`, or a mask for each
            part, such as `train_mask`.
        columns: the attributes that are features; left out, all others.
        one_hot: attributes that are kinds of things among them.
        text: attributes of text among them, whose terms become columns (TF-IDF).
        dates: attributes that are dates among them, such as 2024-03-31.
        missing: what becomes of numbers and dates that a node has not.
        numbers: `standard` gives numbers mean 0 and deviation 1, by the training nodes; attributes
            of 0 and 1 stay as they are. `raw`: all do.
        unknown: what stands for a label that is not known.
        weight: the attribute of edges that is their weight, 1 where one has none.
        weights: `ignore` reads the graph without attributes of edges.
        edge_features: the attributes of edges that are features: numbers, or lists of them.
    """
    choice = Columns(None, label, split_column, columns, one_hot, unknown, task, text, dates,
                     missing=missing, numbers=numbers, unlabelled=labels == "ignore")  # fmt: skip
    gml = Path(path.name.removesuffix(".gz")).suffix.lower() == ".gml"
    graph = _gml(path) if gml else _graphml(path)
    return from_networkx(graph, choice, EdgeColumns.of(weight, weights, edge_features))


def _graphml(path: Path) -> Any:
    """Return the graph of a file, also where graph-tool has written it.

    Its numbers are hexadecimal, 0x1.8p+1, and its vectors lists of numbers; values of other types
    that NetworkX does not know are text.

    Raises:
        ZooError: the file holds several graphs.
    """
    import networkx
    from networkx.readwrite.graphml import GraphMLReader

    def number(text: str) -> float:
        return float.fromhex(text) if "0x" in text.lower() else float(text)

    def vector(text: str) -> list[float]:
        return [number(part) for part in text.split(",")]

    reader = GraphMLReader()
    kinds = ("short", "int", "long", "float", "double", "long double")
    reader.python_type = defaultdict(
        lambda: str,
        {
            **reader.python_type,
            **dict.fromkeys(("float", "double", "long double"), number),
            "short": int,
            **dict.fromkeys((f"vector_{kind}" for kind in kinds), vector),
        },
    )
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        graphs = [*reader(path=file)]
    if len(graphs) > 1:
        raise ZooError(f"the file holds {len(graphs)} graphs; write one of them alone.")
    return graphs[0] if graphs else networkx.read_graphml(path)  # which mends a header


def _gml(path: Path) -> Any:
    """Return the graph of a file, whose nodes are called by their numbers if they have no label."""
    import networkx

    try:
        return networkx.read_gml(path)
    except networkx.NetworkXError as error:
        if "no 'label'" not in str(error):
            raise
        return networkx.read_gml(path, label="id")


READERS = Table(
    "kind of file",
    {
        "folder": read_tables,
        "on-disk folder": read_whole,
        ".csv": read_tables,
        ".tsv": read_tables,
        ".parquet": read_tables,
        ".npz": read_npz,
        "scipy .npz": read_matrix,
        ".jsonl": read_terms,
        ".mtx": read_matrix,
        ".bin": read_graph,
        ".pt": read_graph,
        ".graphml": read_attributed,
        ".gml": read_attributed,
    },
)
"""What a path ends in, to function `(path, task, *, options) -> GraphArrays`, unchecked."""

SERIES = Table(
    "kind of series", {"table of times": series_of_table, "series .json": series_of_json}
)
"""What holds series in time, to function `(path, *, options) -> Snapshots`."""

SETS = Table(
    "kind of set of graphs",
    {
        "TU folder": read_tu,
        "folder with graphs.csv": read_graph_tables,
        ".pt or .bin of several": read_list,
        "table of SMILES": read_molecules,
    },
)
"""What holds many graphs with a label each, to function `(path, *, options) -> Samples`."""

KINDS: dict[Callable[..., Separate], str] = {
    read_tu: "a set of graphs",
    read_graph_tables: "a set of graphs",
    read_list: "a set of graphs",
    read_molecules: "a set of molecules",
    series_of_json: "series in time",
    series_of_table: "series in time",
}
"""What each reads that is no single graph; `read_pairs` is imported when it is needed."""


def graph_reader(path: Path) -> Callable[..., GraphArrays]:
    """Return the reader of an existing folder or file that holds one graph.

    Raises:
        ZooError: none reads files that end like this.
    """
    if not path.is_dir() and not path.is_file():
        raise ZooError(f"{path} is no folder and no regular file; write the path of a graph.")
    kind = "folder" if path.is_dir() else Path(path.name.removesuffix(".gz")).suffix.lower()
    if kind == "folder" and is_on_disk(path):
        kind = "on-disk folder"
    if kind == ".npz" and _is_scipy(path):
        kind = "scipy .npz"
    if kind not in READERS:
        endings = ", ".join(ending for ending in READERS if ending.startswith("."))
        if kind in EXCEL:
            raise ZooError(f"{path} is a workbook of Excel, which is not read here; save each "
                           "sheet as CSV, nodes.csv and edges.csv in a folder.")  # fmt: skip
        raise ZooError(
            f"{path} ends in {path.suffix or 'nothing'!r}, which is not read here; write a folder "
            f"with nodes.csv and edges.csv, or a file that ends in {endings}. What NetworkX reads "
            "goes through zoo.Dataset.from_networkx(networkx.read_gexf(path)), arrays through "
            "zoo.Dataset.from_arrays or numpy.savez('graph.npz', x=x, y=y)."
        )
    return READERS[kind]


def _is_scipy(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "format.npy" in archive.namelist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False


_SEVERAL: dict[str, Callable[[Path], bool]] = {
    ".pt": is_list,
    ".bin": lambda path: count_graphs_in_bin(path) > 1,
}
"""What a file may end in, to what tells by its first bytes that it holds several graphs."""


def dataset_reader(path: Path, spec: Spec) -> Callable[..., Separate] | None:
    """Return the reader of pairs of sentences, series or many graphs; None of what is one graph.

    Args:
        path: a folder or a file, which need not exist.
        spec: what names it, with its options.
    """
    options = spec if isinstance(spec, Mapping) else {}
    task, ending = options.get("task"), path.suffix.lower()
    if has_pairs(path):
        from zoo.sequences.data.pairs import read_pairs

        return read_pairs
    if tu_folder(path):
        return read_tu
    if has_graph_table(path):
        return read_graph_tables
    if ending in _SEVERAL and (task in GRAPH_METRICS or _SEVERAL[ending](path)):
        return read_list
    if ending == ".json":
        return series_of_json
    if "smiles" in options or (
        ending in SUFFIXES and not {"edges", "time"} & {*options} and task not in NODE_METRICS
        and has_smiles(path, CsvFormat(options.get("separator")))
    ):  # fmt: skip
        return read_molecules
    timed = "time" in options or task == FORECASTING
    return series_of_table if timed and not path.is_dir() else None
