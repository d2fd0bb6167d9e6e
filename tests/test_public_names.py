"""The public names: the lazy table and what editors read are one list; signatures are readable."""

import ast
import importlib
import inspect
import tomllib
from pathlib import Path

import pytest

import zoo
from zoo.config.options import Count, Fraction, NonNegative, Positive, Rate, Seed, adapter

ROOT = Path(zoo.__file__).parent


def static_imports():
    """What is imported under `if TYPE_CHECKING:`, name to module."""
    branches = [each for each in ast.parse((ROOT / "__init__.py").read_text()).body]
    (block,) = (each for each in branches if isinstance(each, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    for each in block.body:
        for name in each.names:
            assert name.asname == name.name, f"{name.name} is exported by `as {name.name}` alone"
            yield name.name, each.module


def test_editors_read_the_names_that_are_imported_when_they_are_used():
    found = dict(static_imports())
    rooms = {name for name, module in found.items() if module == "zoo"}
    assert {name: module for name, module in found.items() if module != "zoo"} == zoo._HOMES
    assert {importlib.import_module(f"zoo.{name}") for name in rooms} == {
        getattr(zoo, name) for name in rooms
    }
    assert sorted(zoo._HOMES) == zoo.__all__ and set(zoo.__all__) <= set(dir(zoo))


@pytest.mark.parametrize("name", zoo.__all__)
def test_every_public_name_says_what_it_is(name):
    assert getattr(zoo, name) is getattr(importlib.import_module(zoo._HOMES[name]), name)


def test_the_wheel_says_that_it_is_typed():
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["zoo"]
    assert (ROOT / "py.typed").is_file()


def test_the_version_is_that_of_the_package(command):
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())
    version = settings["project"]["version"]
    assert zoo.__version__ == version
    assert command("--version") == (0, f"zoo {version}\n", "")


@pytest.mark.parametrize("name", zoo.list_models())
def test_a_signature_shows_plain_types(name):
    said = str(inspect.signature(zoo.MODELS[name]))
    assert said.startswith("(in_dim: int, out_dim: int, *, ")
    for noise in ("FieldInfo", "<function", "<class", "object at"):
        assert noise not in said


def test_a_signature_shows_bounds_and_words():
    said = str(inspect.signature(zoo.MODELS["sgformer"]))
    assert (
        "Annotated[int, at least 1] = 64" in said
        and "<attention: clusters, codebook, linear, native" in said
    )


@pytest.mark.parametrize(
    "kind,schema",
    [
        (Count, {"type": "integer", "minimum": 1, "maximum": 3_000_000_000}),
        (Seed, {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**63}),
        (Positive, {"type": "number", "exclusiveMinimum": 0, "maximum": 1e30}),
        (NonNegative, {"type": "number", "minimum": 0, "maximum": 1e30}),
        (Fraction, {"type": "number", "minimum": 0, "maximum": 1}),
        (Rate, {"type": "number", "minimum": 0, "exclusiveMaximum": 1}),
    ],
)
def test_kinds_of_options_have_the_schema_that_they_say(kind, schema):
    assert adapter(kind).json_schema() == schema


def test_help_says_where_the_options_are():
    said = inspect.getdoc(zoo.create_model)
    assert "zoo info" in said and 'inspect.signature(zoo.MODELS["sgformer"])' in said
