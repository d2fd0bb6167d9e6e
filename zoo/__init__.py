"""A model zoo of graph transformers on DGL, every attention in random batches if you like.

The public names below are imported when they are first used: `import zoo` itself is quick, and
works where DGL or torch is broken, so that `zoo doctor` can say what is wrong.
"""

import importlib
import os

# DGL writes a file into the home folder, and says so, when nobody names its back end.
os.environ.setdefault("DGLBACKEND", "pytorch")

_HOMES = {
    "ATTENTIONS": "zoo.nn.attention",
    "DATASETS": "zoo.datasets.load",
    "Dataset": "zoo.datasets",
    "ENCODINGS": "zoo.encodings",
    "MODELS": "zoo.registry",
    "Model": "zoo.registry",
    "Output": "zoo.registry",
    "PROPAGATIONS": "zoo.nn.propagation",
    "Recipe": "zoo.config.recipe",
    "ZooError": "zoo.errors",
    "canonical": "zoo.datasets",
    "create_model": "zoo.weights.create",
    "embed": "zoo.inference.predict",
    "evaluate": "zoo.inference.predict",
    "list_models": "zoo.weights.create",
    "load": "zoo.weights.load",
    "load_graph": "zoo.datasets.load",
    "load_recipe": "zoo.experiments.resolve",
    "pick": "zoo.config.options",
    "predict": "zoo.inference.predict",
    "register_model": "zoo.registry",
    "run_recipe": "zoo.experiments.run",
    "save": "zoo.weights.load",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    try:
        return importlib.import_module(f"{__name__}.{name}")  # zoo.encodings.laplacian(...)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module 'zoo' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
