"""The table of data sets, and the one function that loads a graph by name or path."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from zoo.datasets.dataset import MASKLESS_SPLIT, Dataset, infer_task, make_dataset
from zoo.datasets.features import FEATURES
from zoo.datasets.generated import GENERATED
from zoo.datasets.named import NAMED
from zoo.datasets.prepared import has_masks, read_prepared
from zoo.datasets.sources import obtain
from zoo.errors import Problem, ZooError, unknown
from zoo.storage import data_folders
from zoo.table import Spec, Table, option_problems, pick, problems, resolved, resolved_options

Task = Literal["node-classification", "node-binary", "node-multilabel"]


def _builder(name: str) -> Callable[..., Dataset]:
    def build(*, features: Annotated[Spec, FEATURES] = "raw") -> Dataset:
        record = NAMED[name]
        path = _find(name) or obtain(name, record.source, record.nodes)
        return _load(path, name, record.task, record.split, features)

    what, nodes = NAMED[name].what, NAMED[name].nodes
    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{what[0].upper()}{what[1:]}; {nodes:,} nodes.\n\n"
        "Args:\n    features: what is done to the features first."
    )
    return build


DATASETS = Table("dataset", {**{name: _builder(name) for name in NAMED}, **GENERATED})
"""Word to builder `(*, features, ...) -> Dataset`."""


def load_graph(spec: Spec | Path, *, features: Spec = "raw", **options: Any) -> Dataset:
    """Load a graph by name, from a prepared file, or draw one.

    A name is looked for as `<name>.npz` in the folders of `ZOO_DATA` and downloaded once if it is
    in none. A path (it ends in `.npz`, or names a file) is read; see `data/README.md` for what it
    holds.

    Args:
        spec: a word of `DATASETS`, a path, or a mapping of `name` and options.
        features: a word of `FEATURES`: what is done to the features first.
        options: further options of that data set, such as `nodes=100_000` of `sbm`; of a file,
            `task`.

    Raises:
        ZooError: an unknown name or option, a graph that cannot be had, or a file that is wrong.
    """
    own = dict(spec) if isinstance(spec, Mapping) else {"name": str(spec)}
    given = {"features": features} if features != "raw" else {}
    spec = {**own, **given, **options}
    wrong = dataset_problems(spec, ())
    if wrong:
        raise ZooError(f"dataset {own.get('name')!r}: " + " ".join(map(_sentence, wrong)))
    name = spec["name"]
    try:
        if name in DATASETS:
            return pick(DATASETS, spec)
        del spec["name"]
        return prepared_file(Path(name).expanduser(), **spec)
    except MemoryError as error:
        raise ZooError(
            f"dataset {name}: it does not fit into memory ({error}); choose a smaller one, or "
            "fewer nodes or features."
        ) from None


def prepared_file(
    path: Path, *, features: Annotated[Spec, FEATURES] = "raw", task: Task | None = None
) -> Dataset:
    """Load a graph of one's own from a prepared file.

    Args:
        path: the `.npz`; one called like a named graph has its task and default split.
        features: what is done to the features first.
        task: what the labels are for; left out it is that of the named graph, or one class per
            node (`node-multilabel` where labels are (N, T)).
    """
    record = NAMED.get(path.stem)
    return _load(path, path.stem, task or (record and record.task), _split(path), features)


def _load(path: Path, name: str, task: str | None, split: str, features: Spec) -> Dataset:
    parts = read_prepared(path)
    task = task or infer_task(parts.labels)
    try:
        return make_dataset(name, parts, task=task, split=split, features=features)
    except ZooError as error:
        raise ZooError(f"{path}: {error}") from None


def dataset_problems(
    spec: object, path: tuple[str | int, ...], also: Iterable[str] = ()
) -> list[Problem]:
    """Return what is wrong with a spec, graphs of one's own by path included, reading no graph.

    `also` names keys that the caller has taken out of the spec; they are suggested like options.
    """
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if not isinstance(name, str) or name in DATASETS:
        return problems(DATASETS, spec, path, also)
    options = {key: spec[key] for key in spec if key != "name"} if isinstance(spec, Mapping) else {}
    where = (*path, "name") if isinstance(spec, Mapping) else path
    file = Path(name).expanduser()
    if file.is_file():
        return option_problems(name, prepared_file, options, path, also)
    if file.suffix == ".npz":
        return [Problem(where, f"there is no file {name}; write the path of a prepared graph.")]
    hint = "A graph of your own is named by its path, such as graphs/mine.npz."
    return [Problem(where, f"{unknown('dataset', name, DATASETS)} {hint}")]


def resolved_dataset(spec: Spec) -> dict[str, Any]:
    """Return a checked spec with every option and the default split written out."""
    name = spec if isinstance(spec, str) else spec["name"]
    if name in DATASETS:
        split = NAMED[name].split if name in NAMED else MASKLESS_SPLIT
        return {**resolved(DATASETS, spec), "split": split}
    options = {} if isinstance(spec, str) else spec
    file = Path(name).expanduser()
    return {"name": name, **resolved_options(prepared_file, options), "split": _split(file)}


def _split(path: Path) -> str:
    if path.stem in NAMED:
        return NAMED[path.stem].split
    return "benchmark" if has_masks(path) else MASKLESS_SPLIT


def _find(name: str) -> Path | None:
    paths = (folder / f"{name}.npz" for folder in data_folders())
    return next((path for path in paths if path.is_file()), None)


def _sentence(problem: Problem) -> str:
    return str(problem) if problem.path not in ((), ("name",)) else problem.message
