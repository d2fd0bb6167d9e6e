"""What `zoo doctor` looks at: each package in a process of its own, so that none hides another."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from zoo.cli.console import out, plain
from zoo.config.overrides import in_the_shell
from zoo.system import allocator
from zoo.system.cache import cache_folder, data_folders

TORCH_FIX = 'pip install "torch>=2.3"'
DGL_FIX = f'pip install "dgl{"==1.1.3" if sys.version_info < (3, 12) else "==2.1.0"}" packaging'
"""Of a DGL that is installed and does not import."""
CUDA_FIX = "pip install --upgrade torch --index-url https://download.pytorch.org/whl/cu130"

_HOME = str(Path(__file__).parents[2])  # of the zoo, installed or not
_PACKAGES = {
    "torch": TORCH_FIX,
    "dgl": DGL_FIX,
    "numpy": "pip install numpy",
    "scipy": "pip install scipy",
    "sklearn": "pip install scikit-learn",
    "ogb": "pip install ogb",
    "yaml": "pip install PyYAML",
    "pyarrow": "pip install pyarrow",
    "pydantic": 'pip install "pydantic>=2.7"',
    "safetensors": "pip install safetensors",
    "matplotlib": "pip install matplotlib",
}
_GRAPHS = """import zoo.dgl as z
if z.FAILURE: raise z.FAILURE
print(m.version("dgl") if z.HAS_DGL else "hidden by ZOO_WITHOUT_DGL" if z.HIDDEN else "none",
      z.HAS_DGL, z.STANDS_IN, sep="|")
"""
"""What is asked of DGL: its version, whether it is used, and whether graphbolt is missing."""
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "PyYAML"}
"""By the module where the name is another."""
_EXTRA = {
    "torch": "torch.version.cuda, torch.cuda.is_available() and torch.cuda.get_device_name()",
}
"""What is printed of a package beside its version."""


class Diagnosis(NamedTuple):
    """One line of the answer: what was found, and the line that fixes it (empty: nothing to fix).

    `needed` is False for what the zoo works without.
    """

    name: str
    found: str
    fix: str = ""
    needed: bool = True


class Import(NamedTuple):
    """Whether a package imports: its version and `_EXTRA`, or the last line of the error."""

    works: bool
    answers: list[str]


def diagnose() -> int:
    """Print what is found, with the line that fixes what is broken; return the exit code."""
    table, diagnoses = Table.grid(padding=(0, 2, 0, 0)), examine()
    for name, found, fix, needed in diagnoses:
        broken = "[red]broken[/]" if needed else "[yellow]-[/]"
        table.add_row(broken if fix else "[green]ok[/]", name, plain(found))
        if fix:
            table.add_row("", "", f"[bold]{plain(in_the_shell(fix))}[/]")
    out.print(table)
    return 1 if any(fix and needed for _, _, fix, needed in diagnoses) else 0


def examine() -> list[Diagnosis]:
    """Look at the packages, the graphs, the GPU, and the folders of data and cache."""
    with ThreadPoolExecutor() as pool:  # each thread only waits for its process
        imports = dict(zip(_PACKAGES, pool.map(_import, _PACKAGES), strict=True))
    packages = [
        Diagnosis(name, answers[0], "" if works else _PACKAGES[name])
        for name, (works, answers) in imports.items()
    ]
    missing = Import(False, [""])
    graphs, gpu = _graphs(imports.get("dgl", missing)), _gpu(imports.get("torch", missing))
    python = Diagnosis("python", sys.version.split()[0])
    return [python, *packages, graphs, gpu, _allocator(), *_folders()]


def _import(name: str) -> Import:
    """Import a package in a new process, DGL as the zoo does."""
    # The metadata is read in the same process: ogb, for one, carries no __version__ attribute.
    answers = f"m.version({_DISTRIBUTIONS.get(name, name)!r}), {_EXTRA.get(name, '')}"
    code = f"import sys; sys.path.append({_HOME!r}); import importlib.metadata as m; " + (
        _GRAPHS if name == "dgl" else f"import {name}; print(*({answers}), sep='|')"
    )
    environment = {**os.environ, "DGLBACKEND": "pytorch", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment
    )
    works = done.returncode == 0
    lines = (done.stdout if works else done.stderr).strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}"
    return Import(works, last.split("|") if works else [last])


def _graphs(dgl: Import) -> Diagnosis:
    """Say which graphs are in use, DGL's or the zoo's own."""
    if not dgl.works:
        return Diagnosis("graphs", "the zoo's own, since DGL does not import")
    version, used, stands_in = dgl.answers
    if used == "False":
        return Diagnosis("graphs", "the zoo's own; `.bin` files and heterographs need DGL")
    wheel = (
        "CUDA wheel"
        if "+cu" in version
        else "CPU wheel; on CUDA the zoo's torch kernels carry the graph work"
    )
    without = "; without graphbolt, which is for another torch and not needed"
    return Diagnosis("graphs", "DGL's, a " + wheel + without * (stands_in == "True"))


def _gpu(torch: Import) -> Diagnosis:
    if not torch.works:
        return Diagnosis("gpu", "torch does not import", TORCH_FIX)
    _, cuda, name = torch.answers
    if name != "False":
        return Diagnosis("gpu", f"{name}, CUDA {cuda}")
    if shutil.which("nvidia-smi"):
        return Diagnosis("gpu", "there is one, but torch does not see it", CUDA_FIX, needed=False)
    return Diagnosis("gpu", "none; everything runs on the CPU")


def _allocator() -> Diagnosis:
    if found := allocator.installed():
        return Diagnosis("allocator", f"{found.name}, {found.shared_object()}, for training")
    none = "the C library's; training holds a third more on large graphs"
    return Diagnosis("allocator", none, allocator.INSTALL, needed=False)


def _folders() -> list[Diagnosis]:
    first, *others = data_folders()
    place = first.absolute()
    nearest = next(folder for folder in (place, *place.parents) if folder.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    fix = "" if writable else "export ZOO_DATA=/a/folder/you/may/write:" + str(first)
    names = [str(folder) + ("" if folder.is_dir() else " (not there)") for folder in others]
    more = ", ".join(names) or "none; add folders to ZOO_DATA, separated by ':'"
    return [
        Diagnosis("data", f"{place} (written to)", fix),
        Diagnosis("more data", more),
        Diagnosis("cache", str(cache_folder().absolute())),
    ]
