"""Features of the columns of a table: what is learnt of them is learnt from training nodes alone.

Numbers are scaled; kinds of things, texts, dates and gaps become numbers as scikit-learn has them.
What is learnt is plain data, which weights keep, so that a new table is read alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from zoo.config.learnt_columns import (
    CategoryColumn,
    DateColumn,
    HashedColumn,
    LearntColumn,
    Missing,
    NumberColumn,
    TextColumn,
)
from zoo.data.tables.columns import Kind, Numbers
from zoo.errors import ZooError, brief, suggestion

MOST_VALUES = 256
"""Kinds of things that have a column each; of more, hashes share as many columns."""

_YEAR = 365.2425
_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureColumns:
    """Columns of features as they stand in a table, in order.

    Attributes:
        rows: N, how many there are.
        values: by name (N,) or (N, k) float64, NaN where missing; or (N,) text, "" where missing;
            of dates days since 1970.
        kinds: by name what each is.
        missing: what becomes of numbers and dates that are missing.
        terms: the most terms of a column of text.
        numbers: `standard` gives them mean 0 and deviation 1, but for those of 0 and 1.
        training: False where they may be read by what others have taught: of a column without any
            value nothing is learnt then, and it is not refused.
    """

    rows: int
    values: dict[str, np.ndarray]
    kinds: dict[str, Kind]
    missing: Missing = "refuse"
    terms: int = 1000
    numbers: Numbers = "raw"
    training: bool = True

    def learns(self) -> bool:
        """Return whether anything has to be learnt of them."""
        told = self.missing != "refuse" or self.numbers != "raw"
        return (told and bool(self.kinds)) or not set(self.kinds.values()) <= {"number"}

    def part(self, nodes: np.ndarray) -> FeatureColumns:
        """Return the columns of some nodes (n,)."""
        values = {name: each[nodes] for name, each in self.values.items()}
        return dataclasses.replace(self, rows=len(nodes), values=values)

    def learnt(self, nodes: np.ndarray | None = None) -> list[LearntColumn]:
        """Return what is learnt of some nodes (n,), or of all, column by column.

        Raises:
            ZooError: a column has no value, or no term, to learn from.
        """
        if nodes is not None:
            return self.part(nodes).learnt()
        return [_LEARN[kind](name, self.values[name], self) for name, kind in self.kinds.items()]

    def features(self, learnt: Sequence[LearntColumn]) -> tuple[Any, tuple[str, ...]]:
        """Return the features (N, F) fp32, sparse where texts are among them, and their names.

        Raises:
            ZooError: the columns are not those that were learnt of, or of other kinds.
        """
        applied = [_APPLY[each.kind](each, self._of(each), self.missing) for each in learnt]
        blocks = [block for block, _ in applied]
        names = tuple(name for _, own in applied for name in own)
        if any(sparse.issparse(each) for each in blocks):
            found = sparse.hstack([sparse.csr_array(each) for each in blocks], format="csr")
            return found.astype(np.float32), names
        none = np.zeros((self.rows, 0), np.float32)
        return np.concatenate([none, *blocks], axis=1, dtype=np.float32), names

    def unseen(self, learnt: Sequence[LearntColumn]) -> list[str]:
        """Return, for each column of kinds of things, which of them were none that was learnt."""
        told = []
        for column in learnt:
            if column.kind != "category" or column.name not in self.values:
                continue
            given = self.values[column.name]
            other = given[(given != "") & ~np.isin(given, column.values)]
            if len(other):
                some, known = (
                    ", ".join(map(brief, each[:3]))
                    for each in (np.unique(other).tolist(), column.values)
                )
                told.append(
                    f"{column.name}: {len(other):,} of {len(given):,} values are none that "
                    f"training had, such as {some}; it had such as {known}, and they count as none "
                    "of these"
                )
        return told

    def _of(self, column: LearntColumn) -> np.ndarray:
        name, kind = column.name, "category" if column.kind == "hashed" else column.kind
        if name not in self.values:
            raise ZooError(
                f"there is no column {name!r}, which the model was trained on; "
                f"{suggestion(name, self.values)}"
            )
        if kind != self.kinds[name]:
            raise ZooError(
                f"the column {name!r} was read as {self.kinds[name]}, and the model was trained on "
                f"{kind} there; write `{_OPTIONS[kind]}: [...]` as for the training."
            )
        return self.values[name]


_OPTIONS = {"number": "columns", "category": "one_hot", "text": "text", "date": "dates"}
"""Kind to the option that names columns of it."""

Block = tuple[Any, list[str]]  # features (N, k), dense or sparse, and their names


def _learn_number(name: str, values: np.ndarray, how: FeatureColumns) -> NumberColumn:
    rows = _rows(values)
    gaps = np.isnan(rows)
    rows = np.where(np.abs(rows) <= _LARGEST, rows, np.nan)  # larger ones are refused in the check
    known = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    told: dict[str, Any] = {"mean": (np.nansum(rows, axis=0) / known).tolist()}
    if how.missing == "mean":
        _need_values(name, not gaps.all(axis=0).any(), how)
        told["fill"] = told["mean"]
    elif how.missing != "refuse":
        told["fill"] = [0.0] * rows.shape[1]
        told["indicator"] = how.missing == "indicator" and bool(gaps.any())
    if how.numbers == "standard":
        told |= _scale(rows if "fill" not in told else _filled(rows, told["fill"]))
    width = None if values.ndim == 1 else values.shape[1]
    return NumberColumn(kind="number", name=name, width=width, **told)


def _rows(values: np.ndarray) -> np.ndarray:
    return values[:, None] if values.ndim == 1 else values


def _filled(rows: np.ndarray, fill: Sequence[float]) -> np.ndarray:
    return np.where(np.isnan(rows), np.array(fill), rows)


def _scale(rows: np.ndarray) -> dict[str, list[float]]:
    """Return `shift` and `spread` of columns (N, k), gaps left out; nothing where none needs them.

    Columns of 0 and 1 stay as they are: standardised, a rare yes would be a large number.
    """
    gaps = np.isnan(rows)
    told = (gaps | np.isin(rows, (0, 1))).all(axis=0)
    if told.all() or gaps.all(axis=0).any():  # the latter is refused elsewhere
        return {}
    shift = np.where(told, 0.0, np.nanmean(rows, axis=0))
    return {"shift": shift.tolist(), "spread": np.where(told, 1.0, _spread(rows)).tolist()}


def _spread(values: np.ndarray) -> np.ndarray:
    """Return the deviation of values along their first axis, 1 where it is that of rounding."""
    spread = np.nanstd(values, axis=0)
    return np.where(spread > 1e-12 * np.abs(np.nanmean(values, axis=0)), spread, 1.0)


def _number(column: NumberColumn, values: np.ndarray, missing: Missing) -> Block:
    rows = _rows(values)
    if (column.width or 1) != rows.shape[1]:
        raise ZooError(
            f"the column {column.name!r} has {rows.shape[1]} numbers in a row, and the model was "
            f"trained on {column.width or 1}."
        )
    names = [column.name] if column.width is None else _numbered(column.name, column.width)
    gaps, fill = np.isnan(rows), column.fill
    if fill is None:  # nothing was missing in training
        fill = {"mean": column.mean, "zero": [0.0]}.get(missing)
    rows = rows if fill is None else _filled(rows, fill)
    if column.shift is not None and column.spread is not None:
        rows = (rows - np.array(column.shift)) / np.array(column.spread)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is found in the check
        rows = rows.astype(np.float32)
    if not column.indicator:
        return rows, names
    return np.column_stack([rows, gaps.any(axis=1)]), [*names, f"{column.name} missing"]


def _learn_category(name: str, values: np.ndarray, how: FeatureColumns) -> LearntColumn:
    found = np.unique(values[values != ""]).tolist()
    if len(found) > MOST_VALUES:
        return HashedColumn(kind="hashed", name=name, columns=MOST_VALUES)
    return CategoryColumn(kind="category", name=name, values=found)


def _category(column: CategoryColumn, values: np.ndarray, missing: Missing) -> Block:
    found = values[:, None] == np.array(column.values, str)
    return found, [f"{column.name}={each}" for each in column.values]


def _hashed(column: HashedColumn, values: np.ndarray, missing: Missing) -> Block:
    from sklearn.feature_extraction import FeatureHasher

    hasher = FeatureHasher(column.columns, input_type="string", dtype=np.float32)
    found = hasher.transform([[each] if each else [] for each in values.tolist()])
    return found.toarray(), _numbered(column.name, column.columns)


def _learn_text(name: str, values: np.ndarray, how: FeatureColumns) -> TextColumn:
    from sklearn.feature_extraction.text import TfidfVectorizer

    learn = TfidfVectorizer(stop_words="english", max_features=how.terms)
    try:
        learn.fit(values.tolist())
    except ValueError:
        if not how.training:
            return TextColumn(kind="text", name=name, terms=[], weights=[])
        raise ZooError(
            f"the column {name!r} holds no words to learn from; leave it out of `text`."
        ) from None
    words = learn.get_feature_names_out().tolist()
    return TextColumn(kind="text", name=name, terms=words, weights=learn.idf_.tolist())


def _text(column: TextColumn, values: np.ndarray, missing: Missing) -> Block:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not column.terms:
        return sparse.csr_array((len(values), 0), dtype=np.float32), []
    count = TfidfVectorizer(stop_words="english", vocabulary=column.terms, dtype=np.float32)
    count.idf_ = np.array(column.weights)
    return count.transform(values.tolist()), [f"{column.name}: {each}" for each in column.terms]


def _learn_date(name: str, values: np.ndarray, how: FeatureColumns) -> DateColumn:
    known = values[~np.isnan(values)]
    _need_values(name, len(known) > 0, how)
    known = known if len(known) else np.zeros(1)
    told = {"mean": float(known.mean()), "deviation": float(_spread(known))}
    return DateColumn(kind="date", name=name, **told, missing=how.missing)


def _date(column: DateColumn, values: np.ndarray, missing: Missing) -> Block:
    turn = 2 * np.pi * values / _YEAR
    found = np.stack(
        [(values - column.mean) / column.deviation, np.sin(turn), np.cos(turn)], axis=1
    )
    names = [f"{column.name}{end}" for end in ("", " sine of year", " cosine of year")]
    if column.missing != "refuse" or missing in ("mean", "zero"):
        found = np.nan_to_num(found)  # 0 is the mean
    found = found.astype(np.float32)
    if column.missing != "indicator":
        return found, names
    return np.column_stack([found, np.isnan(values)]), [*names, f"{column.name} missing"]


def _need_values(name: str, given: bool, how: FeatureColumns) -> None:
    if not given and how.training:
        raise ZooError(f"the column {name!r} is empty in all training rows; leave it out.")


def _numbered(name: str, width: int) -> list[str]:
    return [f"{name}[{each}]" for each in range(width)]


_LEARN: dict[Kind, Callable[[str, np.ndarray, FeatureColumns], LearntColumn]] = {
    "number": _learn_number,
    "category": _learn_category,
    "text": _learn_text,
    "date": _learn_date,
}
"""Kind to function `(name, values, all of them)`, which learns of a column."""

_APPLY: dict[str, Callable[[Any, np.ndarray, Missing], Block]] = {
    "number": _number,
    "category": _category,
    "hashed": _hashed,
    "text": _text,
    "date": _date,
}
"""Kind to function `(what was learnt, values, missing)`, which gives features (N, k) and names."""
