"""Features of the columns of a table: what is learnt of them is learnt from training nodes alone.

Numbers are scaled; categories, texts, dates and gaps become numbers as scikit-learn has them. What
is learnt is plain data, which weights keep, so that a new table is read alike.
"""

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
from zoo.errors import ZooError, brief

MOST_VALUES = 256
"""Categories that have a column each; of more, hashes share as many columns."""

_YEAR = 365.2425
_LARGEST = float(np.finfo(np.float32).max)
_OPTIONS = {"number": "columns", "category": "one_hot", "text": "text", "date": "dates"}

Block = tuple[Any, list[str]]  # features (N, k), dense or sparse, and their names


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
        numbers: `standard` gives them mean 0 and deviation 1, except those of 0 and 1.
        training: False: a column without any value is not refused, since weights may know how to
            read it.
    """

    rows: int
    values: dict[str, np.ndarray]
    kinds: dict[str, Kind]
    missing: Missing = "refuse"
    terms: int = 1000
    numbers: Numbers = "raw"
    training: bool = True

    def needs_fit(self) -> bool:
        """Return whether anything has to be learnt of the columns."""
        chosen = self.missing != "refuse" or self.numbers != "raw"
        return (chosen and bool(self.kinds)) or not set(self.kinds.values()) <= {"number"}

    def part(self, nodes: np.ndarray) -> "FeatureColumns":
        """Return the columns of some nodes (n,)."""
        values = {name: column[nodes] for name, column in self.values.items()}
        return dataclasses.replace(self, rows=len(nodes), values=values)

    def fit(self, nodes: np.ndarray | None = None) -> list[LearntColumn]:
        """Return what is learnt of the columns at some nodes (n,), or at all.

        Raises:
            ZooError: a column has no value, or no term, to learn from.
        """
        if nodes is not None:
            return self.part(nodes).fit()
        return [_LEARN[kind](name, self.values[name], self) for name, kind in self.kinds.items()]

    def transform(self, learnt: Sequence[LearntColumn]) -> tuple[Any, tuple[str, ...]]:
        """Return the features (N, F) fp32, sparse where texts are among them, and their names.

        Raises:
            ZooError: the columns are not those that were learnt of, or of other kinds.
        """
        if missing := [column.name for column in learnt if column.name not in self.values]:
            raise ZooError(
                f"there is no column {', '.join(map(brief, missing))}, which the model was trained "
                f"on; among the features there are {', '.join(map(brief, self.values)) or 'none'}."
            )
        blocks, names = [np.zeros((self.rows, 0), np.float32)], []
        for column in learnt:
            block, own_names = _ENCODE[column.kind](column, self._values_of(column), self.missing)
            blocks.append(block)
            names += own_names
        if any(sparse.issparse(block) for block in blocks):
            blocks = [sparse.csr_array(block) for block in blocks]
            return sparse.hstack(blocks, format="csr").astype(np.float32), tuple(names)
        return np.concatenate(blocks, axis=1, dtype=np.float32), tuple(names)

    def unseen(self, learnt: Sequence[LearntColumn]) -> list[str]:
        """Return a sentence for each column that has categories which training had not."""
        sentences = []
        for column in learnt:
            if column.kind != "category" or column.name not in self.values:
                continue
            values = self.values[column.name]
            new = values[(values != "") & ~np.isin(values, column.values)]
            if len(new):
                some, known = (", ".join(map(brief, words[:3]))
                               for words in (np.unique(new).tolist(), column.values))  # fmt: skip
                sentences.append(
                    f"{column.name}: {len(new):,} of {len(values):,} values are none that training "
                    f"had, such as {some}; it had such as {known}, and they count as none of these"
                )
        return sentences

    def far_from_training(self, learnt: Sequence[LearntColumn]) -> list[str]:
        """Return a phrase for each column of standardised numbers that is far from training's."""
        phrases = []
        for column in learnt:
            values = self.values.get(column.name)
            if column.kind != "number" or column.shift is None or values is None:
                continue
            if self.kinds[column.name] not in ("number", "vector"):
                continue
            rows = values.reshape(len(values), -1)
            names = [column.name] if column.width is None else _numbered(column.name, column.width)
            if rows.shape[1] == len(names):  # others are refused
                scale = np.array(column.shift), np.array(column.spread)
                phrases += far_from_training(names, rows, *scale)
        return phrases

    def _values_of(self, column: LearntColumn) -> np.ndarray:
        name, kind = column.name, "category" if column.kind == "hashed" else column.kind
        if kind != self.kinds[name]:
            raise ZooError(
                f"the column {name!r} was read as {self.kinds[name]}, and the model was trained on "
                f"{kind} there; write `{_OPTIONS[kind]}: [...]` as for the training."
            )
        return self.values[name]


def _learn_number(name: str, values: np.ndarray, how: FeatureColumns) -> NumberColumn:
    rows = values[:, None] if values.ndim == 1 else values
    gaps = np.isnan(rows)
    rows = np.where(np.abs(rows) <= _LARGEST, rows, np.nan)  # larger ones are refused in the check
    known = np.maximum((~np.isnan(rows)).sum(axis=0), 1)
    learnt: dict[str, Any] = {"mean": (np.nansum(rows, axis=0) / known).tolist()}
    if how.missing == "mean":
        _check_values(name, not gaps.all(axis=0).any(), how)
        learnt["fill"] = learnt["mean"]
    elif how.missing != "refuse":
        learnt["fill"] = [0.0] * rows.shape[1]
        learnt["indicator"] = how.missing == "indicator" and bool(gaps.any())
    if how.numbers == "standard":
        if "fill" in learnt:
            rows = np.where(np.isnan(rows), np.array(learnt["fill"]), rows)
        learnt |= _learn_scale(rows)
    width = None if values.ndim == 1 else values.shape[1]
    return NumberColumn(kind="number", name=name, width=width, **learnt)


def _learn_scale(rows: np.ndarray) -> dict[str, list[float]]:
    """Return `shift` and `spread` of columns (N, k), gaps left out; nothing where none needs them.

    Columns of 0 and 1 stay as they are: standardised, a rare yes would be a large number.
    """
    gaps = np.isnan(rows)
    binary = (gaps | np.isin(rows, (0, 1))).all(axis=0)
    if binary.all() or gaps.all(axis=0).any():  # the latter is refused elsewhere
        return {}
    shift, spread = np.nanmean(rows, axis=0), _deviation(rows)
    return {"shift": np.where(binary, 0, shift).tolist(),
            "spread": np.where(binary, 1, spread).tolist()}  # fmt: skip


def _deviation(values: np.ndarray) -> np.ndarray:
    """Return the deviation of values along their first axis, 1 where it is that of rounding."""
    spread = np.nanstd(values, axis=0)
    return np.where(spread > 1e-12 * np.abs(np.nanmean(values, axis=0)), spread, 1.0)


def _encode_number(column: NumberColumn, values: np.ndarray, missing: Missing) -> Block:
    rows = values[:, None] if values.ndim == 1 else values
    if (column.width or 1) != rows.shape[1]:
        raise ZooError(
            f"the column {column.name!r} has {rows.shape[1]} numbers in a row, and the model was "
            f"trained on {column.width or 1}."
        )
    names = [column.name] if column.width is None else _numbered(column.name, column.width)
    gaps, fill = np.isnan(rows), column.fill
    if fill is None:  # nothing was missing in training
        fill = {"mean": column.mean, "zero": [0.0]}.get(missing)
    rows = rows if fill is None else np.where(gaps, np.array(fill), rows)
    if column.shift is not None and column.spread is not None:
        rows = (rows - np.array(column.shift)) / np.array(column.spread)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is found in the check
        rows = rows.astype(np.float32)
    if not column.indicator:
        return rows, names
    return np.column_stack([rows, gaps.any(axis=1)]), [*names, f"{column.name} missing"]


def _learn_category(name: str, values: np.ndarray, how: FeatureColumns) -> LearntColumn:
    categories = np.unique(values[values != ""]).tolist()
    if len(categories) > MOST_VALUES:
        return HashedColumn(kind="hashed", name=name, columns=MOST_VALUES)
    return CategoryColumn(kind="category", name=name, values=categories)


def _encode_category(column: CategoryColumn, values: np.ndarray, missing: Missing) -> Block:
    one_hot = values[:, None] == np.array(column.values, str)
    return one_hot, [f"{column.name}={value}" for value in column.values]


def _encode_hashed(column: HashedColumn, values: np.ndarray, missing: Missing) -> Block:
    from sklearn.feature_extraction import FeatureHasher

    hasher = FeatureHasher(column.columns, input_type="string", dtype=np.float32)
    hashes = hasher.transform([[value] if value else [] for value in values.tolist()])
    return hashes.toarray(), _numbered(column.name, column.columns)


def _learn_text(name: str, values: np.ndarray, how: FeatureColumns) -> TextColumn:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", max_features=how.terms)
    try:
        vectorizer.fit(values.tolist())
    except ValueError:
        if not how.training:
            return TextColumn(kind="text", name=name, terms=[], weights=[])
        raise ZooError(
            f"the column {name!r} holds no words to learn from; leave it out of `text`."
        ) from None
    terms = vectorizer.get_feature_names_out().tolist()
    return TextColumn(kind="text", name=name, terms=terms, weights=vectorizer.idf_.tolist())


def _encode_text(column: TextColumn, values: np.ndarray, missing: Missing) -> Block:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not column.terms:
        return sparse.csr_array((len(values), 0), dtype=np.float32), []
    vectorizer = TfidfVectorizer(stop_words="english", vocabulary=column.terms, dtype=np.float32)
    vectorizer.idf_ = np.array(column.weights)
    names = [f"{column.name}: {term}" for term in column.terms]
    return vectorizer.transform(values.tolist()), names


def _learn_date(name: str, values: np.ndarray, how: FeatureColumns) -> DateColumn:
    known = values[~np.isnan(values)]
    _check_values(name, len(known) > 0, how)
    known = known if len(known) else np.zeros(1)
    mean, deviation = float(known.mean()), float(_deviation(known))
    return DateColumn(kind="date", name=name, mean=mean, deviation=deviation, missing=how.missing)


def _encode_date(column: DateColumn, values: np.ndarray, missing: Missing) -> Block:
    turn = 2 * np.pi * values / _YEAR
    rows = np.stack([(values - column.mean) / column.deviation, np.sin(turn), np.cos(turn)], axis=1)
    names = [f"{column.name}{end}" for end in ("", " sine of year", " cosine of year")]
    if column.missing != "refuse" or missing in ("mean", "zero"):
        rows = np.nan_to_num(rows)  # 0 is the mean
    rows = rows.astype(np.float32)
    if column.missing != "indicator":
        return rows, names
    return np.column_stack([rows, np.isnan(values)]), [*names, f"{column.name} missing"]


def _check_values(name: str, known: bool, how: FeatureColumns) -> None:
    if not known and how.training:
        raise ZooError(f"the column {name!r} is empty in all training rows; leave it out.")


def _numbered(name: str, width: int) -> list[str]:
    return [f"{name}[{place}]" for place in range(width)]


_FAR_MEAN, _FEW = 3, 10
"""Deviations of training beyond which a mean is far from that of training, and rows below which
deviations say nothing: a mean of n rows may be _FEW / n deviations further off."""


def far_from_training(
    names: Sequence[str], values: np.ndarray, mean: np.ndarray, spread: np.ndarray
) -> list[str]:
    """Return a phrase for each column of numbers (N, F) that lies far from that of training.

    That is by some 10,000 of its rows a mean beyond `_FAR_MEAN`; or a deviation that is 100 times
    that of training, or 10 times where the mean is as well, as with another unit; or as much
    smaller. Rare numbers have no deviation to go by; nor has what was constant in training, whose
    deviation is written 1; and columns of 0 and 1 have no unit.

    Args:
        names: of the columns.
        values: as they stand, NaN where missing.
        mean: those of training, (F,).
        spread: their deviations, (F,).
    """
    values = values[:: max(1, len(values) // 10_000)].astype(np.float64)
    known = ~np.isnan(values)
    count = np.maximum(known.sum(axis=0), 1)
    now = np.nansum(values, axis=0) / count
    deviation = np.sqrt(np.nansum((values - now) ** 2, axis=0) / count)
    times, of_means = _times(deviation, spread), _times(now, mean)
    rare = ((values == 0).sum(axis=0) > 0.9 * count) | (count < _FEW) | (spread == 1)
    constant = deviation <= 1e-6 * spread
    far = ~rare & ~constant & ((times > 100) | ((times > 10) & (of_means > 10)))
    far |= np.abs(now - mean) > (_FAR_MEAN + _FEW / count) * spread
    far &= known.any(axis=0) & ~(~known | np.isin(values, (0, 1))).all(axis=0)
    return [
        f"{names[place]} is {_number(now[place])} ± {_number(deviation[place])} and was "
        f"{_number(mean[place])} ± {_number(spread[place])}"
        for place in np.flatnonzero(far)
    ]


def _times(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return how many times numbers are as large, or as small, as others by their magnitudes."""
    one, other = (np.maximum(np.abs(each), 1e-300) for each in (one, other))
    return np.maximum(one, other) / np.minimum(one, other)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_LEARN: dict[Kind, Callable[[str, np.ndarray, FeatureColumns], LearntColumn]] = {
    "number": _learn_number,
    "category": _learn_category,
    "text": _learn_text,
    "date": _learn_date,
}
"""Kind to function `(name, values, all of them)`, which learns of a column."""

_ENCODE: dict[str, Callable[[Any, np.ndarray, Missing], Block]] = {
    "number": _encode_number,
    "category": _encode_category,
    "hashed": _encode_hashed,
    "text": _encode_text,
    "date": _encode_date,
}
"""Kind to function `(what was learnt, values, missing)`, which gives features (N, k) and names."""
