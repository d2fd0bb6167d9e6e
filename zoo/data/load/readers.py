"""Readers of files and folders by what they end in: one graph, or many with a label each.

A reader of one graph returns `GraphArrays`; those of series in time, sets of graphs and pairs of
sentences return their data set. An option of a recipe is a keyword of the reader.
"""

import dataclasses
import gzip
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from zoo.config.learnt_columns import Missing
from zoo.config.options import Count, Number, Spec, Table
from zoo.data.features import FEATURES
from zoo.data.files.dgl_and_pyg import count_graphs_in_bin, is_list, read_graph, read_graphs
from zoo.data.files.graph_arrays import Direction, Duplicates, GraphArrays
from zoo.data.files.graph_set_arrays import read_tu_folder, tu_folder
from zoo.data.files.matrices import from_scipy, read_coordinates
from zoo.data.files.objects import EdgeColumns, Weights, refuse_idle
from zoo.data.files.pair_folders import has_pairs
from zoo.data.files.prepared import read_unchecked
from zoo.data.files.text_lines import read_terms
from zoo.data.mapped.reader import is_on_disk, read_whole
from zoo.data.samples import Samples, Separate
from zoo.data.snapshots import Scale, Snapshots
from zoo.data.tables.columns import TERMS, Columns, Names, Numbers, list_names
from zoo.data.tables.molecules import has_smiles, read_molecule_table
from zoo.data.tables.networkx_graph import from_networkx
from zoo.data.tables.nodes_and_edges import (
    has_graph_table,
    read_graphs_nodes_edges,
    read_node_table,
    read_tables,
)
from zoo.data.tables.read import SUFFIXES, CsvFormat, Decimal, Separator
from zoo.data.tables.series import read_series_json, read_series_table
from zoo.errors import ZooError, reading
from zoo.system.files import user_path
from zoo.tasks.labels import FORECASTING, GRAPH_METRICS, NODE_METRICS, Labels

Forecasting = Literal["node-forecasting"]
GraphTask = Literal[tuple(GRAPH_METRICS)]
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


def series_of_table(
    path: Path,
    *,
    time: str,
    target: str,
    id: str | None = None,
    columns: Names | None = None,
    edges: str | None = None,
    edge_columns: Pair | None = None,
    lags: Count = 8,
    horizon: Count = 1,
    scale: Scale = "none",
    period: Count | None = None,
    date_format: str | None = None,
    step: str | None = None,
    missing: Literal["refuse", "unknown"] = "refuse",
    weight: str | None = None,
    weights: Weights = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    separator: Separator | None = None,
    decimal: Decimal = "point",
    task: Forecasting = FORECASTING,
) -> Snapshots:
    """Read a table with a column of times: a row for each node and time, in any order.

    Args:
        path: a CSV or Parquet table.
        time: column of times: dates, or whole numbers.
        target: column of the numbers that are predicted.
        id: column that says which node a row is of; left out, there is one.
        columns: further columns of numbers that are read.
        edges: a table of edges between ids; left out, there are none. With the column `time` they
            are those of each time, and stay until the next time that has some.
        edge_columns: its two columns of ids; left out, `source` and `target`.
        lags: values of each column that are read, up to the present one.
        horizon: values that are predicted at once.
        scale: `standard` divides what is read of a node by its deviation at times of training.
        period: steps to the same season again; left out, as the steps say: 12 months, 7 days.
        date_format: how dates are written, such as `%d/%m/%Y`; left out, 2026-03-31 or 31.3.2026.
        step: of the times, such as D, B, W-MON, MS or h; left out, as most times have it.
        missing: `unknown` takes times that have no row; else they are refused.
        weight: column of the table of edges: how much an edge counts.
        weights: `use` its only other column, or `ignore` all others.
        duplicates: what the weights of an edge that is there more than once become.
        direction: of edges: `both`, `in`, `out`, or `separate`, which gcn, sage and gat tell apart.
        separator: of the cells of a CSV, a character or `tab`; left out, a comma (`.tsv`: a tab).
        decimal: what stands before the digits of a fraction in a CSV: `point` or `comma`.
        task: what for; there is one word for it.
    """
    with reading(path, "a table of series"):
        series = read_series_table(
            path, time=time, target=target, id=id, columns=list_names(columns) or [], edges=edges,
            edge_columns=edge_columns, date_format=date_format, step=step,
            missing=missing, weight=weight, weights=weights,
            csv_format=CsvFormat(separator, decimal),
        )  # fmt: skip
    return Snapshots.of(
        path.stem, series, lags=lags, horizon=horizon, scale=scale, period=period,
        direction=direction, duplicates=duplicates,
    )  # fmt: skip


def series_of_json(
    path: Path,
    *,
    lags: Count = 8,
    horizon: Count = 1,
    scale: Scale = "none",
    period: Count | None = None,
    weights: Weights = None,
    direction: Direction = "both",
    task: Forecasting = FORECASTING,
) -> Snapshots:
    """Read a JSON file of PyTorch Geometric Temporal.

    Args:
        path: the `.json`.
        lags: values of each node that are read, up to the present one.
        horizon: values that are predicted at once.
        scale: `standard` divides what is read of a node by its deviation at times of training.
        period: times to the same season again, if there are any.
        weights: `use` or `ignore` those of edges.
        direction: of edges: `both`, `in`, `out`, or `separate`, which gcn, sage and gat tell apart.
        task: what for; there is one word for it.
    """
    series = read_series_json(path, weights)
    return Snapshots.of(
        path.stem, series, lags=lags, horizon=horizon, scale=scale, period=period,
        direction=direction,
    )  # fmt: skip


def read_tu(
    path: Path,
    *,
    features: Annotated[Spec, FEATURES] = "raw",
    degrees: Number | None = None,
    edge_features: Literal["use", "ignore"] = "use",
    readout: Literal["mean"] | None = None,
    label: Names | None = None,
    labels: Labels = "use",
    task: GraphTask | None = None,
) -> Samples:
    """Read a set of graphs with labels of their own, in the files of the TU collection.

    Args:
        path: a folder with `DS_A.txt`, `DS_graph_indicator.txt`, `DS_graph_labels.txt` and others.
        features: what is done to the features first.
        degrees: columns for the degrees of nodes, up to this one, 0 for none; left out, 64 where
            nodes have neither labels nor attributes, or all the same.
        edge_features: labels and attributes of edges, if there are some.
        readout: `mean` of the logits of its nodes; left out, `readout` of the recipe.
        label: which columns of the labels, or attributes, of graphs are predicted, such as
            `attribute 0`; left out, all.
        labels: `ignore` reads graphs that are to be predicted: their labels may not be there.
        task: what the labels are for; left out, classes, numbers where there are attributes of
            graphs alone.
    """
    with reading(path, "a set of graphs of the TU collection"):
        arrays = read_tu_folder(
            path, degrees, labels=labels == "use", label=list_names(label), task=task
        )
        if edge_features == "ignore":
            arrays = arrays._replace(edge_features=None, edge_feature_names=None)
        return Samples.of_graphs(path.name, arrays).transformed(features)


def read_list(
    path: Path,
    *,
    features: Annotated[Spec, FEATURES] = "raw",
    label: Names | None = None,
    labels: Labels = "use",
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: Names | None = None,
    degrees: Number | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    readout: Literal["mean"] | None = None,
    task: GraphTask | None = None,
) -> Samples:
    """Read a list of graphs with a label each, as PyTorch or DGL saves it.

    `torch.save([data.to_dict() for data in graphs], path)`, or what PyG keeps in its folder
    `processed`, where `task` says so; `dgl.save_graphs(path, graphs, {"labels": classes})`.

    Args:
        path: the `.pt` or `.bin`.
        features: what is done to the features first.
        label: the tensor that is the label of a graph, left out `y` or `label`; in a `.bin` which
            of the labels that were saved with the graphs, left out the only ones. Of several names
            each is a number that is predicted.
        labels: `ignore` reads graphs that are to be predicted: their labels may not be there.
        feature: the node data that is the features; left out, `x`, `feat` and the like.
        weight: the edge data that is their weight, such as `edge_weight`.
        weights: `ignore` reads the graphs without weights of edges.
        edge_features: the edge data that are features, such as `edge_attr`.
        degrees: columns for the degrees of nodes, up to this one, 0 for none; left out, 64 where
            nodes have no features, or all the same.
        duplicates: what the weights of an edge that is there more than once become.
        direction: of edges: `both`, `in`, `out`, or `separate`, which gcn, sage and gat tell apart.
        readout: `mean` of the logits of its nodes; left out, `readout` of the recipe.
        task: what the labels are for; left out, classes, or targets of 0 and 1 where a graph has
            several.
    """
    choice = EdgeColumns.of(weight, weights, edge_features)
    with reading(path, "a list of graphs"):
        arrays = read_graphs(
            path, list_names(label), feature, choice, degrees, task, labels == "use"
        )
        data = Samples.of_graphs(path.stem, arrays, "mean", duplicates, direction)
        return data.transformed(features)


def read_graph_tables(
    path: Path,
    *,
    graph_column: str = "graph",
    id: str = "id",
    label: Names | None = None,
    labels: Labels = "use",
    split_column: str | None = None,
    time_column: str | None = None,
    group_column: str | None = None,
    columns: Names | None = None,
    one_hot: Names | None = None,
    text: Names | None = None,
    dates: Names | None = None,
    date_format: str | None = None,
    vectors: Names | None = None,
    missing: Missing = "refuse",
    terms: Count = TERMS,
    numbers: Numbers = "standard",
    language_model: str | None = None,
    unknown: str | int | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    weights: Weights = None,
    edge_features: Names | None = None,
    degrees: Number | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    separator: Separator | None = None,
    decimal: Decimal = "point",
    readout: Literal["mean"] | None = None,
    task: GraphTask | None = None,
) -> Samples:
    """Read a set of graphs from tables `graphs`, `nodes` and `edges`, in CSV or Parquet.

    Args:
        path: the folder that has them.
        graph_column: column of nodes: the name of the graph of each; of edges too, where nodes of
            several graphs have the same id; of graphs their own, where it is there.
        id: column of nodes: what each is called in its graph; of graphs their names, where they
            have no column `graph`.
        label: column of graphs, or list of several: the class, or the number to predict.
        labels: `ignore` reads graphs that are to be predicted: this column is not looked at.
        split_column: column of graphs: train, val, test, or nothing. Left out, `split`, or a mask
            for each part, such as `train_mask`.
        time_column: column of graphs: when each came, a date or a number, for `split: time`.
        group_column: column of graphs: what each belongs to, for `split: group`.
        columns: columns of nodes that are features; left out, all others that have a name.
        one_hot: columns of kinds of things among them, each value of which becomes a column.
        text: columns of text among them, whose terms become columns (TF-IDF).
        dates: columns of dates among them.
        date_format: how dates are written, such as `%d/%m/%Y`; left out, 2024-03-31 or 31.3.2024.
        vectors: columns of several numbers among them, such as [0.5, 1] or 0.5 1.
        missing: what becomes of empty cells of numbers and dates; `indicator` writes 0 and says
            where in a column of its own, `mean` is that of the nodes of training graphs.
        terms: the most terms of a column of text, the most frequent first.
        numbers: `standard` gives numbers mean 0 and deviation 1, by the nodes of training graphs;
            columns of 0 and 1 stay as they are. `raw`: all do.
        language_model: folder of one in the layout of Hugging Face: its vectors of the columns of
            `text` are features, in the place of terms.
        unknown: what stands for a label that is not known, beside an empty cell.
        source: column of edges: the id of one end.
        target: column of edges: the id of the other end.
        weight: column of edges: how much each counts, from 0.
        weights: `ignore` reads the table of edges without its other columns.
        edge_features: columns of edges that are features: numbers, true and false, or lists of
            numbers in Parquet.
        degrees: columns for the degrees of nodes, up to this one, 0 for none; left out, 64 where
            nodes have no features, or all the same.
        duplicates: what the weights of an edge that is there more than once become.
        direction: of edges: `both`, `in`, `out`, or `separate`, which gcn, sage and gat tell apart.
        separator: of the cells of a CSV, a character or `tab`; left out, a comma (`.tsv`: a tab).
        decimal: what stands before the digits of a fraction in a CSV: `point` or `comma`.
        readout: `mean` of the logits of its nodes; left out, `readout` of the recipe.
        task: what the labels are for; left out, classes, or several targets.
    """
    choice = Columns(id, label, split_column, columns, one_hot, unknown, task, text, dates,
                     vectors, missing, terms, numbers, time_column, group_column,
                     language_model, date_format, decimal, labels == "ignore")  # fmt: skip
    edge_columns = EdgeColumns.of(weight, weights, edge_features)
    with reading(path, "a folder of tables of graphs"):
        arrays = read_graphs_nodes_edges(
            path, choice, graph_column, (source, target), edge_columns,
            CsvFormat(separator, decimal), degrees,
        )  # fmt: skip
        return Samples.of_graphs(path.resolve().name, arrays, "mean", duplicates, direction)


def read_molecules(
    path: Path,
    *,
    smiles: str | None = None,
    id: str = "id",
    label: Names | None = None,
    labels: Labels = "use",
    split_column: str | None = None,
    unknown: str | int | None = None,
    separator: Separator | None = None,
    decimal: Decimal = "point",
    task: GraphTask | None = None,
) -> Samples:
    """Read a table with a column of SMILES: molecules, graphs of atoms and bonds, by RDKit.

    Molecules that cannot be read are told, and have an empty row in predictions.

    Args:
        path: a CSV or Parquet table.
        smiles: column of SMILES; left out, that which is called so, in whatever case.
        id: column of what each molecule is called; left out, `id`, or the number of its row from 0.
        label: column, or several, of what is predicted; left out, `label`, or the other columns
            of numbers where they can be nothing else.
        labels: `ignore` reads molecules that are to be predicted: this column is not looked at.
        split_column: column of train, val, test, or nothing. Left out, `split`, or a mask for each
            part, such as `train_mask`.
        unknown: what stands for a label that is not known, beside an empty cell.
        separator: of the cells of a CSV, a character or `tab`; left out, a comma (`.tsv`: a tab).
        decimal: what stands before the digits of a fraction in a CSV: `point` or `comma`.
        task: what the labels are for; left out, as these say.
    """
    choice = Columns(id, label, split_column, [], unknown=unknown, task=task, decimal=decimal,
                     unlabelled=labels == "ignore")  # fmt: skip
    with reading(path, "a table of molecules"):
        table = read_molecule_table(path, smiles, choice, CsvFormat(separator, decimal))
        data = Samples.of_graphs(path.stem, table.graphs)
    return dataclasses.replace(
        data, ids=table.ids, smiles=table.smiles, unread=table.unread,
        masks=table.masks and {part: torch.from_numpy(mask) for part, mask in table.masks.items()},
        split="benchmark" if table.masks else data.split,
    )  # fmt: skip


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
    from scipy import sparse

    of_scipy = path.suffix.lower() == ".npz"
    adjacency, symmetric = (sparse.load_npz(path), False) if of_scipy else read_coordinates(path)
    of_nodes = None
    if nodes is None:
        refuse_idle("a table of nodes", "nodes", label=label)
    else:
        choice = Columns(label=label, task=task, numbers=numbers, unlabelled=labels == "ignore")
        of_nodes = read_node_table(user_path(nodes), choice, CsvFormat())
    arrays = from_scipy(adjacency, of_nodes, weights, task)
    return arrays._replace(form="undirected" if symmetric else None)


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
