"""Readers of many graphs: series at the nodes of one in time, and sets with a label for each."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from zoo.config.options import Count, Table
from zoo.data.files.graph_arrays import Direction, Duplicates, EdgeColumns, Weights
from zoo.data.files.graph_set_arrays import read_tu_folder
from zoo.data.files.saved_graphs import read_graphs
from zoo.data.load.obtain import obtain_set
from zoo.data.samples import Samples
from zoo.data.snapshots import Scale, Snapshots
from zoo.data.tables.columns import Names, list_names
from zoo.data.tables.read import CsvFormat, Decimal, Separator
from zoo.data.tables.series import read_series_table
from zoo.data.tables.series_json import read_series_json
from zoo.errors import reading
from zoo.system.cache import data_file
from zoo.tasks.labels import FORECASTING, GRAPHS, Labels

Forecasting = Literal["node-forecasting"]
GraphClassification = Literal["graph-classification"]
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


def chickenpox(
    *, lags: Count = 4, horizon: Count = 1, scale: Scale = "none", period: Count | None = 52
) -> Snapshots:
    """Cases of chickenpox in 20 counties of Hungary in 521 weeks, standardised; 41 borders.

    Args:
        lags: weeks that are read.
        horizon: weeks that are predicted at once.
        scale: the values are standardised already, by all times; `standard` does so once more.
        period: weeks of a year.
    """
    found = data_file("chickenpox.json", "that of PyTorch Geometric Temporal")
    return series_of_json(found, lags=lags, horizon=horizon, scale=scale, period=period)


SERIES_WORDS: dict[str, Callable[..., Snapshots]] = {"chickenpox": chickenpox}
"""Word to builder `(*, lags, horizon, ...) -> Snapshots`."""


def read_tu(
    path: Path,
    *,
    degrees: Count | None = None,
    edge_features: Literal["use", "ignore"] = "use",
    readout: Literal["mean"] = "mean",
    labels: Labels = "use",
    task: GraphClassification = GRAPHS,
) -> Samples:
    """Read a set of graphs with a label each, in the files of the TU collection.

    Args:
        path: a folder with `DS_A.txt`, `DS_graph_indicator.txt`, `DS_graph_labels.txt` and others.
        degrees: columns for the degrees of nodes, up to this one; left out, 64 where nodes have
            neither labels nor attributes.
        edge_features: labels and attributes of edges, if there are some.
        readout: what is read of a graph: the `mean` of its nodes.
        labels: `ignore` reads graphs that are to be predicted: their labels may not be there.
        task: what for; there is one word for it.
    """
    with reading(path, "a set of graphs of the TU collection"):
        arrays = read_tu_folder(path, degrees, labels=labels == "use")
        if edge_features == "ignore":
            arrays = arrays._replace(edge_features=None, edge_feature_names=None)
        return Samples.of_graphs(path.name, arrays, readout)


def read_list(
    path: Path,
    *,
    label: str | None = None,
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: Names | None = None,
    degrees: Count | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    readout: Literal["mean"] = "mean",
    task: GraphClassification = GRAPHS,
) -> Samples:
    """Read a list of graphs with a label each, as PyTorch or DGL saves it.

    `torch.save([each.to_dict(), ...], path)`, or what PyG keeps in its folder `processed`, where
    `task` says so; `dgl.save_graphs(path, graphs, {"labels": classes})`.

    Args:
        path: the `.pt` or `.bin`.
        label: the tensor that is the class of a graph, left out `y` or `label`; in a `.bin` which
            of the labels that were saved with the graphs, left out the only ones.
        feature: the node data that is the features; left out, `x`, `feat` and the like.
        weight: the edge data that is their weight, such as `edge_weight`.
        weights: `ignore` reads the graphs without weights of edges.
        edge_features: the edge data that are features, such as `edge_attr`.
        degrees: columns for the degrees of nodes, up to this one; left out, 64 where nodes have no
            features.
        duplicates: what the weights of an edge that is there more than once become.
        direction: of edges: `both`, `in`, `out`, or `separate`, which gcn, sage and gat tell apart.
        readout: what is read of a graph: the `mean` of its nodes.
        task: what for; there is one word for it.
    """
    choice = EdgeColumns.of(weight, weights, edge_features)
    with reading(path, "a list of graphs"):
        arrays = read_graphs(path, label, feature, choice, degrees)
        return Samples.of_graphs(path.stem, arrays, readout, duplicates, direction)


SERIES = Table(
    "kind of series", {"table of times": series_of_table, "series .json": series_of_json}
)
"""What holds series in time, to function `(path, *, options) -> Snapshots`."""

SETS = Table("kind of set of graphs", {"TU folder": read_tu, ".pt or .bin of several": read_list})
"""What holds many graphs with a label each, to function `(path, *, options) -> Samples`."""


def _named_set(folder: str, what: str) -> Callable[..., Samples]:
    name = folder.lower()

    def build(
        *,
        degrees: Count | None = None,
        edge_features: Literal["use", "ignore"] = "use",
        readout: Literal["mean"] = "mean",
    ) -> Samples:
        found = obtain_set(folder)
        data = read_tu(found, degrees=degrees, edge_features=edge_features, readout=readout)
        return dataclasses.replace(data, name=name)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{what}, of the TU collection.\n\nArgs:\n"
        "    degrees: columns for the degrees of nodes, up to this one.\n"
        "    edge_features: labels of edges, which some copies of the collection have not.\n"
        "    readout: what is read of a graph: the `mean` of its nodes."
    )
    return build


SET_WORDS: dict[str, Callable[..., Samples]] = {
    "enzymes": _named_set("ENZYMES", "600 proteins of six classes of enzymes"),
    "mutag": _named_set("MUTAG", "188 molecules, mutagenic or not"),
    "proteins": _named_set("PROTEINS", "1,113 proteins, enzymes or not"),
}
"""Word to builder `(*, degrees, ...) -> Samples`."""
