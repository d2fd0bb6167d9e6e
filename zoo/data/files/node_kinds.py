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
from zoo.data.files.graph_arrays import NO_EDGES, GraphArrays, check_edges
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


def join_kinds(
    kinds: Mapping[str, GraphArrays],
    relations: Mapping[Relation, Edges],
    label_names: Mapping[str, str],
) -> GraphArrays:
    """Return one graph of nodes of several kinds, one kind after the other.

    Args:
        kinds: by name the nodes of each kind, without edges; labels are those of one kind.
        relations: the edges of each kind.
        label_names: what the labels of each kind are called, of those that have some.

    Raises:
        ZooError: nodes of several kinds have labels, or edges lead to nodes that are not there.
    """
    sizes = {name: len(nodes.labels) for name, nodes in kinds.items()}
    start = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    labelled = [
        name
        for name, nodes in kinds.items()
        if (
            np.isfinite(nodes.labels) if nodes.labels.dtype.kind == "f" else nodes.labels >= 0
        ).any()
    ]
    if len(labelled) > 1:
        raise ZooError(
            f"nodes of {len(labelled)} kinds have labels ({', '.join(labelled)}); one kind is "
            f"predicted at a time: write which, `label: {labelled[0]}.{label_names[labelled[0]]}`."
        )
    target = labelled[0] if labelled else next(iter(kinds))
    nodes = kinds[target]

    def spread(values: np.ndarray | None, fill: Any) -> np.ndarray | None:
        """Return values of the nodes of the target kind as those of all, `fill` of the others."""
        if values is None:
            return None
        everywhere = np.full((sum(sizes.values()), *values.shape[1:]), fill, values.dtype)
        everywhere[start[target] : start[target] + sizes[target]] = values
        return everywhere

    edges, weights, numbers = [NO_EDGES], [np.zeros(0)], [np.zeros(0, np.int64)]
    for number, ((source, _, destination), relation) in enumerate(relations.items()):
        for column, kind in enumerate((source, destination)):
            check_edges(np.stack([relation.ends[:, column]] * 2, axis=1), sizes[kind])
        count = len(relation.ends)
        edges.append(relation.ends + [start[source], start[destination]])
        weights.append(np.ones(count) if relation.weights is None else relation.weights)
        numbers.append(np.full(count, number))
    weighted = any(relation.weights is not None for relation in relations.values())
    kind = np.repeat(list(kinds), list(sizes.values()))
    blocks = {
        name: (own.features, own.feature_names or tuple(map(str, range(own.features.shape[1]))))
        for name, own in kinds.items()
    }
    features, names = _stack(kind, blocks)
    columns = {name: own.columns for name, own in kinds.items() if own.columns is not None}
    others = {name: block for name, block in blocks.items() if name not in columns}
    return GraphArrays(
        edges=np.concatenate(edges).astype(np.int64),
        labels=spread(nodes.labels, np.nan if nodes.labels.dtype.kind == "f" else -1),
        features=features,
        masks=nodes.masks and {k: spread(mask.T, False).T for k, mask in nodes.masks.items()},
        ids=_ids(kinds),
        label_names=nodes.label_names,
        feature_names=names,
        task=nodes.task,
        weights=np.concatenate(weights) if weighted else None,
        columns=KindColumns(kind, columns, others, tuple(kinds)) if columns else None,
        times=spread(nodes.times, np.nan),
        groups=spread(nodes.groups, ""),
        relations=np.concatenate(numbers),
        relation_names=tuple(map(" ".join, relations)),
        kinds=kind.astype(str),
    )


def labels_of_kinds(
    label: str | None, names: Mapping[str, Collection[str]]
) -> dict[str, str | None]:
    """Return what the labels are called of the kinds of nodes that may have some.

    Args:
        label: the name of data of nodes, `y`, or of those of one kind, `paper.y`; None: whatever is
            called so by custom, None for each kind.
        names: by kind the names of the data of its nodes.

    Raises:
        ZooError: no kind has it.
    """
    if label is None:
        return dict.fromkeys(names)
    labels = {kind: label for kind, own in names.items() if label in own}
    labels = labels or {
        kind: name for kind, own in names.items() for name in own if label == f"{kind}.{name}"
    }
    if not labels:
        known = [f"{kind}.{name}" for kind, own in names.items() for name in own]
        raise ZooError(f"label: no kind of nodes has {label!r}; {suggestion(label, known)}")
    return labels


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
        rows = {name: self._rows(name, nodes) for name in self.names}
        columns = {name: own.part(rows[name]) for name, own in self.columns.items()}
        others = {name: (x[rows[name]], names) for name, (x, names) in self.others.items()}
        return dataclasses.replace(self, kind=self.kind[nodes], columns=columns, others=others)

    def fit(self, nodes: np.ndarray | None = None) -> list[LearntColumn]:
        """Return what is learnt of the nodes (n,), or of all of their kind where none is among."""
        learnt = []
        for name, columns in self.columns.items():
            rows = None if nodes is None else self._rows(name, nodes)
            for column in columns.fit(rows if rows is not None and len(rows) else None):
                learnt.append(column.model_copy(update={"name": f"{name}.{column.name}"}))
        return learnt

    def transform(self, learnt: Sequence[LearntColumn]) -> Block:
        """Return the features (N, F) of all kinds, and their names; see `FeatureColumns`."""
        blocks = dict(self.others)
        for name, columns in self.columns.items():
            blocks[name] = columns.transform(_of_kind(name, learnt))
        return _stack(self.kind, {name: blocks[name] for name in self.names})

    def unseen(self, learnt: Sequence[LearntColumn]) -> list[str]:
        """Return a sentence for each column with other categories; see `FeatureColumns`."""
        return [
            f"{name}.{text}"
            for name, columns in self.columns.items()
            for text in columns.unseen(_of_kind(name, learnt))
        ]

    def far_from_training(self, learnt: Sequence[LearntColumn]) -> list[str]:
        """Return a phrase for each column of numbers far from training's; see `FeatureColumns`."""
        return [
            f"{name}.{text}"
            for name, columns in self.columns.items()
            for text in columns.far_from_training(_of_kind(name, learnt))
        ]

    def _rows(self, name: str, nodes: np.ndarray) -> np.ndarray:
        """Return which of the nodes of a kind, counted in their kind, the nodes (n,) are."""
        own = self.kind == name
        return (own.cumsum() - 1)[nodes[own[nodes]]]


def _of_kind(name: str, learnt: Sequence[LearntColumn]) -> list[LearntColumn]:
    """Return what is learnt of the columns of a kind, by the names that they have in it."""
    prefix = f"{name}."
    return [
        column.model_copy(update={"name": column.name.removeprefix(prefix)})
        for column in learnt
        if column.name.startswith(prefix)
    ]


def _stack(kind: np.ndarray, blocks: Mapping[str, Block]) -> tuple[sparse.csr_array, Names]:
    """Return the features of all kinds side by side, and a column for each kind, by its name."""
    together = sparse.block_diag([sparse.csr_array(x) for x, _ in blocks.values()], format="csr")
    order = np.concatenate([np.flatnonzero(kind == name) for name in blocks])
    one_hot = sparse.csr_array(kind[:, None] == np.array(list(blocks)), dtype=np.float32)
    features = sparse.hstack([together[np.argsort(order)], one_hot], format="csr", dtype=np.float32)
    names = [f"{kind}.{name}" for kind, (_, own) in blocks.items() for name in own]
    return sparse.csr_array(features), (*names, *(f"kind={name}" for name in blocks))


def _ids(kinds: Mapping[str, GraphArrays]) -> np.ndarray:
    """Return what nodes are called: by their ids where no two kinds share one, else `kind:id`."""
    ids = {
        name: (np.arange(len(nodes.labels)) if nodes.ids is None else nodes.ids).astype(str)
        for name, nodes in kinds.items()
    }
    together = np.concatenate(list(ids.values()))
    given = all(nodes.ids is not None for nodes in kinds.values())
    if given and len(np.unique(together)) == len(together):
        return together
    return np.concatenate([np.char.add(f"{name}:", own) for name, own in ids.items()])
