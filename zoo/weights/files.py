"""A folder of weights on disk: reading and writing.

`model.safetensors` holds the weights; `config.json` the model's name, `in_dim`, `out_dim` and
options, `sha256` of the weights, and `about`, the metadata; of a model of text `tokenizer.json`
holds its tokens. Files may come from anywhere: nothing is unpickled, imported or run.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from pydantic import ValidationError
from torch import Tensor

from zoo.config.metadata import About
from zoo.config.options import Count, sentence, value_problems
from zoo.errors import ZooError, cause
from zoo.system.files import write_whole

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"
TOKENIZER = "tokenizer.json"

FILES = (CONFIG, WEIGHTS, CARD, TOKENIZER)
"""What a folder of weights may hold."""


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
        unverified: accept weights without a checksum in `config.json`.

    Raises:
        ZooError: a file is missing, damaged or not what it should be.
    """
    config = read_config(folder / CONFIG)
    name, about, sha256 = config.pop("model"), config.pop("about"), config.pop("sha256", None)
    state = read_weights(folder / WEIGHTS)
    if sha256 is not None:
        check_sha256(folder / WEIGHTS, sha256, CONFIG)
    elif not unverified:
        raise ZooError(
            f"{folder / CONFIG} does not say the `sha256` of {WEIGHTS}, so that damage to it would "
            "not be noticed. If you know that it is whole, write `--unverified`; in Python "
            "`unverified=True`, in a recipe `start_from: {weights: ..., unverified: true}`."
        )
    tokenizer = None
    if about.tokenizer is not None:
        with _reading(folder / TOKENIZER) as path:
            tokenizer = path.read_bytes().decode()  # as it is: it has a checksum
        check_sha256(path, about.tokenizer, CONFIG)
    return Stored(folder, name, config, about, state, tokenizer)


def write_folder(
    folder: Path,
    config: dict[str, Any],
    state: dict[str, Tensor],
    card: str,
    tokenizer: str | None = None,
) -> None:
    """Write a folder of weights, each file atomically; the checksum is added to `config`."""
    if tokenizer is not None:
        _write_text(folder / TOKENIZER, tokenizer)
    path = folder / WEIGHTS
    write_whole(path, lambda draft: safetensors.torch.save_file(state, draft))
    sha256, size = sha256_of(path), path.stat().st_size
    _write_text(folder / CONFIG, json.dumps({**config, "sha256": sha256}, indent=2) + "\n")
    checksum = f"\n## Weights\n\n`{WEIGHTS}`, {size:,} bytes, SHA-256 `{sha256}`\n"
    _write_text(folder / CARD, card + checksum)


def read_weights(path: Path | str) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        ZooError: the file is missing, truncated or not in that format.
    """
    with _reading(Path(path)):
        return safetensors.torch.load_file(path)


def read_config(path: Path) -> dict[str, Any]:
    """Read a `config.json`; `about` is validated, and empty where it is missing.

    Raises:
        ZooError: the file is missing or holds no model.
    """
    data = read_json(path)
    named = isinstance(data, dict) and isinstance(data.get("model"), str)
    sizes = ("in_dim", "out_dim")
    if not named or any(value_problems(Count, data.get(size), (size,)) for size in sizes):
        raise ZooError(
            f"{path} must hold a mapping with `model`, a word, and `in_dim` and `out_dim`, whole "
            "numbers from 1: copy or train it again."
        )
    if not re.fullmatch("[0-9a-f]{64}", str(data.get("sha256", "0" * 64))):
        raise ZooError(f"{path}: `sha256` must be 64 digits: copy or train it again.")
    try:
        return {**data, "about": About.model_validate(data.get("about") or {})}
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("about", *first["loc"])))[:100]
        raise ZooError(f"{path}: {where}: {sentence(first)}. Copy or train it again.") from None


def read_json(path: Path) -> Any:
    """Read a file of JSON.

    Raises:
        ZooError: it is missing or damaged.
    """
    with _reading(path):
        return json.loads(path.read_text(encoding="utf-8"))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: Path, expected: str, source: str) -> None:
    """Check a file against the checksum that another file, `source`, has of it.

    Raises:
        ZooError: it is another file, or damaged.
    """
    if (actual := sha256_of(path)) != expected:
        raise ZooError(
            f"{path} is not the file that {source} was written beside: its SHA-256 is {actual} and "
            f"should be {expected}. Copy the folder again."
        )


def changed_files(paths: Iterable[Path], about: About) -> list[Path]:
    """Return the existing files that differ from those of the same name at training."""
    known = about.files or {}
    return [
        path
        for path in paths
        if path.is_file() and known.get(path.name) not in (None, sha256_of(path))
    ]


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """Say which file is missing or damaged, in the words of whoever reads it."""
    if not os.path.isfile(path):  # unlike Path.is_file it answers where nothing may be read
        raise ZooError(
            f"no weights at {path.parent}: {path.name} is missing. Name a folder that `zoo.save` "
            "wrote."
        )
    try:
        yield path
    except Exception as error:  # of JSON, safetensors or the disk
        raise ZooError(f"{path} is damaged ({cause(error)}): copy or train it again.") from None
