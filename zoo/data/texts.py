"""Texts with one label each: as sequences of byte-pair tokens, or as nodes of their TF-IDF.

A file is a `.jsonl`, a text a line: `{"id": "7", "split": "train", "label": "earn", "text": ...}`;
only `text` is needed. The tokenizer is learnt from the training texts, or from all where the file
says no split; terms are counted in all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Count, Fraction, Number, Spec
from zoo.data.dataset import MASKLESS_SPLIT, Dataset, make_dataset
from zoo.data.features import FEATURES
from zoo.data.files.text_lines import FORM, Documents, read_documents, term_arrays
from zoo.data.samples import Samples
from zoo.data.tokenizer import END, Tokenizer, VocabularySize, learnt
from zoo.errors import ZooError, of_file
from zoo.graphs.graph_sets import SequenceGraphs
from zoo.system.cache import data_folders
from zoo.system.files import user_path
from zoo.tasks.labels import ACCURACY, CLASSIFICATION, SEQUENCES

TEN = (
    "alt.atheism",
    "comp.sys.ibm.pc.hardware",
    "misc.forsale",
    "rec.autos",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "talk.politics.guns",
)
"""The newsgroups of the published tables of NodeFormer and DIFFormer, as in LDS (1903.11960)."""

OF_SEQUENCES = ("longest", "window", "skip")
"""Options of texts as sequences that weights are read with."""

LONGEST = 256
"""Tokens of a text that are read where nothing else is said."""


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
        vocabulary: tokens at most, learnt from the texts that the file has for training; from all
            where it has no split of its own.
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
        found = _find(name.removesuffix("-tokens"))
        return _read(found, name, vocabulary, longest, window, skip)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{what}\n\n    Args:\n{(texts.__doc__ or '').partition('file.')[2][1:]}"
    return build


def newsgroups(
    *,
    groups: Literal["ten", "all"] = "ten",
    terms: Count | None = None,
    share: Fraction = 0.05,
    features: Annotated[Spec, FEATURES] = "raw",
) -> Dataset:
    """Posts to newsgroups as nodes without edges: 9,607 of ten groups, 236 terms.

    That is the data set 20News of LDS (arXiv 1903.11960), NodeFormer and DIFFormer.

    Args:
        groups: `ten`, or `all` twenty groups, 18,846 posts.
        terms: the most terms that count, the most frequent first; left out, all.
        share: the share of the posts that a term has to be in.
        features: what is done to the TF-IDF of the terms.
    """
    return _nodes("20news", TEN if groups == "ten" else None, terms, share, features)


def telegrams(
    *,
    terms: Count | None = 2000,
    share: Fraction = 0.0,
    features: Annotated[Spec, FEATURES] = "raw",
) -> Dataset:
    """7,674 telegrams of Reuters in 8 classes as nodes without edges.

    Args:
        terms: the most terms that count, the most frequent first; left out, 2,000.
        share: the share of the texts that a term has to be in.
        features: what is done to the TF-IDF of the terms.
    """
    return _nodes("r8", None, terms, share, features)


TEXTS: dict[str, Callable[..., Samples | Dataset]] = {
    "20news": newsgroups,
    "20news-tokens": _named("20news-tokens", "18,846 posts to 20 newsgroups, split by their date."),
    "r8": telegrams,
    "r8-tokens": _named("r8-tokens", "7,674 telegrams of Reuters in 8 classes."),
    "texts": texts,
}
"""Word to builder `(*, options) -> Samples` of tokens, or `Dataset` of nodes."""

NODES = ("20news", "r8")
"""Those of nodes."""

SPLITS = {
    "20news": "per-class-100",
    "20news-tokens": "benchmark",
    "r8": "benchmark",
    "r8-tokens": "benchmark",
}
"""The split of the words that have one of their own."""


def in_tokens_of(data: Samples, tokenizer: Tokenizer, longest: int) -> Samples:
    """Return whole texts cut into the tokens of a tokenizer, such as that of trained weights."""
    x, lengths = _tokens(tokenizer, data.written, longest)
    graphs = dataclasses.replace(data.graphs, sizes=lengths)
    return dataclasses.replace(data, graphs=graphs, x=x, tokens=tokenizer.size, tokenizer=tokenizer)


def _find(name: str) -> Path:
    """Return the file of texts that a word is for, in the folders of data."""
    places = [
        folder / f"{name}{end}" for folder in data_folders() for end in (".jsonl", ".jsonl.gz")
    ]
    found = next((each for each in places if each.is_file()), None)
    if found is None:
        raise ZooError(
            f"{name}.jsonl.gz is in none of {', '.join(map(str, data_folders()))}. Put a file "
            f"there whose lines are {FORM}, or name its folder in ZOO_DATA."
        )
    return found


def _documents(path: Path, only: Sequence[str] | None = None) -> Documents:
    try:
        return read_documents(path, only)
    except ZooError as error:
        raise of_file(path, error) from None


def _nodes(name: str, only: Sequence[str] | None, terms, share, features: Spec) -> Dataset:
    """Return texts as nodes without edges, whose features are the TF-IDF of their terms."""
    path = _find(name)
    found = _documents(path, only)
    try:
        arrays = term_arrays(found, CLASSIFICATION, terms, share, "english", found.texts)
        split = SPLITS[name]
        return make_dataset(name, arrays, task=CLASSIFICATION, split=split, features=features)
    except ZooError as error:
        raise of_file(path, error) from None


def _read(path: Path, name: str | None, vocabulary, longest, window, skip) -> Samples:
    """Return the texts of a file as sequences of tokens."""
    found = _documents(path)
    masks = found.masks and {part: torch.from_numpy(mask) for part, mask in found.masks.items()}
    train = found.masks["train"][0] if found.masks else np.ones(len(found.texts), bool)
    train = train if train.any() else ~train
    learning = [text for text, own in zip(found.texts, train, strict=True) if own]
    tokenizer = learnt(learning, vocabulary)
    x, lengths = _tokens(tokenizer, found.texts, longest)
    return Samples(
        name=name or path.name.removesuffix(".gz").removesuffix(".jsonl"),
        graphs=SequenceGraphs(lengths, window=window, skip=skip),
        x=x,
        y=torch.from_numpy(found.labels),
        task=SEQUENCES,
        metric=ACCURACY,
        split="benchmark" if masks else MASKLESS_SPLIT,
        masks=masks,
        classes=max(1, len(found.label_names or ())),
        tokens=tokenizer.size,
        tokenizer=tokenizer,
        written=found.texts,
        ids=found.ids,
        labels=found.label_names,
    )


def _tokens(tokenizer: Tokenizer, written: Sequence[str], longest: int) -> tuple[Tensor, Tensor]:
    """Return the tokens of texts, one after the other, and how many each has; of an empty one 1."""
    found = [np.array(each[:longest] or [END]) for each in tokenizer.encode(written)]
    lengths = torch.tensor([len(each) for each in found])
    return torch.from_numpy(np.concatenate(found)).long(), lengths
