"""Read a folder of tables of several kinds of nodes: `nodes-<kind>` and `edges-<name>`."""

import dataclasses
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from zoo.datasets.files.graph_arrays import GraphArrays
from zoo.datasets.files.node_kinds import Edges, Relation, joined, labels_of_kinds
from zoo.datasets.files.objects import join
from zoo.datasets.tables.columns import OF_NODES, OF_TEXT, Columns
from zoo.datasets.tables.frames import SUFFIXES, Written, header
from zoo.errors import ZooError, suggestion

Ends = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray | None]]


def kinds_of(path: Path) -> dict[str, Path]:
    """Return the tables of nodes of a folder by their kinds; none where nodes are of one kind."""
    return _tables(path, "nodes")


def read_kinds(
    path: Path,
    choice: Columns,
    written: Written,
    read_nodes: Callable[[Path, Columns], GraphArrays],
    read_edges: Callable[[Path], Ends],
) -> GraphArrays:
    """Return the graph of a folder of tables.

    The edges of `edges-customers-products` lead from customers to products, as do those of
    `edges-customers-buy-products`; of another name they lead wherever their ids are found, which
    no two kinds may share then. Of several kinds that a name begins or ends with, the longest.

    Args:
        path: of the folder.
        choice: what columns are; each is looked for in the tables that have it.
        written: how a CSV is.
        read_nodes: reads a table of nodes.
        read_edges: reads a table of edges: the ids of both ends, and what edges have.

    Raises:
        ZooError: no table has a column that is named, a name says two pairs of kinds, or edges
            lead to no node, or to several.
    """
    tables, edges = kinds_of(path), _tables(path, "edges")
    if not edges:
        raise ZooError(f"the folder has no edges-NAME.csv beside nodes-{next(iter(tables))}.")
    names = {kind: header(each, written) for kind, each in tables.items()}
    _need(choice, names)
    one = isinstance(choice.label, str)
    labels = labels_of_kinds(choice.label, names) if one else dict.fromkeys(names, choice.label)
    own = {kind: _of_table(choice, names[kind], labels, kind) for kind in tables}
    kinds = {kind: read_nodes(each, own[kind]) for kind, each in tables.items()}
    called = {kind: ", ".join(each.labels(names[kind])) for kind, each in own.items()}
    for kind, each in kinds.items():
        if each.ids is None:
            raise ZooError(f"{tables[kind].name} has no column {choice.id!r}; edges need ids.")
    relations: dict[Relation, Edges] = {}
    for name, table in edges.items():
        source, target, found = read_edges(table)
        relation = _by_name(name, kinds, table.name)
        relation = relation or _by_ids(name, kinds, source, target, table.name)
        ends = [
            join(kinds[kind].ids, (ids, ids), table.name)[:, 0]
            for kind, ids in ((relation[0], source), (relation[2], target))
        ]
        relations[relation] = Edges(np.stack(ends, axis=1), found["weights"])
    return joined(kinds, relations, called)


def _tables(path: Path, start: str) -> dict[str, Path]:
    tables: dict[str, Path] = {}
    for each in sorted(each for end in SUFFIXES for each in path.glob(f"{start}-*{end}")):
        first = tables.setdefault(each.stem.removeprefix(f"{start}-"), each)
        if first != each:
            raise ZooError(f"the folder has {first.name} and {each.name}; keep one of them.")
    return tables


def _need(choice: Columns, names: dict[str, list[str]]) -> None:
    """Refuse columns that are named and in no table."""
    held = sorted({name for own in names.values() for name in own})
    several = () if isinstance(choice.label, str) else ("label",)
    for option in (*several, "columns", *OF_NODES, *OF_TEXT):
        given = getattr(choice, option)
        for name in [given] if isinstance(given, str) else given or []:
            if name not in held:
                raise ZooError(
                    f"{option}: no table has the column {name!r}; {suggestion(name, held)}"
                )


def _of_table(
    choice: Columns, names: list[str], labels: dict[str, str | list[str] | None], kind: str
) -> Columns:
    """Return what of a choice is about the columns of the table of one kind of nodes.

    What the labels are called is said by kind; those of other kinds are not looked at.
    """
    own: dict = {"unlabelled": choice.unlabelled or kind not in labels}
    for option in ("label", *OF_NODES):
        given = getattr(choice, option)
        given = labels.get(kind, next(iter(labels.values()))) if option == "label" else given
        wanted = [given] if isinstance(given, str) else given or []
        own[option] = given if set(wanted) <= set(names) else None
    for option in ("columns", *OF_TEXT):
        given = getattr(choice, option)
        own[option] = None if given is None else [each for each in given if each in names]
    own["id"] = choice.id if choice.id in names else None
    return dataclasses.replace(choice, **own)


def _by_name(name: str, kinds: Collection[str], where: str) -> Relation | None:
    """Return the kinds that the name of a table of edges says: `customers-buy-products`.

    A name that is two kinds and no more goes first, and then the longest kinds.

    Raises:
        ZooError: it is two pairs of kinds.
    """
    sources = [each for each in kinds if name.startswith(f"{each}-")]
    targets = [each for each in kinds if name.endswith(f"-{each}")]
    pairs = [(source, target) for source in sources for target in targets]
    exact = [each for each in pairs if name == "-".join(each)]
    apart = [each for each in pairs if len(name) >= len("--".join(each))]
    longest = [
        (source, target) for source, target in apart
        if all(len(source) >= len(a) and len(target) >= len(b) for a, b in apart)
    ]  # fmt: skip
    found = exact or longest or apart
    if len(found) > 1:
        said = " or ".join(f"from {source} to {target}" for source, target in found)
        raise ZooError(f"the name of {where} may mean {said}; call one of these kinds otherwise.")
    return (found[0][0], name, found[0][1]) if found else None


def _by_ids(
    name: str, kinds: dict[str, GraphArrays], source: np.ndarray, target: np.ndarray, where: str
) -> Relation:
    """Return the kinds that the ids at the ends of edges are of."""
    found = []
    for ids in (source, target):
        own = [kind for kind, each in kinds.items() if _hold(each.ids, ids)]
        if len(own) != 1:
            of = f"those of {' and '.join(own)}" if own else "of no single kind"
            raise ZooError(
                f"{where}: the ids at {'its first' if ids is source else 'its second'} ends are "
                f"{of}; name the table by the kinds, such as edges-{'-'.join(list(kinds)[:2])}.csv."
            )
        found.append(own[0])
    return found[0], name, found[1]


def _hold(known: np.ndarray, ids: np.ndarray) -> bool:
    return bool(np.isin(ids.astype(str), known.astype(str)).all())
