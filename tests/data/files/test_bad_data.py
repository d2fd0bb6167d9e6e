"""What is no graph is answered with one paragraph, and no file is touched."""

import gzip
import hashlib
import json
import os
import pickle
import shutil

import numpy as np
import pandas
import pyarrow
import pytest
import torch
from needs_dgl import needs_dgl
from pyarrow import parquet
from quick import every
from scipy import sparse

from zoo import ZooError, load_data, load_graph
from zoo.data.load import read_graph
from zoo.data.load.check import check

NODES = "id,age,score,label\nann,31,0.5,dog\nbob,25,0.25,cat\ncid,44,1.5,\ndan,19,2,dog\n"
EDGES = "source,target\nann,bob\nbob,cid\ncid,dan\n"


def tables(nodes=NODES, edges=EDGES, suffix="csv"):
    """A folder of two tables, text or bytes; None leaves one out."""

    def write(folder):
        for name, content in (("nodes", nodes), ("edges", edges)):
            if content is not None:
                raw = content if isinstance(content, bytes) else content.encode()
                (folder / f"{name}.{suffix}").write_bytes(raw)
        return folder

    return write


def frames(nodes, edges=None, cut=None):
    def write(folder):
        pandas.DataFrame(nodes).to_parquet(folder / "nodes.parquet")
        edges_ = edges or {"source": ["a"], "target": ["b"]}
        pandas.DataFrame(edges_).to_parquet(folder / "edges.parquet")
        if cut:
            raw = (folder / "nodes.parquet").read_bytes()
            (folder / "nodes.parquet").write_bytes(raw[:cut] if cut > 0 else raw[-cut:])
        return folder

    return write


def named(*names):
    """A folder of Parquet whose nodes have columns of such names, which may be equal."""

    def write(folder):
        frames({"id": ["a", "b"]})(folder)
        columns = [["a", "b"], *[[1, 2] for _ in names[1:]]]
        parquet.write_table(pyarrow.table(columns, names=names), folder / "nodes.parquet")
        return folder

    return write


def file(name, content):
    def write(folder):
        raw = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(raw)
        return folder / name

    return write


def arrays(**given):
    def write(folder):
        whole = {"edges": np.array([[0, 1]]), "node_labels": np.array([0, 1]),
                 "node_features": np.eye(2)} | given  # fmt: skip
        np.savez(folder / "g.npz", **whole)
        return folder / "g.npz"

    return write


def saved(content):
    def write(folder):
        torch.save(content, folder / "g.pt")
        return folder / "g.pt"

    return write


def matrix(change):
    """A scipy file of a ring whose parts are changed afterwards, which scipy would trust."""

    def write(folder):
        ring = sparse.csr_array((np.ones(4), [1, 2, 3, 0], [0, 1, 2, 3, 4]), shape=(4, 4))
        parts = {"indices": ring.indices, "indptr": ring.indptr, "data": ring.data,
                 "shape": np.array([4, 4]), "format": np.array(b"csr")}  # fmt: skip
        np.savez(folder / "g.npz", **(parts | change))
        return folder / "g.npz"

    return write


class Trap:
    """A pickle that would make a file if anybody opened it."""

    def __reduce__(self):
        return (open, ("trapped", "w"))


MTX = "%%MatrixMarket matrix coordinate pattern general\n"
XML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
BOMB = (
    '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + each)} "{f"&{chr(97 + each)};" * 10}">' for each in range(12))
    + "]><graphml>&m;</graphml>"
)

BAD = {
    # tables of text
    "no edges": (tables(edges=None), ["no edges.csv", "nodes.csv"]),
    "no nodes": (tables(nodes=None), ["no nodes.csv"]),
    "an empty folder": (lambda folder: folder, ["nothing"]),
    "no id": (tables(NODES.replace("id,", "who,", 1)), ["'id'", "id: COLUMN", "'who'"]),
    "no source": (tables(edges="a,b\nann,bob\n"), ["'source'", "source: COLUMN"]),
    "an id twice": (tables(NODES + "ann,1,1,dog\n"), ["'ann'", "rows 1 and 5"]),
    "an id missing": (tables(NODES + ",1,1,dog\n"), ["'id'", "row 5"]),
    "an end missing": (tables(edges=EDGES + "ann,\n"), ["'target'", "row 4"]),
    "an edge to nobody": (tables(edges=EDGES + "ann,zoe\n"), ["row 4", "'zoe'"]),
    "ids of numbers, edges of words": (
        tables("id,x\n1,2\n2,3\n", "source,target\n1,two\n"), ["'two'"]),
    "an endless id": (tables(NODES + "e" * 5000 + ",1,1,dog\n"), ["5,000 characters"]),
    "a fraction as an id": (tables("id,x\n1,2\n2,3\n", "source,target\n1,2.0\n"), ["'2.0'"]),
    "words among numbers": (tables(NODES + "eve,old,1,dog\n"), ["'age'", "'old'", "line 6"]),
    "UTF-16": (tables(NODES.encode("utf-16")), ["UTF-16", "UTF-8"]),
    "UTF-16 without a mark": (tables(NODES.encode("utf-16-le")), ["binary", "UTF-8"]),
    "latin-1": (tables("id,x\njosé,1\n".encode("latin-1")), ["UTF-8", "column #0: Row #2"]),
    "a latin-1 header": (tables("id,âge\na,1\n".encode("latin-1")), ["UTF-8"]),
    "an empty table": (tables(nodes=b""), ["nodes.csv", "empty"]),
    "an empty table of edges": (tables(edges=b"\n"), ["edges.csv", "empty"]),
    "a header only": (tables("id,age,label\n"), ["no rows"]),
    "a header without its line's end": (tables("id,age,label"), ["no rows"]),
    "semicolons": (tables(NODES.replace(",", ";")), ["separator: ';'"]),
    "tabs": (tables(NODES.replace(",", "\t")), ["separator: tab"]),
    "lines between cells": (tables(NODES.replace(",", "|")), ["separator: '|'"]),
    "a packed table": (file("nodes.csv.gz", gzip.compress(NODES.encode())), ["gzip", "unpack it"]),
    "a column twice": (tables(NODES.replace("score", "age")), ["'age'", "rename"]),
    "a row too long": (tables(NODES + "eve,1,1,dog,5\n"), ["Row #6", "Expected 4"]),
    "a row too short": (tables(NODES + "eve,1\n"), ["Row #6", "Expected 4"]),
    "a quote left open": (tables(NODES + '"eve,1,1,dog\n'), ["a cell in line 6", "as line 6"]),
    "two quotes left open": (
        tables(NODES + '"5 inch,1,1,dog\nfay,1,1,cat\n"6 inch,2,1,cat\n'),
        ["a cell in line 6", "as line 8 shows"]),
    "a quote inside of quotes": (tables(NODES + '"5" wide",1,1,dog\n'), ["as line 6 shows"]),
    "Excel's word for the separator": (
        tables("sep=;\n" + NODES.replace(",", ";")), ["'sep=;'", "delete the first line"]),
    "an id missing, of one column": (tables("id\nann\n\nbob\n\n"), ["'id'", "in 1 rows", "row 2"]),
    "classes but for a blank": (tables(NODES + "eve,1,1,dog \n"), ["'dog' and 'dog '", "one way"]),
    "classes of one number": (
        tables("id,x,label\na,1,1\nb,2,1.0\nc,3,0\n", "source,target\na,b\n"),
        ["'1' and '1.0'", "one way"]),
    "an infinite feature": (tables(NODES + "eve,inf,1,dog\n"), ["'age'", "eve", "not finite"]),
    "a number past float32": (tables(NODES + "eve,1e300,1,dog\n"), ["'age'", "eve"]),
    "a feature missing": (tables(NODES + "eve,,1,dog\n"), ["'age'", "eve", "row 4"]),
    "zeros in the text": (tables(NODES + "eve,\0,1,dog\n"), ["'age'"]),
    "labels of fractions": (tables(NODES + "eve,1,1,0.5\n").__call__ and
                            tables("id,x,label\na,1,0.5\nb,2,1.5\n", "source,target\na,b\n"),
                            ["0.5", "node-regression"]),
    "a split of other words": (
        tables("id,x,split\na,1,train\nb,2,valid\n"), ["'valid'", "'val'"]),
    "weights": (tables(edges="source,target,weight\nann,bob,2\n"), ["weight", "weights: ignore"]),
    "dates": (tables("id,born\na,2001-05-01\n", "source,target\n"),
              ["'born'", "dates: [born]", "time: born"]),
    "two tables of nodes": (
        lambda folder: (tables()(folder), tables(edges=None, suffix="tsv")(folder))[0],
        ["nodes.csv and nodes.tsv"]),
    "a folder called nodes.csv": (
        lambda folder: ((folder / "nodes.csv").mkdir(), folder)[1], ["no nodes.csv"]),
    "numbers without names": (
        file("nodes.csv", "1.5,-2,3\n2,3,4\n5,6,8\n"), ["numbers alone, 1.5, -2, 3;", "Write"]),
    "edges without names": (
        file("e.csv", "0,1\n0,2\n1,2\n"), ["numbers alone, 0, 1;", "If its rows are edges, write"]),
    "edges alone": (
        file("e.tsv", "src\tdst\tweight\n0\t1\t2\n"), ["those of edges", "`label: COLUMN`"]),
    "edges alone in Parquet": (
        lambda folder: frames({"x": [1]}, {"Source": [0], "Target": [1]})(folder) / "edges.parquet",
        ["Source, Target alone", "edges.csv"]),
    "Excel": (file("nodes.xlsx", b"PK\x03\x04"), ["workbook of Excel", ".csv"]),
    # Parquet
    "truncated Parquet": (
        frames({"id": ["a", "b"], "x": [1, 2]}, cut=300), ["cannot be read as Parquet", "footer"]),
    "beheaded Parquet": (frames({"id": ["a", "b"], "x": [1, 2]}, cut=-300), ["Parquet"]),
    "text called Parquet": (tables(suffix="parquet"), ["nodes.parquet", "Parquet"]),
    "ids of NaN": (frames({"id": [1.0, np.nan], "x": [1, 2]}), ["'id'", "row 2"]),
    "ids of fractions": (frames({"id": [1.5, 2.0], "x": [1, 2]}), ["fractions"]),
    "ids that floats round": (frames({"id": [2.0**53, 1.0], "x": [1, 2]}), ["'id'", "from 2^53"]),
    "ids that short floats round": (
        frames({"id": np.array([2**24, 1], np.float32), "x": [1, 2]}), ["'id'", "from 2^24"]),
    "an infinite end": (
        frames({"id": [1, 2], "x": [1, 2]}, {"source": [np.inf], "target": [2.0]}),
        ["'source'", "whole numbers (int64)"]),
    "a column twice in Parquet": (named("id", "x", "x"), ["two columns called 'x'", "rename"]),
    "a column of nothing": (frames({"id": ["a", "b"], "x": [None, None]}), ["'x'", "not finite"]),
    "ids of lists": (frames({"id": [[1], [2]], "x": [1, 2]}), ["'id'", "whole numbers or text"]),
    "lists of several lengths": (
        frames({"id": ["a", "b"], "x": [[1.0], [1.0, 2.0]]}), ["'x'", "several lengths"]),
    "texts in Parquet": (frames({"id": ["a", "b"], "x": ["u", "v"]}), ["'x'", "one_hot"]),
    "dates in Parquet": (
        frames({"id": ["a", "b"], "x": pandas.to_datetime(["2020-01-01"] * 2)}), ["'x'"]),
    # npz, prepared and scipy
    "two tasks": (
        arrays(task=np.array(["node-binary", "node-regression"])), ["`task` has 2 words"]),
    "objects": (arrays(node_labels=np.array([{}, {}])), ["never unpickled"]),
    "a pickle called npz": (file("g.npz", pickle.dumps(Trap())), ["never unpickled"]),
    "a pickled array": (arrays(edges=np.array([[Trap(), 1]], object)), ["never unpickled"]),
    "ids of objects": (arrays(node_ids=np.array(["a", 1], object)), ["never unpickled"]),
    "an id twice in npz": (arrays(node_ids=np.array(["a", "a"])), ["several nodes"]),
    "too few names": (arrays(label_names=np.array(["a"])), ["label_names", "2"]),
    "another task": (arrays(task=np.array("node-dreaming")), ["node-dreaming"]),
    "a matrix that is not square": (matrix({"shape": np.array([4, 5])}), ["(4, 5)"]),
    "a matrix that leaves itself": (matrix({"indices": np.array([1, 2, 3, 9])}), ["g.npz"]),
    "a matrix of weights": (matrix({"data": np.full(4, 0.5)}), ["weights: ignore"]),
    "a matrix of an unknown form": (matrix({"format": np.array(b"zzz")}), ["g.npz"]),
    # other programs
    "mtx that is not square": (file("g.mtx", MTX + "3 4 1\n1 2\n"), ["(3, 4)"]),
    "mtx cut short": (file("g.mtx", MTX + "3 3 2\n1 2\n"), ["damaged"]),
    "mtx with something behind": (
        file("g.mtx", MTX.encode() + b"3 3 1\n1 2\x99"), ["cannot be read as a file of .mtx"]),
    "mtx of complex numbers": (
        file("g.mtx", MTX.replace("pattern", "complex") + "3 3 1\n1 2 3 4\n"), ["complex"]),
    "mtx that is dense": (
        file("g.mtx", "%%MatrixMarket matrix array real general\n1 1\n1\n"), ["coordinate"]),
    "mtx of nothing": (file("g.mtx", ""), ["no sparse Matrix Market file: its first line"]),
    "a packed mtx": (file("g.mtx.gz", gzip.compress(MTX.encode())), ["gzip", "unpack it"]),
    "mtx with node 0": (file("g.mtx", MTX + "3 3 1\n0 2\n"), ["counted from 1"]),
    "mtx of absurd size": (file("g.mtx", MTX + f"{10**10} {10**10} 1\n1 2\n"), ["10,000,000,000"]),
    "GraphML that is no XML": (
        file("g.graphml", XML + "<node>"), ["as a file of .graphml (ParseError: ", "from_n"]),
    "GraphML that is nothing": (file("g.graphml", ""), ["ParseError: no element found"]),
    "GraphML of two graphs": (
        file("g.graphml", XML + "<node id='a'/></graph><graph edgedefault='directed'/></graphml>"),
        ["holds 2 graphs; write one of them"]),
    "GraphML that grows": (file("g.graphml", BOMB), ["g.graphml"]),
    "GML of nothing": (file("g.gml", ""), ["(NetworkXError: input contains no graph)"]),
    "GML that is no GML": (file("g.gml", "graph [ node ["), ["NetworkXError: expected"]),
    "GML with an edge to nobody": (
        file("g.gml", 'graph [ node [ id 0 label "a" ] edge [ source 0 target 7 ] ]'),
        ["edge #0 has undefined target 7"]),
    "GML with an edge twice": (
        file("g.gml", 'graph [ node [ id 0 label "a" ] node [ id 1 label "b" ] '
             "edge [ source 0 target 1 ] edge [ source 1 target 0 ] ]"),
        ["edge #1", "is duplicated"]),
    "GML with a label twice": (
        file("g.gml", 'graph [ node [ id 0 label "a" ] node [ id 1 label "a" ] ]'),
        ["node label 'a' is duplicated"]),
    "PyG, pickled": (saved({"edge_index": Trap()}),
                    ["no file of plain tensors (objects of", "open", "data.to_dict()"]),
    "PyG without edges": (saved({"x": torch.eye(2)}), ["edge_index"]),
    "PyG, turned": (saved({"edge_index": torch.zeros(5, 3).long()}), ["(5, 3)"]),
    "PyG with an edge to nobody": (
        saved({"edge_index": torch.tensor([[0], [9]]), "x": torch.eye(2)}), ["9"]),
    "PyG with a negative node": (
        saved({"edge_index": torch.tensor([[0], [-1]]), "x": torch.eye(2)}), ["-1"]),
    "PyG of one list": (saved([1, 2]), ["edge_index"]),
    "a text called pt": (file("g.pt", "hello"), ["plain tensors"]),
    "a text called bin": (file("g.bin", "hello, this is no DGL"), ["dgl.save_graphs"]),
}  # fmt: skip


def hashes(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("case", every(BAD, 2))
def test_what_is_no_graph_is_answered(case, tmp_path, zoo):
    write, words = BAD[case]
    (tmp_path / "mine").mkdir()
    path = write(tmp_path / "mine")
    before = hashes(tmp_path)
    with pytest.raises(ZooError) as caught:
        load_graph(path)
    text = str(caught.value)
    assert "\n" not in text and str(path) in text and len(text) < 900, text
    for word in words:
        assert word in text, text
    code, printed = zoo("train", "gcn-digits", f"dataset={path}", "train.epochs=1", "seeds=[0]")
    assert code == 2 and "Traceback" not in printed.err + printed.out
    assert " ".join(words[0].split()) in " ".join(printed.err.split()), printed.err
    code, printed = zoo("data", "check", path)
    assert code in (1, 2) and "Traceback" not in printed.err + printed.out
    assert hashes(tmp_path) == before


@needs_dgl
def test_a_file_of_dgl_that_is_cut_short_is_told_so_by_dgl(tmp_path):
    from zoo.dgl import dgl

    path = tmp_path / "g.bin"
    dgl.save_graphs(str(path), [dgl.rand_graph(9, 20)])
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    with pytest.raises(ZooError, match="g.bin: it cannot be read as .*DGLError"):
        load_data(str(path))


@pytest.mark.parametrize(
    ("ids", "edge", "said"),
    [
        ("1 2", "1.0,2", "'1.0', .*differs from the id '1' in how the number is written"),
        ("1.0 2.0", "1,2.0", "'1', .*differs from the id '1.0' in how the number is written"),
        ("ann bob", "ann ,bob", "'ann ', .*differs from the id 'ann' in blanks around it alone"),
        ("ann bob", "ann, bob", "' bob', .*differs from the id 'bob' in blanks around it alone"),
        ("007 008", "7,8", "'7', .*differs from the id '007' in zeros in front alone"),
        ("Ann bob", "ann,bob", "'ann', .*differs from the id 'Ann' in capital letters alone"),
        ("ann bob", "ann,zoe", "'zoe', .*add the node, or delete the edge"),
    ],
)
def test_an_edge_to_nobody_is_told_the_likely_cause(ids, edge, said, tmp_path):
    rows = "".join(f"{each},{place}\n" for place, each in enumerate(ids.split()))
    tables(f"id,x\n{rows}", f"source,target\n{edge}\n")(tmp_path)
    with pytest.raises(ZooError, match=said):
        load_graph(tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("nodes.csv", {"weight": "w"}, "weight: it is about a table of edges, and none is named"),
        ("nodes.csv", {"weights": "use"}, "weights: it is about a table of edges"),
        ("nodes.csv", {"edge_features": "w"}, "edge_features: it is about a table of edges"),
        ("nodes.csv", {"source": "a"}, "source: it is about a table of edges.*`edges: PATH`"),
        ("g.mtx", {"label": "y"}, "label: it is about a table of nodes, .*`nodes: PATH`"),
        ("s.npz", {"label": "y"}, "label: it is about a table of nodes"),
        ("g.npz", {"weights": "use"}, "weights: the edges have none to use"),
    ],
)
def test_an_option_that_nothing_reads_is_refused(name, options, said, tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "g.mtx").write_text(MTX + "3 3 1\n1 2\n")
    sparse.save_npz(tmp_path / "s.npz", sparse.eye_array(3).tocsr())
    arrays()(tmp_path)
    with pytest.raises(ZooError, match=said):
        load_graph(tmp_path / name, **options)
    load_graph(tmp_path / name, **({"weights": "ignore"} if name == "nodes.csv" else {}),
               **({"columns": "age"} if name == "nodes.csv" else {}))  # fmt: skip


def test_options_of_text_and_dates_without_such_columns_are_told(tmp_path, caplog):
    (tmp_path / "nodes.csv").write_text("x,born\n1,2001-05-01\n2,2002-05-01\n")
    idle = {"date_format": "%Y-%m-%d", "terms": 5, "language_model": "none"}
    load_graph(tmp_path / "nodes.csv", columns="x", **idle)
    told = [f"`{each}` changes nothing: no column is named" for each in
            ("date_format", "language_model", "terms")]  # fmt: skip
    assert [each.partition(" by ")[0] for each in caplog.messages] == told
    caplog.clear()
    load_graph(tmp_path / "nodes.csv", dates="born", date_format="%Y-%m-%d")
    assert not caplog.messages


def test_a_reader_that_fails_says_what_it_read_and_its_own_words(tmp_path, monkeypatch):
    from zoo.data.load import readers

    (tmp_path / "g.mtx").write_text(MTX + "3 3 1\n1 2\n")
    for error, said in (
        (KeyError("vector"), "cannot be read as a file of .mtx \\(KeyError: 'vector'\\). Write it"),
        (RuntimeError("a\nb"), "\\(RuntimeError: a b\\).*zoo.Dataset.from_networkx"),
        (gzip.BadGzipFile("no gzip"), "is damaged, or cut short \\(BadGzipFile: no gzip\\)"),
        (EOFError("ended"), "is damaged, or cut short \\(EOFError: ended\\)"),
        (MemoryError(), "does not fit into memory; keep fewer columns"),
        (ZooError("g.mtx is odd."), "g.mtx is odd."),
    ):

        def fails(path, error=error):
            raise error

        monkeypatch.setattr(readers, "read_coordinates", fails)
        with pytest.raises(ZooError, match=f"{tmp_path}/g.mtx:? .*{said}|odd") as caught:
            load_graph(tmp_path / "g.mtx")
        assert ("damaged" in str(caught.value)) == isinstance(error, EOFError | OSError)
        assert "\n" not in str(caught.value)


def test_wrong_options_are_answered(tmp_path):
    folder = tables()(tmp_path)
    wrong = [
        ({"lable": "x"}, "did you mean 'label'"),
        ({"label": "kind"}, "'kind'.*label: COLUMN"),
        ({"columns": ["agee"]}, "did you mean 'age'"),
        ({"columns": "age,agee"}, "did you mean 'age'"),
        ({"columns": 3}, "columns: .*list"),
        ({"one_hot": ["town"]}, "'town'"),
        ({"task": "regression"}, "node-regression"),
        ({"weights": "used"}, "'ignore'"),
        ({"weights": "use"}, "have none to use"),
        ({"direction": "backwards"}, "'separate'"),
        ({"duplicates": "median"}, "'mean'"),
        ({"edges": "nowhere.csv"}, "nowhere.csv"),
    ]
    for options, words in wrong:
        with pytest.raises(ZooError, match=words):
            load_graph(folder, **options)


# The command

MANY = "name,town,born,kind\nann,Rome,May,dog\nbob,Bonn,June,unknown\ncid,Rome,July,dog\n"


def test_all_problems_of_a_table_are_told_at_once_and_as_the_shell_takes_them(tmp_path, zoo):
    (tmp_path / "pets.csv").write_text(MANY)
    with pytest.raises(ZooError) as caught:
        load_graph("pets.csv", label="kind")
    first, second = str(caught.value).split("\n")
    assert "pets.csv: 'kind' holds 'unknown'" in first and "`unknown: 'unknown'`" in first
    assert "'name' holds 'ann' in line 2" in second and "'born' holds 'May'" in second
    assert "`one_hot: [name, town, born]`" in second
    for words in (["pets.csv", "label=kind"], ["{name: pets.csv, label: kind}"]):
        code, printed = zoo("data", "check", *words)
        said = " ".join(printed.out.split())
        assert code == 1 and "`unknown=unknown`" in said and "`one_hot=town,born`" in said
    code, _ = zoo("data", "check", "pets.csv", "dataset.label=kind", "one_hot=town,born",
                  "columns=town", "unknown=unknown")  # fmt: skip
    assert code == 1  # a single class: read, and told


def test_a_data_set_with_options_is_the_same_words_in_every_command(tmp_path, zoo):
    rows = [f"{each},{'uk' if each % 2 else 'de'},{'ab'[each % 2]}" for each in range(20)]
    (tmp_path / "pets.csv").write_text("\n".join(["id,town,kind", *rows]))
    words = ["label=kind", "columns=town", "one_hot=town", "unknown=''"]
    code, printed = zoo("train", "mlp-digits", "dataset=pets.csv", "train.epochs=2", "seeds=[0]",
                        "--runs", "runs", *(f"dataset.{each}" for each in words))  # fmt: skip
    assert code == 0, printed.err
    run = str(next((tmp_path / "runs").iterdir()))
    spec = "{name: pets.csv, label: kind, columns: town, one_hot: town, unknown: ''}"
    told = []
    for each in (["pets.csv", *words], [spec], ["pets.csv", "dataset.label=kind", *words[1:]]):
        code, printed = zoo("evaluate", run, "--json", "--data", *each)
        assert code == 0, printed.err
        told.append(json.loads(printed.out)["score"])
    assert len(told) == 3 and len(set(told)) == 1
    code, _ = zoo("predict", run, "--data", "pets.csv", *words, "--out", "answers.csv")
    assert code == 0 and len(pandas.read_csv("answers.csv")) == 20
    code, printed = zoo("evaluate", run, "label=kind")
    assert code == 2 and "--data GRAPH" in printed.err
    code, printed = zoo("predict", run, run, "--data", "pets.csv", "--out", "twice.csv")
    assert code == 2 and "one run is wanted here" in printed.err


def test_check_says_what_is_good_and_what_to_fix(tmp_path, zoo):
    rows = [f"n{each},{each},{each % 2},c{each % 2}" for each in range(40)]
    nodes = "\n".join(["id,a,b,label", *rows]) + "\n"
    edges = "\n".join(["source,target", *(f"n{each},n{(each + 2) % 40}" for each in range(39))])
    tables(nodes, edges)(tmp_path)
    code, printed = zoo("data", "check", ".", "--json", "--plot", "picture.png")
    found = {each["name"]: each for each in json.loads(printed.out)}
    assert code == 0 and {each["verdict"] for each in found.values()} <= {"good", "look"}
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"
    values = {name: each["values"] for name, each in found.items()}
    assert values["size"] == {"nodes": 40, "edges": 39, "rows": 39}
    assert values["components"] == {"components": 2, "largest": 0.5}
    assert values["degrees"]["most"] == 2 and values["degrees"]["least"] == 1
    assert values["classes"] == {"c0": 20, "c1": 20}
    assert values["homophily"] == {"share": 1.0, "chance": pytest.approx(0.5, abs=0.01)}
    assert found["components"]["verdict"] == "look"

    twice = edges + "\nn3,n5\nn7,n7\nn0,n1\nn1,n0\n"
    tables(nodes + "lone,,inf,\n", twice)(tmp_path)
    code, printed = zoo("data", "check", ".", "--json", "--plot", "other.png")
    found = {each["name"]: each for each in json.loads(printed.out)}
    assert code == 1 and (tmp_path / "other.png").exists()
    assert (
        found["missing"]["values"] == {"missing": "mean"} and "'a' (1)" in found["missing"]["found"]
    )
    assert found["infinite features"]["verdict"] == "fix"
    assert found["infinite features"]["values"] == {"b": 1}
    assert found["isolated nodes"]["values"] == {"isolated": 1}
    assert found["duplicates"]["values"] == {"repeated": 1}
    assert found["self-loops"]["values"] == {"loops": 1}
    assert found["size"]["values"]["edges"] == 40
    assert found["labels"]["values"]["labelled"] == 40


@pytest.mark.parametrize("options", [{}, {"missing": "mean"}, {"numbers": "standard"}])
@pytest.mark.parametrize("value", ["inf", "-1e300"])
def test_what_is_too_large_is_told_from_what_is_missing(tmp_path, value, options):
    path = tmp_path / "g.csv"
    path.write_text("id,a,label\n" + "".join(f"n{n},{n},{n % 2}\n" for n in range(9))
                    + f"x,{value},0\n")  # fmt: skip
    arrays = read_graph({"name": str(path), **options})
    found = {each.name: each for each in check(arrays)}
    assert "missing features" not in found
    assert found["infinite features"].values == {"a": 1}
    path.write_text(f"id,a,label\nx,{value},0\ny,{value},1\n")  # nothing else
    assert "infinite features" in {
        each.name for each in check(read_graph({"name": str(path), **options}))
    }
    with pytest.raises(ZooError, match="replace what is infinite"):
        load_graph(str(path), **options)


def test_check_finds_leaks_and_what_cannot_be_learnt(tmp_path, zoo):
    masks = {
        part: np.arange(30)[None] % 3 == at for at, part in enumerate(["train", "val", "test"])
    }
    arrays_ = {"edges": np.array([[0, 1]]), "node_labels": np.arange(30) % 3 // 2,
               "node_features": np.ones((30, 1))}  # fmt: skip
    whole = {f"{part}_masks": mask for part, mask in masks.items()}
    np.savez(tmp_path / "g.npz", **arrays_, **whole)
    code, printed = zoo("data", "check", "g.npz", "--json")
    found = {each["name"]: each for each in json.loads(printed.out)}
    assert code == 1 and found["unseen classes"]["values"] == {"unseen": ["1"]}
    assert found["constant features"]["verdict"] == "look" and found["split"]["verdict"] == "good"
    whole["test_masks"] = masks["test"] | masks["val"]
    np.savez(tmp_path / "g.npz", **arrays_, **whole)
    code, printed = zoo("data", "check", "g.npz")
    assert code == 1 and "overlap: 10 nodes" in " ".join(printed.out.split())


def test_prepare_keeps_a_graph_under_a_name(tmp_path, zoo, monkeypatch):
    (tmp_path / "mine").mkdir()
    tables()(tmp_path / "mine")
    wanted = load_graph(tmp_path / "mine")
    code, printed = zoo("data", "prepare", "mine", "people")
    written = tmp_path / "data" / "people.npz"
    assert code == 0 and str(written) in printed.err.replace("\n", "")
    shutil.rmtree(tmp_path / "mine")
    data = load_graph("people")
    assert data.ids.tolist() == wanted.ids.tolist() and data.labels == wanted.labels
    assert data.feature_names == wanted.feature_names and data.name == "people"
    assert torch.equal(data.x, wanted.x) and torch.equal(data.y, wanted.y)
    before = hashes(tmp_path)
    tables(NODES.replace("ann,31", "ann,32"))(tmp_path)
    for words, said in [
        (("people",), "--again"),
        (("cora",), "another name"),
        (("a/b",), "no name"),
        (("..",), "no name"),
    ]:
        code, printed = zoo("data", "prepare", ".", *words)
        assert code == 2 and said in printed.err
    assert before.items() <= hashes(tmp_path).items() and os.listdir(tmp_path / "data") == [
        "people.npz"
    ]
    code, printed = zoo("data", "check", ".", "features=standard")
    assert code == 2 and "training" in printed.err
    assert zoo("data", "check", "digits")[0] == 0  # drawn, in no file
    assert zoo("data", "prepare", ".", "people", "--again")[0] == 0
    assert load_graph("people").x[0, 0] > data.x[0, 0]  # of ann, who is 32 now
    with pytest.raises(ZooError, match="did you mean|choose|there are"):
        read_graph("peopel")
