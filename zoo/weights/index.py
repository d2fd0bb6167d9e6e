"""Weights by path, run or name: those that come with the zoo, of a folder, and of the Hub.

An index is the file `index.json` of a folder that `zoo publish` wrote: what weights there are, what
they score, how large they are and the checksum of every file. `ZOO_WEIGHTS` names such a folder.
`hub:OWNER/NAME` are the weights of a repository of the Hugging Face Hub.
"""

from __future__ import annotations

import functools
import math
import os
import re
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from zoo.config.options import Count, sentence
from zoo.config.scores import figure, gain
from zoo.errors import ZooError, brief, suggestion
from zoo.system.files import user_path
from zoo.weights import hub_files
from zoo.weights.folder import CONFIG, FILES, WEIGHTS, read_config, read_json, sha256_of

INDEX = "index.json"

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The weights that come with the zoo: a folder for each, and `index.json`."""

HUB = "hub:"
"""What the names of repositories of the Hub begin with."""


def _whole(files: dict[str, str]) -> dict[str, str]:
    if not {CONFIG, WEIGHTS} <= files.keys() <= set(FILES):
        raise ValueError(f"names of the files of weights, {CONFIG} and {WEIGHTS} among them")
    return files


Name = Annotated[str, StringConstraints(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class Located(NamedTuple):
    """A folder of weights, and how it was chosen: empty where it was given."""

    folder: Path
    why: str


class Entry(BaseModel):
    """Entry of an index of weights."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    model: str = Field(description="name of the model")
    data: str = Field(description="what they were trained on")
    metric: str = Field(description="what the scores measure")
    val: float = Field(description="validation score")
    test: float = Field(description="test score")
    bytes: Count = Field(description="size of model.safetensors")
    files: Annotated[dict[str, Sha256], AfterValidator(_whole)] = Field(
        description="checksum of each file of the folder"
    )


_INDEX = TypeAdapter(dict[Name, Entry])


def read_index(path: Path) -> dict[str, Entry]:
    """Return the entries of an index file, by name.

    Raises:
        ZooError: the file is damaged.
    """
    try:
        return _INDEX.validate_python(read_json(path))
    except ValidationError as error:
        said = sentence(error.errors()[0])
        raise ZooError(f"{path} is damaged ({said}): copy it, or install the zoo, again.") from None


_index = functools.cache(read_index)

_of_hub = functools.cache(hub_files.fetch)  # the same weights for all that a command does


def as_name(text: str) -> str:
    """Return what weights are called by: small letters and digits, with hyphens between.

    Raises:
        ZooError: the text has none of these.
    """
    if name := "-".join(re.findall("[a-z0-9]+", text.lower())):
        return name
    raise ZooError(f"weights cannot be called {brief(text)}: write a name with letters or digits.")


def index() -> dict[str, Entry]:
    """Return the index of the weights that come with the zoo, by name.

    Raises:
        ZooError: the index is damaged.
    """
    return _index(PRETRAINED / INDEX)


def published() -> dict[str, Entry]:
    """Return all weights that have a name here: of `ZOO_WEIGHTS`, and those that come with the zoo.

    Raises:
        ZooError: an index is damaged, or cannot be had.
    """
    return _elsewhere() | index()


def locate(source: Path | str) -> Located:
    """Find a folder of weights by its path, by that of a run, by name, or on the Hub.

    An existing path has precedence over a name, and what comes with the zoo over `ZOO_WEIGHTS`. Of
    the seeds of a run, the one with the best validation score is taken. `hub:OWNER/NAME` is
    downloaded once, into the cache of `huggingface_hub`; `@REVISION` after it pins a commit.

    Raises:
        ZooError: there is no such folder or name, nothing says which seed is best, or what has the
            name cannot be had, or is not what its index says.
    """
    folder = Path(os.path.expanduser(source))
    if os.path.isdir(folder):
        seeds = sorted(folder.glob(f"seed-*/{CONFIG}"))
        return (
            Located(folder, "") if os.path.lexists(folder / CONFIG) or not seeds else _best(seeds)
        )
    name = str(source)
    if name in index():
        return Located(_checked(PRETRAINED / name, index()[name]), "")
    if name.startswith(HUB):
        return Located(_of_hub(name.removeprefix(HUB)), f"of {name}")
    known = _elsewhere()
    if name in known:
        source = os.environ["ZOO_WEIGHTS"]
        return Located(_checked(user_path(source) / name, known[name]), f"of {source}")
    raise ZooError(
        f"no weights at {name!r}: name a folder that `zoo.save` wrote, a run, hub:OWNER/NAME, or "
        f"weights that come with the zoo; {suggestion(source, known | index())}"
    )


def _best(configs: list[Path]) -> Located:
    """Choose the seed with the best validation score; the first of several."""
    if len(configs) == 1:
        return Located(configs[0].parent, f"the only seed of {configs[0].parent.parent}")
    abouts = {path.parent: read_config(path)["about"] for path in configs}
    scores = {folder: about.scores or {} for folder, about in abouts.items()}
    silent = [folder.name for folder, score in scores.items() if "val" not in score]
    if silent:
        raise ZooError(
            f"{configs[0].parent.parent} does not say which of its seeds is best ({silent[0]} has "
            f"no validation score); name one, such as {configs[0].parent}."
        )
    scored = [each for each, score in scores.items() if math.isfinite(score["val"])]
    best = max(scored or scores, key=lambda each: gain(abouts[each].metric, scores[each]["val"]))
    score = scores[best]["val"]
    return Located(best, f"best of {len(scores)} seeds by its validation score, {figure(score)}")


def _elsewhere() -> dict[str, Entry]:
    """Return the index of the folder that `ZOO_WEIGHTS` names; empty where it names none."""
    source = os.environ.get("ZOO_WEIGHTS", "")
    if not source:
        return {}
    path = user_path(source) / INDEX
    if not path.is_file():
        raise ZooError(
            f"ZOO_WEIGHTS names {source}, where there is no {INDEX}: name a folder that `zoo "
            "publish --to FOLDER` wrote. Weights of the Hugging Face Hub need no such folder: they "
            "are called hub:OWNER/NAME."
        )
    return _index(path)


def _checked(folder: Path, entry: Entry) -> Path:
    """Return a folder whose files are what the index says.

    Raises:
        ZooError: one is missing, or another.
    """
    for file, checksum in entry.files.items():
        if not (folder / file).is_file():
            raise ZooError(f"no weights at {folder}: {file} is missing. Copy the folder again.")
        if sha256_of(folder / file) != checksum:
            raise ZooError(
                f"{folder / file} is not the file that {INDEX} names: its SHA-256 is "
                f"{sha256_of(folder / file)} and should be {checksum}. Copy the folder again."
            )
    return folder
