"""What a word, a file or a notebook stands for: what `zoo check` holds to promises."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from types import ModuleType

from zoo.config.options import Table
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError, unknown
from zoo.nn.attention import ATTENTIONS
from zoo.nn.propagation import PROPAGATIONS
from zoo.registry import MODELS, discover

TABLES: dict[str, Table] = {
    "model": MODELS,
    "attention": ATTENTIONS,
    "propagation": PROPAGATIONS,
    "encoding": ENCODINGS,
}
"""What can be checked, by its kind."""


class RefusedModel(Exception):
    """A model of a file that the registry did not take."""


def words_of(target: str) -> list[tuple[str, str]]:
    """Return what is to be checked, kind and word each: all that a word is, or all of a file.

    Raises:
        RefusedModel: a model of the file cannot be registered.
        ZooError: there is no such word or file, it fails, or registers nothing.
    """
    path = Path(target)
    discover()  # words of other packages
    if path.suffix not in SOURCES:
        if found := [(kind, target) for kind, table in TABLES.items() if target in table]:
            return found
        if path.exists():
            raise ZooError(
                f"{path} holds no model: write a .py or .ipynb file, or a model's name. Data is "
                f"checked by `zoo data check {path}`, a recipe by `zoo show {path}`."
            )
        known = {word for table in TABLES.values() for word in table}
        raise ZooError(
            f"{unknown('model, attention, propagation or encoding', target, known)} A file of your "
            "own is checked by `zoo check my_model.py`, with its ending."
        )
    if not path.is_file():
        raise ZooError(f"there is no file {path}.")
    before = {kind: table.imported() for kind, table in TABLES.items()}
    places = {kind: {*table} for kind, table in TABLES.items()}
    _run(path, SOURCES[path.suffix](path))
    found = [
        (kind, word)
        for kind, table in TABLES.items()
        for word, built in table.imported().items()
        if word not in places[kind] or before[kind].get(word, built) is not built
    ]
    if not found:
        raise ZooError(
            f"{path} registers nothing that has promises, as losses, metrics and data sets have "
            "none. Write `@register_model('name')` above the class of a model, with `from zoo "
            "import Model, register_model`; or `ATTENTIONS['name'] = ...`, and likewise "
            "`PROPAGATIONS` and `ENCODINGS`."
        )
    return found


def _run(path: Path, source: ast.Module) -> None:
    """Run a file as a module of its own; its folder is searched for what it imports."""
    sys.path.insert(0, str(path.parent.resolve()))
    module = ModuleType(path.stem)
    module.__file__ = str(path.resolve())
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__file__, "exec"), module.__dict__)
    except ZooError as error:
        raise RefusedModel(str(error)) from error
    except Exception as error:  # a user's file may raise anything
        raise ZooError(
            f"{path} cannot be run: {type(error).__name__}: {error} (line "
            f"{_line_of(error, module)}). Nothing is checked before that is fixed."
        ) from error


def _line_of(error: BaseException, module: ModuleType) -> str:
    trace, line = error.__traceback__, "unknown"
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == module.__file__:
            line = str(trace.tb_lineno)
        trace = trace.tb_next
    return line


def _python(path: Path) -> ast.Module:
    return _parsed(path, path.read_text(encoding="utf-8"))


def _notebook(path: Path) -> ast.Module:
    """Return what the code cells of a notebook define, without magics and without calls."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise ZooError(f"{path} is not a notebook of Jupyter; save it again.") from None
    lines = [
        "" if line.lstrip().startswith(("%", "!", "?")) or line.rstrip().endswith("?") else line
        for source in sources
        if not source.lstrip().startswith("%%")
        for line in [*source.splitlines(), ""]
    ]
    whole = _parsed(path, "\n".join(lines))
    whole.body = [statement for statement in whole.body if _defines(statement)]
    return whole


def _defines(statement: ast.stmt) -> bool:
    """Whether a statement defines something and trains nothing."""
    if isinstance(statement, DEFINITIONS):
        return True
    if isinstance(statement, ast.Expr):  # register_model("name")(Class)
        return "register_model" in ast.unparse(statement)
    calls = any(isinstance(node, ast.Call) for node in ast.walk(statement))
    return isinstance(statement, ast.Assign | ast.AnnAssign) and not calls


def _parsed(path: Path, source: str) -> ast.Module:
    try:
        return ast.parse(source, str(path))
    except SyntaxError as error:
        raise ZooError(f"{path}, line {error.lineno}: {error.msg}.") from None


DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef

SOURCES = {".py": _python, ".ipynb": _notebook}
"""Ending of a file to the function that reads what is to be run of it."""
