"""Times in a table: dates or whole numbers that go on in equal steps, of a calendar or a clock."""

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.data.tables.cells import (
    date_length,
    kind_of,
    parse_date_words,
    parse_texts,
    timestamps,
    type_of,
)
from zoo.errors import ZooError, brief

if TYPE_CHECKING:
    from pandas import DatetimeIndex, Series

PERIODS = {
    "h": 24, "D": 7, "B": 5, "W": 52, "SM": 24, "M": 12, "BM": 12, "CBM": 12, "WOM": 12, "LWOM": 12,
    "Q": 4, "BQ": 4,
}  # fmt: skip
"""Steps after which a season comes again, by how pandas abbreviates the length of one.

It may add S or E, the start or the end, and after a line a day or a month.
"""

_UNITS = ("s", "ms", "us", "ns")
"""Of dates, from coarse to fine: seconds, and what pandas has below them."""

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

        >>> Steps("MS").period, Steps("BQE-DEC").period, Steps("W-MON").period, Steps(1).period
        (12, 4, 52, None)
        """
        size = str(self.size).partition("-")[0]
        return PERIODS.get(size) or PERIODS.get(size.removesuffix("S").removesuffix("E"))


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
