"""Text files: of a sentence a line; or of a labelled text a line of JSON, which becomes a node.

A line of JSON is `{"id": "7", "split": "train", "label": "earn", "text": "..."}`; only `text` is
needed. Errors about it do not name the file.
"""

import dataclasses
import gzip
import json
import logging
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from scipy import sparse

from zoo.config.learnt_columns import LearntColumn, TextColumn
from zoo.config.options import Count, Fraction
from zoo.data.files.graph_arrays import NO_EDGES, PARTS, GraphArrays, check_ids
from zoo.errors import ZooError, brief, cause
from zoo.system.files import user_path
from zoo.tasks.labels import REGRESSION, doubtful, encode_text

HELD_OUT = 10
"""Percent of the training texts that are for validation, where a file has no part for it."""

FORM = '{"id": "7", "split": "train", "label": "earn", "text": "..."}'

_NO_UTF8 = "is not UTF-8; write the file in it, for example by `iconv -f latin1 -t utf-8`."

Masks = dict[str, np.ndarray] | None


def sentences_of(path: Path) -> list[str]:
    """Return the lines of a file, without the spaces around them.

    Raises:
        ZooError: it cannot be read, or is not UTF-8.
    """
    content = _read(path, str(path))
    if b"\0" in content:  # as arrays, archives and Parquet have
        raise ZooError(
            f"{path} is no text; write a line each, such as by "
            "numpy.savetxt('file.txt', array, fmt='%s')."
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ZooError(f"{path}, line {line:,}, {_NO_UTF8}") from None
    lines = text.split("\n")
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]


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
    if not path.exists():
        raise ZooError("there is no such file; write the path of one of texts.")
    lines = {
        number: _parse(number, line, task)
        for number, line in enumerate(_read(path, "it").split(b"\n"), 1)
        if line.strip()
    }
    if not lines:
        raise ZooError(f"it holds no text; write lines such as {FORM}.")
    nameless = [number for number, line in lines.items() if line.get("id") is None]
    if 0 < len(nameless) < len(lines):
        raise ZooError(
            f"{len(nameless):,} of {len(lines):,} lines have no `id`, first line {nameless[0]:,}; "
            "write one in each line, or in none."
        )
    rows = [line for line in lines.values() if only is None or line.get("label") in only]
    unknown = (None,) if task == REGRESSION else (None, -1, "-1")
    words = [row.get("label") for row in rows]
    words = ["" if word in unknown else str(word) for word in words]
    labels, names = encode_text(np.array(words, str), task)
    for name in doubtful(names or ()):
        logging.getLogger(__name__).warning(
            "%s: the label %r is a class; null is an unknown one.", path.name, name
        )
    ids = np.array([str(row.get("id")) for row in rows], str)
    return Documents(
        [row["text"].encode(errors="replace").decode() for row in rows],  # halves of UTF-16
        labels,
        names or None,
        None if nameless else check_ids(ids, len(ids)),
        _masks([row.get("split") for row in rows]),
    )


def _read(path: Path, subject: str) -> bytes:
    """Return what a file holds, unpacked where it ends in `.gz`; `subject` begins an error."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise ZooError(f"{subject} cannot be read ({cause(error)}).") from None


def _parse(number: int, line: bytes, task: str | None) -> dict[str, Any]:
    """Return what a line of JSON says, checked."""
    try:
        row = json.loads(line)
    except UnicodeDecodeError:
        raise ZooError(f"line {number:,} {_NO_UTF8}") from None
    except (ValueError, RecursionError):
        row = None
    wrong, numbers = None, task == REGRESSION
    if not isinstance(row, dict):
        wrong = "a line is to be an object of JSON"
    elif not isinstance(row.get("text"), str):
        wrong = "`text` is to be text"
    elif row.get("split") not in (None, *PARTS):
        wrong = f"`split` is to be {', '.join(PARTS)}"
    elif type(row.get("label")) not in (type(None), str, int, *((float,) if numbers else ())):
        wrong = "`label` is to be " + (
            "a number" if numbers
            else "text, or a whole number; with `task: node-regression` any number"
        )  # fmt: skip
    if wrong:
        shown = brief(line.decode(errors="replace"))
        raise ZooError(f"line {number:,}: {wrong}, not {shown}. Write {FORM}.")
    return row


def _masks(parts: list[str | None]) -> Masks:
    """Return the split that a file says; without `val` a tenth of `train` is for validation.

    Who divides texts by it refuses empty parts.
    """
    if set(parts) == {None}:
        return None
    masks = {name: np.array([part == name for part in parts]) for name in PARTS}
    if masks["train"].any() and not masks["val"].any():
        train = np.flatnonzero(masks["train"])
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0)).numpy()
        val = train[order[: max(1, len(train) * HELD_OUT // 100)]]
        masks["val"][val], masks["train"][val] = True, False
    return {name: mask[None] for name, mask in masks.items()}


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
    words = counter.get_feature_names_out().tolist()
    column = TextColumn(kind="text", name=Texts.name, terms=words, weights=weights)
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
        return dataclasses.replace(self, texts=[self.texts[node] for node in nodes])

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
            names = ", ".join(repr(column.name) for column in learnt)
            raise ZooError(
                f"it is a text in each line, and the model was trained on a table with {names}; "
                "write the texts as a column of such a table."
            )
        vectorizer = TfidfVectorizer(vocabulary=column.terms)
        vectorizer.idf_ = np.array(column.weights)
        features = vectorizer.transform(self.texts).astype(np.float32)
        return sparse.csr_array(features), tuple(column.terms)


# Folders of pairs of sentences: `train.en`, `train.de`, `val.en` and so on, perhaps `.gz`

_TABLES = ("csv", "tsv", "npz", "npy", "txt", "mat", "mtx", "bin", "gml", "pt")
"""What files of other data end in, which are no languages."""

_LANGUAGE = "[a-z]{2,3}([_-][A-Za-z]{2,4})?"
Language = Annotated[str, Field(pattern=f"^{_LANGUAGE}$")]


def languages(folder: Path) -> list[str]:
    """Return the languages that a folder has a training file of, in the order of their names."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:  # there is no such folder, or it is a file
        return []
    matches = (re.fullmatch(rf"train\.({_LANGUAGE})(\.gz)?", name) for name in names)
    return sorted({match[1] for match in matches if match and match[1] not in _TABLES})


def has_pairs(folder: Path) -> bool:
    """Return whether a path is a folder of pairs of sentences."""
    return len(languages(folder)) > 1


def choose_languages(folder: Path, source: str | None, target: str | None) -> tuple[str, str]:
    """Return the languages to translate from and to, whose training files are there.

    Raises:
        ZooError: they are not, or neither the arguments nor the folder's name say which are meant.
    """
    known = languages(folder)
    if len(known) == 2 and (source in known) != (target in known):
        source = source or known[known[0] == target]
        target = target or known[known[0] == source]
    named = re.search(rf"[-_]({_LANGUAGE})-({_LANGUAGE})$", folder.resolve().name)
    if named and {named[1], named[3]} <= set(known):
        source, target = source or named[1], target or named[3]
    if source == target or not {source, target} <= set(known):
        raise ZooError(
            f"{folder} has training files of {', '.join(known) or 'no languages'}, and is to be "
            f"translated from {source or 'one'} to {target or 'another'}; write two of them, "
            "`{name: ..., source: en, target: de}`."
        )
    return source, target


def part_file(folder: Path, part: str, language: str) -> Path:
    """Return the file of a part in one language.

    Raises:
        ZooError: it is missing.
    """
    names = [f"{part}.{language}", f"{part}.{language}.gz"]
    for path in (folder / name for name in names):
        if path.is_file():
            return path
    raise ZooError(f"{folder} has neither {' nor '.join(names)}; each part needs both languages.")
