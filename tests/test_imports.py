"""Imports go down, room by room, and in no circle; DGL stays in few; `import zoo` stays light."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import networkx
import pytest
import torch

ROOT = Path(__file__).parent.parent / "zoo"

FLOORS = [
    {"__main__"},
    {"cli"},
    {"testing", "reports"},
    {"runs"},
    {"inference"},
    {"sequences"},
    {"training"},
    {"models", "data.load"},
    {"sequences.data", "data.mapped"},
    {"data", "encodings"},
    {"weights"},
    {"nn"},
    {"data.tables"},
    {"data.files"},
    {"tasks"},
    {"graphs"},
    {"ops"},
    {"registry"},
    {"tracing", "trackers"},
    {"canonical_form"},
    {"config", "system", "dgl"},
    {"own_graph"},
    {"errors"},
]
"""From the roof down: a file may import from the floors below its own, and from its own room."""

WITH_DGL = {"dgl", "graphs", "data", "data.files", "data.mapped"}


def files_of(root):
    return sorted(path for path in root.rglob("*.py") if path != root / "__init__.py")


FILES = files_of(ROOT)


def room_of(path, root=ROOT):
    """The folder of a file, as dotted words; of a file at the top, its own name."""
    folder = path.relative_to(root).parent.parts
    return ".".join(folder) or path.stem


def imported(path):
    """Every name of a module that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield from (f"{node.module}.{each.name}" for each in node.names)


def rooms_imported(path):
    for name in imported(path):
        words = name.split(".")
        if words[0] == "zoo":
            words = words[1:]
            while len(words) > 1 and not ROOT.joinpath(*words).is_dir():
                words.pop()
            yield ".".join(words)


def modules_of(root):
    """Every file by the name that others import it by."""
    names = {path: ".".join(("zoo", *path.relative_to(root).with_suffix("").parts))
             for path in files_of(root)}  # fmt: skip
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def files_imported(path, modules):
    for name in imported(path):
        while name not in modules and "." in name:
            name = name.rpartition(".")[0]
        if name in modules:
            yield name


def circles(root):
    """Return the files of a package that import each other in a circle, also inside functions."""
    modules = modules_of(root)
    graph = networkx.DiGraph()
    for name, path in modules.items():
        others = files_imported(path, modules)
        graph.add_edges_from((name, other) for other in others if other != name)
    return [sorted(each) for each in networkx.strongly_connected_components(graph) if len(each) > 1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    room = room_of(path)
    floor = next((i for i, floor in enumerate(FLOORS) if room in floor), None)
    assert floor is not None, f"{room} has no place in FLOORS"
    below = set().union(*FLOORS[floor + 1 :])
    assert set(rooms_imported(path)) - {room} <= below
    assert room in WITH_DGL or "dgl" not in rooms_imported(path)


def test_dgl_is_imported_in_one_place():
    """Also in code that is text, and in tests: on Python 3.12 graphbolt is replaced before."""
    folders = (ROOT, ROOT.parent / "tests", ROOT.parent / "benchmarks")
    files = [path for folder in folders for path in folder.rglob("*.py")]
    line = re.compile(r"^\W*(import dgl\b|from dgl\b)", re.MULTILINE)
    assert [path for path in files if line.search(path.read_text())] == [ROOT / "dgl.py"]


@pytest.mark.parametrize(
    "library",
    [
        pytest.param("", marks=pytest.mark.slow),
        "2.2.1",
        pytest.param(torch.__version__.partition("+")[0], marks=pytest.mark.slow),
    ],
)
def test_a_graphbolt_of_another_torch_is_replaced(tmp_path, library):
    """And nothing else: no graphbolt at all, as in DGL 1, or one for this torch stays."""
    package = tmp_path / "dgl"
    package.mkdir()
    (package / "__init__.py").write_text("class DGLGraph: pass\n")
    if library:
        (package / "graphbolt").mkdir()
        (package / "graphbolt" / f"libgraphbolt_pytorch_{library}.so").touch()
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT.parent)!r}]; import zoo.dgl;"
        "print(zoo.dgl.STANDS_IN, 'dgl.graphbolt' in sys.modules)"
    )
    call = [sys.executable, "-W", "ignore", "-c", code]
    there = {key: value for key, value in os.environ.items() if key != "ZOO_WITHOUT_DGL"}
    done = subprocess.run(call, capture_output=True, text=True, env=there)
    replaced = library == "2.2.1"
    assert done.stdout == f"{replaced} {replaced}\n", done.stderr


@pytest.mark.parametrize(
    "found,variables,why",
    [
        ("raise ImportError('libdgl is for another system')", {}, "libdgl is for another system"),
        ("raise ImportError", {"ZOO_WITHOUT_DGL": "1"}, "None"),
        (None, {}, "None"),
    ],
)
def test_the_own_graph_stands_in_where_dgl_does_not_import(tmp_path, found, variables, why):
    hidden = "import sys\n"
    if found:
        (tmp_path / "dgl.py").write_text(found)
    else:  # a finder that knows no DGL
        hidden = "import importlib.machinery as m, sys\nfind = m.PathFinder.find_spec\n"
        hidden += "m.PathFinder.find_spec = lambda n, *a: None if n == 'dgl' else find(n, *a)\n"
    code = (
        f"{hidden}sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT.parent)!r}]\nimport zoo.dgl\n"
        "print(zoo.dgl.HAS_DGL, zoo.dgl.dgl.__name__, zoo.dgl.FAILURE)"
    )
    there = {key: value for key, value in os.environ.items() if key != "ZOO_WITHOUT_DGL"}
    call = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(call, capture_output=True, text=True, env=there | variables)
    assert done.stdout == f"False zoo.own_graph {why}\n", done.stderr


def test_every_room_is_in_the_wheel():
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    written = set(settings["tool"]["setuptools"]["packages"]) - {"zoo", "zoo.recipes"}
    assert written == {f"zoo.{room_of(path)}" for path in FILES if path.parent != ROOT}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "models").glob("[a-z]*.py")), ids=lambda path: path.stem
)
def test_models_import_the_door_and_the_contract_alone(path):
    """`zoo.nn`, but none of its files, and `zoo.registry`; no other model."""
    own = {name for name in imported(path) if name.startswith("zoo.")}
    others = {name for name in own if name.rpartition(".")[0] not in ("zoo.nn", "zoo.registry")}
    assert not others


def test_every_model_file_is_imported_by_name():
    written = {path.stem for path in (ROOT / "models").glob("[a-z]*.py")}
    named = {name.split(".")[2] for name in imported(ROOT / "models" / "__init__.py")}
    assert written == named


def test_import_zoo_is_light_and_opens_no_connection():
    code = """
import socket, sys
def refuse(*arguments, **options): raise AssertionError("a connection was opened")
socket.socket.connect = refuse
import zoo
slow = ("torch", "dgl", "ogb", "scipy", "pandas", "matplotlib", "jinja2")
heavy = [name for name in slow if name in sys.modules]
assert not heavy, heavy
zoo.list_models(); zoo.load_recipe("sgformer-digits-rba")
heavy = [name for name in ("ogb", "wandb", "matplotlib", "torch_geometric") if name in sys.modules]
assert not heavy, heavy
"""
    call = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_evaluators_of_ogb_ask_no_network_for_its_version(tmp_path):
    (tmp_path / "outdated.py").write_text("def check_outdated(*given): print('asked')")
    code = """
import sys, threading
sys.path[:0] = sys.argv[1:]
import numpy as np
from zoo.tasks.metrics import METRICS
print(METRICS["mrr"]()(np.array([[2.0, 1.0], [0.0, 1.0]]), np.zeros(2)))
[each.join() for each in threading.enumerate() if each is not threading.main_thread()]
import outdated
"""
    call = [sys.executable, "-W", "ignore", "-c", code, tmp_path, ROOT.parent]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.stdout == "0.75\n", done.stdout + done.stderr


def test_a_recipe_of_nodes_imports_no_module_of_sequences(tmp_path):
    code = """
import sys
from zoo.runs.resolve import load_recipe
from zoo.runs.run import run_recipe
recipe = load_recipe("sgformer-digits-rba", ["train.epochs=1", "seeds=[0]"])
run_recipe(recipe, runs=sys.argv[1])
found = [name for name in sys.modules if name.startswith("zoo.sequences")]
assert not found, found
import zoo
assert {"gru", "htgn-seq2seq", "vit"} <= {*zoo.list_models()}
assert zoo.BATCHING["tokens"].__module__ == "zoo.sequences.batches"
assert dict(zoo.MODELS)["gru"].__name__ == "GRU"
"""
    call = [sys.executable, "-W", "ignore", "-c", code, tmp_path]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_file_of_the_zoo_imports_a_naive_twin():
    """But the twins each other: they are for tests and readers."""
    files = [path for path in FILES if path.stem != "naive"]
    assert [p for p in files if any(".naive" in name for name in imported(p))] == []


def test_no_circle():
    assert circles(ROOT) == []


def test_a_circle_is_found(tmp_path):
    written = {
        "roof.py": "from zoo.left.a import x\nimport zoo.right",
        "left/a.py": "from zoo.left.b import x\nfrom zoo import ground",
        "left/b.py": "import zoo.right.b, os",
        "right/__init__.py": "from zoo.right import b",
        "right/b.py": "def f():\n    from zoo.left.a import x",
        "ground.py": "",
    }
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(tmp_path) == [["zoo.left.a", "zoo.left.b", "zoo.right.b"]]
    (tmp_path / "right" / "b.py").write_text("from zoo import ground")
    assert circles(tmp_path) == []


def test_benchmarks_import_what_there_is():
    for path in sorted(ROOT.parent.glob("benchmarks/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("zoo"):
                module = importlib.import_module(node.module)
                missing = [each.name for each in node.names if not hasattr(module, each.name)]
                assert not missing, f"{path.name}: {node.module} has no {missing}"
