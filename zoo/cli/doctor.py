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
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "yaml": "PyYAML"}
"""By the module where the name is another."""
_BESIDES = {
    "torch": "torch.version.cuda, torch.cuda.is_available() and torch.cuda.get_device_name()",
    "dgl": "zoo.dgl.STANDS_IN",
}
"""What is asked of a package beside its version."""


class Diagnosis(NamedTuple):
    """One thing looked at: what was found, and the line that fixes it (empty: nothing to fix).

    `needed` is False for what the zoo works without.
    """

    name: str
    found: str
    fix: str = ""
    needed: bool = True


def diagnose() -> int:
    """Print what is found, with the line that fixes what is broken; return the exit code."""
    table, found = Table(box=None, show_header=False, pad_edge=False), examine()
    for each in found:
        mark = (
            "[green]ok[/]" if not each.fix else "[red]broken[/]" if each.needed else "[yellow]-[/]"
        )
        table.add_row(mark, each.name, plain(each.found))
        if each.fix:
            table.add_row("", "", f"[bold]{plain(in_the_shell(each.fix))}[/]")
    out.print(table)
    return 1 if any(each.fix and each.needed for each in found) else 0


def examine() -> list[Diagnosis]:
    """Look at the packages, DGL's kernels, the GPU, and the folders of data and cache."""
    with ThreadPoolExecutor() as pool:  # each thread only waits for its process
        found = dict(zip(_PACKAGES, pool.map(_imported, _PACKAGES), strict=True))
    packages = [
        Diagnosis(name, said[0], "" if works else _PACKAGES[name])
        for name, (works, said) in found.items()
    ]
    broken = (False, [""])
    kernels, gpu = _kernels(*found.get("dgl", broken)), _gpu(*found.get("torch", broken))
    python = Diagnosis("python", sys.version.split()[0])
    return [python, *packages, kernels, gpu, _allocator(), *_folders()]


def _imported(name: str) -> tuple[bool, list[str]]:
    """Import a package in a new process; return whether it worked and what was said of it.

    That is its version and what `_BESIDES` asks, or the last line of an error.
    """
    module = "zoo.dgl" if name == "dgl" else name
    # The metadata is read in the same process: ogb, for one, carries no __version__ attribute.
    said = f"m.version({_DISTRIBUTIONS.get(name, name)!r}), {_BESIDES.get(name, '')}"
    code = (
        f"import sys; sys.path.append({_HOME!r}); import {module}, importlib.metadata as m; "
        f"print(*({said}), sep='|')"
    )
    environment = {**os.environ, "DGLBACKEND": "pytorch", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment
    )
    works = done.returncode == 0
    lines = (done.stdout if works else done.stderr).strip().splitlines()
    last = lines[-1] if lines else f"exit code {done.returncode}"
    return works, last.split("|") if works else [last]


def _kernels(works: bool, said: list[str]) -> Diagnosis:
    """Say what the import of DGL found of its kernels."""
    if not works:
        return Diagnosis("dgl kernels", "DGL does not import", DGL_FIX)
    wheel = (
        "CUDA wheel"
        if "+cu" in said[0]
        else "CPU wheel; on CUDA the zoo's torch kernels carry the graph work"
    )
    without = "; without graphbolt, which is for another torch and not needed"
    return Diagnosis("dgl kernels", wheel + without * (said[1] == "True"))


def _gpu(works: bool, said: list[str]) -> Diagnosis:
    """Say what the import of torch found of a GPU."""
    if not works:
        return Diagnosis("gpu", "torch does not import", TORCH_FIX)
    cuda, name = said[1:]
    if name != "False":
        return Diagnosis("gpu", f"{name}, CUDA {cuda}")
    if shutil.which("nvidia-smi"):
        return Diagnosis("gpu", "there is one, but torch does not see it", CUDA_FIX, needed=False)
    return Diagnosis("gpu", "none; everything runs on the CPU")


def _allocator() -> Diagnosis:
    found = allocator.installed()
    if found:
        return Diagnosis("allocator", f"{found.name}, {found.library()}, for training")
    none = "the C library's; training holds a third more on large graphs"
    return Diagnosis("allocator", none, allocator.INSTALL, needed=False)


def _folders() -> list[Diagnosis]:
    first, *others = data_folders()
    writable = _nearest(first).is_dir() and os.access(_nearest(first), os.W_OK)
    fix = "" if writable else "export ZOO_DATA=/a/folder/you/may/write:" + str(first)
    seen = [str(each) + ("" if each.is_dir() else " (not there)") for each in others]
    more = ", ".join(seen) or "none; add folders to ZOO_DATA, separated by ':'"
    return [
        Diagnosis("data", f"{first.absolute()} (written to)", fix),
        Diagnosis("more data", more),
        Diagnosis("cache", str(cache_folder().absolute())),
    ]


def _nearest(folder):
    """Return the folder, or the nearest of its parents that exists."""
    absolute = folder.absolute()
    return next(each for each in (absolute, *absolute.parents) if each.exists())
