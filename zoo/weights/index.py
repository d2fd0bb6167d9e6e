"""Weights by path, run or name: those that come with the zoo, and those of an index elsewhere.

An index is the file `index.json` of a folder that `zoo publish` wrote: what weights there are, what
they score, how large they are and the checksum of every file. `ZOO_WEIGHTS` names such a folder
here, or its address on a file server; weights of it are downloaded once, when they are asked for.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from zoo.config.options import Count, sentence
from zoo.config.scores import figure, gain
from zoo.errors import ZooError, brief, suggestion
from zoo.system.cache import cache_folder
from zoo.system.files import draft_folder
from zoo.system.http import download
from zoo.weights import hub_files
from zoo.weights.folder import (
    CARD,
    CONFIG,
    LONGEST,
    TOKENIZER,
    WEIGHTS,
    read_config,
    read_json,
    sha256_of,
)

INDEX = "index.json"

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The weights that come with the zoo: a folder for each, and `index.json`."""

FILES = (CONFIG, WEIGHTS, CARD, TOKENIZER)
"""What a folder of weights may hold."""

_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
_HUB = "hub:"

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
    files: dict[str, Sha256] = Field(description="checksum of each file of the folder")
    address: str | None = Field(
        None,
        description="of the folder, http(s) or `hub:OWNER/NAME`; left out it is beside the index",
    )


def read_index(path: Path) -> dict[str, Entry]:
    """Return the entries of an index file, by name.

    Raises:
        ZooError: the file is damaged.
    """
    data = read_json(path)
    wrong = [] if isinstance(data, dict) else [path.name]
    wrong = wrong or [name for name in data if not re.fullmatch(_NAME, name)]
    try:
        if not wrong:
            entries = {name: Entry.model_validate(entry) for name, entry in data.items()}
            wrong = [name for name, entry in entries.items() if not _whole(entry)]
            if not wrong:
                return entries
    except ValidationError as error:
        wrong = [sentence(error.errors()[0])]
    raise ZooError(f"{path} is damaged ({wrong[0]}): copy it, or install the zoo, again.")


_index = functools.cache(read_index)


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
    return {**(_index(_elsewhere()) if _source() else {}), **index()}


def locate(source: Path | str) -> Located:
    """Find a folder of weights by its path, by that of a run, or by name.

    An existing path has precedence over a name, and what comes with the zoo over `ZOO_WEIGHTS`. Of
    the seeds of a run, the one with the best validation score is taken.

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
    known = published()
    if name in known:
        return Located(_obtained(name, known[name]), f"of {_source()}")
    raise ZooError(
        f"no weights at {name!r}: name a folder that `zoo.save` wrote, a run, or weights that come "
        f"with the zoo; {suggestion(source, known)}"
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


def _source() -> str:
    return os.environ.get("ZOO_WEIGHTS", "")


def _elsewhere() -> Path:
    """Return the index that `ZOO_WEIGHTS` names, downloaded where it is an address."""
    source = _source()
    if not _is_address(source):
        path = Path(os.path.expanduser(source)) / INDEX
        if not path.is_file():
            raise ZooError(
                f"ZOO_WEIGHTS names {source}, where there is no {INDEX}: name a folder that "
                "`zoo publish --to FOLDER` wrote, or its address."
            )
        return path
    key = hashlib.sha256(source.encode()).hexdigest()[:16]
    path = cache_folder() / "weights" / f"index-{key}.json"
    return _latest(f"{source.rstrip('/')}/{INDEX}", path)


@functools.cache
def _latest(address: str, path: Path) -> Path:
    """Download an index, once in a process; where it cannot be had, the last one is good enough."""
    draft = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        download(address, draft, largest=LONGEST)
        try:
            read_index(draft)
        except ZooError:
            raise ZooError(
                f"{address} is damaged, or no index: it is to be as `zoo publish --to FOLDER` "
                "wrote it."
            ) from None
        draft.replace(path)
    except ZooError:
        if not path.is_file():
            raise
    finally:
        draft.unlink(missing_ok=True)
    return path


def _obtained(name: str, entry: Entry) -> Path:
    """Return the folder of weights of `ZOO_WEIGHTS`, downloaded once where they are not here."""
    source, address = _source(), entry.address
    if address is None and not _is_address(source):
        return _checked(Path(os.path.expanduser(source)) / name, entry)
    key = hashlib.sha256(json.dumps(sorted(entry.files.items())).encode()).hexdigest()
    folder = cache_folder() / "weights" / f"{name}-{key[:16]}"
    address = address or f"{source.rstrip('/')}/{name}"
    if _is_right(folder, entry):
        return folder
    with draft_folder(folder, wait=True) as draft:
        if not _is_right(folder, entry):  # another process may have fetched it meanwhile
            try:
                _fetch(address, draft / name, entry)
            except ZooError as error:
                damaged = f"{folder} is not what {INDEX} names, and " * folder.is_dir()
                raise ZooError(f"{damaged}{error}") from None
            shutil.rmtree(folder, ignore_errors=True)
            (draft / name).rename(folder)
    return folder


def _fetch(address: str, folder: Path, entry: Entry) -> None:
    """Download the files of an entry, and check them."""
    if address.startswith(_HUB):
        hub_files.download(address.removeprefix(_HUB), folder)
        _checked(folder, entry)
        return
    for file, checksum in entry.files.items():
        largest = entry.bytes if file == WEIGHTS else LONGEST
        download(f"{address}/{file}", folder / file, sha256=checksum, largest=largest)


def _is_right(folder: Path, entry: Entry) -> bool:
    """Whether a folder is here, and its files are what the index says."""
    try:
        return folder.is_dir() and bool(_checked(folder, entry))
    except ZooError:
        return False


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


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _whole(entry: Entry) -> bool:
    """Whether an entry names files of a folder of weights alone, and an address that is one."""
    held = {CONFIG, WEIGHTS} <= set(entry.files) <= set(FILES)
    return held and (
        entry.address is None or _is_address(entry.address) or entry.address.startswith(_HUB)
    )
