"""Molecules: a table with a column of SMILES, read by RDKit as a set of graphs of atoms and bonds.

Atoms and bonds have the properties that the Open Graph Benchmark gives them (Hu et al., arXiv
2005.00687; `ogb.utils.features`), each in columns of 0 and 1: a linear map of these is the sum of
embeddings of the properties there. The columns are the same whatever molecules a table has, so that
weights of one set read another.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.data.files.graph_arrays import NO_EDGES, check_ids
from zoo.data.files.graph_set_arrays import GraphSetArrays, check_graph_set
from zoo.data.tables.cells import kind_of, parse_texts
from zoo.data.tables.columns import Columns
from zoo.data.tables.nodes_and_edges import label_words, read_node_table
from zoo.data.tables.read import (
    CsvFormat,
    Decimal,
    check_columns,
    is_index,
    read_header,
    read_table,
)
from zoo.errors import ZooError, brief, optional
from zoo.tasks.labels import (
    GRAPH_BINARY,
    GRAPH_MULTILABEL,
    GRAPH_REGRESSION,
    GRAPHS,
    check_fit,
    check_labels,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import Series

_SHOWN = 3  # molecules that are named in one sentence
_LOG = logging.getLogger(__name__)


class Property(NamedTuple):
    """A property of atoms, or bonds, and the columns that are 1 for one value each.

    Attributes:
        read: returns the value of an atom, or bond.
        columns: value to the name of its column; the last one is of all other values too.
    """

    read: Callable[[Any], Hashable]
    columns: Mapping[Hashable, str]


def _numbers(name: str, first: int, last: int) -> dict[Hashable, str]:
    return {n: f"{name} {n}" for n in range(first, last + 1)} | {"other": f"{name} other"}


_SYMBOLS = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se "
    "Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy "
    "Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf "
    "Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og"
)

ATOM = (
    Property(
        lambda atom: atom.GetSymbol(),
        {**{symbol: f"atom is {symbol}" for symbol in _SYMBOLS.split()}, "other": "atom is other"},
    ),
    Property(
        lambda atom: atom.GetChiralTag().name,
        {
            "CHI_UNSPECIFIED": "chirality none",
            "CHI_TETRAHEDRAL_CW": "chirality clockwise",
            "CHI_TETRAHEDRAL_CCW": "chirality counterclockwise",
            "CHI_OTHER": "chirality unknown",
            "other": "chirality other",
        },
    ),
    Property(lambda atom: atom.GetTotalDegree(), _numbers("degree", 0, 10)),
    Property(lambda atom: atom.GetFormalCharge(), _numbers("charge", -5, 5)),
    Property(lambda atom: atom.GetTotalNumHs(), _numbers("hydrogens", 0, 8)),
    Property(lambda atom: atom.GetNumRadicalElectrons(), _numbers("radical electrons", 0, 4)),
    Property(
        lambda atom: atom.GetHybridization().name,
        {word: f"hybridization {word}" for word in ("SP", "SP2", "SP3", "SP3D", "SP3D2", "other")},
    ),
    Property(
        lambda atom: atom.GetIsAromatic(),
        {False: "atom is not aromatic", True: "atom is aromatic"},
    ),
    Property(lambda atom: atom.IsInRing(), {False: "atom in no ring", True: "atom in a ring"}),
)
"""The nine properties of atoms."""

BOND = (
    Property(
        lambda bond: bond.GetBondType().name,
        {
            word: f"bond is {word.lower()}"
            for word in ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "other")
        },
    ),
    Property(
        lambda bond: bond.GetStereo().name,
        {
            "STEREONONE": "stereo none",
            "STEREOZ": "stereo Z",
            "STEREOE": "stereo E",
            "STEREOCIS": "stereo cis",
            "STEREOTRANS": "stereo trans",
            "STEREOANY": "stereo any",
        },
    ),
    Property(
        lambda bond: bond.GetIsConjugated(),
        {False: "bond is not conjugated", True: "bond is conjugated"},
    ),
)
"""The three properties of bonds."""


def column_names(properties: Sequence[Property]) -> tuple[str, ...]:
    """Return the names of the columns of properties."""
    return tuple(name for one in properties for name in one.columns.values())


def encode(things: Sequence[Any], properties: Sequence[Property]) -> np.ndarray:
    """Return columns (n, C) fp32 of n atoms or bonds: of each property one is 1."""
    columns = np.zeros((len(things), len(column_names(properties))), np.float32)
    rows, start = np.arange(len(things)), 0
    for one in properties:
        place_of, last = {value: n for n, value in enumerate(one.columns)}, len(one.columns) - 1
        places = [place_of.get(one.read(thing), last) for thing in things]
        columns[rows, start + np.array(places, np.int64)] = 1
        start += len(one.columns)
    return columns


class Molecules(NamedTuple):
    """The graphs of S molecules of N atoms and E bonds together.

    Attributes:
        bonds: (E, 2) numbers of atoms, counted over all molecules; each bond once.
        owners: (N,) the molecule of each atom, 0 to S-1, in increasing order.
        atom_features: (N, 174) fp32.
        bond_features: (E, 13) fp32.
        read: (M,) bool: which of M SMILES have been read, S of them.
    """

    bonds: np.ndarray
    owners: np.ndarray
    atom_features: np.ndarray
    bond_features: np.ndarray
    read: np.ndarray


def molecules_of(smiles: Sequence[str], where: str) -> Molecules:
    """Return the graphs of SMILES; those that cannot be read are counted and told in one line.

    Hydrogens are no atoms of the graph but where SMILES needs them, as `[2H]` and `[H][H]`. A
    molecule may be of several fragments, `[Na+].[Cl-]`, and need not have bonds.

    Args:
        smiles: M of them.
        where: what they are called in messages.

    Raises:
        ZooError: RDKit is not installed, or can read none of them.
    """
    chem = optional("rdkit.Chem", "molecules", "molecules")
    with optional("rdkit.rdBase", "molecules", "molecules").BlockLogs():
        parsed = [chem.MolFromSmiles(text.strip()) for text in smiles]
        parsed = [molecule if molecule and molecule.GetNumAtoms() else None for molecule in parsed]
        read = np.array([molecule is not None for molecule in parsed], bool)
        rows = np.flatnonzero(~read)
        if len(rows):
            shown = "; ".join(
                f"data row {row + 1:,}, {brief(smiles[row], 60)} ({_reason(smiles[row].strip())})"
                for row in rows[:_SHOWN].tolist()
            )
            shown += f"; and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
    if not read.any():
        raise ZooError(f"{where}: RDKit can read none of the {len(read):,} SMILES: {shown}.")
    if len(rows):
        _LOG.warning(
            f"{where}: RDKit cannot read {len(rows):,} of {len(read):,} SMILES, which are left "
            f"out, an empty row in predictions: {shown}."
        )
    molecules = [molecule for molecule in parsed if molecule is not None]
    atoms = [atom for molecule in molecules for atom in molecule.GetAtoms()]
    sizes = np.array([molecule.GetNumAtoms() for molecule in molecules])
    starts = np.cumsum(sizes) - sizes
    bonds = [bond for molecule in molecules for bond in molecule.GetBonds()]
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
    counts = [molecule.GetNumBonds() for molecule in molecules]
    return Molecules(
        np.array(ends, np.int64).reshape(-1, 2) + np.repeat(starts, counts)[:, None]
        if ends else NO_EDGES,
        np.repeat(np.arange(len(sizes)), sizes),
        encode(atoms, ATOM),
        encode(bonds, BOND),
        read,
    )  # fmt: skip


def _reason(smiles: str) -> str:
    """Return why RDKit cannot read a SMILES."""
    from rdkit import Chem

    if not smiles:
        return "it is empty"
    raw = Chem.MolFromSmiles(smiles, sanitize=False)
    problems = [] if raw is None else Chem.DetectChemistryProblems(raw)
    return problems[0].Message().strip().rstrip(".") if problems else "it is no SMILES"


@functools.lru_cache(maxsize=4)
def scaffolds(smiles: tuple[str, ...]) -> np.ndarray:
    """Return the Bemis-Murcko scaffold of each molecule (S,), as SMILES without stereo.

    It is what is left without side chains: rings, and what links them; "" where there is no ring.
    Bemis and Murcko, The properties of known drugs, J. Med. Chem. 1996.

    Raises:
        ZooError: RDKit is not installed.
    """
    murcko = optional("rdkit.Chem.Scaffolds.MurckoScaffold", "molecules", "split scaffold")
    with optional("rdkit.rdBase", "molecules", "split scaffold").BlockLogs():
        return np.array([murcko.MurckoScaffoldSmiles(smiles=text.strip()) for text in smiles])


# The table


class MoleculeTable(NamedTuple):
    """A table of M rows, of which S have molecules that were read.

    Attributes:
        graphs: the molecules, with their labels.
        smiles: of each (S,).
        ids: (S,) what each is called; None: there is no such column, and all rows were read.
        masks: of a split that comes with the table, part to (splits, S) bool; None: there is none.
        unread: the other rows to their ids.
    """

    graphs: GraphSetArrays
    smiles: tuple[str, ...]
    ids: np.ndarray | None
    masks: dict[str, np.ndarray] | None
    unread: dict[int, Any]


def smiles_column(names: Sequence[str]) -> str | None:
    """Return the column called smiles in whatever case, or the only one with this in its name.

    None if there is none.

    >>> smiles_column(["id", "Canonical_SMILES", "logP"])
    'Canonical_SMILES'
    """
    called = [name for name in names if "smiles" in name.lower()]
    exact = [name for name in called if name.strip().lower() == "smiles"]
    return exact[0] if exact else called[0] if len(called) == 1 else None


def has_smiles(path: "Path", csv_format: CsvFormat) -> bool:
    """Return whether a file is a table with a column called smiles."""
    try:
        return smiles_column(read_header(path, csv_format)) is not None
    except (ZooError, OSError):  # which is told where the file is read
        return False


def read_molecule_table(
    path: "Path", smiles: str | None, choice: Columns, csv_format: CsvFormat
) -> MoleculeTable:
    """Read a table of molecules.

    Args:
        path: a `.csv`, `.tsv` or `.parquet`.
        smiles: the column of SMILES; None: that which is called so.
        choice: what the other columns are.
        csv_format: how a CSV is written.

    Raises:
        ZooError: a column is missing, labels are not those of the task, no SMILES can be read.
    """
    names = read_header(path, csv_format)
    smiles = smiles or smiles_column(names) or "smiles"
    check_columns([smiles], names, path.name, "smiles")
    texts = parse_texts(read_table(path, {smiles}, [smiles], csv_format)[smiles], None).tolist()
    if not texts:
        raise ZooError(f"{path.name} has no rows; write one for each molecule.")
    label, task = choose_labels(path, smiles, choice, csv_format)
    choice = dataclasses.replace(choice, label=label, task=task)
    rows = read_node_table(path, choice, csv_format)
    molecules = molecules_of(texts, path.name)
    read, count = molecules.read, len(texts)
    ids = np.arange(count) if rows.ids is None else check_ids(rows.ids, count)
    labels = check_labels(rows.labels, task)
    check_fit(labels, task or GRAPHS)
    graphs = GraphSetArrays(
        molecules.bonds, molecules.owners, molecules.atom_features, labels[read], rows.label_names,
        molecules.bond_features, column_names(ATOM), column_names(BOND), task=task or GRAPHS,
    )  # fmt: skip
    return MoleculeTable(
        check_graph_set(graphs),
        tuple(text for text, ok in zip(texts, read, strict=True) if ok),
        None if rows.ids is None and read.all() else ids[read],
        rows.masks and {part: mask[:, read] for part, mask in rows.masks.items()},
        {row: ids[row].item() for row in np.flatnonzero(~read).tolist()},
    )


def choose_labels(
    path: "Path", smiles: str, choice: Columns, csv_format: CsvFormat
) -> tuple[list[str], str | None]:
    """Return the columns of labels of a table of molecules, and the task; what is guessed is told.

    Where no column is named and none is called `label`, it is the only other column of numbers, or
    all of them where these hold nothing but 0 and 1. Where no task is named, one column of 0 and 1
    is binary, several are many targets, fractions are numbers to predict and words are classes.

    Args:
        path: of the table.
        smiles: the column of SMILES.
        choice: which columns are labels, ids or the split, and what stands for unknown.
        csv_format: how a CSV is written.

    Raises:
        ZooError: there are several columns of numbers, or whole numbers that may be classes.
    """
    roles = choice.roles(names := read_header(path, csv_format))
    if choice.unlabelled:
        return [], choice.task
    columns = roles.labels
    check_columns(columns, names, path.name, "label")
    others = {smiles, choice.id, roles.split, *roles.masks}
    wanted = columns or [name for name in names if not (name in others or is_index(name))]
    table = read_table(path, {*columns}, wanted, csv_format)
    if not columns:
        wanted = [name for name in wanted if kind_of(table[name]) == "number"]
    values = {name: _known_values(table[name], choice) for name in wanted}
    if not columns and len(wanted) > 1 and not all(map(_is_binary, values.values())):
        shown = ", ".join(map(repr, wanted[:5])) + (", ..." if len(wanted) > 5 else "")
        raise ZooError(
            f"{path.name}: several columns hold numbers, {shown}; say which is to be predicted, "
            f"`label: {wanted[-1]}`, or several, `label: [{wanted[-2]}, {wanted[-1]}]`."
        )
    task = choice.task or _infer_task(values, path.name, choice.decimal)
    if task and (not columns or not choice.task):
        shown = ", ".join(wanted[:3]) + (f" and {len(wanted) - 3} more" if len(wanted) > 3 else "")
        _LOG.warning(f"{path.name}: what is predicted is {shown}, task {task}.")
    return wanted, task


def _known_values(column: "Series", choice: Columns) -> np.ndarray:
    """Return the different labels of a column as text, without those that are unknown."""
    words = np.unique(label_words(column, choice))
    return words[np.char.strip(words) != ""]


def _is_binary(values: np.ndarray) -> bool:
    words = np.char.strip(np.char.lower(values))
    return {*words.tolist()} <= {"0", "1", "0.0", "1.0", "false", "true"}


def _infer_task(values: Mapping[str, np.ndarray], where: str, decimal: Decimal) -> str | None:
    """Return the task of labels (name to their different values); None where nothing is known."""
    if not any(map(len, values.values())):
        return None
    if all(map(_is_binary, values.values())):
        return GRAPH_BINARY if len(values) == 1 else GRAPH_MULTILABEL
    words = np.concatenate([*values.values()])
    words = np.char.replace(words, ",", ".") if decimal == "comma" else words
    try:
        numbers = words.astype(float)
    except ValueError:
        return GRAPHS
    if (numbers[np.isfinite(numbers)] % 1 != 0).any():
        return GRAPH_REGRESSION
    raise ZooError(
        f"{where}: {', '.join(map(repr, values))} holds whole numbers, such as {numbers[0]:g}, "
        f"which may be classes or amounts; write `task: {GRAPHS}` or `task: {GRAPH_REGRESSION}`."
    )
