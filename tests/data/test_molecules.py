"""Molecules: tables of SMILES, read by RDKit as graphs of atoms and bonds; their scaffolds."""

import logging
import re
import sys

import numpy as np
import pandas
import pytest
import torch

import zoo
from zoo import ZooError
from zoo.canonical_form import FEATURE
from zoo.data.load import load_data
from zoo.data.splits import PARTS, make_split, split_of
from zoo.data.tables.smiles import ATOM, BOND, column_names, encode, scaffolds

chem = pytest.importorskip("rdkit.Chem")

ODD = [
    "CCO",
    "[Na+].[Cl-]",  # two fragments, no bond
    "O",  # one atom
    "[13CH4]",
    "[2H]O[2H]",  # hydrogens that are atoms
    "[H][H]",
    "F/C=C/F",
    "N[C@@H](C)C(=O)O",
    "[CH3]",  # a radical
    "*c1ccccc1",  # any atom
    "O=[N+]([O-])c1ccc2[nH]ccc2c1",
    "F[P-](F)(F)(F)(F)F",
    "C#N",
]


def table(path, rows, header="smiles,y"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def test_atoms_and_bonds_have_the_features_of_ogb():
    """The one that is 1 of each property is that whose embedding OGB's encoders would sum."""
    from ogb.utils.features import atom_to_feature_vector, bond_to_feature_vector

    molecules = [chem.MolFromSmiles(smiles) for smiles in ODD]
    for things, properties, twin in (
        ([atom for one in molecules for atom in one.GetAtoms()], ATOM, atom_to_feature_vector),
        ([bond for one in molecules for bond in one.GetBonds()], BOND, bond_to_feature_vector),
    ):
        columns = encode(things, properties)
        cuts = np.cumsum([len(one.columns) for one in properties])[:-1]
        places = [part.argmax(axis=1) for part in np.split(columns, cuts, axis=1)]
        assert np.stack(places, axis=1).tolist() == [twin(thing) for thing in things]
        assert (columns.sum(axis=1) == len(properties)).all()
    assert {"atom is C", "degree 3", "charge -1", "hydrogens other"} <= {*column_names(ATOM)}


def test_any_molecule_is_a_graph(tmp_path):
    path = table(tmp_path / "odd.csv", [f"{smiles},{n}.5" for n, smiles in enumerate(ODD)])
    data = load_data(path)
    assert data.graphs.sizes.tolist() == [chem.MolFromSmiles(s).GetNumAtoms() for s in ODD]
    assert data.inputs == 174 and data.edge_dim == 13 and data.y.tolist()[1] == 1.5
    graph, x = data.batch(torch.tensor([0, 1]))
    names = data.feature_names
    assert x[:, names.index("atom is O")].tolist() == [0, 0, 1, 0, 0]
    assert graph.num_edges() == 4 + 5  # both ways, and a self-loop for each atom
    src, dst = graph.edges()
    bond = graph.edata[FEATURE][(src == 0) & (dst == 1)]
    assert bond[0, data.edge_feature_names.index("bond is single")] == 1
    assert load_data({"name": path, "labels": "ignore"}).y.tolist() == [-1] * len(ODD)


@pytest.mark.parametrize(
    ("header", "rows", "task", "labels"),
    [
        ("SMILES,active", ["C,0", "CC,1", "CCC,"], "graph-binary", [0, 1, -1]),
        ("smiles,a,b", ["C,0,1", "CC,,0", "O,1,"], "graph-multilabel", None),
        ("name,canonical_smiles,y", ["a,C,1", "b,CC,2.5", "c,O,"], "graph-regression", None),
        ("smiles,label", ["C,toxic", "CC,safe", "O,safe"], "graph-classification", [1, 0, 0]),
    ],
)
def test_the_labels_say_the_task(tmp_path, caplog, header, rows, task, labels):
    with caplog.at_level(logging.WARNING):
        data = load_data(table(tmp_path / "m.csv", rows, header))
    assert data.task == task and f"task {task}" in caplog.text
    assert labels is None or data.y.tolist() == labels
    if task == "graph-multilabel":
        np.testing.assert_array_equal(data.y, [[0, 1], [np.nan, 0], [1, np.nan]])


@pytest.mark.parametrize(
    ("rows", "header", "options", "words"),
    [
        (["CC(,1.5", "xx,2.5"], "smiles,y", {}, "can read none of the 2 SMILES: data row 1"),
        (["C,1", "CC,7"], "smiles,y", {}, "may be classes or amounts; write `task:"),
        (["C,1.5,2", "CC,7,3"], "smiles,y,z", {}, "say which is to be predicted, `label: z`"),
        (["C,1.5", "CC,?"], "smiles,y", {"label": "y", "task": "graph-regression"}, "is no number"),
        (["C,1.5"], "smiles,y", {"label": "x"}, "has no column 'x'"),
        (["C,1.5"], "mol,y", {"smiles": "molecule"}, "has no column 'molecule'"),
        (["C,0,1", "O,2,1"], "smiles,a,b", {"label": "a,b", "task": "graph-multilabel"}, "0 or 1"),
        ([], "smiles,y", {}, "write one for each molecule"),
        (["C;1.5"], "smiles;y", {}, "write `separator: ';'`"),
    ],
)
def test_what_is_wrong_gets_one_sentence(tmp_path, rows, header, options, words):
    with pytest.raises(ZooError) as error:
        load_data({"name": table(tmp_path / "m.csv", rows, header), **options})
    assert words in str(error.value) and "\n" not in str(error.value)


def test_without_rdkit_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(ZooError, match=r"pip install 'graph-transformer-zoo\[molecules\]'"):
        load_data(table(tmp_path / "m.csv", ["C,1.5"]))


def test_a_table_of_nodes_may_have_smiles(tmp_path):
    path = table(tmp_path / "n.csv", ["C,1.5,a", "CC,2.5,b"], "smiles,y,label")
    data = load_data({"name": path, "task": "node-classification", "columns": ["y"]})
    assert data.unit == "nodes"


RINGS = ["c1ccccc1CC", "c1ccccc1O", "c1ccccc1N", "C1CCCCC1", "CC1CCCCC1", "CCO", "CCN", "CC",
         "c1ccncc1", "C1CC1"]  # fmt: skip


def by_scaffold(smiles, shares):
    """As MoleculeNet: the largest scaffolds first, each into the first part that has room."""
    groups = {}
    for row, scaffold in enumerate(scaffolds(tuple(smiles))):
        groups.setdefault(scaffold, []).append(row)
    first, second = shares[0] * len(smiles), (shares[0] + shares[1]) * len(smiles)
    train, val, test = [], [], []
    for group in sorted(groups.values(), key=lambda rows: (len(rows), rows[0]), reverse=True):
        if len(train) + len(group) <= first:
            train += group
        elif len(train) + len(val) + len(group) <= second:
            val += group
        else:
            test += group
    return [sorted(part) for part in (train, val, test)]


def test_scaffolds_stay_together():
    assert scaffolds(("c1ccccc1CC", "CCO", "C[C@H]1CCCO1")).tolist() == ["c1ccccc1", "", "C1CCOC1"]
    y, spec = torch.zeros(10, dtype=torch.int64), {"name": "scaffold", "train": 60, "val": 20,
                                                   "test": 20}  # fmt: skip
    for smiles in (RINGS, RINGS[::-1], [*RINGS[5:], *RINGS[:5]]):
        split = make_split(spec, y, None, seed=3, smiles=tuple(smiles))
        parts = [getattr(split, part).tolist() for part in PARTS]
        assert parts == by_scaffold(smiles, (0.6, 0.2))
    others = {
        make_split({**spec, "order": "random"}, y, None, seed=seed, smiles=tuple(RINGS)).sha256
        for seed in range(5)
    }
    assert len(others) > 1
    with pytest.raises(ZooError, match="scaffolds are of molecules"):
        make_split("scaffold", y, None, seed=0)


@pytest.mark.slow
def test_the_split_of_bbbp_is_by_scaffold(real_graph):
    data = real_graph("bbbp")
    assert (len(data.y), len(data.unread), data.metric) == (2039, 11, "roc-auc")
    split = split_of(data, data.split, 0)
    assert [len(getattr(split, part)) for part in PARTS] == [1631, 204, 204]
    assert [getattr(split, part).tolist() for part in PARTS] == by_scaffold(data.smiles, (0.8, 0.1))


def test_every_row_of_a_file_has_a_row_of_predictions(tmp_path, command):
    rows = [f"{'C' * (1 + n % 9)}{'O' * (n % 2)},{n % 9}.5" for n in range(40)]
    table(tmp_path / "carbon.csv", rows)
    settings = ["dim=8", "layers=1"]
    options = [f"model.{setting}" for setting in settings]
    code, _, said = command("train", "gine", "dataset=carbon.csv", *options, "train.epochs=2",
                            "seeds=[0]")  # fmt: skip
    assert code == 0 and "what is predicted is y, task graph-regression" in said
    (run,) = (tmp_path / "runs").iterdir()
    table(tmp_path / "new.csv", ["a,CCO", "b,C1CC", "c,", "d,[Na+].[Cl-]"], "id,SMILES")
    code, _, said = command("predict", run, "--data", "new.csv", "--out", "answers.csv")
    assert code == 0 and "cannot read 2 of 4 SMILES" in said
    assert "data row 2, 'C1CC' (it is no SMILES); data row 3, '' (it is empty)" in said
    answers = pandas.read_csv(tmp_path / "answers.csv")
    assert answers["id"].tolist() == [*"abcd"]
    assert answers["value"].isna().tolist() == [False, True, True, False]
    table(tmp_path / "bare.csv", ["C1CC", "CCO"], "SMILES")
    assert command("predict", run, "--data", "bare.csv", "--out", "bare-answers.csv")[0] == 0
    answers = pandas.read_csv(tmp_path / "bare-answers.csv")
    assert answers["id"].tolist() == [0, 1] and answers["value"].isna().tolist() == [True, False]
    assert command("embed", run, "--data", "new.csv", "--out", "rows.npy")[0] == 0
    rows = np.load(tmp_path / "rows.npy")
    assert np.isnan(rows).any(axis=1).tolist() == [False, True, True, False]
    assert command("evaluate", run)[1].startswith("r2 ")
    embedded = zoo.embed(run, "new.csv").table()
    assert embedded["id"].tolist() == [*"abcd"]
    assert np.array_equal(embedded.drop(columns="id"), rows, equal_nan=True)
    code, out, _ = command("data", "check", "new.csv")
    assert code == 0 and "2 of 4 rows, no samples" in out
    table(tmp_path / "toxic.csv", [f"{'C' * (1 + n % 9)},{n % 2}" for n in range(99)], "smiles,t")
    code, _, said = command("finetune", run, "--data", "toxic.csv", "train.epochs=1")
    assert code == 0 and re.search(r"head.weight +fresh", said)


def test_molecules_in_memory_are_those_of_a_table(tmp_path, caplog):
    rows = ["CCO,1.5,a", "c1ccc,2.0,b", "c1ccsc1,,c"]
    read = load_data({"name": table(tmp_path / "m.csv", rows, "smiles,label,id")})
    smiles, y, ids = ["CCO", "c1ccc", "c1ccsc1"], [1.5, 2.0, float("nan")], ["a", "b", "c"]
    made = zoo.Dataset.from_smiles(smiles, y, ids=ids, name="m")
    assert (made.task, made.unread, made.smiles) == (read.task, read.unread, read.smiles)
    assert made.ids.tolist() == read.ids.tolist() == ["a", "c"] and made.name == "m"
    for one in ("x", "y"):
        torch.testing.assert_close(getattr(made, one), getattr(read, one), equal_nan=True)
    several = pandas.DataFrame({"toxic": [0, 1], "soluble": [1, None]}, index=[7, 9])
    targets = zoo.Dataset.from_smiles(pandas.Series(["CC", "CO"], index=[4, 5]), several)
    assert targets.task == "graph-multilabel" and targets.labels == ("toxic", "soluble")
    assert targets.y.nan_to_num(9).tolist() == [[0, 1], [1, 9]]
    model = zoo.create_model("gine", made.inputs, 1, dim=4, layers=1, edge_dim=made.edge_dim)
    bare = zoo.Dataset.from_smiles(smiles)
    assert not bare.y.ge(0).any() and len(zoo.predict(model.eval(), bare).table()) == 3
    for wrong, labels, said in [
        ("CCO", None, "a list of SMILES"),
        (pandas.DataFrame({"smiles": smiles}), None, "a list of SMILES"),
        (smiles, [1, 0], "3 SMILES and labels of 2"),
        (["nonsense"], None, "can read none"),
    ]:
        with pytest.raises(ZooError, match=said):
            zoo.Dataset.from_smiles(wrong, labels)
