"""Text files: of a sentence a line; or of a labelled text a line of JSON, which becomes a node.

A line of JSON is `{"id": "7", "split": "train", "label": "earn", "text": "..."}`; only `text` is
needed. Errors about it do not name the file.
"""

import dataclasses
import gzip
import json
import logging
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from scipy import sparse

from zoo.config.learnt_columns import LearntColumn, TextColumn
from zoo.config.options import Count, Fraction
from zoo.data.files.graph_arrays import NO_EDGES, PARTS, GraphArrays, check_ids
from zoo.errors import ZooError, brief, cause
from zoo.system.files import user_path
from zoo.tasks.labels import REGRESSION, doubtful, encode_text

LARGEST = 2**31
"""The largest file of texts that is read, in bytes."""

HELD_OUT = 10
"""Percent of the training texts that are for validation, where a file has no part for it."""

FORM = '{"id": "7", "split": "train", "label": "earn", "text": "..."}'

_BINARY = {
    b"PK\x03\x04": "a zip, as .npz, .pt and .xlsx are",
    b"\x93NUMPY": "an array of numpy",
    b"PAR1": "Parquet",
    b"\x1f\x8b": "packed by gzip without ending in .gz",
    b"\x80": "a pickle",
}
"""How files begin that are no text, to what they are."""

_LOG = logging.getLogger(__name__)
_NO_UTF8 = "is not UTF-8; write the file in it, for example by `iconv -f latin1 -t utf-8`."

Masks = dict[str, np.ndarray] | None


def sentences_of(path: Path) -> list[str]:
    """Return the lines of a file, without the spaces around them.

    Raises:
        ZooError: it cannot be read, is not UTF-8, or larger than anyone writes.
    """
    content = _content(path, str(path))
    if kind := next((kind for mark, kind in _BINARY.items() if content.startswith(mark)), None):
        raise ZooError(
            f"{path} is {kind}, and no text; write a line each, such as by "
            "numpy.savetxt('file.txt', array, fmt='%s')."
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ZooError(f"{path}, line {line:,}, {_NO_UTF8}") from None
    lines = text.split("\n")
    return [each.strip() for each in (lines if lines[-1] else lines[:-1])]


class Documents(NamedTuple):
    """Texts and what is known of them.

    Attributes:
        texts: what is to be read.
        labels: classes (S,), -1 = unknown; or numbers (S,), NaN = unknown.
        label_names: of the classes, None where there are none.
        ids: what each is called, None where they have no names.
        masks: `train`, `val` and `test`, (1, S) bool each; None where none is said.
    """

    texts: list[str]
    labels: np.ndarray
    label_names: tuple[str, ...] | None
    ids: np.ndarray | None
    masks: Masks


def read_documents(
    path: Path, only: Sequence[str] | None = None, task: str | None = None
) -> Documents:
    """Read a `.jsonl` or `.jsonl.gz`; empty lines are passed over.

    Args:
        path: of the file.
        only: the labels of the lines that count; None: all lines.
        task: what the labels are for; numbers of `node-regression`, else classes.

    Raises:
        ZooError: there is no such file, a line is of another form, which, and what is wrong, or
            several have one id.
    """
    lines = [each for each in _lines(path, task) if only is None or each.get("label") in only]
    given = [each.get("label") for each in lines]
    unknown = (None,) if task == REGRESSION else (None, -1, "-1")
    texts = ["" if each in unknown else str(each) for each in given]
    labels, names = encode_text(np.array(texts, str), task)
    for name in doubtful(names or ()):
        _LOG.warning("%s: the label %r is a class; null is an unknown one.", path.name, name)
    ids = [each.get("id") for each in lines]
    return Documents(
        [each["text"].encode(errors="replace").decode() for each in lines],  # halves of UTF-16
        labels,
        names or None,
        None if None in ids else check_ids(np.array(list(map(str, ids)), str), len(ids)),
        _masks([each.get("split") for each in lines]),
    )


def read_terms(
    path: Path,
    task: str | None,
    *,
    terms: Count | None = 2000,
    share: Fraction = 0.0,
    stop_words: Literal["english"] | None = "english",
    terms_of: str | None = None,
) -> GraphArrays:
    """Read texts as nodes without edges, a line of JSON each: {id, split, label, text}.

    The features of a text are its counts of terms, times ln(N / texts with the term) + 1, as a row
    of length 1: TF-IDF, of all texts, those of the test as well. Weights keep the terms, and other
    texts are read by them.

    Args:
        path: the `.jsonl` or `.jsonl.gz`.
        task: what the labels are for.
        terms: the most terms that count, the most frequent first; null for all.
        share: the share of the texts that a term has to be in.
        stop_words: `english` leaves out the most common words of English.
        terms_of: a file of texts whose terms and weights are taken, such as that of training.
    """
    documents = read_documents(path, task=task)
    fitted_on = read_documents(user_path(terms_of), task=task) if terms_of else documents
    return term_arrays(documents, task, terms, share, stop_words, fitted_on.texts)


def term_arrays(
    documents: Documents,
    task: str | None,
    terms: int | None,
    share: float,
    stop_words: str | None,
    fitted_on: list[str],
) -> GraphArrays:
    """Return texts as nodes without edges, whose features are TF-IDF; see `read_terms`.

    Raises:
        ZooError: no term is left.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    counter = CountVectorizer(stop_words=stop_words, min_df=float(share), max_features=terms)
    try:
        counts = counter.fit_transform(fitted_on)
    except ValueError:
        raise ZooError(
            f"no term is in {share:.0%} of the {len(fitted_on):,} texts; write a smaller `share`, "
            "or `stop_words: null`."
        ) from None
    weights = TfidfTransformer(smooth_idf=False).fit(counts).idf_.tolist()
    found = counter.get_feature_names_out().tolist()
    column = TextColumn(kind="text", name=Texts.name, terms=found, weights=weights)
    texts = Texts(documents.texts, column)
    features, names = texts.transform(texts.fit())
    return GraphArrays(
        edges=NO_EDGES,
        labels=documents.labels,
        features=features,
        masks=documents.masks,
        ids=documents.ids,
        label_names=documents.label_names,
        feature_names=names,
        task=task,
        columns=texts,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Texts:
    """Texts as they stand in their file, and the terms that were learnt of all of them.

    It is what `FeatureColumns` is of a table: weights keep what was learnt, and read others by it.
    """

    name: ClassVar[str] = "text"

    texts: list[str]
    column: TextColumn

    def part(self, nodes: np.ndarray) -> "Texts":
        """Return some of the texts (n,), with what was learnt of all."""
        return dataclasses.replace(self, texts=[self.texts[each] for each in nodes])

    def fit(self, nodes: np.ndarray | None = None) -> list[TextColumn]:
        """Return what was learnt, whichever nodes are trained on."""
        return [self.column]

    def transform(self, learnt: Sequence[LearntColumn]) -> tuple[Any, tuple[str, ...]]:
        """Return the TF-IDF (N, terms) fp32, sparse, and the terms.

        Raises:
            ZooError: what was learnt is of other columns than the texts of a file.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        column = learnt[0]
        if len(learnt) > 1 or column.kind != "text" or column.name != self.name:
            names = ", ".join(repr(each.name) for each in learnt)
            raise ZooError(
                f"it is a text in each line, and the model was trained on a table with {names}; "
                "write the texts as a column of such a table."
            )
        count = TfidfVectorizer(vocabulary=column.terms)
        count.idf_ = np.array(column.weights)
        found = count.transform(self.texts).astype(np.float32)
        return sparse.csr_array(found), tuple(column.terms)


def _masks(parts: list[str | None]) -> Masks:
    """Return the split that a file says; without `val` a tenth of `train` is for validation.

    Who divides texts by it refuses empty parts.
    """
    if set(parts) == {None}:
        return None
    masks = {part: np.array([each == part for each in parts]) for part in PARTS}
    if masks["train"].any() and not masks["val"].any():
        train = np.flatnonzero(masks["train"])
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0)).numpy()
        held = train[order[: max(1, len(train) * HELD_OUT // 100)]]
        masks["val"][held], masks["train"][held] = True, False
    return {part: mask[None] for part, mask in masks.items()}


def _lines(path: Path, task: str | None) -> list[dict[str, Any]]:
    """Return what the lines of a file say, checked."""
    if not path.exists():
        raise ZooError("there is no such file; write the path of one of texts.")
    content = _content(path, "it")
    lines = enumerate(content.split(b"\n"), 1)
    found = {number: _line(number, line, task) for number, line in lines if line.strip()}
    if not found:
        raise ZooError(f"it holds no text; write lines such as {FORM}.")
    nameless = [number for number, each in found.items() if each.get("id") is None]
    if 0 < len(nameless) < len(found):
        raise ZooError(
            f"{len(nameless):,} of {len(found):,} lines have no `id`, first line {nameless[0]:,}; "
            "write one in each line, or in none."
        )
    return list(found.values())


def _content(path: Path, called: str) -> bytes:
    """Return what a file holds, unpacked where it ends in `.gz`.

    Raises:
        ZooError: it cannot be read, or is larger than anyone writes, in words that begin as
            `called` says.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ZooError(f"{called} cannot be read ({cause(error)}).") from None
    if len(content) > LARGEST:
        raise ZooError(f"{called} holds more than {LARGEST:,} bytes of text; write fewer lines.")
    return content


def _line(number: int, line: bytes, task: str | None) -> dict[str, Any]:
    try:
        read = json.loads(line)
    except UnicodeDecodeError:
        raise ZooError(f"line {number:,} {_NO_UTF8}") from None
    except (ValueError, RecursionError):
        read = None
    wrong = (
        "a line is to be an object of JSON"
        if not isinstance(read, dict)
        else next((said for key, (fits, said) in _KEYS.items() if not fits(read.get(key))), None)
        or _wrong_label(read.get("label"), task)
    )
    if wrong:
        shown = brief(line.decode(errors="replace"))
        raise ZooError(f"line {number:,}: {wrong}, not {shown}. Write {FORM}.")
    return read


_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "text": (lambda given: isinstance(given, str), "`text` is to be text"),
    "split": (lambda given: given in (None, *PARTS), f"`split` is to be {', '.join(PARTS)}"),
}
"""Key of a line to whether a value fits, and what is said where it does not."""


def _wrong_label(given: Any, task: str | None) -> str | None:
    """Return what is said of a label that does not fit the task; None of one that does."""
    numbers = task == REGRESSION
    if given is None or type(given) in ((str, int, float) if numbers else (str, int)):
        return None
    whole = "text, or a whole number; with `task: node-regression` any number"
    return "`label` is to be " + ("a number" if numbers else whole)
