"""Texts with one label each as nodes without edges, whose features are the TF-IDF of their terms.

A file is a `.jsonl`, a text a line: `{"id": "7", "split": "train", "label": "earn", "text": ...}`;
only `text` is needed. Terms are counted in all texts. The same texts as sequences of tokens are in
`zoo.sequences.data.texts`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from zoo.config.options import Count, Fraction, Spec
from zoo.data.dataset import Dataset, make_dataset
from zoo.data.features import FEATURES
from zoo.data.files.text_lines import FORM, read_documents, term_arrays
from zoo.errors import ZooError, of_file
from zoo.system.cache import data_file
from zoo.tasks.labels import CLASSIFICATION

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
    return _load_nodes("20news", TEN if groups == "ten" else None, terms, share, features)


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
    return _load_nodes("r8", None, terms, share, features)


NODES = {"20news": newsgroups, "r8": telegrams}
"""Word to builder of texts as nodes."""

TEXTS: dict[str, Callable[..., Any] | str] = {
    **NODES,
    "20news-tokens": "zoo.sequences.data.texts:newsgroups_tokens",
    "r8-tokens": "zoo.sequences.data.texts:telegrams_tokens",
    "texts": "zoo.sequences.data.texts:texts",
}
"""Word to builder `(*, options) -> Dataset` of nodes, or `Samples` of tokens."""

SPLITS = {
    "20news": "per-class-100",
    "20news-tokens": "benchmark",
    "r8": "benchmark",
    "r8-tokens": "benchmark",
}
"""The split of the words that have one of their own."""


def find_texts(name: str) -> Path:
    """Return the file of texts of this name in the folders of data.

    Raises:
        ZooError: there is none.
    """
    return data_file(f"{name}.jsonl", f"a file whose lines are {FORM}")


def _load_nodes(name: str, classes: Sequence[str] | None, terms, share, features: Spec) -> Dataset:
    path = find_texts(name)
    try:
        documents = read_documents(path, classes)
        arrays = term_arrays(documents, CLASSIFICATION, terms, share, "english", documents.texts)
        split = SPLITS[name]
        return make_dataset(name, arrays, task=CLASSIFICATION, split=split, features=features)
    except ZooError as error:
        raise of_file(path, error) from None
