"""The nodes that a run had, and which part of its split each was of: `nodes.json` of its folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.data.files.graph_arrays import PARTS

NODES = "nodes.json"
"""In the folder of a run: `count`, and `ids` and `kinds` where the nodes have any; `parts` of each
seed, and `trained` where the run has started from weights, a character for each node; and `before`,
likewise, the nodes that these weights had known and that are no longer there."""

LEFT_OUT, UNLABELLED = len(PARTS), len(PARTS) + 1
"""What stands in the place of a part of nodes that have a label and are in none, or that have none.
"""

_CODES = np.array([*"012x-"])  # of the parts, and of these two

DAMAGE = (OSError, KeyError, TypeError, ValueError)
"""What a file raises that is damaged."""


class KnownNodes(NamedTuple):
    """Nodes that weights know.

    Attributes:
        count: N, how many the graph had.
        ids: (M,) text, those of the graph first; None: by their numbers, and M is N.
        kinds: (M,) text; None: all are of one kind.
        parts: (M,) the number of the part in `PARTS`, or `LEFT_OUT` or `UNLABELLED`; None: not
            said.
        trained: (M,) bool, whether the weights, or those they have started from, were trained on
            the node; None: not said.
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
        if kinds is None or self.kinds is None:
            own, theirs = self.ids, ids.astype(str)
        else:
            own, theirs = _of_kinds(self.kinds, self.ids), _of_kinds(kinds, ids)
        known, first = np.unique(own, return_index=True)
        found = Index(known).get_indexer(theirs)
        return np.where(found >= 0, first[found], -1)


def known_nodes(told: Mapping[str, Any], seed: int) -> KnownNodes:
    """Return what `nodes.json` of a run says of its nodes, as they were for one of its seeds.

    Raises:
        KeyError, TypeError, ValueError: it is damaged.
    """
    count, before = int(told["count"]), told.get("before") or {}
    ids, kinds = (
        None if told.get(key) is None else np.array([*told[key], *before.get(key, [])], str)
        for key in ("ids", "kinds")
    )
    if "count" not in told or "ids" not in told:
        raise ValueError("which nodes there were is not said")
    text = told.get("parts", {}).get(str(seed))
    if text is None:
        return KnownNodes(count, ids, kinds, None, None)
    parts = _codes(text + before.get("parts", ""))
    trained = parts == PARTS.index("train")
    if told.get("trained"):
        trained |= np.array([*told["trained"], *before.get("trained", "")]) == "1"
    if len({len(each) for each in (parts, trained, ids) if each is not None}) > 1:
        raise ValueError("it does not say as much of each node")
    return KnownNodes(count, ids, kinds, parts, trained)


def read_known(folder: Path) -> KnownNodes:
    """Return the nodes that weights in the folder of their run know, `RUN/seed-0`.

    Raises:
        OSError, KeyError, TypeError, ValueError: there is no such file, or it is damaged.
    """
    told = json.loads((folder.parent / NODES).read_bytes())
    return known_nodes(told, int(folder.name.removeprefix("seed-")))


def said_of_nodes(
    y: np.ndarray,
    ids: np.ndarray | None,
    kinds: np.ndarray | None,
    splits: Mapping[int, Mapping[str, np.ndarray]],
    before: tuple[KnownNodes, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Return what `nodes.json` of a run says; see `NODES`.

    Args:
        y: whether each node has a label, (N,) bool.
        ids: (N,) what they are called; None: by their numbers.
        kinds: (N,) text; None: all are of one kind.
        splits: of each seed the nodes of each part.
        before: the nodes that the weights know which the run starts from, and which of these each
            node is, as `KnownNodes.places` says; None: none.
    """
    said = {"ids": ids, "kinds": kinds}
    told = {key: None if each is None else each.tolist() for key, each in said.items()}
    parts = {str(seed): _parts(y, split) for seed, split in splits.items()}
    told |= {"count": len(y), "parts": parts}
    if before is None or before[0].trained is None or before[0].parts is None:
        return told
    then, places = before
    told["trained"] = _bits((places >= 0) & then.trained[places])
    gone = np.setdiff1d(np.arange(len(then.parts)), places)
    if len(gone) and ids is not None and (kinds is None) == (then.kinds is None):
        told["before"] = {
            "ids": then.ids[gone].tolist(),
            "parts": "".join(_CODES[then.parts[gone]]),
            "trained": _bits(then.trained[gone]),
            **({} if kinds is None else {"kinds": then.kinds[gone].tolist()}),
        }
    return told


def _parts(labelled: np.ndarray, split: Mapping[str, np.ndarray]) -> str:
    found = np.where(labelled, LEFT_OUT, UNLABELLED)
    for number, part in enumerate(PARTS):
        found[split[part]] = number
    return "".join(_CODES[found])


def _codes(text: str) -> np.ndarray:
    """Return the numbers that characters stand for; raise ValueError for others."""
    codes = {code: number for number, code in enumerate(_CODES.tolist())}
    if other := set(text) - codes.keys():
        raise ValueError(f"{other} are none of {[*codes]}")
    return np.array([codes[each] for each in text], np.int64)


def _bits(values: np.ndarray) -> str:
    return "".join(np.where(values, "1", "0"))


def _of_kinds(kinds: Sequence[str] | np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the kind and the id of nodes as one text each, (N,).

    It is the same whether or not the ids say the kind themselves, `kind:id`, as they do in a graph
    where two kinds share an id.
    """
    told = zip(map(str, kinds), ids.astype(str).tolist(), strict=True)
    return np.array([f"{kind}:{each.removeprefix(f'{kind}:')}" for kind, each in told])
