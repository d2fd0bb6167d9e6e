"""Series of numbers at the nodes of a graph, and a reader of them: a table with a column of times.

A row is a node at a time. What is not there, a cell or a row, is not known. Edges are of a second
table; where this has the column of times too, they change in time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from zoo.data.files.graph_arrays import (
    EdgeColumns,
    Weights,
    check_room,
    check_weights,
    refuse_idle,
)
from zoo.data.files.objects import join
from zoo.data.tables.cells import kind_of, parse_ids, parse_texts
from zoo.data.tables.nodes_and_edges import read_edges
from zoo.data.tables.read import CsvFormat, Decimal, check_columns, read_header, read_table
from zoo.data.tables.time_steps import Steps, parse_times, place_on_grid, time_names
from zoo.errors import ZooError, brief
from zoo.system.files import user_path
from zoo.tasks.labels import alike

if TYPE_CHECKING:
    from pandas import Series


class NodeSeries(NamedTuple):
    """Numbers of N nodes at T times, and the graph at each of these.

    Attributes:
        times: whole numbers, or dates as datetime64, (T,), in order and equal steps.
        steps: between them.
        values: (T, N, F) fp32, NaN where unknown; the first of the F is what is predicted.
        names: what the F are called.
        ids: what the nodes are called (N,), int64 or text; None: by their numbers.
        edges: those of each graph that differs, (E, 2) each.
        graph_of: which of these is there at each time, (T,).
        weights: of the edges of each graph, (E,) each; None: all count alike.
    """

    times: np.ndarray
    steps: Steps
    values: np.ndarray
    names: tuple[str, ...]
    ids: np.ndarray | None
    edges: list[np.ndarray]
    graph_of: np.ndarray
    weights: list[np.ndarray] | None = None


class GraphsInTime(NamedTuple):
    """The graphs of a series that differ: `edges`, `graph_of`, `weights` as in `NodeSeries`."""

    edges: list[np.ndarray]
    graph_of: np.ndarray
    weights: list[np.ndarray] | None

    @classmethod
    def of(cls, edges: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None) -> Self:
        """Return those of the edges (E, 2), and weights (E,), at each time."""
        numbers: dict[bytes, int] = {}
        first, graph_of = [], []
        for time, pairs in enumerate(edges):
            key = pairs.tobytes() + (b"" if weights is None else weights[time].tobytes())
            if key not in numbers:
                numbers[key] = len(first)
                first.append(time)
            graph_of.append(numbers[key])
        own_weights = None if weights is None else [weights[time] for time in first]
        return cls([edges[time] for time in first], np.array(graph_of, np.int64), own_weights)


def filled(x: Tensor) -> Tensor:
    """Return values (T, N, F) with the last one before in the place of each unknown one, or 0."""
    known = ~x.isnan()
    times = torch.arange(len(x))[:, None, None].expand(x.shape)
    last = torch.where(known, times, -1).cummax(dim=0).values
    return torch.where(last >= 0, x.gather(0, last.clamp(min=0)), 0.0).nan_to_num(0)


def read_series_table(
    path: Path,
    *,
    time: str,
    target: str,
    id: str | None,
    columns: list[str],
    edges: str | None,
    edge_columns: list[str] | None,
    date_format: str | None,
    step: str | None,
    missing: Literal["refuse", "unknown"],
    weight: str | None,
    weights: Weights,
    csv_format: CsvFormat,
) -> NodeSeries:
    """Read a table with a row for each node and time; `zoo.data.snapshots` says the options.

    Raises:
        ZooError: the table is wrong: which column and row, and what to write.
    """
    present = read_header(path, csv_format)
    options = {"time": [time], "target": [target], "id": [id] if id else [], "columns": columns}
    for option, wanted in options.items():
        check_columns(wanted, present, path.name, option)
    names = [*dict.fromkeys([target, *columns])]
    if both := sorted({time, id} & set(names)):
        raise ZooError(f"{path.name}: {both[0]!r} is a time or an id, and no number of a node.")
    only = [name for name in present if name in (time, id, *names)]
    table = read_table(path, only, only, csv_format)
    if len(table) == 0:
        raise ZooError(f"{path.name} has no rows; write one for each node and time.")
    when = parse_times(table[time], path.name, time, date_format, step)
    place, grid, steps = place_on_grid(when, path.name, step, missing)
    ids, node = None, np.zeros(len(when), np.int64)
    if id is not None:
        ids, node = _parse_nodes(table[id], f"{path.name}: {id!r}")
    _check_doubled(place, node, path.name, grid, ids)
    count = 1 if ids is None else len(ids)
    check_room((len(grid) * count, len(names)))
    values = np.full((len(grid), count, len(names)), np.nan, np.float32)
    for number, name in enumerate(names):
        values[place, node, number] = _parse_values(
            table[name], path.name, name, csv_format.decimal
        )
    if edges is None:
        used = {"weight": weight, "weights": weights if weights == "use" else None}
        refuse_idle("a table of edges", "edges", edge_columns=edge_columns, **used)
        empty = [np.zeros((0, 2), np.int64)]
        graphs = GraphsInTime(empty, np.zeros(len(grid), np.int64), None)
    elif ids is None:
        raise ZooError("edges are between ids; write `id: COLUMN`, or leave `edges` out.")
    else:
        ends = edge_columns or ["source", "target"]
        choice = EdgeColumns(weight, weights)
        graphs = _read_graphs(
            user_path(edges), ends, choice, ids, time, grid, steps, date_format, csv_format
        )
    return NodeSeries(grid, steps, values, tuple(names), ids, *graphs)


def _read_graphs(
    path: Path,
    ends: list[str],
    choice: EdgeColumns,
    ids: np.ndarray,
    time: str,
    grid: np.ndarray,
    steps: Steps,
    date_format: str | None,
    csv_format: CsvFormat,
) -> GraphsInTime:
    """Return the graphs of a table of edges, which are one where it has no column of times."""
    timed = [time] if time in read_header(path, csv_format) and time not in ends else []
    *pairs, columns = read_edges(path, (*ends,), choice, csv_format, timed)
    pairs, weights = join(ids, pairs, path.name), columns["weights"]
    if weights is not None:
        weights = check_weights(weights, len(pairs))
    if not timed:
        weights = None if weights is None else [weights]
        return GraphsInTime([pairs], np.zeros(len(grid), np.int64), weights)
    column = read_table(path, timed, timed, csv_format)[time]
    when = parse_times(column, path.name, time, date_format, steps.size)
    rows, places = _place_edges(when, grid, path.name)
    pairs, weights = pairs[rows], None if weights is None else weights[rows]
    order = np.argsort(places, kind="stable")
    present, begins = np.unique(places[order], return_index=True)
    groups = [order[:0], *np.split(order, begins[1:])]  # before the first there are none
    last = np.searchsorted(present, np.arange(len(grid)), side="right")
    return GraphsInTime.of(
        [pairs[groups[group]] for group in last],
        None if weights is None else [weights[groups[group]] for group in last],
    )


def _place_edges(when: np.ndarray, grid: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows of edges count (E,), and at which of the times of the nodes they are.

    Edges stay until the next time that has some: those of the last time up to the first one of the
    nodes are at this, and none before them count, nor any after the last time of the nodes.
    """
    when = when if len(when) else grid[:0]  # of no rows it is not seen what they would be
    same_kind = when.dtype.kind == grid.dtype.kind  # both are dates, or numbers
    strange = np.ones(len(when), bool)
    if same_kind and (when <= grid[-1]).any():
        strange = (when > grid[0]) & (when < grid[-1]) & ~np.isin(when, grid)
    if strange.any():
        raise ZooError(
            f"{where}: {time_names(when[strange][:1])[0]} is none of the times of the nodes "
            f"({int(strange.sum()):,} such rows); write edges at these, or leave the column of "
            "times out."
        )
    begun = when[when <= grid[0]]
    first = begun.max() if len(begun) else grid[0]
    rows = np.flatnonzero((when >= first) & (when <= grid[-1]))
    return rows, np.searchsorted(grid, when[rows])


def _check_doubled(
    place: np.ndarray, node: np.ndarray, where: str, grid: np.ndarray, ids: np.ndarray | None
) -> None:
    """Refuse two rows of one node at one time."""
    import pandas

    both = pandas.DataFrame({"place": place, "node": node})
    again = both.duplicated().to_numpy()
    if not again.any():
        return
    second = int(again.argmax())
    first = int((both == both.iloc[second]).all(axis=1).argmax())
    whose = "" if ids is None else f" of {str(ids[node[first]])!r}"
    fix = "name what tells them apart, `id: COLUMN`, or " if ids is None else ""
    raise ZooError(
        f"{where}: data rows {first + 1} and {second + 1} are both{whose} at "
        f"{time_names(grid[place[first]][None])[0]} ({int(again.sum()):,} such rows); {fix}keep "
        "one of them, or their sum."
    )


def _parse_nodes(column: "Series", where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of nodes (N,), and which of them each row is of (R,)."""
    ids, node = np.unique(parse_ids(column, where), return_inverse=True)
    if same := alike(ids.tolist()) if ids.dtype.kind == "U" else None:
        raise ZooError(
            f"{where} holds {same[0]!r} and {same[1]!r}, which differ in blanks alone and would be "
            "two nodes; write each id in one way."
        )
    return ids, node


def _parse_values(column: "Series", where: str, name: str, decimal: Decimal) -> np.ndarray:
    """Return a column as fp32 (R,), NaN where a cell is empty."""
    import pandas

    text = pandas.Series(parse_texts(column, None)).str.strip()
    commas = decimal == "comma" and kind_of(column) == "text"
    points = text.str.translate(str.maketrans(".,", ",.")) if commas else text
    values = pandas.to_numeric(points.mask(text == ""), errors="coerce").to_numpy(np.float64)
    wrong = (np.isnan(values) & ~text.str.lower().isin(["", "nan"])) | (np.abs(values) > 1e30)
    if wrong.any():
        row = int(wrong.to_numpy().argmax())
        fix = " Where fractions have a comma write `decimal: comma`." if "," in text[row] else ""
        raise ZooError(
            f"{where}: {name!r} holds {brief(text[row])} in data row {row + 1}, which is no number "
            f"that can be predicted; write numbers, and nothing where none is known.{fix}"
        )
    return values.astype(np.float32)
