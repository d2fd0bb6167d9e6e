"""Imports go down, never up or across; DGL stays in three places; `import zoo` stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "zoo"

LAYERS = [
    {"allocator", "along", "blocks", "quiet", "threads"},
    {
        "bags",
        "dropout",
        "errors",
        "memory",
        "gumbel_kernel",
        "linear_map",
        "precision",
        "processes",
        "storage",
        "sums",
    },
    {"linear_attention", "table", "yaml_reader", "shards", "profile"},
    {"about", "gram"},
    {"weights_folder"},
    {"transfer"},
    {"structure", "deal"},
    {
        "registry",
        "recipe",
        "kernels",
        "subgraphs",
        "random_batch",
        "random_features",
    },
    {"chebyshev"},
    {"krylov"},
    {"eigenvectors"},
    {"attention", "propagation", "encodings", "datasets", "splits", "tasks"},
    {"sparse_features"},
    {"layers"},
    {"models"},
    {"card", "checkpoint", "partition", "passes"},
    {"distributed"},
    {"batching", "layerwise"},
    {"steps", "weights", "environment", "doctor", "data_check"},
    {"train", "record", "disk_check"},
    {"alignment", "hub"},
    {"plan", "finetune", "prediction", "data_plot"},
    {"servers", "summary"},
    {"run", "evaluation", "launch"},
    {"compare", "estimate"},
    {"studies"},
    {"catalogue"},
    {"info", "screen"},
    {"command"},
    {"weights_command", "data_command"},
    {"cli"},
    {"__main__"},
]
"""From the ground up: a file may import from the layers below its own, and its own package."""

MAY_IMPORT_DGL = {
    "shards",
    "structure",
    "subgraphs",
    "kernels",
    "propagation",
    "datasets",
    "partition",
    "distributed",
}


def part_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path):
    """Every module name that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write absolute imports"
            yield from ([f"zoo.{each.name}" for each in node.names] if node.module == "zoo" else
                        [node.module])  # fmt: skip


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    part = part_of(path)
    level = next((i for i, layer in enumerate(LAYERS) if part in layer), None)
    assert level is not None, f"{part} has no place in LAYERS"
    below = set().union(*LAYERS[:level])
    for name in imported(path):
        top, _, rest = name.partition(".")
        if top == "dgl":
            assert part in MAY_IMPORT_DGL
        if top == "zoo" and rest.split(".")[0] != part:
            assert rest.split(".")[0] in below, f"{path.name} imports {name}, which is not below it"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "models").glob("[a-z]*.py")), ids=lambda path: path.stem
)
def test_models_do_not_import_each_other(path):
    assert not [name for name in imported(path) if name.startswith("zoo.models")]


def test_every_model_file_is_imported_by_name():
    written = {path.stem for path in (ROOT / "models").glob("[a-z]*.py")}
    named = {name.split(".")[-1] for name in imported(ROOT / "models" / "__init__.py")}
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
