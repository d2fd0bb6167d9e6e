"""The scripts of benchmarks/, imported by their paths."""

import importlib.util
from pathlib import Path

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def script(name):
    """Return a script as a module."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
