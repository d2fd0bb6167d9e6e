"""Texts with one label each, as sequences of byte-pair tokens: a `.jsonl` file, a text a line.

A line is `{"id": "7", "split": "train", "label": "earn", "text": "..."}`; only `text` is needed.
The tokenizer is learnt from the training texts, or from all where the file says no split.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Count, Number
from zoo.datasets.dataset import MASKLESS_SPLIT
from zoo.datasets.files.graph_arrays import PARTS
from zoo.datasets.files.labels import ACCURACY, SEQUENCES, encode_text
from zoo.datasets.samples import Samples
from zoo.datasets.tokenizer import END, Tokenizer, VocabularySize, learnt
from zoo.errors import ZooError, brief
from zoo.graphs.graph_sets import SequenceGraphs
from zoo.system.files import data_folders, user_path

LARGEST = 2**31
"""The largest file of texts that is read, in bytes."""

LONGEST = 256
"""Tokens of a text that are read where nothing else is said."""

HELD_OUT = 10
"""Percent of the training texts that are for validation, where a file has no part for it."""

_FORM = '{"id": "7", "split": "train", "label": "earn", "text": "..."}'


def texts(
    *,
    path: str,
    vocabulary: VocabularySize = 4000,
    longest: Count = LONGEST,
    window: Number = 2,
    skip: Number | None = 16,
) -> Samples:
    """Texts of one's own, a line of .jsonl or .jsonl.gz each: {id, split, label, text}.

    Args:
        path: of the file.
        vocabulary: tokens at most, learnt from the training texts.
        longest: tokens of a text that are read, from its beginning.
        window: a token is linked with those at most so many places away.
        skip: tokens 0, s, 2 s, ... are linked with one another; 0 for none, null for the root of
            the length.
    """
    return _read(user_path(path), None, vocabulary, longest, window, skip)


def _named(name: str, what: str) -> Callable[..., Samples]:
    def build(
        *,
        vocabulary: VocabularySize = 4000,
        longest: Count = LONGEST,
        window: Number = 2,
        skip: Number | None = 16,
    ) -> Samples:
        file = f"{name.removesuffix('-tokens')}.jsonl"
        places = [folder / each for folder in data_folders() for each in (file, f"{file}.gz")]
        found = next((each for each in places if each.is_file()), None)
        if found is None:
            folders = ", ".join(map(str, data_folders()))
            raise ZooError(
                f"{file}.gz is in none of {folders}. Put a file there whose lines are {_FORM}, or "
                "name its folder in ZOO_DATA."
            )
        return _read(found, name, vocabulary, longest, window, skip)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{what}\n\n    Args:\n{(texts.__doc__ or '').partition('file.')[2][1:]}"
    return build


TEXTS: dict[str, Callable[..., Samples]] = {
    "20news-tokens": _named("20news-tokens", "18,846 posts to 20 newsgroups, split by their date."),
    "r8-tokens": _named("r8-tokens", "7,674 telegrams of Reuters in 8 classes."),
    "texts": texts,
}
"""Word to builder `(*, vocabulary, longest, window, skip) -> Samples`."""

SPLITS = {"20news-tokens": "benchmark", "r8-tokens": "benchmark"}
"""The split of the words that have one of their own."""


def in_tokens_of(data: Samples, tokenizer: Tokenizer, longest: int) -> Samples:
    """Return texts cut into the tokens of another tokenizer, such as that of trained weights."""
    if data.tokenizer.sha256 == tokenizer.sha256:
        return data
    rows = data.x.split(data.graphs.sizes.tolist())
    written = data.tokenizer.decode([each.tolist() for each in rows])
    x, lengths = _tokens(tokenizer, written, longest)
    graphs = dataclasses.replace(data.graphs, sizes=lengths)
    return dataclasses.replace(data, graphs=graphs, x=x, tokens=tokenizer.size, tokenizer=tokenizer)


def _read(path: Path, name: str | None, vocabulary, longest, window, skip) -> Samples:
    """Return the texts of a file as sequences of tokens."""
    lines = _lines(path)
    written = [_whole(each["text"]) for each in lines]
    masks = _masks(path, [each.get("split") for each in lines])
    train = masks["train"][0].tolist() if masks else [True] * len(lines)
    tokenizer = learnt([text for text, own in zip(written, train, strict=True) if own], vocabulary)
    x, lengths = _tokens(tokenizer, written, longest)
    given = [each.get("label") for each in lines]
    y, labels = encode_text(np.array(["" if each in (None, -1) else str(each) for each in given]))
    ids = [each.get("id") for each in lines]
    return Samples(
        name=name or path.name.removesuffix(".gz").removesuffix(".jsonl"),
        graphs=SequenceGraphs(lengths, window=window, skip=skip),
        x=x,
        y=torch.from_numpy(y),
        task=SEQUENCES,
        metric=ACCURACY,
        split="benchmark" if masks else MASKLESS_SPLIT,
        masks=masks,
        classes=max(1, len(labels)),
        tokens=tokenizer.size,
        tokenizer=tokenizer,
        ids=np.array(list(map(str, ids))) if None not in ids else None,
        labels=labels or None,
    )


def _whole(text: str) -> str:
    """Return a text that can be written: halves of pairs of UTF-16, which JSON takes, become ?."""
    return text.encode(errors="replace").decode()


def _tokens(tokenizer: Tokenizer, written: Sequence[str], longest: int) -> tuple[Tensor, Tensor]:
    """Return the tokens of texts, one after the other, and how many each has; of an empty one 1."""
    found = [np.array(each[:longest] or [END]) for each in tokenizer.encode(written)]
    lengths = torch.tensor([len(each) for each in found])
    return torch.from_numpy(np.concatenate(found)).long(), lengths


def _masks(path: Path, parts: list[str | None]) -> dict[str, Tensor] | None:
    """Return the split that a file says, each part (1, S); None where it says none.

    Without `val` a tenth of `train` is for validation: the same in every run.
    """
    if set(parts) == {None}:
        return None
    if missing := {"train", "test"} - set(parts):
        raise ZooError(f"{path}: no text has the split {' or '.join(sorted(missing))}. Write both.")
    masks = {part: torch.tensor([each == part for each in parts]) for part in PARTS}
    if not masks["val"].any():
        train = masks["train"].nonzero().flatten()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
        held = train[order[: max(1, len(train) * HELD_OUT // 100)]]
        masks["val"][held], masks["train"][held] = True, False
    return {part: mask[None] for part, mask in masks.items()}


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return what the lines of a file say, checked; empty ones are passed over.

    Raises:
        ZooError: there is no such file, or a line is of another form: which, and what is wrong.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise ZooError(f"there is no file {path}; write the path of one of texts.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise ZooError(f"{path} cannot be read ({error}); write it again.") from None
    if len(content) > LARGEST:
        raise ZooError(f"{path} holds more than {LARGEST:,} bytes of text; write fewer lines.")
    found = [
        _line(path, number, line)
        for number, line in enumerate(content.split(b"\n"), 1)
        if line.strip()
    ]
    if not found:
        raise ZooError(f"{path} holds no text; write lines such as {_FORM}.")
    return found


def _line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        read = None
    wrong = (
        "a line is to be an object of JSON"
        if not isinstance(read, dict)
        else next((said for key, (fits, said) in _KEYS.items() if not fits(read.get(key))), None)
    )
    if wrong:
        shown = brief(line.decode(errors="replace"))
        raise ZooError(f"{path}, line {number:,}: {wrong}, not {shown}. Write {_FORM}.")
    return read


_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "text": (lambda given: isinstance(given, str), "`text` is to be text"),
    "label": (
        lambda given: given is None or type(given) in (str, int),
        "`label` is to be text, or a whole number",
    ),
    "split": (lambda given: given in (None, *PARTS), f"`split` is to be {', '.join(PARTS)}"),
}
"""Key of a line to whether a value fits, and what is said where it does not."""
