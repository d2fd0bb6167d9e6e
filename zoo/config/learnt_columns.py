"""What is learnt of the columns of a table on its training nodes, as the plain data of weights."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from zoo.errors import ZooError

_Finite = Annotated[float, Field(allow_inf_nan=False)]

Missing = Literal["refuse", "mean", "zero", "indicator"]
"""What becomes of numbers and dates that are missing."""


class _Column(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: str


class NumberColumn(_Column):
    """Numbers, or lists of `width` of them; `fill` is what is missing, None where nothing may be.

    `mean` is that of training, for another table that says `missing: mean`. With an `indicator` a
    column of 0 and 1 says where something was missing. Of each `shift` is taken away, and it is
    divided by `spread`, where there are some.
    """

    kind: Literal["number"]
    width: Annotated[int, Field(ge=1)] | None = None
    mean: list[_Finite] | None = None
    fill: list[_Finite] | None = None
    indicator: bool = False
    shift: list[_Finite] | None = None
    spread: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None


class CategoryColumn(_Column):
    """Categories, one-hot: a column of 0 and 1 for each of these values; others have only zeros."""

    kind: Literal["category"]
    values: list[str]


class HashedColumn(_Column):
    """Categories, too many for a column each: a hash says which of so many has the 1 or -1."""

    kind: Literal["hashed"]
    columns: Annotated[int, Field(ge=1, le=2**16)]


class TextColumn(_Column):
    """Text: its counts of these terms, times their weights, as a row of length 1 (TF-IDF)."""

    kind: Literal["text"]
    terms: list[str]
    weights: list[_Finite]


class DateColumn(_Column):
    """Dates: days since `mean` over `deviation`, and sine and cosine of the time of year.

    `missing` is what becomes of empty cells, as in the options of a table.
    """

    kind: Literal["date"]
    mean: _Finite
    deviation: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    missing: Missing = "refuse"


LearntColumn = Annotated[
    NumberColumn | CategoryColumn | HashedColumn | TextColumn | DateColumn,
    Field(discriminator="kind"),
]
"""A column of any kind."""

_COLUMNS = TypeAdapter(tuple[LearntColumn, ...])


def to_json(columns: Sequence[LearntColumn] | None) -> str | None:
    """Return what is learnt of columns as JSON, which `from_json` reads; None of nothing."""
    return columns and _COLUMNS.dump_json(tuple(columns)).decode()


def from_json(text: str | None) -> tuple[LearntColumn, ...] | None:
    """Return what is learnt of columns, as `to_json` has written it; None of nothing.

    Raises:
        ZooError: the text is something else.
    """
    if text is None:
        return None
    try:
        return _COLUMNS.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ZooError(
            f"`learnt_columns` is not what is learnt of columns ({first['msg']}); leave it out, or "
            "write the file again with `zoo data prepare`."
        ) from None


def scales(columns: Sequence[LearntColumn] | None) -> list[LearntColumn]:
    """Return those of the columns whose numbers have a scale that is learnt.

    Of the others a name says all: numbers as they stand, and 0 and 1 for categories.
    """
    scaled = [column for column in columns or () if column.kind in ("number", "text", "date")]
    return [column for column in scaled if column.kind != "number" or column.shift is not None]


def scaled_numbers(columns: Sequence[LearntColumn] | None) -> list[str]:
    """Return the names of the columns of numbers that are standardised."""
    return [column.name for column in scales(columns) if column.kind == "number"]


def unscaled(columns: Sequence[LearntColumn]) -> list[LearntColumn]:
    """Return the columns with numbers as they stand, as weights read them that learnt of none."""
    plain = {"shift": None, "spread": None, "fill": None, "indicator": False}
    return [
        column.model_copy(update=plain) if column.kind == "number" else column for column in columns
    ]


def as_options(columns: Sequence[LearntColumn]) -> dict[str, str]:
    """Return `numbers` and `missing`, options of a table, as they were where this was learnt."""
    numbers = [column for column in columns if column.kind == "number"]
    gaps = {column.missing for column in columns if column.kind == "date"}
    for column in numbers:
        filled = "mean" if column.fill == column.mean else "zero"
        filled = "indicator" if column.indicator else filled
        gaps.add("refuse" if column.fill is None else filled)
    missing = next((word for word in ("indicator", "mean", "zero") if word in gaps), None)
    standard = any(column.shift is not None for column in numbers)
    options = {"numbers": "standard" if standard else "raw" if numbers else None,
               "missing": missing}  # fmt: skip
    return {option: word for option, word in options.items() if word is not None}
