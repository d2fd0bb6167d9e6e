"""SMILES of a table, read by RDKit as a set of graphs of atoms and bonds.

Atoms and bonds have the properties that the Open Graph Benchmark gives them (Hu et al., arXiv
2005.00687; `ogb.utils.features`), each in columns of 0 and 1: a linear map of these is the sum of
embeddings of the properties there. The columns are the same whatever molecules a table has, so that
weights of one set read another.
"""

import functools
import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zoo.data.files.graph_arrays import GraphSetArrays
from zoo.errors import ZooError, brief, optional

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


def molecules_of(smiles: Sequence[str], where: str) -> tuple[GraphSetArrays, np.ndarray]:
    """Return the graphs of SMILES; those that cannot be read are counted and told in one line.

    Of M SMILES the S that have been read are a set of graphs, whose labels are unknown; which they
    are is said for each, (M,) bool. A row of edges is a bond, each once.

    Hydrogens are no atoms of the graph but where SMILES needs them, as `[2H]` and `[H][H]`. A
    molecule may be of several fragments, `[Na+].[Cl-]`, and need not have bonds.

    Raises:
        ZooError: RDKit is not installed, or can read none of them.
    """
    chem = optional("rdkit.Chem", "molecules", "a table of molecules")
    with optional("rdkit.rdBase", "molecules", "a table of molecules").BlockLogs():
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
    return GraphSetArrays(
        np.array(ends, np.int64).reshape(-1, 2) + np.repeat(starts, counts)[:, None],
        np.repeat(np.arange(len(sizes)), sizes),
        encode(atoms, ATOM),
        np.full(len(sizes), -1),
        edge_features=encode(bonds, BOND),
        feature_names=column_names(ATOM),
        edge_feature_names=column_names(BOND),
    ), read  # fmt: skip


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
