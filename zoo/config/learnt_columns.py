"""What is learnt of the columns of a table on its training nodes, as the plain data of weights."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

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
    """Kinds of things: a column of 0 and 1 for each of these values; others have only zeros."""

    kind: Literal["category"]
    values: list[str]


class HashedColumn(_Column):
    """Kinds of things, too many for a column each: each has a 1 or a -1 in one of so many."""

    kind: Literal["hashed"]
    columns: Annotated[int, Field(ge=1, le=2**16)]


class TextColumn(_Column):
    """Text: its counts of these terms, times their weights, as a row of length 1 (TF-IDF)."""

    kind: Literal["text"]
    terms: list[str]
    weights: list[_Finite]

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if len(self.terms) != len(self.weights) or len(set(self.terms)) != len(self.terms):
            raise ValueError(f"{len(self.terms)} terms and {len(self.weights)} weights")
        return self


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
