"""What `zoo doctor` looks at: each package in a process of its own, so that none hides another."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from zoo.system import allocator
from zoo.system.files import cache_folder, data_folders

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


class Diagnosis(NamedTuple):
    """One thing looked at: what was found, and the line that fixes it (empty: nothing to fix).

    `needed` is False for what the zoo works without.
    """

    name: str
    found: str
    fix: str = ""
    needed: bool = True


def examine() -> list[Diagnosis]:
    """Look at the packages, DGL's kernels, the GPU, and the folders of data and cache."""
    with ThreadPoolExecutor() as pool:  # each thread only waits for its process
        packages = pool.map(_package, _PACKAGES, _PACKAGES.values())
        kernels, gpu = pool.submit(_kernels), pool.submit(_gpu)
        python = Diagnosis("python", sys.version.split()[0])
        return [python, *packages, kernels.result(), gpu.result(), _allocator(), *_folders()]


def _try(code: str) -> tuple[bool, str]:
    """Run a line of Python in a new process; return whether it worked and its last line."""
    code = f"import sys; sys.path.append({_HOME!r}); {code}"
    environment = {**os.environ, "DGLBACKEND": "pytorch", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, env=environment
    )
    text = done.stdout if done.returncode == 0 else done.stderr
    lines = text.strip().splitlines() or [f"exit code {done.returncode}"]
    return done.returncode == 0, lines[-1]


def _package(name: str, fix: str) -> Diagnosis:
    # The metadata is read in the same process: ogb, for one, carries no __version__ attribute.
    module = "zoo.dgl" if name == "dgl" else name
    code = (
        f"import {module}, importlib.metadata as m;"
        f"print(m.version(m.packages_distributions()[{name!r}][0]))"
    )
    works, line = _try(code)
    return Diagnosis(name, line, "" if works else fix)


def _kernels() -> Diagnosis:
    works, line = _try("from zoo.dgl import dgl, STANDS_IN; print(STANDS_IN, dgl.__version__)")
    if not works:
        return Diagnosis("dgl kernels", "DGL does not import", DGL_FIX)
    wheel = (
        "CUDA wheel"
        if "+cu" in line
        else "CPU wheel; on CUDA the zoo's torch kernels carry the graph work"
    )
    without = "; without graphbolt, which is for another torch and not needed"
    return Diagnosis("dgl kernels", wheel + without * line.startswith("True"))


def _gpu() -> Diagnosis:
    works, line = _try(
        "import torch; c = torch.cuda;"
        "print(c.get_device_name() if c.is_available() else '', torch.version.cuda or '', sep='|')"
    )
    if not works:
        return Diagnosis("gpu", "torch does not import", TORCH_FIX)
    name, _, cuda = line.partition("|")
    if name:
        return Diagnosis("gpu", f"{name}, CUDA {cuda}")
    if shutil.which("nvidia-smi"):
        return Diagnosis("gpu", "there is one, but torch does not see it", CUDA_FIX, needed=False)
    return Diagnosis("gpu", "none; everything runs on the CPU")


def _allocator() -> Diagnosis:
    found = allocator.installed()
    if found:
        return Diagnosis("allocator", f"{found.name}, {found.found()}, for training")
    none = "the C library's; training holds a third more on large graphs"
    return Diagnosis("allocator", none, allocator.INSTALL, needed=False)


def _folders() -> list[Diagnosis]:
    first, *others = data_folders()
    writable = os.access(_nearest(first), os.W_OK)
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
