"""What a run depends on beside its recipe: device, threads, versions, the state of the checkout."""

import contextlib
import functools
import hashlib
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

from zoo.errors import ZooError
from zoo.system import allocator, process_group

PACKAGES = ("graph-transformer-zoo", "torch", "dgl", "numpy", "scipy", "scikit-learn", "ogb")
"""The packages whose versions every run writes down."""

_CODE = ("encodings", "graphs", "models", "nn", "ops", "sequences", "training")


def choose_device(word: str) -> torch.device:
    """Return the device of a word: `auto` (CUDA where there is one), `cpu` or `cuda`.

    Of several processes each gets a CUDA device of its own.

    Raises:
        ZooError: another word, no CUDA device where one is asked for, or fewer than processes.
    """
    if word not in ("auto", "cpu", "cuda"):
        raise ZooError(f"no device is called {word!r}; write `auto`, `cpu` or `cuda`.")
    if word == "cuda" and not torch.cuda.is_available():
        raise ZooError("torch sees no CUDA device; write `--device cpu`, or see `zoo doctor`.")
    default = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(default if word == "auto" else word)
    if device.type == "cuda" and process_group.count() > 1:
        return torch.device("cuda", _own_gpu())
    return device


def _own_gpu() -> int:
    """Return the number of this process's GPU among those of its machine."""
    rank = int(os.environ.get("LOCAL_RANK", process_group.rank()))
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", process_group.count()))
    gpus = torch.cuda.device_count()
    if processes > gpus:
        raise ZooError(
            f"{processes} processes want a GPU each, and torch sees {gpus} on this machine: NCCL, "
            f"by which they talk, has no two of them on one. Write `--processes {gpus}`, or "
            "`--device cpu`."
        )
    return rank


def environment(device: torch.device) -> dict[str, Any]:
    """Return what a run writes down about where it ran, as plain data."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": _git_state(),
        **last_digits(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "threads": torch.get_num_threads(),
        "allocator": allocator.in_use(),
        "processes": process_group.count(),
        "command": sys.argv,
    }


@functools.cache  # of the process, as the code that it has read
def code_sha256() -> str:
    """Return the first digits of the checksum of the code of models and training."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for room in _CODE for path in (root / room).rglob("*.py")):
        digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def last_digits(device: torch.device) -> dict[str, Any]:
    """Return what the last digits of a run depend on beside its processes and threads."""
    return {
        "code": code_sha256(),
        "device": str(device),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "packages": {name: installed_version(name) for name in PACKAGES},
    }


def of_one_kind(device: str, other: str) -> bool:
    """Return whether devices are of one kind, such as `cuda:0` and `cuda:1` of two processes."""
    return device.partition(":")[0] == other.partition(":")[0]


@contextlib.contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads inside; None: as many as it does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(count or threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Let torch, NumPy and SciPy use one thread inside; `using_threads` may give torch more."""
    with using_threads(1), _linear_algebra().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _linear_algebra() -> ThreadpoolController:
    """Return what the threads of NumPy's and SciPy's libraries are set by; found in 10 ms."""
    return ThreadpoolController()


@functools.cache  # of the process, as the packages that it has imported
def installed_version(package: str) -> str | None:
    """Return the version of an installed package, of torch with its build; None where missing."""
    if package == "torch":  # its metadata need not say +cpu or +cu130
        return torch.__version__
    if package == "dgl" and "zoo.dgl" in sys.modules and "dgl" not in sys.modules:
        return None  # it is left aside, or does not import
    with contextlib.suppress(PackageNotFoundError):
        return version(package)
    if package == "graph-transformer-zoo":  # a checkout that is not installed
        with contextlib.suppress(OSError, KeyError, tomllib.TOMLDecodeError):
            text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
            project = tomllib.loads(text)["project"]
            return project["version"] if project["name"] == package else None
    return None


@functools.cache  # of the process, as the code that it has read
def _git_state() -> dict[str, Any] | None:
    """Return the commit of the zoo's own checkout and whether files differ; None without git."""
    root = Path(__file__).parents[2]

    def git(*words: str) -> str:
        call = ["git", "-C", str(root), *words]
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()

    if not (root / ".git").exists():
        return None
    try:
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return None
