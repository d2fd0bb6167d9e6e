"""The recipe: everything a run is made of, read so that all its mistakes are found at once.

Which words and options exist is written in the tables, and these need torch. The caller of
`read_recipe` brings the check against them along, as `zoo.runs.resolve` does; reading a
recipe is quick without it.
"""

import datetime
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from zoo.config.options import Count, Finite, NonNegative, Seed, Spec, sentence
from zoo.config.overrides import override
from zoo.config.search import Range, Search
from zoo.config.shipped import is_path, name_of, recipe_file
from zoo.config.yaml_lines import Draft, read, recipe_text
from zoo.errors import FIRST, Problem, ZooError, brief, suggestion

Check = Callable[[dict[str, Any]], list[Problem]]
"""Finds what is wrong with words and options; in the data keys may lack or be of any type."""


def _named(value: object) -> object:
    if not isinstance(value, str) and not (
        isinstance(value, Mapping) and isinstance(value.get("name"), str)
    ):
        raise ValueError("write a word, or {name: word, option: value}")
    return value


def _seeds_in_a_list(seeds: object) -> object:
    if isinstance(seeds, int):
        raise ValueError("write a list of seeds, such as [0,1,2]")
    return seeds


def _distinct(seeds: list[int]) -> list[int]:
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError("write at least one seed, and each once")
    return seeds


def _day(text: str) -> str:
    try:
        written = datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        written = None
    if written != text:
        raise ValueError("write a day as YYYY-MM-DD")
    return text


SAID = ("expect", "verified", "differs", "search")
"""Keys of what a recipe says of itself, which no training depends on."""

_MOST_OVERRIDES = 1000

_Named = Annotated[Spec, BeforeValidator(_named)]
_Seeds = Annotated[
    list[Seed],
    BeforeValidator(_seeds_in_a_list),
    AfterValidator(_distinct),
    Field(json_schema_extra={"minItems": 1, "uniqueItems": True}),
]
_Texts = list[Annotated[str, Field(min_length=1)]]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Verified(_Strict):
    """What a stored run of the recipe has measured."""

    test: Finite = Field(description="mean test metric over the seeds")
    std: NonNegative = Field(description="standard deviation of the test metric over the seeds")
    metric: str | None = Field(None, description="what `test` is, of data of one's own")
    seeds: _Seeds = Field(description="the seeds of the runs")
    date: Annotated[str, AfterValidator(_day)] = Field(description="day of the runs, YYYY-MM-DD")
    threads: Count | None = Field(
        None, description="threads of torch, which the last digits depend on; reproduce takes them"
    )
    seconds: NonNegative | None = Field(None, description="what all seeds took in training")
    gpu: str | None = Field(None, description="the GPU that trained it, if one did")
    versions: dict[str, str] | None = Field(None, description="versions of torch and DGL")
    sha256: str | None = Field(
        None, description="checksum of what was trained, 16 digits; `zoo reproduce --write` sets it"
    )


class Expect(_Strict):
    """The number that the recipe should reach, and who says so."""

    metric: Literal["mse"] | None = Field(
        None, description="where `test` is a mean squared error, of which less is better"
    )
    test: NonNegative = Field(description="test metric that the source reports; 1 at most, but mse")
    within: NonNegative = Field(description="how far from `test` still counts as reached")
    source: str = Field(min_length=1, description="where the number is from")
    program: Annotated[list[NonNegative], Field(min_length=2, max_length=2)] | None = Field(
        None, description="mean and deviation that the authors' program comes to, run again here"
    )
    missed: str | None = Field(
        None, description="why what was measured is worse: the cause, or what was tried to find it"
    )

    @pydantic.field_validator("test", "within")
    @classmethod
    def _share(cls, value: float, info: pydantic.ValidationInfo) -> float:
        if value > 1 and info.data.get("metric") is None:
            raise ValueError("should be less than or equal to 1, or `metric: mse` beside it")
        return value


class StartFrom(_Strict):
    """Weights that training begins with, and how far they may move."""

    weights: str = Field(min_length=1, description="a folder of weights, a run, or a shipped name")
    freeze: str | list[str] = Field(
        "none", description="none, backbone, except-head, or names of weights: layers.0, *.norm.*"
    )
    lr_decay: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="factor of the learning rate per layer, from the head down"
    )
    unverified: bool = Field(False, description="take weights that say no checksum of theirs")


class Contents(_Strict):
    """The keys of a recipe's file."""

    dataset: _Named = Field(description="the graph, its split and its task")
    task: _Named | None = Field(None, description="link-prediction, of a graph's own links")
    graph: _Named = Field("own", description="the edges: own, none, or made of the features")
    encoding: _Named = Field("none", description="features computed from the graph alone")
    model: _Named = Field(description="the model and its options")
    train: dict[str, Any] = Field({}, description="options of the training")
    seeds: _Seeds = Field([0], description="one run is made with each seed")
    start_from: StartFrom | None = Field(None, description="weights to begin with: fine-tuning")
    expect: Expect | None = Field(None, description="the number that the recipe should reach")
    verified: Verified | None = Field(None, description="what was measured here, null if nothing")
    differs: _Texts = Field([], description="where it is not what its source says, in sentences")
    search: Search = Field({}, description="what `zoo tune` tries beside the model's own ranges")
    imports: _Texts = Field([], description="modules, or files beside the recipe, to import first")


class Recipe(Contents):
    """A checked recipe: frozen fields of plain data, in its own copy.

    `name` is the file's stem, `path` the file; a mapping is called "recipe" and has no path.
    """

    name: str = Field("recipe", exclude=True)
    path: Path | None = Field(None, exclude=True)

    def plain(self) -> dict[str, Any]:
        """Return what a file of this recipe holds, defaults included, as plain data."""
        data = self.model_dump()
        empty = {key: None for key in ("task", "start_from", "expect", "verified")}
        empty |= {"graph": "own", "differs": [], "imports": [], "search": {}}
        return {key: value for key, value in data.items() if empty.get(key, ...) != value}

    @property
    def sha256(self) -> str:
        """The checksum of what is trained, its first 16 digits: a change of it tells.

        What it should reach, what was measured and where it differs from its source are no part.
        """
        own = {key: each for key, each in self.plain().items() if key not in SAID}
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def measured(self) -> Verified | None:
        """What was measured of it as it is now: nothing of a recipe that was changed since."""
        found = self.verified
        return found if found and found.sha256 in (None, self.sha256) else None

    def text(self) -> str:
        """Return the recipe as YAML, which `read_recipe` reads back to the same data."""
        return recipe_text(self.plain())


def read_recipe(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    check: Check | None = None,
) -> Recipe:
    """Read a recipe, change it, and check all of it.

    Args:
        source: the word of a shipped recipe, the path of a `.yaml` file, or a mapping.
        overrides: `"model.attention.size=128"` each: dotted keys and a value in YAML. Of two for
            the same key the last one holds.
        check: finds what is wrong with words and options, given the data as it was written.

    Raises:
        ZooError: a file that cannot be read, or all that is wrong in it: a line for each problem,
            with its file and line, or the override that caused it.
    """
    if isinstance(overrides, str):
        raise ZooError(f"overrides are a list: write [{brief(overrides)}].")
    if len(overrides) > _MOST_OVERRIDES:
        raise ZooError(f"{len(overrides):,} overrides are too many; write them into the recipe.")
    path = None if isinstance(source, Mapping) else recipe_file(source)
    draft = Draft("the recipe") if path is None else read(path, _shown(source, path))
    if path is None:
        draft.data = draft.copy_plain(source, ())
        draft.finish()
    data = _data(draft.data)
    # What replaces a whole mapping is put in first, wherever it stands.
    order = sorted(enumerate(overrides), key=lambda each: each[1].partition("=")[0].count("."))
    for number, text in order:
        override(draft, text, number)
    if _data(draft.data) != data and not any(each.startswith("expect") for each in overrides):
        draft.data.pop("expect", None)  # a number holds for its data and metric only
    _check(draft, check)
    draft.finish()
    return Recipe(**draft.data, name=name_of(path), path=path)


def word(spec: Spec) -> str:
    """Return `rba` for `rba` and for `{name: rba, size: 512}`."""
    return spec if isinstance(spec, str) else spec["name"]


def divide(spec: Any, keys: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Divide a spec into what its table knows and what the recipe itself adds to it."""
    if not isinstance(spec, dict):
        return spec, {}
    own = {key: spec[key] for key in keys if key in spec}
    return {key: value for key, value in spec.items() if key not in own}, own


def _shown(source: str | Path, path: Path) -> str:
    return str(source) if is_path(source) else path.name


def _check(draft: Draft, check: Check | None) -> None:
    """Check structure and words; where both say something of one key, keep the words."""
    found = check(draft.data) if check else []
    told = {problem.path for problem in found}
    found = found + [each for each in _structure(draft.data) if each.path not in told]
    for problem in found:
        draft.refuse(draft.place(problem.path), problem)


def _data(data: dict[str, Any]) -> Any:
    """Return the word of the data set, the graph and the metric, of whatever type they are."""
    spec, train = data.get("dataset"), data.get("train")
    metric = train.get("metric", "task") if isinstance(train, Mapping) else "task"
    word = spec.get("name") if isinstance(spec, Mapping) else spec
    return word, data.get("graph", "own"), metric


def _structure(data: dict[str, Any]) -> list[Problem]:
    try:
        Contents.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False)
        found = [{**each, "loc": _place(each["loc"])} for each in found]
        return [
            Problem(each["loc"], _message(each, told=number < FIRST))
            for number, each in enumerate(found)
        ]
    return []


def _place(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the keys that lead to an error; pydantic adds a third, its own word, in `search`."""
    return loc if loc[:1] != ("search",) else (*loc[:2], *loc[3:])


def _message(error: Mapping[str, Any], told: bool) -> str:
    """Return what is wrong; only where it is told, which key was meant: that takes a while."""
    *parents, key = error["loc"]
    fields = Range.model_fields if parents[:1] == ["search"] else _FIELDS.get(tuple(parents), {})
    if error["type"] == "extra_forbidden":
        where = ".".join(parents) or "a recipe"
        return f"{where} has no key {brief(key)}; {suggestion(key, fields) if told else ''}"
    if error["type"] == "missing":
        return f"is missing; write `{key}: ...`, {fields[key].description}."
    if error["type"] in ("dict_type", "model_type"):
        words = ", ".join(f"{each}: ..." for each in _FIELDS.get(error["loc"], {"option": None}))
        return sentence({**error, "msg": f"write a mapping, {{{words}}}"})
    return sentence(error)


_FIELDS = {
    (): Contents.model_fields,
    ("expect",): Expect.model_fields,
    ("start_from",): StartFrom.model_fields,
    ("verified",): Verified.model_fields,
}
