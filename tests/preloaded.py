"""Commands in processes that begin where a new one is after three seconds of imports.

A server that has imported torch, DGL and what else the zoo imports, but nothing of the zoo, forks
for each command: `multiprocessing` calls this `forkserver` and starts it with the first. As in a
new process, the command imports the zoo itself, from the folder it runs in, has an environment
and streams of its own, and may end as it likes. What a test says of a process itself, its signals,
its terminal, its memory or the time of its start, it says of one that `subprocess` started.
"""

import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import types
import warnings
from pathlib import Path

MODULES = (
    "torch", "torch.fx.experimental.symbolic_shapes", "preloaded_dgl", "sklearn.datasets",
    "scipy.stats", "scipy.sparse.csgraph", "pandas", "pydantic", "typer", "rich.progress",
    "rich.table", "yaml",
)  # fmt: skip
"""What is imported beforehand."""

QUICK = {"PYTHONWARNINGS": "ignore", "MALLOC_ARENA_MAX": "8"}
"""What commands have: with a variable of an allocator, training does not begin anew on another."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*MODULES, __name__])


def run_preloaded(words, folder, **environment):
    """Run `python WORDS...` without warnings; return what `subprocess.run` would, done.

    Args:
        words: behind `python`: `-m` and a module, `-c` and code, or a script, and their arguments.
        folder: where it runs, and where its imports are looked for first.
        environment: what it has besides that of the test.
    """
    with tempfile.TemporaryDirectory() as place:
        streams = [Path(place, name) for name in ("out", "err")]
        environment = {**os.environ, **QUICK, **environment}
        process = FORKS.Process(target=_become, args=(words, str(folder), environment, streams))
        with _here_in_path():  # of the server, which the first command starts
            process.start()
        process.join()
        said = [path.read_text() for path in streams]
    return subprocess.CompletedProcess(words, process.exitcode, *said)


@contextlib.contextmanager
def _here_in_path():
    kept = os.environ.get("PYTHONPATH")
    own = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = own if kept is None else f"{own}{os.pathsep}{kept}"
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        os.environ |= {} if kept is None else {"PYTHONPATH": kept}


def _become(words, folder, environment, streams):
    """Do what `python WORDS...` would, in this process."""
    for number, path in enumerate(streams, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("ignore")
    sys.path.insert(0, folder)
    sys.orig_argv = [sys.executable, *words]
    kind, rest = (words[0], words[1:]) if words[0] in ("-m", "-c") else ("script", words)
    sys.argv = [kind if kind == "-c" else rest[0], *rest[1:]]
    {"-m": _module, "-c": _code, "script": _script}[kind](rest[0])


def _module(name):
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _script(path):
    runpy.run_path(path, run_name="__main__")


def _code(text):
    sys.modules["__main__"] = types.ModuleType("__main__")
    exec(text, vars(sys.modules["__main__"]))
