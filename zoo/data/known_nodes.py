"""What a run had, and which part of its split each was in: `nodes.json` of its folder.

That are nodes, graphs of a set, or links, each by an id.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.data.files.graph_arrays import PARTS

NODES = "nodes.json"
"""In the folder of a run: `count`, and `ids` and `kinds` where the nodes have any; `parts` of each
seed, and `trained` where the run has started from weights, a character for each node; and `before`,
likewise, the nodes that these weights had known and that are no longer there."""

LEFT_OUT, UNLABELLED = len(PARTS), len(PARTS) + 1
"""In the place of a part: nodes that have a label and are in none, and nodes without a label."""

_CODES = "012x-"  # of the parts, and of these two

DAMAGE = (OSError, KeyError, TypeError, ValueError)
"""What reading a damaged file raises."""


class KnownNodes(NamedTuple):
    """Nodes that weights know.

    Attributes:
        count: N, how many the graph had.
        ids: (M,) text, those of the graph first; None: by their numbers, and M is N.
        kinds: (M,) text; None: all are of one kind.
        parts: (M,) the number of the part in `PARTS`, or `LEFT_OUT` or `UNLABELLED`; None: not
            noted.
        trained: (M,) bool, whether the weights, or those they have started from, were trained on
            the node; None: not noted.
    """

    count: int
    ids: np.ndarray | None
    kinds: np.ndarray | None
    parts: np.ndarray | None
    trained: np.ndarray | None

    def places(
        self, ids: np.ndarray | None, kinds: np.ndarray | None, nodes: int
    ) -> np.ndarray | None:
        """Return which of these each node of a graph is, (nodes,), -1 where it is none of them.

        Without ids on both sides nodes are known by their numbers; None where one side has some.
        """
        from pandas import Index

        if ids is None and self.ids is None:
            numbers = np.arange(nodes)
            return np.where(numbers < self.count, numbers, -1)
        if ids is None or self.ids is None:
            return None
        own, theirs = self.ids, ids.astype(str)
        if kinds is not None and self.kinds is not None:
            own, theirs = _with_kinds(self.kinds, own), _with_kinds(kinds, theirs)
        known, first = np.unique(own, return_index=True)
        places = Index(known).get_indexer(theirs)
        return np.where(places >= 0, first[places], -1)


def read_known(folder: Path) -> KnownNodes:
    """Return the nodes that weights in the folder of their run know, `RUN/seed-0`.

    Raises:
        OSError, KeyError, TypeError, ValueError: there is no such file, or it is damaged.
    """
    noted = json.loads((folder.parent / NODES).read_bytes())
    count, before = int(noted["count"]), noted.get("before") or {}
    ids, kinds = (
        None if values is None else np.array([*values, *before.get(key, [])], str)
        for key, values in (("ids", noted["ids"]), ("kinds", noted.get("kinds")))
    )
    text = noted.get("parts", {}).get(folder.name.removeprefix("seed-"))
    if text is None:
        return KnownNodes(count, ids, kinds, None, None)
    parts = np.array([_CODES.index(code) for code in text + before.get("parts", "")], np.int64)
    trained = parts == PARTS.index("train")
    if noted.get("trained"):
        trained |= np.array([*noted["trained"], *before.get("trained", "")]) == "1"
    if ids is not None and len(ids) != len(parts):
        raise ValueError("it does not say as much of each node")
    return KnownNodes(count, ids, kinds, parts, trained)


def read_known_or_none(folder: Path) -> KnownNodes | None:
    """Return the nodes that weights in the folder of their run know; None if it does not say."""
    try:
        return read_known(folder)
    except DAMAGE:
        return None


def describe_nodes(
    labelled: np.ndarray,
    ids: np.ndarray | None,
    kinds: np.ndarray | None,
    splits: Mapping[int, Mapping[str, np.ndarray]],
    before: tuple[KnownNodes, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Return what is written to `nodes.json` of a run; see `NODES`.

    Args:
        labelled: whether each node has a label, (N,) bool.
        ids: (N,) what they are called; None: by their numbers.
        kinds: (N,) text; None: all are of one kind.
        splits: of each seed the nodes of each part.
        before: the nodes that the weights know which the run starts from, and which of these each
            node is, as `KnownNodes.places` says; None: none.
    """
    names = {"ids": ids, "kinds": kinds}
    noted = {key: None if values is None else values.tolist() for key, values in names.items()}
    parts = {str(seed): _codes_of(labelled, split) for seed, split in splits.items()}
    noted |= {"count": len(labelled), "parts": parts}
    if before is None or before[0].trained is None:
        return noted
    known, places = before
    noted["trained"] = _bits((places >= 0) & known.trained[places])
    gone = np.setdiff1d(np.arange(len(known.parts)), places)
    if len(gone) and ids is not None and (kinds is None) == (known.kinds is None):
        noted["before"] = {
            "ids": known.ids[gone].tolist(),
            "parts": "".join(_CODES[part] for part in known.parts[gone]),
            "trained": _bits(known.trained[gone]),
            **({} if kinds is None else {"kinds": known.kinds[gone].tolist()}),
        }
    return noted


def _codes_of(labelled: np.ndarray, split: Mapping[str, np.ndarray]) -> str:
    parts = np.where(labelled, LEFT_OUT, UNLABELLED)
    for number, part in enumerate(PARTS):
        parts[split[part]] = number
    return "".join(_CODES[part] for part in parts)


def _bits(values: np.ndarray) -> str:
    return "".join(np.where(values, "1", "0"))


def _with_kinds(kinds: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the kind and the id of nodes as one text each, (N,).

    It is the same whether or not the ids say the kind themselves, `kind:id`, as they do in a graph
    where two kinds share an id.
    """
    pairs = zip(map(str, kinds), ids.tolist(), strict=True)
    return np.array([f"{kind}:{id.removeprefix(f'{kind}:')}" for kind, id in pairs])
