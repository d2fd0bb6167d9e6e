"""What is known of trained weights beside their numbers, in the words of `config.json`.

Weights are published. What was read from a path is called by its name there, and known by its
SHA-256; the path itself stays in the run's own `recipe.yaml`.
"""

import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from zoo.config.learnt_columns import LearntColumn
from zoo.config.options import Seed, Spec
from zoo.config.scores import declare_direction

_PATHS = {
    ("dataset",),
    ("dataset", "name"),
    ("dataset", "nodes"),
    ("dataset", "path"),
    ("dataset", "edges"),
    ("dataset", "split", "train"),
    ("dataset", "split", "val"),
    ("dataset", "split", "test"),
    ("dataset", "split", "run"),
    ("graph", "path"),
    ("imports", 0),
    ("start_from", "weights"),
    ("train", "batching", "config"),
}
"""Keys of a recipe whose texts are paths, or words without a slash; a list is as its first item."""

_ABSOLUTE = re.compile(r"[\\/]{1,2}\w|~[^\s\\/]*[\\/]|[A-Za-z]:[\\/]|file:")
"""How a text begins that is a path from anywhere: `/data`, `~/data`, `C:\\data`."""


def without_paths(recipe: Any, keys: tuple[str | int, ...] = ()) -> Any:
    """Return the plain data of a recipe with the name of each path instead of the path."""
    if isinstance(recipe, dict):
        return {key: without_paths(value, (*keys, key)) for key, value in recipe.items()}
    if isinstance(recipe, list):
        return [without_paths(value, (*keys, 0)) for value in recipe]
    if isinstance(recipe, str) and (keys in _PATHS or is_private(recipe)):
        return path_name(recipe)
    return recipe


def _is_named(spec: Any) -> bool:
    return isinstance(spec.get("name") if isinstance(spec, dict) else spec, str)


def path_name(path: str) -> str:
    """Return the name of a file or folder, and for a seed of a run that of the run too."""
    *_, run, last = ["", "", *(word for word in re.split(r"[\\/]", path) if word)]
    return f"{run}/{last}" if run and re.fullmatch(r"seed-\d+", last) else last


def stem_of(path: str) -> str:
    """Return the name of a file or folder without its ending: `sales` of `shop/sales.csv`."""
    return path_name(path).lstrip(".").partition(".")[0]


def is_private(text: str) -> bool:
    """Return whether a text is a path of one machine, or holds that of the user's own folder."""
    home = os.path.expanduser("~")
    return bool(_ABSOLUTE.match(text)) or (len(home) > 1 and home in text)


def private_texts(config: Any, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the texts of a `config.json` that are paths, or hold one, each after its dotted key."""
    if isinstance(config, dict | list):
        for key, value in config.items() if isinstance(config, dict) else enumerate(config):
            yield from private_texts(value, (*keys, key))
    elif isinstance(config, str):
        recipe_keys = tuple(0 if isinstance(key, int) else key for key in keys[2:])
        if without_paths(config, recipe_keys if keys[:2] == ("about", "recipe") else ()) != config:
            yield ".".join(map(str, keys)), config


class About(BaseModel):
    """What weights were trained on and what came of it; None where it is not known."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    data: str | None = Field(None, description="name of the data set")
    task: str | None = Field(None, description="word of the task")
    metric: str | None = Field(None, description="what the scores measure")
    lower_is_better: bool | None = Field(
        None, description="whether less of the metric is better, where its name does not say it"
    )
    features: Annotated[int, Field(ge=0)] | None = Field(
        None, description="features of a node, without the encoding"
    )
    feature_names: list[str] | None = Field(None, description="their names, in order")
    edge_feature_names: list[str] | None = Field(
        None, description="names of the features of edges, in order, of a model that reads these"
    )
    relation_names: list[str] | None = Field(
        None, description="names of the kinds of edges, in order, of a model that tells them apart"
    )
    columns: list[LearntColumn] | None = Field(
        None, description="of a table: what its features are learnt of, on training nodes"
    )
    labels: list[str] | None = Field(None, description="names of the classes, or of the targets")
    languages: list[str] | None = Field(None, description="that a text is translated from and to")
    transform: Spec = Field("raw", description="what is done to the features first")
    target: Annotated[list[list[float]], Field(min_length=2, max_length=2)] | None = Field(
        None, description="of `train.target: standard`: means and deviations of the targets"
    )
    target_log: bool = Field(False, description="`target: log`: they are those of log(1 + y)")
    moments: list[list[float]] | None = Field(
        None, description="of `features: standard`: means and deviations of the training graph"
    )
    graph: Spec = Field(
        "own", description="the edges: its own, made of the features, or of a file of this name"
    )
    encoding: Spec = Field("none", description="the encoding that is put beside them")
    recipe: dict[str, Any] | None = Field(
        None, description="the recipe, with every value and names instead of paths"
    )
    files: dict[str, str] | None = Field(
        None, description="SHA-256 of data, imports and weights of one's own, by these names"
    )
    tokenizer: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = Field(
        None, description="SHA-256 of tokenizer.json, which a model of text is given its tokens by"
    )
    scaling: dict[str, list[list[float]]] | None = Field(
        None, description="of forecasts: id of a node to means and deviations of its columns"
    )
    step: str | None = Field(None, description="of forecasts: how times go on, such as D or MS")
    series: list[str] | None = Field(
        None, description="of forecasts: names of the columns in order, what is predicted first"
    )
    lags: Annotated[int, Field(ge=1)] | None = Field(
        None, description="of forecasts: values of each column that are read"
    )
    seed: Seed | None = Field(None, description="the seed of the recipe that was run")
    scores: dict[str, float] | None = Field(None, description="train, val, test: best epoch")
    versions: dict[str, str | None] | None = Field(None, description="packages it was run with")
    licence: str | None = Field(None, description="of the weights, and of what they learnt from")

    @field_validator("transform", "graph", "encoding")
    @classmethod
    def _check_name(cls, spec: Spec) -> Spec:
        if not _is_named(spec):
            raise ValueError("write a word, or a mapping with a `name`")
        return spec

    @field_validator("recipe")
    @classmethod
    def _name_paths_of_recipe(cls, recipe: dict[str, Any] | None) -> dict[str, Any] | None:
        dataset = (recipe or {}).get("dataset")
        if isinstance(dataset, dict) and not _is_named(dataset.get("split", "")):
            raise ValueError("`dataset.split` is a word, or a mapping with a `name`")
        return without_paths(recipe)

    @field_validator("graph")
    @classmethod
    def _name_path_of_graph(cls, graph: Spec) -> Spec:
        return without_paths(graph, ("graph",))

    @model_validator(mode="after")
    def _declare(self) -> Self:
        declare_direction(self.metric, self.lower_is_better)
        return self

    @model_validator(mode="after")
    def _check_count(self) -> Self:
        if self.feature_names is not None and len(self.feature_names) != self.features:
            raise ValueError(
                f"{len(self.feature_names)} feature_names for {self.features} features"
            )
        return self
