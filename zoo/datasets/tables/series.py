"""Series of numbers at the nodes of a graph, and a reader of them: a table with a column of times.

A row is a node at a time. Times go on in equal steps, also of a calendar: days, weeks, months. What
is not there, a cell or a row, is not known.
"""

import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.datasets.files.graph_arrays import check_room
from zoo.datasets.tables.columns import id_array
from zoo.datasets.tables.frames import header, need, read_table
from zoo.datasets.tables.tables import join, read_ends
from zoo.errors import ZooError, brief
from zoo.system.files import user_path

if TYPE_CHECKING:
    from pandas import DatetimeIndex, Series

PERIODS = {"h": 24, "D": 7, "B": 5, "W": 52, "M": 12, "Q": 4}
"""Steps after which a season comes again, by how pandas abbreviates the length of one."""

_SPARSE = 20
"""Times of a grid for each that is there, from which it is none."""


class Steps(NamedTuple):
    """How times go on.

    Attributes:
        size: of whole numbers their difference; of dates what pandas calls a frequency.
    """

    size: Any

    def after(self, last: Any, count: int) -> np.ndarray:
        """Return the next times after the last one, (count,)."""
        if isinstance(self.size, int):
            return int(last) + self.size * np.arange(1, count + 1)
        import pandas

        return pandas.date_range(last, periods=count + 1, freq=self.size)[1:].to_numpy()

    @property
    def period(self) -> int | None:
        """Steps to the next year, week or day, where they are months, days or hours, or the like.

        >>> Steps("MS").period, Steps("W-MON").period, Steps(1).period
        (12, 52, None)
        """
        size = str(self.size)
        return PERIODS.get(size if size in PERIODS else size[:1].replace("m", ""))


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
    """

    times: np.ndarray
    steps: Steps
    values: np.ndarray
    names: tuple[str, ...]
    ids: np.ndarray | None
    edges: list[np.ndarray]
    graph_of: np.ndarray


def time_names(times: np.ndarray) -> list[str]:
    """Return times as they are written: dates without the hour where all are at midnight.

    >>> time_names(np.array(["2026-03-01", "2026-03-02"], "datetime64[s]"))
    ['2026-03-01', '2026-03-02']
    """
    if times.dtype.kind != "M":
        return [str(each) for each in times.tolist()]
    days = (times == times.astype("datetime64[D]")).all()
    return [str(each) for each in times.astype("datetime64[D]" if days else "datetime64[s]")]


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
    edge_columns: list[str],
    date_format: str | None,
    step: str | None,
    missing: Literal["refuse", "unknown"],
    weights: Literal["ignore"] | None,
    separator: str | None,
) -> NodeSeries:
    """Read a table with a row for each node and time; `zoo.datasets.snapshots` says the options.

    Raises:
        ZooError: the table is wrong: which column and row, and what to write.
    """
    names = header(path, separator)
    options = {"time": [time], "target": [target], "id": [id] if id else [], "columns": columns}
    for option, wanted in options.items():
        need(wanted, names, path.name, option)
    told = [target, *(each for each in dict.fromkeys(columns) if each != target)]
    both = sorted({time, id} & set(told))
    if both:
        raise ZooError(f"{path.name}: {both[0]!r} is a time or an id, and no number of a node.")
    only = [each for each in names if each in (time, id, *told)]
    table = read_table(path, only, only, separator)
    if table.num_rows == 0:
        raise ZooError(f"{path.name} has no rows; write one for each node and time.")
    when = _times(table[time].to_pandas(), path.name, time, date_format)
    place, grid, steps = _on_grid(when, path.name, step, missing)
    ids, node = None, np.zeros(len(when), np.int64)
    if id is not None:
        ids, node = np.unique(id_array(table[id], f"{path.name}: {id!r}"), return_inverse=True)
    _refuse_doubled(place, node, path.name, grid, ids)
    count = 1 if ids is None else len(ids)
    check_room((len(grid) * count, len(told)))
    values = np.full((len(grid), count, len(told)), np.nan, np.float32)
    for number, name in enumerate(told):
        values[place, node, number] = _numbers(table[name].to_pandas(), path.name, name)
    ends = np.zeros((0, 2), np.int64)
    if edges is not None:
        if ids is None:
            raise ZooError("edges are between ids; write `id: COLUMN`, or leave `edges` out.")
        where = user_path(edges)
        ends = join(ids, read_ends(where, (*edge_columns,), weights, separator), where.name)
    return NodeSeries(grid, steps, values, tuple(told), ids, [ends], np.zeros(len(grid), np.int64))


def _times(column: "Series", where: str, name: str, date_format: str | None) -> np.ndarray:
    """Return a column of times as whole numbers, or as datetime64 without a time zone."""
    import pandas

    empty = column.isna() | (column.astype(str).str.strip() == "")
    if empty.any():
        raise ZooError(
            f"{where}: {name!r} is empty in {int(empty.sum()):,} rows, the first of them data row "
            f"{int(empty.to_numpy().argmax()) + 1}; give every row its time."
        )
    if column.dtype.kind not in "Mf":
        plain = pandas.to_numeric(column, errors="coerce")
        whole = plain.notna().all() and (plain == plain.round()).all()
        days = whole and plain.between(19000101, 21001231).all()
        if whole and not days and date_format is None:
            return plain.to_numpy(np.int64)
        column, date_format = column.astype(str), date_format or ("%Y%m%d" if days else None)
    form = date_format or "ISO8601"
    dates = pandas.to_datetime(column, format=form, errors="coerce", utc=True)
    wrong = dates.isna().to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        wanted = f"of the form {date_format}" if date_format else "a date such as 2026-03-31"
        raise ZooError(
            f"{where}: {name!r} holds {brief(str(column.iloc[row]))} in data row {row + 1}, which "
            f"is not {wanted}, nor are all whole numbers. Write how dates are written, such as "
            "`date_format: '%d.%m.%Y'`."
        )
    return dates.dt.tz_localize(None).to_numpy().astype("datetime64[s]")


def _on_grid(
    when: np.ndarray, where: str, step: str | None, missing: str
) -> tuple[np.ndarray, np.ndarray, Steps]:
    """Return the place of each row's time among all times (R,), these (T,), and their steps."""
    import pandas

    present = np.unique(when)
    if len(present) < 2:
        raise ZooError(f"{where} has one time only; forecasts are learnt from many of them.")
    if when.dtype.kind == "M":
        steps = Steps(_named(step) if step else _usual(pandas.DatetimeIndex(present)))
        dates = _between(present, steps.size, where)
        grid = dates.to_numpy().astype(present.dtype)
    else:
        if step is not None:
            raise ZooError("`step` is one of dates, and the times are whole numbers; leave it out.")
        steps = Steps(int(np.gcd.reduce(np.diff(present))))
        _refuse_sparse((present[-1] - present[0]) / steps.size, present, where)
        grid = np.arange(present[0], present[-1] + 1, steps.size)
    strange = present[~np.isin(present, grid)]
    if len(strange):
        raise ZooError(
            f"{where}: times have to go on in equal steps, these seem to be {steps.size!r}, and "
            f"{time_names(strange[:1])[0]} is at none of them ({len(strange):,} such times). Write "
            "another `step`, such as D, B (working days), W-MON, MS or h; or sum up the rows."
        )
    lost = grid[~np.isin(grid, present)]
    if len(lost) and missing == "refuse":
        shown = ", ".join(time_names(grid)[each] for each in np.searchsorted(grid, lost[:3]))
        raise ZooError(
            f"{where}: of {len(grid):,} times in steps of {steps.size!r} {len(lost):,} have no row "
            f"({shown}{', ...' if len(lost) > 3 else ''}). Add rows for them, empty where nothing "
            "is known; or write `missing: unknown`, or another `step`, such as B: working days."
        )
    return np.searchsorted(grid, when), grid, steps


def _usual(dates: "DatetimeIndex") -> Any:
    """Return the step that most neighbours among dates have, of the calendar or of the clock."""
    import pandas

    some = [dates] if len(dates) > 2 else []
    some += [dates[place : place + 3] for place in range(min(99, len(dates) - 2))]
    with warnings.catch_warnings(action="ignore"):  # that pandas 4 will return an offset
        found = [pandas.infer_freq(each) for each in some]
    if found and found[0] is not None:
        return found[0]
    usual = Counter(each for each in found if each is not None).most_common(1)
    if usual:
        return usual[0][0]
    gaps = Counter(np.diff(dates.to_numpy())).most_common(1)
    return pandas.tseries.frequencies.to_offset(pandas.Timedelta(gaps[0][0])).freqstr


def _named(step: str) -> str:
    import pandas

    try:
        return pandas.tseries.frequencies.to_offset(step).freqstr
    except (ValueError, TypeError, AttributeError):
        raise ZooError(
            f"step: {brief(step)} is no step of dates; write D (days), B (working days), W-MON "
            "(weeks of Mondays), MS (months, from their first day), h (hours), or 15min."
        ) from None


def _between(present: np.ndarray, size: str, where: str) -> "DatetimeIndex":
    import pandas

    once = pandas.date_range(present[0], periods=2, freq=size)
    _refuse_sparse((present[-1] - present[0]) / np.diff(once.to_numpy())[0], present, where)
    return pandas.date_range(present[0], present[-1], freq=size)


def _refuse_sparse(count: float, present: np.ndarray, where: str) -> None:
    if count > _SPARSE * len(present) + 1000:
        raise ZooError(
            f"{where}: {len(present):,} times lie between {time_names(present[:1])[0]} and "
            f"{time_names(present[-1:])[0]}, too few for equal steps; sum them up by day or week."
        )


def _refuse_doubled(place, node, where: str, grid: np.ndarray, ids: np.ndarray | None) -> None:
    both = place * (1 if ids is None else len(ids)) + node
    order = np.argsort(both, kind="stable")
    again = np.flatnonzero(np.diff(both[order]) == 0)
    if len(again) == 0:
        return
    first, second = (int(each) for each in order[again[0] : again[0] + 2])
    when = time_names(grid[place[first]][None])[0]
    whose = "" if ids is None else f" of {str(ids[node[first]])!r}"
    fix = "name what tells them apart, `id: COLUMN`, or " if ids is None else ""
    raise ZooError(
        f"{where}: data rows {first + 1} and {second + 1} are both{whose} at {when}"
        f" ({len(again):,} such rows); {fix}keep one of them, or their sum."
    )


def _numbers(column: "Series", where: str, name: str) -> np.ndarray:
    """Return a column as fp32, NaN where a cell is empty."""
    import pandas

    text = column.astype("string").str.strip()
    values = pandas.to_numeric(text.mask(text == ""), errors="coerce").to_numpy(
        np.float64, na_value=np.nan
    )
    said = text.fillna("").str.lower().to_numpy(str)
    wrong = (np.isnan(values) & ~np.isin(said, ("", "nan"))) | (np.abs(values) > 1e30)
    if wrong.any():
        row = int(wrong.argmax())
        raise ZooError(
            f"{where}: {name!r} holds {brief(str(text.iloc[row]))} in data row {row + 1}, which is "
            "no number that can be predicted; write numbers, and nothing where none is known."
        )
    return values.astype(np.float32)
