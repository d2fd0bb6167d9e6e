"""Imports go down, room by room; DGL stays in few of them; `import zoo` stays light."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "zoo"

FLOORS = [
    {"__main__"},
    {"cli"},
    {"studies", "testing"},
    {"experiments"},
    {"inference"},
    {"training"},
    {"models", "distributed", "datasets.load", "datasets.check"},
    {"datasets.mapped"},
    {"datasets", "encodings", "nn"},
    {"datasets.files", "graphs", "weights"},
    {"registry", "ops"},
    {"contract", "known_graphs"},
    {"config", "system"},
    {"errors"},
]
"""From the roof down: a file may import from the floors below its own, and from its own room."""

WITH_DGL = {"graphs", "datasets", "datasets.files", "datasets.mapped", "distributed"}

FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def room_of(path):
    """The folder of a file, as dotted words; of a file at the top, its own name."""
    folder = path.relative_to(ROOT).parent.parts
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    room = room_of(path)
    floor = next((i for i, floor in enumerate(FLOORS) if room in floor), None)
    assert floor is not None, f"{room} has no place in FLOORS"
    below = set().union(*FLOORS[floor + 1 :])
    assert set(rooms_imported(path)) - {room} <= below
    with_dgl = any(name.split(".")[0] == "dgl" for name in imported(path))
    assert room in WITH_DGL or not with_dgl


def test_rooms_are_few_and_not_crowded():
    rooms = {path.parent for path in FILES if path.parent != ROOT}
    assert len(rooms) <= 20
    assert max(len(list(room.glob("*.py"))) for room in rooms) <= 13  # and `__init__.py`
    assert {room_of(room / "x.py") for room in rooms} <= set().union(*FLOORS)


def test_every_room_is_in_the_wheel():
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    written = set(settings["tool"]["setuptools"]["packages"]) - {"zoo", "zoo.recipes"}
    assert written == {f"zoo.{room_of(path)}" for path in FILES if path.parent != ROOT}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "models").glob("[a-z]*.py")), ids=lambda path: path.stem
)
def test_models_do_not_import_each_other(path):
    others = {name for name in imported(path) if name.startswith("zoo.models.")}
    assert others <= {"zoo.models.message_passing.MessagePassing"}


def test_every_model_file_is_imported_by_name():
    written = {path.stem for path in (ROOT / "models").glob("[a-z]*.py")} - {"message_passing"}
    named = {name.split(".")[2] for name in imported(ROOT / "models" / "__init__.py")}
    assert written == named


def test_import_zoo_is_light_and_opens_no_connection():
    code = """
import socket, sys
def refuse(*arguments, **options): raise AssertionError("a connection was opened")
socket.socket.connect = refuse
import zoo
heavy = [name for name in ("torch", "dgl", "ogb", "scipy", "pandas") if name in sys.modules]
assert not heavy, heavy
zoo.list_models(); zoo.load_recipe("sgformer-digits-rba")
heavy = [name for name in ("ogb", "wandb", "matplotlib", "torch_geometric") if name in sys.modules]
assert not heavy, heavy
"""
    call = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_files_are_short():
    long = {path.name: n for path in FILES if (n := len(path.read_text().splitlines())) > 300}
    assert not long
