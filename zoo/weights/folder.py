"""A folder of weights on disk: reading and writing.

`model.safetensors` holds the weights; `config.json` the model's name, `in_dim`, `out_dim` and
options, `sha256` of the weights, and `about`, the metadata; of a model of text `tokenizer.json`
holds its tokens. Files may come from anywhere: nothing is unpickled, imported or run.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from pydantic import ValidationError
from safetensors import SafetensorError
from torch import Tensor

from zoo.config.metadata import About
from zoo.config.options import Count, sentence, value_problems
from zoo.errors import ZooError
from zoo.system.files import write_whole

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"
TOKENIZER = "tokenizer.json"

FILES = (CONFIG, WEIGHTS, CARD, TOKENIZER)
"""What a folder of weights may hold."""

LONGEST = 16 * 2**20
"""Bytes of the largest file of text."""


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
    checksum, size = sha256_of(folder / WEIGHTS), (folder / WEIGHTS).stat().st_size
    text = json.dumps({**config, "sha256": checksum}, indent=2) + "\n"
    card += f"\n## Weights\n\n`{WEIGHTS}`, {size:,} bytes, SHA-256 `{checksum}`\n"
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
    data = read_json(path)
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
        raise ZooError(f"{path}: {where}: {sentence(first)}. Copy or train it again.") from None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def changed_files(paths: Iterable[Path], about: About) -> list[Path]:
    """Return the files, of those that are there, that were others of these names at a training."""
    known = about.files or {}
    return [
        path
        for path in paths
        if path.is_file() and known.get(path.name) not in (None, sha256_of(path))
    ]


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


def read_json(path: Path) -> Any:
    """Read a file of JSON that is not too long.

    Raises:
        ZooError: it is missing, damaged or too long.
    """
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise ZooError(f"{path} is damaged ({_line(error)}): copy or train it again.") from None


def _text(path: Path) -> str:
    path = _file(path)
    if path.stat().st_size > LONGEST:
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
