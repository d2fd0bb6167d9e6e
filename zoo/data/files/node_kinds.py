"""Graphs of several kinds of nodes and edges, as one graph.

The features of each kind have columns of their own, 0 for the others, and a column says the kind:
a linear map of them is one linear map, with a bias, for each kind of nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from zoo.config.learnt_columns import LearntColumn
from zoo.data.files.graph_arrays import EdgeColumns, GraphArrays, check_edges, one_column
from zoo.data.files.objects import (
    LABELS,
    chosen,
    from_tensors,
    tell_unread,
    unread,
)
from zoo.errors import ZooError, suggestion

Relation = tuple[str, str, str]
"""The kind that edges lead from, what they are called, and the kind they lead to."""

Names = tuple[str, ...]
Block = tuple[Any, Names]  # features (n, F) of one kind, and their names


@dataclasses.dataclass(frozen=True)
class Edges:
    """Edges between two kinds of nodes.

    Attributes:
        ends: (E, 2) numbers of nodes, each from 0 in its kind.
        weights: (E,); None: all are 1.
    """

    ends: np.ndarray
    weights: np.ndarray | None = None


def joined(
    kinds: Mapping[str, GraphArrays],
    relations: Mapping[Relation, Edges],
    called: Mapping[str, str],
) -> GraphArrays:
    """Return one graph of nodes of several kinds, one kind after the other.

    Args:
        kinds: by name the nodes of each kind, without edges; labels are those of one kind.
        relations: the edges of each kind.
        called: what the labels of each kind are called, of those that have some.

    Raises:
        ZooError: nodes of several kinds have labels, or edges lead to nodes that are not there.
    """
    sizes = {name: len(each.labels) for name, each in kinds.items()}
    first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    labelled = [name for name, each in kinds.items() if _some(each.labels)]
    if len(labelled) > 1:
        raise ZooError(
            f"nodes of {len(labelled)} kinds have labels ({', '.join(labelled)}); one kind is "
            f"predicted at a time: write which, `label: {labelled[0]}.{called[labelled[0]]}`."
        )
    target = labelled[0] if labelled else next(iter(kinds))
    of, total = kinds[target], sum(sizes.values())
    own = slice(first[target], first[target] + sizes[target])
    ends, weights, numbers = [], [], []
    for number, ((source, _, goal), each) in enumerate(relations.items()):
        for column, kind in enumerate((source, goal)):
            check_edges(np.stack([each.ends[:, column]] * 2, axis=1), sizes[kind])
        ends.append(each.ends + [first[source], first[goal]])
        count = len(each.ends)
        weights.append(np.ones(count) if each.weights is None else each.weights)
        numbers.append(np.full(count, number))
    weighted = any(each.weights is not None for each in relations.values())
    masks = of.masks and {
        part: _spread(mask.T, total, own, False).T for part, mask in of.masks.items()
    }
    kind = np.repeat(list(kinds), list(sizes.values()))
    blocks = {name: (each.features, _names(each)) for name, each in kinds.items()}
    features, names = _stacked(kind, blocks)
    columns = {name: each.columns for name, each in kinds.items() if each.columns is not None}
    others = {name: block for name, block in blocks.items() if name not in columns}
    return GraphArrays(
        np.concatenate([np.zeros((0, 2), np.int64), *ends]).astype(np.int64),
        _spread(of.labels, total, own, np.nan if of.labels.dtype.kind == "f" else -1),
        features,
        masks,
        _ids(kinds),
        of.label_names,
        names,
        of.task,
        np.concatenate([np.zeros(0), *weights]) if weighted else None,
        KindColumns(kind, columns, others, tuple(kinds)) if columns else None,
        None if of.times is None else _spread(of.times, total, own, np.nan),
        None if of.groups is None else _spread(of.groups, total, own, ""),
        np.concatenate([np.zeros(0, np.int64), *numbers]),
        tuple(" ".join(each) for each in relations),
        kinds=kind.astype(str),
    )  # fmt: skip


def _names(arrays: GraphArrays) -> Names:
    return arrays.feature_names or tuple(map(str, range(arrays.features.shape[1])))


def of_tensors(
    nodes: Mapping[str, Mapping[str, Any]],
    counts: Mapping[str, int],
    relations: Mapping[Relation, tuple[np.ndarray, Mapping[str, Any]]],
    label: str | None = None,
    feature: str | None = None,
    choice: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    task: str | None = None,
    left: set[str] | None = None,
) -> GraphArrays:
    """Return a graph whose nodes and edges have data by name, such as DGL's or PyG's.

    Args:
        nodes: by kind the data of its nodes.
        counts: by kind how many nodes there are.
        relations: by kind of edges their ends (E, 2) and their data.
        label: the node data that is the label, of one kind: `y`, or `paper.y`.
        feature: the node data that is the features.
        choice: what is read of edge data; the weight is 1 for kinds of edges that have none.
        task: what the labels are for.
        left: keeps what data of nodes is not read; None: that is told.

    Raises:
        ZooError: data that is named is not there, or features of edges are asked for.
    """
    choice.refuse_features()
    none = np.zeros((0, 2), np.int64)
    held = {name for each in nodes.values() for name in each}
    if feature is not None and feature not in held:
        raise ZooError(f"feature: no kind of nodes has {feature!r}; {suggestion(feature, held)}")
    asked = labels_of_kinds(label, nodes)
    kinds, called, more = {}, {}, set[str]()
    for kind, data in nodes.items():
        if kind not in asked:
            left_out = {*LABELS, *asked.values()}
            data = {key: each for key, each in data.items() if key not in left_out}
        own = feature if feature in data else None
        names = chosen(data, asked.get(kind), own)
        kinds[kind] = from_tensors(data, none, counts[kind], *names, task)
        called |= {} if names[0] is None else {kind: names[0]}
        more |= {f"{kind}.{each}" for each in unread(data, *names)}
    tell_unread(more, left)
    named = choice.named(sorted({key for _, data in relations.values() for key in data}))
    found = {
        relation: Edges(ends, one_column(named, data[named]) if named in data else None)
        for relation, (ends, data) in relations.items()
    }
    return joined(kinds, found, called)


def labels_of_kinds(
    label: str | None, held: Mapping[str, Collection[str]]
) -> dict[str, str | None]:
    """Return what the labels are called of the kinds of nodes that may have some.

    Args:
        label: the name of data of nodes, `y`, or of those of one kind, `paper.y`; None: whatever is
            called so by custom, None for each kind.
        held: by kind the names of the data of its nodes.

    Raises:
        ZooError: no kind has it.
    """
    if label is None:
        return dict.fromkeys(held)
    named = {kind: label for kind, names in held.items() if label in names}
    named = named or {
        kind: name for kind, names in held.items() for name in names if label == f"{kind}.{name}"
    }
    if not named:
        known = [f"{kind}.{name}" for kind, names in held.items() for name in names]
        raise ZooError(f"label: no kind of nodes has {label!r}; {suggestion(label, known)}")
    return named


@dataclasses.dataclass(frozen=True, eq=False)
class KindColumns:
    """What is learnt of the tables of several kinds of nodes, as `FeatureColumns` is of one.

    Of kinds that are not trained on, because they have no labels, it is learnt of all nodes.

    Attributes:
        kind: (N,) the kind of each node.
        columns: by kind, of those of which something is learnt, the columns of its nodes.
        others: by kind, of the other kinds, the features of its nodes and their names.
        names: of all kinds, in order.
    """

    kind: np.ndarray
    columns: Mapping[str, Any]
    others: Mapping[str, Block]
    names: tuple[str, ...]

    def part(self, nodes: np.ndarray) -> KindColumns:
        """Return the columns of some nodes (n,)."""
        places = {name: self._among(name, nodes) for name in self.names}
        columns = {name: each.part(places[name]) for name, each in self.columns.items()}
        others = {name: (x[places[name]], names) for name, (x, names) in self.others.items()}
        return dataclasses.replace(self, kind=self.kind[nodes], columns=columns, others=others)

    def fit(self, nodes: np.ndarray | None = None) -> list[LearntColumn]:
        """Return what is learnt of the nodes (n,), or of all of their kind where none is among."""
        found = []
        for name, columns in self.columns.items():
            own = None if nodes is None else self._among(name, nodes)
            told = columns.fit(own if own is not None and len(own) else None)
            found += [each.model_copy(update={"name": f"{name}.{each.name}"}) for each in told]
        return found

    def transform(self, learnt: Sequence[LearntColumn]) -> Block:
        """Return the features (N, F) of all kinds, and their names; see `FeatureColumns`."""
        blocks = dict(self.others)
        for name, columns in self.columns.items():
            start = f"{name}."
            own = [
                each.model_copy(update={"name": each.name.removeprefix(start)})
                for each in learnt
                if each.name.startswith(start)
            ]
            blocks[name] = columns.transform(own)
        return _stacked(self.kind, {name: blocks[name] for name in self.names})

    def _among(self, name: str, nodes: np.ndarray) -> np.ndarray:
        """Return which of the nodes of a kind, counted in their kind, the nodes (n,) are."""
        own = self.kind == name
        return (own.cumsum() - 1)[nodes[own[nodes]]]


def _stacked(kind: np.ndarray, blocks: Mapping[str, Block]) -> tuple[sparse.csr_array, Names]:
    """Return the features of all kinds side by side, and a column for each kind, by its name."""
    together = sparse.block_diag([sparse.csr_array(x) for x, _ in blocks.values()], format="csr")
    order = np.concatenate([np.flatnonzero(kind == name) for name in blocks])
    said = sparse.csr_array(kind[:, None] == np.array(list(blocks)), dtype=np.float32)
    features = sparse.hstack([together[np.argsort(order)], said], format="csr", dtype=np.float32)
    names = [f"{kind}.{each}" for kind, (_, own) in blocks.items() for each in own]
    return sparse.csr_array(features), (*names, *(f"kind={name}" for name in blocks))


def _spread(values: np.ndarray, total: int, own: slice, rest: Any) -> np.ndarray:
    """Return values of the nodes of one kind as those of all (N, ...), the others being `rest`."""
    found = np.full((total, *values.shape[1:]), rest, values.dtype)
    found[own] = values
    return found


def _some(labels: np.ndarray) -> bool:
    return bool((~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0).any())


def _ids(kinds: Mapping[str, GraphArrays]) -> np.ndarray:
    """Return what nodes are called: by their ids where no two kinds share one, else `kind:id`."""
    own = {
        name: np.arange(len(each.labels)) if each.ids is None else each.ids
        for name, each in kinds.items()
    }
    text = {name: each.astype(str) for name, each in own.items()}
    together = np.concatenate(list(text.values()))
    if all(each.ids is not None for each in kinds.values()) and (
        len(np.unique(together)) == len(together)
    ):
        return together
    return np.concatenate([np.char.add(f"{name}:", each) for name, each in text.items()])
