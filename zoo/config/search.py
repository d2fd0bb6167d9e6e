"""What `zoo tune` may change, the values that are worth trying, and what came of those tried."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from zoo.config.question import ASKED
from zoo.config.scores import gain

_DOTTED = r"(model|train|encoding|dataset)(\.\w+)+$"
_SCORED = rf"dataset\.({'|'.join(('split', *ASKED))})(\.|$)"


def _dotted(key: str) -> str:
    if not re.fullmatch(_DOTTED, key):
        raise ValueError("write a key of model, train, encoding or dataset, such as train.lr")
    if re.match(_SCORED, key):
        raise ValueError(
            f"scores of one {key} and of another are of different things; leave it out"
        )
    return key


Key = Annotated[
    str,
    AfterValidator(_dotted),
    WithJsonSchema({"type": "string", "pattern": f"^(?!{_SCORED}){_DOTTED}"}),
]


class Range(BaseModel):
    """Numbers from `low` to `high`: whole ones where both are; `log`, as many below as above."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    low: int | float = Field(description="the lowest")
    high: int | float = Field(description="the highest")
    log: bool = Field(False, description="whether ratios count, and not differences")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError("write a `low` that is less than `high`")
        if self.log and self.low <= 0:
            raise ValueError("ratios need a `low` above 0; leave `log` out")
        return self

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole ones."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def __contains__(self, value: object) -> bool:
        """Return whether a value is one of its numbers."""
        number = type(value) is int or (type(value) is float and not self.whole)
        return number and self.low <= value <= self.high


def _kind(value: object) -> str | None:
    if isinstance(value, list):
        return "list"
    return "range" if isinstance(value, Mapping | Range) else None


_Tried = Annotated[
    Annotated[Range, Tag("range")] | Annotated[list[Any], Field(min_length=2), Tag("list")],
    Discriminator(
        _kind,
        custom_error_type="tried",
        custom_error_message="write a list, [16, 32], or {low: 1e-4, high: 1e-2, log: true}",
    ),
]

Search = dict[Key, _Tried]
"""Dotted key, such as `train.lr`, to a range, or to the list of what it may be."""

TRAINING: dict[str, Any] = {
    "train.lr": {"low": 0.0005, "high": 0.03, "log": True},
    "train.weight_decay": {"low": 1e-5, "high": 1e-2, "log": True},
}
"""What is tried of every training."""


class Trial(NamedTuple):
    """A trial that has ended.

    Attributes:
        number: from 0, which is the recipe as it was, as far as its values are among those tried.
        state: `complete`, `pruned`, `failed`, or `refused`: its settings do not go together.
        val: mean validation score over the splits it was trained on, None where there is none.
        std: their standard deviation.
        splits: how many these are.
        seconds: that it took.
        settings: key of the recipe to the value that was tried.
    """

    number: int
    state: str
    val: float | None
    std: float | None
    splits: int
    seconds: float
    settings: dict[str, Any]


def ended(trial: Any, search: Search) -> Trial:
    """Return what became of a trial of Optuna that has ended."""
    scores = trial.user_attrs.get("val", [])
    words = {"COMPLETE": "complete", "PRUNED": "pruned"}
    other = "failed" if "begun" in trial.user_attrs else "refused"
    return Trial(
        trial.number,
        words.get(trial.state.name, other),
        statistics.fmean(scores) if scores else None,
        statistics.stdev(scores) if len(scores) > 1 else None,
        len(scores),
        trial.user_attrs.get("seconds", 0.0),
        settings_of(search, trial.params),
    )


def best_of(trials: Sequence[Trial], metric: str) -> Trial | None:
    """Return the complete trial with the best validation score, None where none is complete."""
    done = [each for each in trials if each.state == "complete"]
    return max(done, key=lambda each: gain(metric, each.val), default=None)


def lines_of(trials: Sequence[Trial], metric: str) -> dict[str, tuple[list[float], list[float]]]:
    """Return the scores of trials against their number, from 1: by state, and the best so far."""
    numbered = list(enumerate(trials, start=1))
    found = {state: [each for each in numbered if each[1].state == state]
             for state in ("complete", "pruned")}  # fmt: skip
    best = [(number, best_of(trials[:number], metric)) for number, _ in numbered]
    found["best so far"] = [(number, each) for number, each in best if each]
    return {name: ([float(number) for number, _ in each], [trial.val for _, trial in each])
            for name, each in found.items() if each}  # fmt: skip


def table_of(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Return trials as lines of a table, the settings of each in one cell."""
    return [{**each._asdict(), "settings": json.dumps(each.settings)} for each in trials]


def changed(data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain data of a recipe with other values at some dotted keys."""
    data = {key: each for key, each in data.items() if key != "search"}
    for key, value in settings.items():
        first, *rest, last = key.split(".")
        into = data[first] = _mapping(data.get(first, {}))
        for each in rest:
            into[each] = into = _mapping(into.get(each, {}))
        into[last] = value
    return data


def at(data: Mapping[str, Any], key: str) -> Any:
    """Return what is at a dotted key, None where nothing is."""
    found: Any = data
    for each in key.split("."):
        found = found.get(each) if isinstance(found, Mapping) else None
    return found


def _mapping(spec: Any) -> dict[str, Any]:
    return dict(spec) if isinstance(spec, Mapping) else {"name": spec}


def ends_of(space: Range | list[Any]) -> list[Any]:
    """Return both ends of a range, or all of a list."""
    return [space.low, space.high] if isinstance(space, Range) else space


def widened(search: Search, data: Mapping[str, Any]) -> Search:
    """Return a search that holds what a written recipe has as well, where a value of its kind can.

    No value, and one of another kind, changes nothing; nor does 0 where ratios count.
    """
    return {key: _with(at(data, key), space) for key, space in search.items()}


def _with(value: Any, space: Range | list[Any]) -> Range | list[Any]:
    if value is None or value in space:
        return space
    if not isinstance(space, Range):
        return [*space, value]
    fits = type(value) is int or (type(value) is float and not space.whole)
    if not fits or (space.log and value <= 0):
        return space
    low, high = min(space.low, value), max(space.high, value)
    return Range(low=low, high=high, log=space.log)


def start_of(search: Search, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a written recipe has at the keys of a search, in Optuna's words.

    A value that is not among those to be tried is left out, and with it the trial is another.
    """
    now = {key: at(data, key) for key in search}
    return {
        key: now[key] if isinstance(space, Range) else json.dumps(space[space.index(now[key])])
        for key, space in search.items()
        if now[key] in space
    }


def suggested(trial: Any, search: Search) -> dict[str, Any]:
    """Return the settings of a recipe that a trial of Optuna suggests."""
    return {key: _suggested(trial, key, space) for key, space in search.items()}


def _suggested(trial: Any, key: str, space: Range | list[Any]) -> Any:
    if not isinstance(space, Range):
        words = [json.dumps(each) for each in space]
        return _value_of(space, trial.suggest_categorical(key, words))
    suggest = trial.suggest_int if space.whole else trial.suggest_float
    return _value_of(space, suggest(key, space.low, space.high, log=space.log))


def settings_of(search: Search, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recipe for the words of Optuna."""
    return {key: _value_of(search[key], each) for key, each in found.items()}


def _value_of(space: Range | list[Any], found: Any) -> Any:
    """Return the value of a recipe for one of Optuna: four digits of it are enough."""
    if not isinstance(space, Range):
        return json.loads(found)
    return found if space.whole else float(f"{found:.4g}")


def plain(search: Search) -> dict[str, Any]:
    """Return what a recipe says of a search."""
    return {
        key: each.model_dump(exclude_defaults=True) if isinstance(each, Range) else each
        for key, each in search.items()
    }
