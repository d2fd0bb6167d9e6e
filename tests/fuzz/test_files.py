"""Mutated data files of every kind, read and checked as `zoo data check` and training do.

`ZOO_FUZZ=10000 pytest -m slow tests/fuzz/test_files.py -s` tries so many and prints the counts.
"""

import copy
import io
import json
import pickle
import shutil
import zipfile

import networkx
import numpy as np
import pandas
import pytest
import torch
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import mmwrite

from zoo.data.files.converters import convert_planetoid
from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.prepared import write_prepared
from zoo.data.load import load_graph, on_disk_folder, prepare_on_disk, read_graph
from zoo.data.load.check import check
from zoo.errors import ZooError

N = 12
EDGES = np.array([(i, (i + 1) % N) for i in range(N)])
Y = np.arange(N) % 3
X = np.linspace(-1, 1, 4 * N, dtype=np.float32).reshape(N, 4)
PARTS = np.array(["train", "val", "test"])[np.arange(N) // 3 % 3]
MASKS = {part: (part == PARTS)[None] for part in ("train", "val", "test")}
NAMES = np.array([f"n{each}" for each in range(N)])
RING = sparse.coo_array((np.ones(N), EDGES.T), shape=(N, N))


def csv_tables(folder):
    frame = pandas.DataFrame({"id": NAMES, "a": X[:, 0], "b": X[:, 1], "label": Y, "split": PARTS})
    frame.to_csv(folder / "nodes.csv", index=False)
    ends = pandas.DataFrame({"source": NAMES[EDGES[:, 0]], "target": NAMES[EDGES[:, 1]]})
    ends.to_csv(folder / "edges.csv", index=False)
    return {"name": folder}


def parquet_tables(folder):
    lists = [list(map(float, row)) for row in X]
    frame = pandas.DataFrame({"id": NAMES, "a": X[:, 0], "deep": lists, "label": Y})
    frame.to_parquet(folder / "nodes.parquet")
    pandas.DataFrame({"source": NAMES[EDGES[:, 0]], "target": NAMES[EDGES[:, 1]]}).to_parquet(
        folder / "edges.parquet"
    )
    return {"name": folder}


def prepared(folder):
    arrays = GraphArrays(EDGES, Y, X, MASKS, NAMES, ("x", "y", "z"), tuple("abcd"))
    write_prepared(arrays, folder / "g.npz")
    return {"name": folder / "g.npz"}


def prepared_sparse(folder):
    x = sparse.csr_array((np.ones(N), (np.arange(N), np.arange(N) * 3)), shape=(N, 60))
    write_prepared(GraphArrays(EDGES, Y, x), folder / "g.npz")
    return {"name": folder / "g.npz"}


def of_scipy(kind):
    def write(folder):
        sparse.save_npz(folder / "g.npz", RING.asformat(kind))
        return {"name": folder / "g.npz"}

    return write


def matrix_market(folder):
    mmwrite(folder / "g.mtx", sparse.coo_array(RING), field="pattern")
    return {"name": folder / "g.mtx"}


def of_networkx(suffix, write):
    def call(folder):
        graph = networkx.cycle_graph(N)
        for node in graph:
            graph.nodes[node].update(kind=int(Y[node]), a=float(X[node, 0]))
        write(graph, folder / f"g{suffix}")
        return {"name": folder / f"g{suffix}", "label": "kind"}

    return call


def of_torch(folder):
    masks = {f"{part}_mask": torch.from_numpy(mask[0]) for part, mask in MASKS.items()}
    ends = torch.from_numpy(EDGES.T.copy())
    content = {"edge_index": ends, "x": torch.from_numpy(X), "y": torch.from_numpy(Y), **masks}
    torch.save(content, folder / "g.pt")
    return {"name": folder / "g.pt"}


def on_disk(folder):
    write_prepared(GraphArrays(EDGES, Y, X, MASKS, NAMES), folder / "g.npz")
    prepare_on_disk(folder / "g.npz", folder / "g")
    (folder / "g.npz").unlink()
    return {"name": folder / "g"}


def array_folder(folder):
    np.save(folder / "edge_index.npy", EDGES.T)
    np.save(folder / "node_feat.npy", X)
    np.save(folder / "node_label.npy", Y[:, None].astype(float))
    for part, words in (("train", "train"), ("val", "valid"), ("test", "test")):
        np.save(folder / f"{words}.npy", np.flatnonzero(MASKS[part]))
    return {"name": folder}


def edge_list(folder):
    np.savetxt(folder / "e.csv", EDGES, fmt="%d", delimiter=",")
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    options = {"node_features": folder / "x.npy", "node_labels": folder / "y.npy"}
    return {"name": folder / "e.csv", **options}


KINDS = {
    "csv": csv_tables,
    "parquet": parquet_tables,
    "npz": prepared,
    "sparse npz": prepared_sparse,
    **{f"scipy {kind}": of_scipy(kind) for kind in ("csr", "csc", "coo", "dia", "bsr")},
    "mtx": matrix_market,
    "graphml": of_networkx(".graphml", networkx.write_graphml),
    "gml": of_networkx(".gml", networkx.write_gml),
    "pt": of_torch,
    "on disk": on_disk,
    "array folder": array_folder,
    "edge list": edge_list,
}
TO_DISK = ("array folder", "edge list")

TOKENS = [
    *("", "-1", "0", "1", "1e999", "nan", "inf", "-inf", "9" * 30, "9" * 5000, "-" + "9" * 30),
    *(str(2**31), str(2**62), str(2**63), str(2**64), "x" * 5000, '"', "'", ",", ";", "1.5"),
    *("\0", "\ufeff", "é", "\ud800", "%", "#", "<", ">", "&", "]]>", "<!DOCTYPE a>", "[", "]"),
    *("source", "target", "id", "label", "node", "edge", "NULL", "None", "true", "=", " ", "\t"),
    *("(" * 200, "[" * 2000, "<a>" * 500, "1 " * 500, ",".join("c" * 300), "\n" * 300, "\n"),
    *("\r", "=1+1", "\x1b[31m"),
]
SHAPES = [
    *("(12,)", "(12, 4)", "()", "(-1,)", f"({2**62},)", f"({2**40}, {2**40})", f"({10**9},)"),
    *("(12, 0)", "(0,)", "(0, 4)", "12", "(12.0,)", "(True,)", "None"),
]
TYPES = ["'<f4'", "'<i8'", "'|O'", "'<U0'", "'<U9999'", "'|V0'", "[('a', '<i4')]", "'?'"]
HEADERS = [
    *("(((((0", "{", "", "\0" * 50, "[" * 3000, "{'descr': '<f4'}", "'" * 7, "{" * 300, "9" * 6000),
    *(
        f"{{'descr': {kind}, 'fortran_order': {turned}, 'shape': {shape}, }}"
        for kind in TYPES
        for turned in ("False", "True", "1")
        for shape in SHAPES
    ),
]
ARRAYS = [
    *(np.zeros(0), np.zeros((0, 2), int), np.array(3), np.array("text"), np.array(None, object)),
    *(np.zeros((N, 4), complex), np.full((N, 4), np.nan), np.full((N, 4), np.inf), np.eye(N)),
    *(np.full(N, 2**62), np.full(N, 2**64 - 1, np.uint64), np.full(N, -(2**63)), Y.astype("f2")),
    *(
        Y.astype(">i8"),
        np.asfortranarray(X),
        Y.astype(bool),
        NAMES,
        NAMES.astype("S"),
        Y[:-1],
        X[:-1],
    ),
    *(
        X[:-1],
        Y - 5,
        Y + 10**6,
        np.zeros((N, 2, 2)),
        EDGES.T,
        EDGES + N,
        EDGES - N,
        EDGES.astype(float),
    ),
    *(np.array(["2020-01-01"] * N, "M8[D]"), np.zeros(N, [("a", int)]), np.zeros((1, N), bool)),
    *(np.ones((3, N), bool), np.zeros((N, 100)), np.full((N, 4), 1e300), np.full((N, 2), 0.5)),
    *(np.array([10**9, 10**9]), np.array([2**62, 2**62]), np.array([-1, -1]), np.array([N, 2**40])),
]


def mutated(raw, edits):
    """Bytes with some of them changed, cut out, repeated or replaced."""
    for way, place, length, new in edits:
        at = int(place * len(raw))
        if way == "flip" and raw:
            at = min(at, len(raw) - 1)
            raw = raw[:at] + bytes([raw[at] ^ 1 << length % 8]) + raw[at + 1 :]
        elif way == "cut":
            raw = raw[:at]
        elif way == "delete":
            raw = raw[:at] + raw[at + length :]
        elif way == "repeat":
            raw = raw[:at] + raw[at : at + length] * 3 + raw[at + length :]
        else:
            raw = raw[:at] + new + raw[at + (length if way == "replace" else 0) :]
    return raw


def byte_edits():
    ways = st.sampled_from(["flip", "flip", "cut", "delete", "repeat", "replace", "insert"])
    texts = st.sampled_from([each.encode("utf-8", "surrogatepass") for each in TOKENS])
    new = st.binary(max_size=8) | texts | st.sampled_from([b"\xff" * 8, b"\x7f" + b"\xff" * 7])
    place = st.integers(0, 9999).map(lambda each: each / 10_000)
    return st.lists(st.tuples(ways, place, st.integers(0, 64), new), min_size=1, max_size=4)


def npy(header, body=b"\0" * 64):
    """Bytes of an array file whose header is any text."""
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + min(len(text), 65535).to_bytes(2, "little") + text + body


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def parts():
    """What takes the place of an array: another, or one whose header is wrong."""
    return st.sampled_from(ARRAYS).map(as_npy) | st.sampled_from(HEADERS).map(npy)


def archive_edits():
    """Arrays of an archive that are replaced, removed, or stored under another name."""
    return st.lists(st.tuples(st.integers(0, 50), st.sampled_from("rrrdn"), parts()), min_size=1,
                    max_size=2)  # fmt: skip


def rezipped(path, edits):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for number, way, raw in edits:
        name = sorted(members)[number % len(members)]
        if way == "r":
            members[name] = raw
        elif len(members) > 1:
            kept = members.pop(name)
            members |= {"other.npy": kept} if way == "n" else {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)


def meta_edits(odd):
    """A value of `meta.json` that is another."""
    plain = [each for each in odd if plainly(each)]
    return st.lists(st.tuples(st.integers(0, 500), st.sampled_from(plain)), min_size=1, max_size=2)


def plainly(value):
    try:
        return len(json.dumps(value)) < 10_000
    except (TypeError, ValueError):
        return False


def rewritten(path, edits):
    meta = json.loads(path.read_text())
    for number, value in edits:
        places = list(inside(meta))
        holder, key = places[number % len(places)]
        holder[key] = copy.deepcopy(value)
    path.write_text(json.dumps(meta))


def inside(data):
    keys = list(data) if isinstance(data, dict) else range(len(data))
    for key in keys:
        yield data, key
        if isinstance(data[key], dict | list):
            yield from inside(data[key])


def looked_at(spec):
    """What `zoo data check` does, and then what training does."""
    spec = {key: str(each) if key != "label" else each for key, each in spec.items()}
    folder = on_disk_folder(spec["name"])
    found = check(folder or read_graph(spec))
    if any(each.verdict == "fix" for each in found):
        raise ZooError(str([each.found for each in found if each.verdict == "fix"])[:500])
    return load_graph(spec)


@pytest.fixture
def mutate(tmp_path):
    """Write a graph of a kind, change a file of it, and look at it."""
    seeds = {}
    for kind, write in KINDS.items():
        (tmp_path / kind).mkdir()
        seeds[kind] = write(tmp_path / kind)

    def call(kind, number, change, *edits):
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(tmp_path / kind, work)
        spec = {
            key: work / each.relative_to(tmp_path / kind) if hasattr(each, "parts") else each
            for key, each in seeds[kind].items()
        }
        files = sorted(each for each in work.rglob("*") if each.is_file())
        path = files[number % len(files)]
        if change is rewritten:
            path = work / "g" / "meta.json"
        if change is mutated:
            path.write_bytes(mutated(path.read_bytes(), *edits))
        elif change is rezipped:
            rezipped(path, *edits)
        elif change is replaced:
            path.write_bytes(*edits)
        else:
            rewritten(path, *edits)
        if kind in TO_DISK:
            prepare_on_disk({key: str(each) for key, each in spec.items()}, work / "out")
            spec = {"name": work / "out"}
        return looked_at(spec)

    return call


def replaced():
    """An array file that is another."""


ZIPPED = [kind for kind in KINDS if "npz" in kind or "scipy" in kind]
FOLDERS = ["on disk", "array folder", "edge list"]


def campaign(attempts, odd, mutate, many):
    number = st.integers(0, 20)

    def kinds(names, change, edits, share):
        attempts.draw(max(1, int(many * share)), mutate, st.sampled_from(list(names)), number,
                      st.just(change), edits)  # fmt: skip

    kinds(KINDS, mutated, byte_edits(), 0.6)
    kinds(ZIPPED, rezipped, archive_edits(), 0.25)
    kinds(FOLDERS, replaced, parts(), 0.1)
    kinds(["on disk"], rewritten, meta_edits(odd), 0.05)


def test_mutated_files_are_read_or_refused(attempts, odd, mutate):
    campaign(attempts, odd, mutate, 60)


@pytest.mark.slow
def test_many_mutated_files_are_read_or_refused(attempts, odd, mutate):
    campaign(attempts, odd, mutate, attempts.many)


def test_what_is_not_mutated_is_read(attempts, mutate):
    found = {kind: attempts(mutate, kind, 0, mutated, []) for kind in KINDS}
    assert not [kind for kind, each in found.items() if isinstance(each, ZooError)], found


# The pickles of Planetoid


class Python2(pickle._Pickler):
    """Writes what Python 2 wrote: text and bytes alike as one kind of string."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self, text):
        text = text.encode() if isinstance(text, str) else text
        self.write(pickle.BINSTRING + len(text).to_bytes(4, "little") + text)

    dispatch[str] = dispatch[bytes] = save_string


def planetoid_files():
    """The content of the eight files, of a ring of 12 nodes."""
    rows = {"": slice(0, 4), "all": slice(0, 8), "t": slice(8, N)}
    content = {f"{key}x": sparse.csr_matrix(X[row]) for key, row in rows.items()}
    content |= {f"{key}y": np.eye(3, dtype=np.int32)[Y[row]] for key, row in rows.items()}
    content["graph"] = {each: [(each + 1) % N] for each in range(N)}
    for key, value in content.items():
        file = io.BytesIO()
        Python2(file, protocol=2).dump(value)
        raw = file.getvalue().replace(b"numpy._core.", b"numpy.core.")
        content[key] = raw.replace(b"scipy.sparse._csr", b"scipy.sparse.csr")
    names = ("x", "tx", "allx", "y", "ty", "ally", "graph")
    listed = "\n".join(map(str, range(8, N))).encode()
    return {**{key: content[key] for key in names}, "test.index": listed}


@pytest.mark.filterwarnings("ignore:loadtxt")
def test_mutated_pickles_are_refused_as_not_as_published(attempts, tmp_path):
    files = planetoid_files()

    def convert(number, edits):
        for place, (name, raw) in enumerate(files.items()):
            (tmp_path / name).write_bytes(mutated(raw, edits) if place == number else raw)
        try:
            return convert_planetoid([tmp_path / name for name in files])
        except MemoryError:
            raise
        except Exception as error:  # as `zoo.data.load.named` does, and says so
            raise ZooError(f"{type(error).__name__}") from None

    attempts(convert, -1, [])
    assert attempts.counts["accepted"] == 1
    attempts.draw(60, convert, st.integers(0, 7), byte_edits())
