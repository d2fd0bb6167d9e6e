"""The command `zoo check`: the promises of a model, or of every model that a file registers."""

import ast
import json
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from zoo.cli import console
from zoo.cli.common import AsJson
from zoo.errors import ZooError

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODEL_OR_FILE", help="A word of `zoo list models`, or a .py or .ipynb file."
    ),
]


def check(target: Target, as_json: AsJson = False) -> None:
    """Hold a model to what every model promises; exit code 1 where a promise is broken.

    Of a file every model that it registers is checked. Of a notebook, imports,
    functions, classes and plain assignments are run, and nothing else.
    """
    start, found = time.perf_counter(), []
    tell = console.remark if as_json else console.say
    try:
        names = _models_of(target)
    except _Refused as error:
        names = []
        found.append(_line(target, "it_can_be_registered", [(target, str(error))], 0.0))
        _tell_promise(found[-1], set(), tell)
    for name in names:
        tell(f"{name}:")
        said: set[str] = set()
        for row in _checked(name):
            found.append(row)
            _tell_promise(row, said, tell)
    broken = [row for row in found if row["broken"]]
    seconds = time.perf_counter() - start
    if as_json:
        summary = {"promises": found, "kept": not broken, "seconds": round(seconds, 1)}
        typer.echo(json.dumps(summary))
    elif broken:
        more = "; fix them to see the others" if found[-1]["promise"] != LAST else ""
        tell(f"{len(broken)} of {len(found)} promises are broken, in {seconds:.0f} s{more}.")
    else:
        tell(f"{', '.join(names)} keeps all {len(found)} promises, in {seconds:.0f} s.")
    sys.exit(1 if broken else 0)


def _checked(name: str) -> Iterator[dict[str, Any]]:
    """Check a registered model and give a row for each promise, as soon as it is known."""
    from zoo.testing import model_promises

    for promise, cases in groupby(model_promises(name), lambda each: each.name):
        start = time.perf_counter()
        said = [(each.of, each.broken()) for each in cases]
        row = _line(name, promise, said, time.perf_counter() - start)
        yield row
        if promise in FIRST and len(row["broken"]) == row["cases"]:
            return


FIRST = "it_can_be_made", "one_row_of_finite_logits_per_node"
"""Promises without which every other is broken for the same reason."""

LAST = "it_says_what_it_is"


def _line(model: str, promise: str, said: list, seconds: float) -> dict[str, Any]:
    broken = [{"of": of, "said": text} for of, text in said if text is not None]
    return {
        "model": model,
        "promise": promise,
        "cases": len(said),
        "broken": broken,
        "seconds": round(seconds, 1),
    }


def _tell_promise(row: dict[str, Any], said: set[str], tell) -> None:
    """Say one promise: a line if it is kept, else also what is wrong, once for each text."""
    cases = "" if row["cases"] == 1 else f", {row['cases']} cases"
    words = row["promise"].replace("_", " ")
    tell(f"  {'broken' if row['broken'] else 'kept  '}  {words}{cases} ({row['seconds']:.1f} s)")
    for text, those in groupby(row["broken"], lambda each: each["said"]):
        of = [each["of"] for each in those]
        more = f" and {len(of) - 2} more" if len(of) > 2 else ""
        shown = "as above" if text in said else text
        tell(f"          {', '.join(of[:2])}{more}: {shown}")
        said.add(text)


class _Refused(Exception):
    """A model of a file that the registry did not take."""


def _models_of(target: str) -> list[str]:
    """Return the names of the models to check: one that is registered, or all of a file.

    Raises:
        _Refused: a model of the file cannot be registered.
        ZooError: there is no such model or file, it fails, or registers no model.
    """
    from zoo.errors import unknown
    from zoo.registry import MODELS
    from zoo.weights.create import list_models

    path, known = Path(target), list_models()
    if path.suffix not in SOURCES:
        if target not in known:
            raise ZooError(
                f"{unknown('model', target, known)} A file of your own is checked by `zoo check "
                "my_model.py`, with its ending."
            )
        return [target]
    if not path.is_file():
        raise ZooError(f"there is no file {path}.")
    before = dict(MODELS)
    _run(path, SOURCES[path.suffix](path))
    names = [name for name, model in MODELS.items() if before.get(name) is not model]
    if not names:
        raise ZooError(
            f"{path} registers no model. Write `@register_model('name')` above its class, with "
            "`from zoo import Model, register_model`."
        )
    return names


def _run(path: Path, source: ast.Module) -> None:
    """Run a file as a module of its own; its folder is searched for what it imports."""
    sys.path.insert(0, str(path.parent.resolve()))
    module = ModuleType(path.stem)
    module.__file__ = str(path.resolve())
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__file__, "exec"), module.__dict__)
    except ZooError as error:
        raise _Refused(str(error)) from error
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
        sources = ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise ZooError(f"{path} is not a notebook of Jupyter; save it again.") from None
    lines = [
        "" if line.lstrip().startswith(("%", "!", "?")) or line.rstrip().endswith("?") else line
        for source in sources
        if not source.lstrip().startswith("%%")
        for line in [*source.splitlines(), ""]
    ]
    whole = _parsed(path, "\n".join(lines))
    whole.body = [each for each in whole.body if _defines(each)]
    return whole


def _defines(statement: ast.stmt) -> bool:
    """Whether a statement defines something and trains nothing."""
    if isinstance(statement, DEFINITIONS):
        return True
    if isinstance(statement, ast.Expr):  # register_model("name")(Class)
        return "register_model" in ast.unparse(statement)
    calls = any(isinstance(each, ast.Call) for each in ast.walk(statement))
    return isinstance(statement, ast.Assign | ast.AnnAssign) and not calls


def _parsed(path: Path, source: str) -> ast.Module:
    try:
        return ast.parse(source, str(path))
    except SyntaxError as error:
        raise ZooError(f"{path}, line {error.lineno}: {error.msg}.") from None


DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef

SOURCES = {".py": _python, ".ipynb": _notebook}
"""Ending of a file to the function that reads what is to be run of it."""
