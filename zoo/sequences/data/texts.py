"""Texts with one label each as sequences of byte-pair tokens.

A file is a `.jsonl`, a text a line: `{"id": "7", "split": "train", "label": "earn", "text": ...}`;
only `text` is needed. The tokenizer is trained on the training texts, or on all where the file says
no split. The same texts as nodes are in `zoo.data.texts`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Count, Number
from zoo.data.dataset import MASKLESS_SPLIT
from zoo.data.files.text_lines import read_documents
from zoo.data.samples import Samples
from zoo.data.texts import find_texts
from zoo.errors import ZooError, of_file
from zoo.graphs.graph_sets import SequenceGraphs
from zoo.sequences.data.tokenizer import END, Tokenizer, VocabularySize, train_tokenizer
from zoo.system.files import user_path
from zoo.tasks.labels import ACCURACY, SEQUENCES

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
    return _load_tokens(user_path(path), None, vocabulary, longest, window, skip)


def _named(name: str, what: str) -> Callable[..., Samples]:
    def build(
        *,
        vocabulary: VocabularySize = 4000,
        longest: Count = LONGEST,
        window: Number = 2,
        skip: Number | None = 16,
    ) -> Samples:
        path = find_texts(name.removesuffix("-tokens"))
        return _load_tokens(path, name, vocabulary, longest, window, skip)

    build.__name__ = build.__qualname__ = name
    options = inspect.cleandoc(texts.__doc__ or "").partition("file.")[2][1:]
    build.__doc__ = f"{what}\n\nArgs:\n{options}"
    return build


newsgroups_tokens = _named("20news-tokens", "18,846 posts to 20 newsgroups, split by their date.")
telegrams_tokens = _named("r8-tokens", "7,674 telegrams of Reuters in 8 classes.")


def retokenize(data: Samples, tokenizer: Tokenizer, longest: int) -> Samples:
    """Return whole texts in the tokens of a tokenizer, such as that of trained weights."""
    x, lengths = _tokenize(tokenizer, data.written, longest)
    graphs = dataclasses.replace(data.graphs, sizes=lengths)
    return dataclasses.replace(data, graphs=graphs, x=x, tokens=tokenizer.size, tokenizer=tokenizer)


def _load_tokens(path: Path, name: str | None, vocabulary, longest, window, skip) -> Samples:
    try:
        documents = read_documents(path)
    except ZooError as error:
        raise of_file(path, error) from None
    masks, written = documents.masks, documents.texts
    train = masks["train"][0] if masks else np.ones(len(written), bool)
    train = train if train.any() else ~train
    training_texts = [text for text, is_train in zip(written, train, strict=True) if is_train]
    tokenizer = train_tokenizer(training_texts, vocabulary)
    x, lengths = _tokenize(tokenizer, written, longest)
    return Samples(
        name=name or path.name.removesuffix(".gz").removesuffix(".jsonl"),
        graphs=SequenceGraphs(lengths, window=window, skip=skip),
        x=x,
        y=torch.from_numpy(documents.labels),
        task=SEQUENCES,
        metric=ACCURACY,
        split="benchmark" if masks else MASKLESS_SPLIT,
        masks=masks and {part: torch.from_numpy(mask) for part, mask in masks.items()},
        classes=max(1, len(documents.label_names or ())),
        tokens=tokenizer.size,
        tokenizer=tokenizer,
        written=written,
        ids=documents.ids,
        labels=documents.label_names,
    )


def _tokenize(tokenizer: Tokenizer, written: Sequence[str], longest: int) -> tuple[Tensor, Tensor]:
    """Return the tokens of all texts in one row and how many each has; of an empty one `END`."""
    encoded = [np.array(tokens[:longest] or [END]) for tokens in tokenizer.encode(written)]
    lengths = torch.tensor([len(tokens) for tokens in encoded])
    return torch.from_numpy(np.concatenate(encoded)).long(), lengths
