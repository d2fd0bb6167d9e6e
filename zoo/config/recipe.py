"""The recipe: everything a run is made of, read so that all its mistakes are found at once.

Which words and options exist is written in the tables, and these need torch. The caller of
`read_recipe` brings the check against them along, as `zoo.runs.resolve` does; reading a
recipe is quick without it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    WithJsonSchema,
)

from zoo.config.options import Count, Finite, NonNegative, Seed, Spec, sentence
from zoo.config.overrides import override
from zoo.config.scores import TARGET_KEYS
from zoo.config.shipped import is_path, name_of, recipe_file
from zoo.config.yaml_lines import Draft, read_draft, recipe_text
from zoo.errors import FIRST, Problem, ZooError, brief, suggestion

Check = Callable[[dict[str, Any]], list[Problem]]
"""Finds what is wrong with words and options; in the data keys may lack or be of any type."""

UNTRAINED_KEYS = ("expect", "verified", "differs", "search")
"""Keys of a recipe that no training depends on."""


def _check_named(value: object) -> object:
    if not isinstance(value, str) and not (
        isinstance(value, Mapping) and isinstance(value.get("name"), str)
    ):
        raise ValueError("write a word, or {name: word, option: value}")
    return value


def _check_seed_list(seeds: object) -> object:
    if isinstance(seeds, int):
        raise ValueError("write a list of seeds, such as [0,1,2]")
    return seeds


def _check_distinct(seeds: list[int]) -> list[int]:
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError("write at least one seed, and each once")
    return seeds


_Named = Annotated[Spec, BeforeValidator(_check_named)]
_Seeds = Annotated[
    list[Seed],
    BeforeValidator(_check_seed_list),
    AfterValidator(_check_distinct),
    Field(json_schema_extra={"minItems": 1, "uniqueItems": True}),
]
_Texts = list[Annotated[str, Field(min_length=1)]]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


_DOTTED = r"(model|train|encoding|dataset)(\.\w+)+$"
_TARGETS = rf"dataset\.({'|'.join(('split', *TARGET_KEYS))})(\.|$)"


def _check_search_key(key: str) -> str:
    if not re.fullmatch(_DOTTED, key):
        raise ValueError("write a key of model, train, encoding or dataset, such as train.lr")
    if re.match(_TARGETS, key):
        raise ValueError(
            f"scores of one {key} and of another are of different things; leave it out"
        )
    return key


class Range(_Strict):
    """Numbers from `low` to `high`: whole ones where both are; `log`, as many below as above."""

    low: int | float = Field(description="the lowest")
    high: int | float = Field(description="the highest")
    log: bool = Field(False, description="whether ratios count, and not differences")

    @pydantic.model_validator(mode="after")
    def _check_order(self) -> Self:
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


def _kind(space: object) -> str | None:
    if isinstance(space, list):
        return "list"
    return "range" if isinstance(space, Mapping | Range) else None


Search = dict[
    Annotated[
        str,
        AfterValidator(_check_search_key),
        WithJsonSchema({"type": "string", "pattern": f"^(?!{_TARGETS}){_DOTTED}"}),
    ],
    Annotated[
        Annotated[Range, Tag("range")] | Annotated[list[Any], Field(min_length=2), Tag("list")],
        Discriminator(
            _kind,
            custom_error_type="search_space",
            custom_error_message="write a list, [16, 32], or {low: 1e-4, high: 1e-2, log: true}",
        ),
    ],
]
"""Dotted key, such as `train.lr`, to a range, or to the list of its values."""


class Verified(_Strict):
    """What a stored run of the recipe has measured."""

    test: Finite = Field(description="mean test metric over the seeds")
    std: NonNegative = Field(description="standard deviation of the test metric over the seeds")
    metric: str | None = Field(None, description="what `test` is, of data of one's own")
    seeds: _Seeds = Field(description="the seeds of the runs")
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$", description="day of the runs, YYYY-MM-DD")
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

    metric: Literal["mse", "rmse"] | None = Field(
        None, description="where `test` is a mean squared error, or its root: less is better"
    )
    test: NonNegative = Field(
        description="test metric that the source reports; 1 at most, but errors"
    )
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
    def _check_share(cls, value: float, info: pydantic.ValidationInfo) -> float:
        if value > 1 and info.data.get("metric") is None:
            raise ValueError(
                "should be less than or equal to 1, or `metric: mse` beside it, or rmse"
            )
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
    encoding: _Named | None = Field(None, description="features computed from the graph alone")
    readout: _Named | None = Field(None, description="of graphs: how nodes become one answer")
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
        empty = {
            key: None for key in ("task", "encoding", "readout", "start_from", "expect", "verified")
        }
        empty |= {"graph": "own", "differs": [], "imports": [], "search": {}}
        return {key: value for key, value in data.items() if empty.get(key, ...) != value}

    @property
    def sha256(self) -> str:
        """The checksum of what is trained, its first 16 digits: a change of it tells.

        What it should reach, what was measured and where it differs from its source are no part.
        """
        data = {key: value for key, value in self.plain().items() if key not in UNTRAINED_KEYS}
        data.setdefault("encoding", "none")  # so that older checksums hold
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def measured(self) -> Verified | None:
        """What was measured of it as it is now: nothing of a recipe that was changed since."""
        verified = self.verified
        return verified if verified and verified.sha256 in (None, self.sha256) else None

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
    path = None if isinstance(source, Mapping) else recipe_file(source)
    if path is None:
        draft = Draft("the recipe")
        try:
            draft.data = json.loads(json.dumps(source))  # a copy of plain data
        except (TypeError, ValueError) as error:
            raise ZooError(
                f"the recipe: {error}; it holds text, numbers, true, false, null, lists and "
                "mappings."
            ) from None
    else:
        draft = read_draft(path, str(source) if is_path(source) else path.name)
    measured = _measured_keys(draft.data)
    # What replaces a whole mapping is put in first, wherever it stands.
    depth = [text.partition("=")[0].count(".") for text in overrides]
    for number in sorted(range(len(overrides)), key=depth.__getitem__):
        override(draft, overrides[number], number)
    changed = _measured_keys(draft.data) != measured
    if changed and not any(text.startswith("expect") for text in overrides):
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


def _measured_keys(data: dict[str, Any]) -> Any:
    """Return the word of the data set, the graph and the metric, of whatever type they are."""
    spec, train = data.get("dataset"), data.get("train")
    metric = train.get("metric", "task") if isinstance(train, Mapping) else "task"
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    return name, data.get("graph", "own"), metric


def _check(draft: Draft, check: Check | None) -> None:
    """Check structure and words; where both say something of one key, keep the words."""
    problems = check(draft.data) if check else []
    paths = [problem.path for problem in problems]
    for problem in [*problems, *_structure(draft.data)]:
        if problem in problems or problem.path not in paths:
            draft.refuse(draft.place(problem.path), problem)


def _structure(data: dict[str, Any]) -> list[Problem]:
    try:
        Contents.model_validate(data)
    except ValidationError as error:
        problems = []
        for number, details in enumerate(error.errors(include_url=False)):
            keys = details["loc"]
            if keys[0] == "search":  # pydantic puts the word of its discriminator third
                keys = (*keys[:2], *keys[3:])
            message = _message({**details, "loc": keys}, suggest=number < FIRST)
            problems.append(Problem(keys, message))
        return problems
    return []


_INSIDE = {
    "dataset": ("id", "label", "source", "target", "weight", "one_hot", "text", "dates", "missing",
                "numbers", "features", "split"),
    "train": ("epochs", "lr", "weight_decay", "patience", "optimizer", "batching", "loss"),
    "model": ("attention", "dim", "layers", "heads", "dropout", "norm", "propagation"),
}  # fmt: skip
"""Options that are looked for at the top of a recipe, by where they are."""


def _message(error: Mapping[str, Any], suggest: bool) -> str:
    """Return what is wrong, and which key may have been meant; to look for that takes a while."""
    *parents, key = error["loc"]
    fields = Range.model_fields if parents[:1] == ["search"] else _FIELDS.get(tuple(parents), {})
    if error["type"] == "extra_forbidden":
        where = ".".join(parents) or "a recipe"
        part = next((part for part, keys in _INSIDE.items() if key in keys and not parents), None)
        if part is not None:
            return f"a recipe has no key {brief(key)} at its top; write `{part}.{key}`."
        return f"{where} has no key {brief(key)}; {suggestion(key, fields) if suggest else ''}"
    if error["type"] == "missing":
        return f"is missing; write `{key}: ...`, {fields[key].description}."
    if error["type"] in ("dict_type", "model_type"):
        keys = ", ".join(f"{name}: ..." for name in _FIELDS.get(error["loc"], ["option"]))
        return sentence({**error, "msg": f"write a mapping, {{{keys}}}"})
    return sentence(error)


_FIELDS = {
    (): Contents.model_fields,
    ("expect",): Expect.model_fields,
    ("start_from",): StartFrom.model_fields,
    ("verified",): Verified.model_fields,
}
