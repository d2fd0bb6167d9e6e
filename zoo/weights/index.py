"""Weights by path, run or name: those that come with the zoo, of a folder, and of the Hub.

An index is the file `index.json` of a folder that `zoo publish` wrote: what weights there are, what
they score, how large they are and the checksum of every file. `ZOO_WEIGHTS` names such a folder.
`hub:OWNER/NAME` are the weights of a repository of the Hugging Face Hub.
"""

import functools
import glob
import math
import os
import re
from pathlib import Path
from typing import NamedTuple

from zoo.config.scores import figure, gain
from zoo.data.files.objects import described
from zoo.errors import ZooError, brief, cause, suggestion
from zoo.system.files import user_path
from zoo.weights import hub
from zoo.weights.files import CONFIG, check_sha256, read_config, read_json

INDEX = "index.json"

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The weights that come with the zoo: a folder for each, and `index.json`."""

HUB = "hub:"
"""What the names of repositories of the Hub begin with."""


class Located(NamedTuple):
    """A folder of weights, and how it was chosen: empty where the user named it."""

    folder: Path
    why: str


class Entry(NamedTuple):
    """Entry of an index of weights.

    Attributes:
        model: name of the model.
        data: name of the data set that they were trained on.
        metric: what the scores measure.
        val: validation score.
        test: test score.
        bytes: size of model.safetensors.
        files: SHA-256 of each file of the folder.
    """

    model: str
    data: str
    metric: str
    val: float
    test: float
    bytes: int
    files: dict[str, str]


def read_index(path: Path) -> dict[str, Entry]:
    """Return the entries of an index file, by name.

    Raises:
        ZooError: the file is damaged.
    """
    entries = read_json(path)
    try:
        return {name: Entry(**entry) for name, entry in entries.items()}
    except (AttributeError, TypeError) as error:
        raise ZooError(
            f"{path} is damaged ({cause(error)}): copy it, or install the zoo, again."
        ) from None


_index = functools.cache(read_index)

_of_hub = functools.cache(hub.fetch)  # the same weights for all that a command does


def as_name(text: str) -> str:
    """Return the name of weights: lower-case letters and digits, with hyphens between.

    Raises:
        ZooError: the text has none of these.
    """
    if name := "-".join(re.findall("[a-z0-9]+", text.lower())):
        return name
    raise ZooError(f"weights cannot be called {brief(text)}: write a name with letters or digits.")


def index() -> dict[str, Entry]:
    """Return the index of the weights that come with the zoo, by name."""
    return _index(PRETRAINED / INDEX)


def published() -> dict[str, Entry]:
    """Return all weights that have a name here: of `ZOO_WEIGHTS`, and those that come with the zoo.

    Raises:
        ZooError: `ZOO_WEIGHTS` names a folder without an index, or with a damaged one.
    """
    return _elsewhere() | index()


def locate(source: os.PathLike[str] | str) -> Located:
    """Find a folder of weights by its path, by that of a run, by name, or on the Hub.

    An existing path has precedence over a name, and what comes with the zoo over `ZOO_WEIGHTS`. Of
    the seeds of a run, the one with the best validation score is taken. `hub:OWNER/NAME` is
    downloaded once, into the cache of `huggingface_hub`; `@REVISION` after it pins a commit.

    Raises:
        ZooError: there is no such folder or name, no seed of a run is known to be the best, or the
            files are missing or not those of the index; or the source is no path.
    """
    if not isinstance(source, str | os.PathLike):
        raise ZooError(
            "weights are loaded by a run, its folder or their name, and this is "
            f"{described(source)}."
        )
    name = os.fspath(source)
    folder = Path(os.path.expanduser(name))
    if os.path.isdir(folder):
        seeds = sorted(folder.glob(f"seed-*/{CONFIG}"))
        is_run = seeds and not os.path.lexists(folder / CONFIG)
        return _best_seed(seeds) if is_run else Located(folder, "")
    if name in index():
        return Located(_check_files(PRETRAINED / name, index()[name]), "")
    if name.startswith(HUB):
        return Located(_of_hub(name.removeprefix(HUB)), f"of {name}")
    entries = _elsewhere()
    if name in entries:
        place = os.environ["ZOO_WEIGHTS"]
        return Located(_check_files(user_path(place) / name, entries[name]), f"of {place}")
    if found := sorted(glob.glob(os.path.expanduser(name))):
        several = f"{', '.join(found[:5])}{' ...' * (len(found) > 5)}"
        raise ZooError(f"{name!r} is a pattern, of {several}; name one of them as it is.")
    raise ZooError(
        f"no weights at {name!r}: name a folder that `zoo.save` wrote, a run, hub:OWNER/NAME, or "
        f"weights that come with the zoo; {suggestion(name, entries | index())}"
    )


def seeds_of(run: Path | str) -> list[Path]:
    """Return the folders of the weights of all seeds of a run.

    Raises:
        ZooError: it is no run with several.
    """
    folder = Path(os.path.expanduser(run))
    seeds = sorted(path.parent for path in folder.glob(f"seed-*/{CONFIG}"))
    if len(seeds) < 2:
        raise ZooError(
            f"{run} has not the weights of several seeds; name the folder of a run that has."
        )
    return seeds


def _best_seed(configs: list[Path]) -> Located:
    """Return the seed with the best validation score; the first of several."""
    run = configs[0].parent.parent
    if len(configs) == 1:
        return Located(configs[0].parent, f"the only seed of {run}")
    abouts = {path.parent: read_config(path)["about"] for path in configs}
    scores = {folder: (about.scores or {}).get("val") for folder, about in abouts.items()}
    if silent := [folder.name for folder, score in scores.items() if score is None]:
        raise ZooError(
            f"{run} does not say which of its seeds is best ({silent[0]} has no validation score); "
            f"name one, such as {configs[0].parent}."
        )
    finite = [folder for folder, score in scores.items() if math.isfinite(score)]
    best = max(finite or scores, key=lambda folder: gain(abouts[folder].metric, scores[folder]))
    score = figure(scores[best])
    return Located(best, f"best of {len(scores)} seeds by its validation score, {score}")


def _elsewhere() -> dict[str, Entry]:
    """Return the index of the folder that `ZOO_WEIGHTS` names; empty where it names none."""
    folder = os.environ.get("ZOO_WEIGHTS", "")
    if not folder:
        return {}
    path = user_path(folder) / INDEX
    if not path.is_file():
        raise ZooError(
            f"ZOO_WEIGHTS names {folder}, where there is no {INDEX}: name a folder that `zoo "
            "publish --to FOLDER` wrote. Weights of the Hugging Face Hub need no such folder: they "
            "are called hub:OWNER/NAME."
        )
    return _index(path)


def _check_files(folder: Path, entry: Entry) -> Path:
    """Return a folder whose files have the checksums of the index.

    Raises:
        ZooError: one is missing, or another.
    """
    for file, sha256 in entry.files.items():
        if not (folder / file).is_file():
            raise ZooError(f"no weights at {folder}: {file} is missing. Copy the folder again.")
        check_sha256(folder / file, sha256, INDEX)
    return folder
