"""Readers of series at the nodes of a graph: a table with a column of times, or JSON.

A row of the table is a node at a time. What is not there, a cell or a row, is not known. Edges are
of a second table; where this has the column of times too, they change in time.

The JSON is that of PyTorch Geometric Temporal. Its forms: `FX`, `X`, `block` or `y`, numbers
(T, N); or `time_periods` T and under "0", "1", ... an object with `y` (N,) and, if there are
further features, `X` (N, K); or `nodes` with `y` (T,) each. Edges are `edges` or `links` of all
times, those of each time under its number, or those of `edge_mapping`; a time that is not in there
has those of the last one before. `node_ids` has names of nodes as keys and their numbers as values.
"""

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from zoo.config.options import Count
from zoo.data.files.graph_arrays import (
    NO_EDGES,
    Direction,
    Duplicates,
    check_edges,
    check_room,
    check_weights,
)
from zoo.data.files.objects import EdgeColumns, Weights, join, refuse_idle
from zoo.data.snapshots import NodeSeries, Scale, Snapshots, Steps
from zoo.data.tables.columns import Names, list_names
from zoo.data.tables.nodes_and_edges import read_edges
from zoo.data.tables.read import (
    CsvFormat,
    Decimal,
    Separator,
    check_columns,
    date_length,
    kind_of,
    parse_date_words,
    parse_ids,
    parse_texts,
    read_header,
    read_table,
    timestamps,
    type_of,
)
from zoo.errors import ZooError, brief, cause, reading
from zoo.system.files import user_path
from zoo.tasks.labels import FORECASTING, alike

if TYPE_CHECKING:
    from pandas import DatetimeIndex, Series

Forecasting = Literal["node-forecasting"]
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


GraphsInTime = tuple[list[np.ndarray], np.ndarray, list[np.ndarray] | None]
"""The graphs of a series that differ: `edges`, `graph_of`, `weights` as in `NodeSeries`."""


def _graphs_in_time(
    edges: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None
) -> GraphsInTime:
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
    return [edges[time] for time in first], np.array(graph_of, np.int64), own_weights


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
    csv_format, names = CsvFormat(separator, decimal), [target, *(list_names(columns) or [])]
    names = [*dict.fromkeys(names)]
    with reading(path, "a table of series"):
        present = read_header(path, csv_format)
        options = {"time": [time], "target": [target], "id": [id] if id else [], "columns": names}
        for option, wanted in options.items():
            check_columns(wanted, present, path.name, option)
        if both := sorted({time, id} & {*names}):
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
            values[place, node, number] = _parse_values(table[name], path.name, name, decimal)
        if edges is None:
            used = {"weight": weight, "weights": weights if weights == "use" else None}
            refuse_idle("a table of edges", "edges", edge_columns=edge_columns, **used)
            graphs = ([NO_EDGES], np.zeros(len(grid), np.int64), None)
        elif ids is None:
            raise ZooError("edges are between ids; write `id: COLUMN`, or leave `edges` out.")
        else:
            ends, choice = edge_columns or ["source", "target"], EdgeColumns(weight, weights)
            graphs = _read_graphs(
                user_path(edges), ends, choice, ids, time, grid, steps, date_format, csv_format
            )
        series = NodeSeries(grid, steps, values, tuple(names), ids, *graphs)
    return Snapshots.of(
        path.stem, series, lags=lags, horizon=horizon, scale=scale, period=period,
        direction=direction, duplicates=duplicates,
    )  # fmt: skip


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
        return ([pairs], np.zeros(len(grid), np.int64), weights)
    column = read_table(path, timed, timed, csv_format)[time]
    when = parse_times(column, path.name, time, date_format, steps.size)
    rows, places = _place_edges(when, grid, path.name)
    pairs, weights = pairs[rows], None if weights is None else weights[rows]
    order = np.argsort(places, kind="stable")
    present, begins = np.unique(places[order], return_index=True)
    groups = [order[:0], *np.split(order, begins[1:])]  # before the first there are none
    last = np.searchsorted(present, np.arange(len(grid)), side="right")
    return _graphs_in_time(
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


# JSON

_TABLES = ("FX", "X", "block", "y")
_FORM = (
    "write an object with `edges`, pairs of numbers of nodes, and `FX`: at each time a number for "
    "each node; data/README.md has the other forms."
)


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
    with reading(path, "series in JSON"):
        try:
            content = json.loads(path.read_bytes())
            _check_is_series(content)
            values, names = _read_values(content)
            graphs = _graphs_of_json(content, values.shape[1], len(values), weights)
            ids = _read_ids(content, values.shape[1])
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise ZooError(f"it is no series in JSON ({cause(error)}); {_FORM}") from None
    series = NodeSeries(np.arange(len(values)), Steps(1), values, names, ids, *graphs)
    return Snapshots.of(
        path.stem, series, lags=lags, horizon=horizon, scale=scale, period=period,
        direction=direction,
    )  # fmt: skip


def _check_is_series(content: Any) -> None:
    """Refuse JSON that is no object, or a graph as NetworkX and D3 write it."""
    if not isinstance(content, dict):
        raise ZooError(f"this is a {type(content).__name__} of JSON; {_FORM}")
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or {*_TABLES, "time_periods"} & {*content}:
        return
    if not any(isinstance(node, dict) and isinstance(node.get("y"), list) for node in nodes):
        key = "links" if "links" in content else "edges"
        raise ZooError(
            "this looks like a graph in the node-link form, and `.json` is read as series in time; "
            "write zoo.Dataset.from_networkx(networkx.node_link_graph(json.load(file), "
            f"edges='{key}')), or a `.graphml` of it by networkx.write_graphml."
        )


def _read_values(content: dict[str, Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the numbers (T, N, F) fp32, what is predicted first, and the names of the F."""
    tables = [key for key in _TABLES if isinstance(content.get(key), list)]
    if len(tables) > 1:
        raise ZooError(
            f"it holds `{tables[0]}` and `{tables[1]}`, and one is read; keep that which is "
            "predicted."
        )
    if tables:
        return _to_array(content[tables[0]], tables[0], 2)[:, :, None], ("y",)
    if "time_periods" in content:
        times = [content[str(time)] for time in range(content["time_periods"])]
        y = _to_array([time["y"] for time in times], "y", 2)[:, :, None]
        if not all("X" in time for time in times):
            return y, ("y",)
        further = _to_array([time["X"] for time in times], "X", 3)
        names = ("y", *(f"X{column}" for column in range(further.shape[2])))
        return np.concatenate([y, further], axis=2), names
    if isinstance(content.get("nodes"), list):
        return _to_array([node["y"] for node in content["nodes"]], "y", 2).T[:, :, None], ("y",)
    raise ZooError(f"it holds {', '.join(map(repr, list(content)[:6])) or 'nothing'}; {_FORM}")


def _to_array(rows: Any, key: str, dimensions: int) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # what overflows becomes infinite
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


def _graphs_of_json(content: dict, nodes: int, times: int, weights: Weights) -> GraphsInTime:
    """Return the graphs of a file; the last one stays to the end."""
    rows = _read_edges(content, times)
    if not rows:
        raise ZooError(f"`edge_mapping` has edges of no time; {_FORM}")
    edges = [check_edges(_to_pairs(pairs), nodes) for pairs, _ in rows]
    known = [own for _, own in rows if own is not None and weights != "ignore"]
    weighted = any((np.array(row, np.float64) != 1).any() for row in known)
    if weighted and weights is None:
        raise ZooError(
            "its edges have weights; write `weights: use` to weigh by them, or `weights: ignore` "
            "to read the graph without them."
        )
    if weights == "use" and not weighted:
        raise ZooError("weights: the edges have none to use; leave it out.")
    last, own = max(0, times - len(edges)), None
    if weights == "use":
        own = [_to_weights(row, len(ends)) for (_, row), ends in zip(rows, edges, strict=True)]
        own = [*own, *[own[-1]] * last][:times]
    return _graphs_in_time([*edges, *[edges[-1]] * last][:times], own)


def _read_edges(content: dict, times: int) -> list[tuple[Any, Any]]:
    """Return the edges and the weights of each time as they are written.

    Of a time that is not in `edge_mapping` they are the last ones before; before the first there
    are none, as in a table of edges. Where no time is in there, nothing is.
    """
    mapping = content.get("edge_mapping")
    if isinstance(mapping, dict) and "edge_index" in mapping:
        index, weights = mapping["edge_index"], mapping.get("edge_weight") or {}
        names, rows = [*map(str, range(times))], [([], [])]
        for time in names:
            rows.append((index[time], weights.get(time)) if time in index else rows[-1])
        return rows[1:] if index.keys() & {*names} else []
    if isinstance(content.get("0"), dict) and "edges" in content["0"]:
        periods = [content[str(time)] for time in range(times)]
        return [(time["edges"], time.get("weights")) for time in periods]
    if isinstance(content.get("links"), list):
        links = content["links"]
        places = {node["bus_stop"]: place for place, node in enumerate(content["nodes"])}
        ends = [[places.get(link[end], -1) for end in ("source", "target")] for link in links]
        return [(ends, [link.get("weight", 1) for link in links])]
    return [(content.get("edges"), content.get("weights"))]


def _to_pairs(rows: Any) -> np.ndarray:
    if rows == []:
        return np.zeros((0, 2), np.int64)
    edges = np.array(rows) if isinstance(rows, list) else np.zeros(0)
    if edges.dtype.kind not in "iu":
        raise ZooError(f"`edges` are no pairs of numbers of nodes; {_FORM}")
    return edges


def _to_weights(row: Any, edges: int) -> np.ndarray:
    """Return the weights of edges, (E,) fp32."""
    weights = np.array([] if row is None else row, np.float64)
    if weights.shape != (edges,):
        raise ZooError(
            f"`weights` are no list of {edges:,} numbers, one for each edge; write one at each "
            "time that has edges, or `weights: ignore`."
        )
    return check_weights(weights, edges)


def _read_ids(content: dict[str, Any], nodes: int) -> np.ndarray | None:
    numbers = content.get("node_ids")
    if isinstance(numbers, dict) and sorted(map(str, numbers.values())) == sorted(
        map(str, range(nodes))
    ):
        return np.array(sorted(numbers, key=lambda name: int(numbers[name])), dtype=str)
    stops = content.get("nodes") if isinstance(content.get("nodes"), list) else []
    names = [stop.get("bus_stop") for stop in stops if isinstance(stop, dict)]
    if len({*map(str, names)}) == nodes == len(names) and None not in names:
        return np.array([*map(str, names)])
    return None


# Times

_UNITS = ("s", "ms", "us", "ns")
"""Of dates, from coarse to fine: seconds, and what pandas has below them."""

_SPARSE = 20  # times of a grid for each that is there, from which it is none


def time_names(times: np.ndarray) -> list[str]:
    """Return times as they are written: dates without the hour where all are at midnight.

    Seconds have a fraction where some time has one.

    >>> time_names(np.array(["2026-03-01", "2026-03-02"], "datetime64[s]"))
    ['2026-03-01', '2026-03-02']
    """
    if times.dtype.kind != "M":
        return [str(time) for time in times.tolist()]
    return [str(time) for time in _in_coarsest_unit(times, ("D", *_UNITS))]


def _in_coarsest_unit(dates: np.ndarray, units: Sequence[str]) -> np.ndarray:
    """Return dates in the first of some units, from coarse to fine, that is exact for all."""
    converted = (dates.astype(f"datetime64[{unit}]") for unit in units)
    return next(rounded for rounded in converted if (dates == rounded).all())


def parse_times(
    column: "Series", where: str, name: str, date_format: str | None, step: Any = None
) -> np.ndarray:
    """Return a column of times (R,) as whole numbers, or as datetime64 without a time zone.

    Dates are in seconds, or in the finest unit that some time needs: milliseconds, or finer.
    Times with a zone are in UTC; where all are of one hour by their own clocks, as days, weeks and
    months are, they are as these show them, unless the step is known to be shorter than a day.
    """
    import pandas

    words = None if kind_of(column) == "date" else pandas.Series(parse_texts(column, whole=True))
    empty = (column.isna() if words is None else words.str.strip() == "").to_numpy(bool)
    if empty.any():
        raise ZooError(
            f"{where}: {name!r} is empty in {int(empty.sum()):,} rows, the first of them data row "
            f"{int(empty.argmax()) + 1}; give every row its time."
        )
    if words is None:
        dates, zone = timestamps(column), getattr(type_of(column), "tz", None)
        clock = None if zone is None else dates.dt.tz_convert(zone).dt.tz_localize(None)
    else:
        numbers = pandas.to_numeric(words, errors="coerce")
        whole = numbers.notna().all() and (numbers == numbers.round()).all()
        days = whole and numbers.between(19000101, 21001231).all()
        if whole and not days and date_format is None:
            return numbers.to_numpy(np.int64)
        date_format = date_format or ("%Y%m%d" if days else None)
        if kind_of(column) == "number" and date_format:  # which has lost the zeros in front
            words = words.str.zfill(date_length(date_format))
        dates, clock = parse_date_words(words, date_format), _own_clock(words, date_format)
    wrong = dates.isna().to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        wanted = "a date such as 2026-03-31 or 31.3.2026, written like the first"
        wanted = f"of the form {date_format}" if date_format else wanted
        raise ZooError(
            f"{where}: {name!r} holds {brief(words[row])} in data row {row + 1}, which is not "
            f"{wanted}, nor are all whole numbers. Write how dates are written, such as "
            "`date_format: '%d/%m/%Y'`."
        )
    if clock is not None and not _is_within_a_day(step):
        clock = pandas.to_datetime(clock, utc=True)
        dates = clock if (clock - clock.dt.normalize()).nunique(dropna=False) == 1 else dates
    return _in_coarsest_unit(dates.dt.tz_localize(None).to_numpy(), _UNITS)


def _own_clock(words: "Series", date_format: str | None) -> "Series | None":
    """Return times as their own clocks show them, None where some have no zone."""
    offset = r"(:\d\d[.,:\d]*)\s*(?:Z|[+-]\d\d(?::?\d\d)?)\s*$"  # behind a time of day
    plain = words.str.replace(offset, r"\1", regex=True)
    if (plain == words).any() or (date_format and not date_format.endswith("%z")):
        return None
    return parse_date_words(plain, date_format and date_format.removesuffix("%z").rstrip())


def _is_within_a_day(step: Any) -> bool:
    """Return whether a step of dates is shorter than a day."""
    if not step or str(step).isdigit():
        return False
    import pandas

    two = pandas.date_range("2026-01-01", periods=2, freq=_date_step(step)).to_numpy()
    return bool(two[1] - two[0] < np.timedelta64(1, "D"))


def place_on_grid(
    when: np.ndarray, where: str, step: str | int | None, missing: str
) -> tuple[np.ndarray, np.ndarray, Steps]:
    """Return the place of each row's time among all times (R,), these (T,), and their steps.

    A step is one of dates, or the difference of whole numbers, in digits.

    Raises:
        ZooError: the times do not go on in equal steps, or some have no row and `missing` is
            `refuse`.
    """
    import pandas

    present = np.unique(when)
    if len(present) < 2 and step is None:
        raise ZooError(
            f"{where} has one time only; forecasts are learnt from many of them. Add rows, or, "
            "where a trained model reads one time, write the `step` of its training."
        )
    dated, first, last = when.dtype.kind == "M", present[0], present[-1]
    if dated:
        steps = Steps(_date_step(step) if step else _infer_step(pandas.DatetimeIndex(present)))
        one = np.diff(pandas.date_range(first, periods=2, freq=steps.size).to_numpy())[0]
    else:
        steps = Steps(_number_step(step) if step else int(np.gcd.reduce(np.diff(present))))
        one = steps.size
    if (last - first) / one > _SPARSE * len(present) + 1000:
        raise ZooError(
            f"{where}: {len(present):,} times lie between {time_names(present[:1])[0]} and "
            f"{time_names(present[-1:])[0]}, too few for equal steps; sum them up by day or week."
        )
    if dated:
        grid = pandas.date_range(first, last, freq=steps.size).to_numpy()
        grid = _in_coarsest_unit(grid, _UNITS)
    else:
        grid = np.arange(first, last + 1, steps.size)
    strange, lost = present[~np.isin(present, grid)], grid[~np.isin(grid, present)]
    if len(strange):
        days = ", such as D, B (working days), W-MON, MS or h" if dated else ""
        raise ZooError(
            f"{where}: times have to go on in equal steps, these seem to be {steps.size!r}, and "
            f"{time_names(strange[:1])[0]} is at none of them ({len(strange):,} such times). Write "
            f"another `step`{days}; or sum up the rows."
        )
    if len(lost) and missing == "refuse":
        names = np.array(time_names(grid))[np.isin(grid, lost[:3])]
        shown = ", ".join(names) + (", ..." if len(lost) > 3 else "")
        days = ", such as B: working days" if dated else ""
        months = not dated and first >= 190001 and last <= 210012
        hint = " Where they are months, write `date_format: '%Y%m'`." if months else ""
        raise ZooError(
            f"{where}: of {len(grid):,} times in steps of {steps.size!r} {len(lost):,} have no row "
            f"({shown}). Add rows for them, empty where nothing is known; or write `missing: "
            f"unknown`, or another `step`{days}.{hint}"
        )
    return np.searchsorted(grid, when), grid, steps


def _infer_step(dates: "DatetimeIndex") -> str:
    """Return the step that most neighbours among dates have, of the calendar or of the clock."""
    import pandas

    threes = [dates[place : place + 3] for place in range(min(99, len(dates) - 2))]
    with warnings.catch_warnings(action="ignore"):  # that pandas 4 will return an offset
        whole = pandas.infer_freq(dates) if threes else None
        counts = Counter(filter(None, map(pandas.infer_freq, threes)))
    if whole or counts:
        return whole or counts.most_common(1)[0][0]
    gap = Counter(np.diff(dates.to_numpy())).most_common(1)[0][0]
    return pandas.tseries.frequencies.to_offset(pandas.Timedelta(gap)).freqstr


def _number_step(step: str | int) -> int:
    if not str(step).isdigit() or int(step) == 0:
        raise ZooError(
            f"step: {brief(str(step))} is none of whole numbers, which the times are; write their "
            "difference, such as 1, or leave it out. A model that was trained on dates reads dates."
        )
    return int(step)


def _date_step(step: str | int) -> str:
    import pandas

    if str(step).isdigit():
        raise ZooError(
            f"step: {step} is one of whole numbers, and the times are dates; write one of dates, "
            "such as D or MS, or leave it out. A model that was trained on numbers reads numbers."
        )
    try:
        return pandas.tseries.frequencies.to_offset(step).freqstr
    except (ValueError, TypeError, AttributeError):
        raise ZooError(
            f"step: {brief(str(step))} is no step of dates; write D (days), B (working days), "
            "W-MON (weeks of Mondays), MS (months, from their first day), h (hours), or 15min."
        ) from None
