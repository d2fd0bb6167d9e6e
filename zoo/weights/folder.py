"""A folder of weights on disk: reading, writing, and finding it by path, run or name.

`model.safetensors` holds the weights; `config.json` the model's name, `in_dim`, `out_dim` and
options, `sha256` of the weights, and `about`, the metadata; of a model of text `tokenizer.json`
holds its tokens. Files may come from anywhere: nothing is unpickled, imported or run.
"""

import functools
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from torch import Tensor

from zoo.config.metadata import About
from zoo.config.metrics import gain
from zoo.config.options import Count, sentence, value_problems
from zoo.errors import ZooError, suggestion
from zoo.system.files import write_whole

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"
TOKENIZER = "tokenizer.json"

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The weights that come with the zoo: a folder for each, and `index.json`."""

_LONGEST = 16 * 2**20  # largest file of text in bytes


class Stored(NamedTuple):
    """Content of a folder of weights: name of the model, its config, metadata and state dict.

    And of a model of text the content of `tokenizer.json`.
    """

    folder: Path
    model: str
    config: dict[str, Any]
    about: About
    state: dict[str, Tensor]
    tokenizer: str | None = None


class Located(NamedTuple):
    """A folder of weights, and how it was chosen: empty where it was given."""

    folder: Path
    why: str


class Entry(BaseModel):
    """Entry of the index of the pretrained weights that come with the zoo."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    model: str = Field(description="name of the model")
    data: str = Field(description="what they were trained on")
    metric: str = Field(description="what the scores measure")
    val: float = Field(description="validation score")
    test: float = Field(description="test score")
    bytes: Count = Field(description="size of model.safetensors")
    sha256: str = Field(description="its checksum")


def index() -> dict[str, Entry]:
    """Return the index of the pretrained weights that come with the zoo, by name.

    Raises:
        ZooError: the index is damaged.
    """
    return _index(PRETRAINED / "index.json")


def locate(source: Path | str) -> Located:
    """Find a folder of weights by its path, by that of a run, or by name.

    An existing path has precedence over a name. Of the seeds of a run, the one with the best
    validation score is taken.

    Raises:
        ZooError: there is no such folder or name, or nothing says which seed is best.
    """
    folder = Path(os.path.expanduser(source))
    if os.path.isdir(folder):
        seeds = sorted(folder.glob(f"seed-*/{CONFIG}"))
        return (
            Located(folder, "") if os.path.lexists(folder / CONFIG) or not seeds else _best(seeds)
        )
    known = index()
    if str(source) in known:
        return Located(PRETRAINED / str(source), "")
    raise ZooError(
        f"no weights at {str(source)!r}: name a folder that `zoo.save` wrote, a run, or weights "
        f"that come with the zoo; {suggestion(source, known)}"
    )


def read_folder(folder: Path, *, unverified: bool = False) -> Stored:
    """Read a folder of weights, without checking that the weights fit the model.

    Args:
        folder: written by `write_folder`.
        unverified: take weights whose checksum nobody says.

    Raises:
        ZooError: a file is missing, damaged or not what it should be.
    """
    config = read_config(folder / CONFIG)
    name, about, checksum = config.pop("model"), config.pop("about"), config.pop("sha256", None)
    if folder.parent == PRETRAINED:
        checksum = index()[folder.name].sha256
    state = read_weights(folder / WEIGHTS)
    if checksum is None and not unverified:
        raise ZooError(
            f"{folder / CONFIG} does not say the `sha256` of {WEIGHTS}, so that damage to it would "
            "not be noticed. If you know that it is whole, write `--unverified`; in Python "
            "`unverified=True`, in a recipe `start_from: {weights: ..., unverified: true}`."
        )
    if checksum is not None and checksum != sha256_of(folder / WEIGHTS):
        raise ZooError(
            f"{folder / WEIGHTS} is not the file that {CONFIG} was written beside: its SHA-256 is "
            f"{sha256_of(folder / WEIGHTS)} and should be {checksum}. Copy both files again."
        )
    return Stored(folder, name, config, about, state, _tokenizer(folder, about.tokenizer))


def write_folder(
    folder: Path,
    config: dict[str, Any],
    state: dict[str, Tensor],
    card: str,
    tokenizer: str | None = None,
) -> None:
    """Write a folder of weights, each file atomically; the checksum is added to `config`."""
    if tokenizer is not None:
        write_whole(folder / TOKENIZER, lambda path: path.write_text(tokenizer, encoding="utf-8"))
    write_whole(folder / WEIGHTS, lambda path: safetensors.torch.save_file(state, path))
    text = json.dumps({**config, "sha256": sha256_of(folder / WEIGHTS)}, indent=2) + "\n"
    write_whole(folder / CONFIG, lambda path: path.write_text(text, encoding="utf-8"))
    write_whole(folder / CARD, lambda path: path.write_text(card, encoding="utf-8"))


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        ZooError: the file is missing, truncated or not in that format.
    """
    path = _file(Path(path))
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, OSError, ValueError, RuntimeError, KeyError) as error:
        raise ZooError(f"{path} is damaged ({_line(error)}): copy or train it again.") from None


def read_config(path: Path) -> dict[str, Any]:
    """Read a `config.json`; `about` is validated, and empty where it is missing.

    Raises:
        ZooError: the file is missing or holds no model.
    """
    data = _json(path)
    plain = isinstance(data, dict) and isinstance(data.get("model"), str)
    sizes = ("in_dim", "out_dim")
    if not plain or any(value_problems(Count, data.get(size), (size,)) for size in sizes):
        raise ZooError(
            f"{path} must hold a mapping with `model`, a word, and `in_dim` and `out_dim`, whole "
            "numbers from 1: copy or train it again."
        )
    if not re.fullmatch("[0-9a-f]{64}", str(data.get("sha256", "0" * 64))):
        raise ZooError(f"{path}: `sha256` must be 64 digits: copy or train it again.")
    try:
        return {**data, "about": About.model_validate(data.get("about") or {})}
    except ValidationError as error:
        [first, *_] = error.errors()
        where = ".".join(map(str, ("about", *first["loc"])))[:100]
        raise ZooError(f"{path}: {where}: {sentence(first)} Copy or train it again.") from None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tokenizer(folder: Path, sha256: str | None) -> str | None:
    """Return the content of the file of tokens of this checksum, None where there is none."""
    if sha256 is None:
        return None
    text = _text(folder / TOKENIZER)
    if hashlib.sha256(text.encode()).hexdigest() != sha256:
        raise ZooError(
            f"{folder / TOKENIZER} is not the file that {CONFIG} was written beside: its SHA-256 "
            f"should be {sha256}. Copy both files again."
        )
    return text


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
    best = max(scores, key=lambda each: gain(abouts[each].metric, scores[each]["val"]))
    score = scores[best]["val"]
    return Located(best, f"best of {len(scores)} seeds by its validation score, {score:.4f}")


@functools.cache
def _index(path: Path) -> dict[str, Entry]:
    data = _json(path)
    wrong = [] if isinstance(data, dict) else [path.name]
    wrong = wrong or [name for name in data if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)]
    try:
        if not wrong:
            return {name: Entry.model_validate(entry) for name, entry in data.items()}
    except ValidationError as error:
        wrong = [sentence(error.errors()[0])]
    raise ZooError(f"{path} is damaged ({wrong[0]}): install the zoo again.")


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ZooError(f"{path} is damaged ({_line(error)}): copy or train it again.") from None


def _text(path: Path) -> str:
    path = _file(path)
    if path.stat().st_size > _LONGEST:
        raise ZooError(f"{path} is too long to be the description of a model; copy it again.")
    try:
        with path.open(encoding="utf-8", newline="") as file:  # as it is: it has a checksum
            return file.read()
    except (ValueError, OSError) as error:
        raise ZooError(f"{path} is damaged ({_line(error)}): copy or train it again.") from None


def _file(path: Path) -> Path:
    """Return the path if it is a regular file: no folder, pipe or broken link."""
    if os.path.isfile(path):  # unlike Path.is_file it answers where nothing may be read
        return path
    what = "is no file" if os.path.lexists(path) else "is missing"
    raise ZooError(
        f"no weights at {path.parent}: {path.name} {what}. Name a folder that `zoo.save` wrote."
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
