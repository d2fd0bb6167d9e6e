"""A model zoo of graph transformers on PyTorch, every attention in random batches if you like.

The public names below are imported when they are first used: `import zoo` itself is quick, and
works where DGL or torch is broken, so that `zoo doctor` can say what is wrong.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what editors and type checkers read in the place of the table below
    from zoo import data as data
    from zoo import encodings as encodings
    from zoo import testing as testing
    from zoo.cli.progress_bar import progress_bar as progress_bar
    from zoo.config.options import pick as pick
    from zoo.config.recipe import Recipe as Recipe
    from zoo.data import Dataset as Dataset
    from zoo.data import canonical as canonical
    from zoo.data.graph_words import GRAPHS as GRAPHS
    from zoo.data.load import DATASETS as DATASETS
    from zoo.data.load import load_data as load_data
    from zoo.data.load import load_graph as load_graph
    from zoo.data.splits import split as split
    from zoo.encodings import ENCODINGS as ENCODINGS
    from zoo.errors import ZooError as ZooError
    from zoo.inference.evaluate import evaluate as evaluate
    from zoo.inference.links import predict_links as predict_links
    from zoo.inference.predict import embed as embed
    from zoo.inference.predict import predict as predict
    from zoo.nn.attention import ATTENTIONS as ATTENTIONS
    from zoo.nn.propagation import PROPAGATIONS as PROPAGATIONS
    from zoo.registry import MODELS as MODELS
    from zoo.registry import Model as Model
    from zoo.registry import Output as Output
    from zoo.registry import register_model as register_model
    from zoo.reports.report import write_report as write_report
    from zoo.runs.commands import compare as compare
    from zoo.runs.commands import finetune as finetune
    from zoo.runs.commands import list_recipes as list_recipes
    from zoo.runs.commands import train as train
    from zoo.runs.commands import tune as tune
    from zoo.runs.resolve import load_recipe as load_recipe
    from zoo.runs.run import run_recipe as run_recipe
    from zoo.tasks import LOSSES as LOSSES
    from zoo.tasks import METRICS as METRICS
    from zoo.training.batches import BATCHING as BATCHING
    from zoo.weights.create import create_model as create_model
    from zoo.weights.create import list_models as list_models
    from zoo.weights.save_and_load import load as load
    from zoo.weights.save_and_load import save as save

# DGL writes a file into the home folder, and says so, when nobody names its back end.
os.environ.setdefault("DGLBACKEND", "pytorch")

_HOMES = {
    "ATTENTIONS": "zoo.nn.attention",
    "BATCHING": "zoo.training.batches",
    "DATASETS": "zoo.data.load",
    "Dataset": "zoo.data",
    "ENCODINGS": "zoo.encodings",
    "GRAPHS": "zoo.data.graph_words",
    "LOSSES": "zoo.tasks",
    "METRICS": "zoo.tasks",
    "MODELS": "zoo.registry",
    "Model": "zoo.registry",
    "Output": "zoo.registry",
    "PROPAGATIONS": "zoo.nn.propagation",
    "Recipe": "zoo.config.recipe",
    "ZooError": "zoo.errors",
    "canonical": "zoo.data",
    "compare": "zoo.runs.commands",
    "create_model": "zoo.weights.create",
    "embed": "zoo.inference.predict",
    "evaluate": "zoo.inference.evaluate",
    "finetune": "zoo.runs.commands",
    "list_models": "zoo.weights.create",
    "list_recipes": "zoo.runs.commands",
    "load": "zoo.weights.save_and_load",
    "load_data": "zoo.data.load",
    "load_graph": "zoo.data.load",
    "load_recipe": "zoo.runs.resolve",
    "pick": "zoo.config.options",
    "predict": "zoo.inference.predict",
    "predict_links": "zoo.inference.links",
    "progress_bar": "zoo.cli.progress_bar",
    "register_model": "zoo.registry",
    "run_recipe": "zoo.runs.run",
    "save": "zoo.weights.save_and_load",
    "split": "zoo.data.splits",
    "train": "zoo.runs.commands",
    "tune": "zoo.runs.commands",
    "write_report": "zoo.reports.report",
}

_ROOMS = ("__version__", "data", "encodings", "testing")

__all__ = sorted(_HOMES)

__version__: str


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home = importlib.import_module(_HOMES[name])
        if name.isupper():  # a table, to which other packages may add words
            importlib.import_module(_HOMES["MODELS"]).discover()
        return getattr(home, name)
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("graph-transformer-zoo")
        except metadata.PackageNotFoundError:
            raise AttributeError("the zoo is not installed, and has no version here") from None
    try:
        return importlib.import_module(f"{__name__}.{name}")  # zoo.encodings.laplacian(...)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module 'zoo' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    dunders = [name for name in globals() if name.startswith("__")]
    return sorted([*dunders, *__all__, *_ROOMS])
