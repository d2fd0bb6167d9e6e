"""The table of data sets, and loading data by a name of it or from files."""

import contextlib
import dataclasses
import functools
import logging
import shlex
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from zoo.config.options import (
    Spec,
    Table,
    option_problems,
    options_of,
    pick,
    problems,
    resolved,
    resolved_options,
)
from zoo.config.overrides import shell_words
from zoo.config.recipe import Recipe, divide, word
from zoo.config.scores import TARGET_KEYS
from zoo.data.dataset import MASKLESS_SPLIT, Dataset, make_dataset
from zoo.data.features import FEATURES
from zoo.data.files.graph_arrays import PARTS, Direction, Duplicates, GraphArrays, Relations
from zoo.data.files.objects import wrong_object
from zoo.data.files.prepared import read_prepared
from zoo.data.files.text_lines import choose_languages, has_pairs, part_file
from zoo.data.generated import GENERATED
from zoo.data.links import LinkData
from zoo.data.load.graph_sets import tu_folder
from zoo.data.load.images import IMAGES
from zoo.data.load.images import SPLITS as IMAGE_SPLITS
from zoo.data.load.named import (
    MOLECULES,
    NAMED,
    NAMED_PAIRS,
    SERIES_WORDS,
    SET_WORDS,
    check_size,
    find,
    find_split,
    known_metric,
    obtain,
    obtain_split,
    on_disk_folder,
    path_of,
)
from zoo.data.load.readers import (
    KINDS,
    READERS,
    SETS,
    dataset_reader,
    graph_reader,
    read_graph_tables,
)
from zoo.data.mapped.reader import META, is_on_disk, read_meta, read_on_disk
from zoo.data.samples import GRAPHS_SPLIT, SET_ENCODING, SET_READOUT, Separate
from zoo.data.snapshots import Snapshots
from zoo.data.tables.guess import guess_options, proposed
from zoo.data.tables.nodes_and_edges import read_tables
from zoo.data.tables.read import SUFFIXES
from zoo.data.texts import SPLITS as TEXT_SPLITS
from zoo.data.texts import TEXTS
from zoo.errors import Finding, Problem, ZooError, of_file, reading, unknown
from zoo.registry import discover
from zoo.system.files import user_path
from zoo.tasks.labels import (
    FORECASTING,
    GRAPH_METRICS,
    NODE_METRICS,
    infer_task,
    unknown_task,
)
from zoo.tasks.losses import OWN

TaskName = Literal[tuple(NODE_METRICS)]


def _builder(name: str) -> Callable[..., Dataset]:
    what, nodes, usual_task = NAMED[name].what, NAMED[name].nodes, NAMED[name].task

    def build(
        *, features: Annotated[Spec, FEATURES] = "raw", task: TaskName = usual_task
    ) -> Dataset:
        known = NAMED[name]
        path = find(name) or obtain(name, known.source, known.nodes)
        if is_on_disk(path):
            return read_on_disk(path, features=features, task=task)
        arrays = read_prepared(path)
        check_size(name, path, arrays, known.nodes)
        data = _make(path, name, arrays, task, known.split, features=features)
        if known.published is None or data.masks is not None:
            return data
        # A split whose file is not here is downloaded when it is asked for.
        published = functools.partial(obtain_split, name, known.published, len(data.y))
        masks = None
        with contextlib.suppress(ZooError):  # of another file, which is told where it is asked for
            masks = published() if find_split(name, known.published) else None
        return dataclasses.replace(data, masks=masks, published=published)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = (
        f"{what[0].upper()}{what[1:]}; {nodes:,} nodes.\n\n"
        "Args:\n    features: what is done to the features first.\n"
        "    task: what the labels are for, which the metric follows from."
    )
    return build


DATASETS = Table(
    "dataset",
    {name: _builder(name) for name in NAMED}
    | {**GENERATED, **NAMED_PAIRS, **IMAGES, **TEXTS, **SERIES_WORDS, **SET_WORDS},
)
"""Word to builder `(*, features, ...) -> Dataset`, or to other data, such as `Samples`."""

_SPLITS = {
    **{name: known.split for name, known in NAMED.items()},
    **dict.fromkeys(GENERATED, MASKLESS_SPLIT),
    **dict.fromkeys(NAMED_PAIRS, "benchmark"),
    **IMAGE_SPLITS,
    **TEXT_SPLITS,
    **dict.fromkeys(SERIES_WORDS, Snapshots.split),
    **dict.fromkeys(SET_WORDS, GRAPHS_SPLIT),
    **{name: known.split for name, known in MOLECULES.items()},
}
"""The split of each word where a recipe names none."""


def load_graph(spec: Spec | Path, *, features: Spec = "raw", **options: Any) -> Dataset:
    """Load one graph by name, from files, or draw one; arguments as those of `load_data`.

    A graph on disk is not read but mapped.

    Raises:
        ZooError: as `load_data`, or what it loads is no graph.
    """
    data = load_data(spec, features=features, **options)
    if not isinstance(data, Dataset):
        raise ZooError(
            f"{data.name} is no graph, but {len(data.y):,} {data.unit}; load it by `zoo.load_data`."
        )
    return data


def load_data(spec: Spec | Path, *, features: Spec = "raw", **options: Any) -> Dataset | Separate:
    """Load a graph, many, some in time, or pairs of sentences, by name or from files; or draw one.

    A name of `DATASETS` is `<name>.npz` in the folders of `ZOO_DATA`, downloaded once if in none;
    a path is read as its ending says (`READERS`); other names are of prepared graphs in there.

    Args:
        spec: a word of `DATASETS`, a path, or a mapping of `name` and options.
        features: a word of `FEATURES`: what is done to the features first.
        options: further options of that data set, such as `nodes=100_000` of `sbm`; of a file,
            `task` and the options of its reader.

    Raises:
        ZooError: an unknown name or option, a graph that cannot be had, or a file that is wrong.
    """
    spec = _mapping(spec)
    spec = {**spec, **({"features": features} if features != "raw" else {}), **options}
    name = spec.get("name")
    _refuse(name, dataset_problems(spec, ()))
    try:
        if name in DATASETS:
            if user_path(name).exists():
                logging.getLogger(__name__).warning(_two_of_a_name(name))
            data = pick(DATASETS, spec)
            if isinstance(data, Dataset | Separate):
                return data
            kind = type(data).__name__
            raise ZooError(f"dataset {name!r}: its builder returned a {kind}; return a Dataset.")
        if reader := dataset_reader(path := path_of(name), spec):
            with _finished_line(spec):
                return reader(path, **_options(spec))
        if folder := on_disk_folder(name):
            own = {key: spec[key] for key in ("features", "task") if key in spec}
            return read_on_disk(folder, **own)
        common = _divide(spec)[1]
        common.pop("task", None)
        with _finished_line(spec):
            return own_graph(name, read_graph(spec), **common)
    except MemoryError as error:
        raise ZooError(
            f"dataset {name}: it does not fit into memory ({error}); choose a smaller one, or "
            "fewer nodes or features."
        ) from None


def read_graph(spec: Spec | Path) -> GraphArrays:
    """Read a graph of one's own as it is in its files; `zoo.data.check_arrays` checks it.

    Raises:
        ZooError: an unknown option, or a file that cannot be read: which, and what is wrong.
    """
    spec = _mapping(spec)
    name, path = spec["name"], path_of(spec["name"])
    if reader := dataset_reader(path, spec):
        kind = KINDS.get(reader, "pairs of sentences")
        raise ZooError(f"{name} is {kind} and no graph; `zoo train` reads it as it is.")
    if name in DATASETS:
        if user_path(name).exists():
            raise ZooError(_two_of_a_name(name))
        if not path.exists():
            raise ZooError(f"{name} is a graph of the zoo, in no file here; name a path.")
    _refuse(name, _file_problems(spec, (), ()))
    own, common = _divide(spec)
    task = common.get("task")
    with reading(path, "a folder of tables" if path.is_dir() else f"a file of {path.suffix}"):
        arrays = graph_reader(path)(path, task, **own)
    return arrays._replace(task=task or arrays.task)


def guess_spec(spec: Spec) -> list[Finding]:
    """Return what tables of one's own need said and a spec does not say: guesses, none applied.

    Raises:
        ZooError: an unknown option.
    """
    spec = _mapping(spec)
    path = path_of(spec["name"])
    if not path.exists() or not (path.is_dir() or path.suffix.lower() in SUFFIXES):
        return []
    _refuse(spec["name"], dataset_problems(spec, ()))
    reader = dataset_reader(path, spec) or graph_reader(path)
    return guess_options(path, _said(spec)) if reader in (read_tables, read_graph_tables) else []


def is_table(spec: Spec) -> bool:
    """Return whether a data set is the nodes of a table of one's own, with columns as features."""
    spec = _mapping(spec)
    path = path_of(spec["name"])
    if spec["name"] in DATASETS or not path.exists():
        return False
    return (dataset_reader(path, spec) or graph_reader(path)) is read_tables


def _said(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the options of files of one's own that are other than where nothing is said."""
    path = path_of(spec["name"])
    usual = options_of(dataset_reader(path, spec) or graph_reader(path))
    usual = options_of(common_options) | usual
    return {key: value for key, value in _options(spec).items() if value != usual[key].default}


@contextlib.contextmanager
def _finished_line(spec: dict[str, Any]) -> Iterator[None]:
    """Have what refuses tables say which command tells all that they need."""
    try:
        yield
    except ZooError as error:
        if not proposed(guess_spec(spec)):
            raise
        command = f"zoo data check {shlex.quote(spec['name'])} {shell_words(_said(spec))}".strip()
        raise ZooError(f"{error} `{command}` prints the finished line.") from None


def load_unless_graph_file(spec: dict[str, Any]) -> Dataset | Separate | None:
    """Load what a spec names where it is no file of a graph; return None where it is one.

    Raises:
        ZooError: as `load_data`.
    """
    path, name = path_of(spec["name"]), spec["name"]
    if not path.exists():
        discover()  # it may be of another package
    generated = name in DATASETS and name not in NAMED and not path.exists()
    return load_data(spec) if generated or dataset_reader(path, spec) else None


def own_graph(name: str, arrays: GraphArrays, **common: Any) -> Dataset:
    """Make a data set of the arrays that a path, or a prepared graph's name, was read to.

    One that is called like a named graph has its task and default split.

    Args:
        name: the path, or name.
        arrays: what was read.
        common: those of `common_options`, without the task.

    Raises:
        ZooError: the arrays are no graph, or the labels not those of the task.
    """
    path = path_of(name)
    stem = path.resolve().name if path.is_dir() else Path(path.name.removesuffix(".gz")).stem
    known = NAMED.get(stem)
    task = arrays.task or (known and known.task)
    return _make(path, stem, arrays, task, known and known.split, **common)


def _make(path, name: str, arrays: GraphArrays, task, split, **common: Any) -> Dataset:
    task = task or infer_task(arrays.labels)
    try:
        return make_dataset(name, arrays, task=task, split=split, **common)
    except ZooError as error:
        raise of_file(path, error) from None


def _two_of_a_name(name: str) -> str:
    return f"{name} is a data set of the zoo; write ./{name} for the file or folder of that name."


def common_options(
    *,
    features: Annotated[Spec, FEATURES] = "raw",
    task: TaskName | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    relations: Relations = "together",
) -> None:
    """Say what may be set for every graph of one's own, whatever reads it.

    Args:
        features: what is done to the features first.
        task: what the labels are for; left out, one class per node, or targets of 0 and 1 where
            there are several.
        duplicates: what the weights become of an edge that is there more than once.
        direction: `both`: edges lead both ways; `in`: nodes gather along edges as they stand;
            `out`: against them; `separate`: both, apart, for a model with this option.
        relations: `separate`: kinds of edges are kept apart, for a model with `relations: K`.
    """


# What is wrong with a spec, and what it means


def _mapping(spec: Spec | Path) -> dict[str, Any]:
    if not isinstance(spec, str | Path | Mapping):
        raise wrong_object("a data set is given by its word, its path or a mapping", spec)
    return dict(spec) if isinstance(spec, Mapping) else {"name": str(spec)}


def _options(spec: Spec) -> dict[str, Any]:
    return {} if isinstance(spec, str) else {k: v for k, v in spec.items() if k != "name"}


def _divide(spec: Spec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide the options of a graph of one's own into those of its reader and the common ones."""
    options = _options(spec)
    common = {key: options.pop(key) for key in options_of(common_options) if key in options}
    return options, common


def _refuse(name: object, wrong: list[Problem]) -> None:
    if wrong:
        at_name = ((), ("name",))
        texts = (problem.message if problem.path in at_name else str(problem) for problem in wrong)
        raise ZooError(f"dataset {name!r}: {' '.join(texts)}")


def dataset_problems(
    spec: object, path: tuple[str | int, ...], also: Iterable[str] = ()
) -> list[Problem]:
    """Return what is wrong with a spec, graphs of one's own by path included, reading no graph.

    `also` names keys that the caller has taken out of the spec; they are suggested like options.
    """
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if not isinstance(name, str) or name in DATASETS:
        return _task_problems(spec, path) or problems(DATASETS, spec, path, also)
    return _file_problems(spec if isinstance(spec, Mapping) else name, path, also)


def _task_problems(spec: object, path: tuple) -> list[Problem]:
    """Return what is wrong with a task that is none, whatever data it is asked of."""
    task = spec.get("task") if isinstance(spec, Mapping) else None
    known = not isinstance(task, str) or task in (*NODE_METRICS, *GRAPH_METRICS, FORECASTING)
    return [] if known else [Problem((*path, "task"), unknown_task(task))]


def _file_problems(spec: Spec, path: tuple, also: Iterable[str]) -> list[Problem]:
    name = spec["name"] if isinstance(spec, Mapping) else spec
    where = (*path, "name") if isinstance(spec, Mapping) else path
    try:
        file = path_of(name)
    except ZooError as error:
        return [Problem(where, str(error))]
    if not file.exists():
        if file.suffix.lower() in (*READERS, ".json"):
            fix = "write its path as seen from the folder in which the command is given."
            return [Problem(where, f"there is no file {name}; {fix}")]
        discover()  # it may be of another package
        if name in DATASETS:
            return problems(DATASETS, spec, path, also)
        hint = "A graph of your own is named by its path, such as graphs/mine or graphs/mine.npz."
        return [Problem(where, f"{unknown('dataset', name, DATASETS)} {hint}")]
    if wrong := _task_problems(spec, path):
        return wrong
    if reader := dataset_reader(file, spec):
        return option_problems(name, reader, _options(spec), path, also)
    try:
        reader = graph_reader(file)
    except ZooError as error:
        return [Problem(where, str(error))]
    own, common = _divide(spec)
    wrong = []
    if is_on_disk(file):
        usual = {key: option.default for key, option in options_of(common_options).items()}
        message = "a graph on disk has no weights, directions or kinds of edges; leave {} out."
        wrong += [
            Problem((*path, key), message.format(key))
            for key in ("duplicates", "direction", "relations")
            if common.get(key, usual[key]) != usual[key]
        ]
    wrong += option_problems(name, reader, own, path, [*options_of(common_options), *also])
    return wrong + option_problems(name, common_options, common, path)


def resolved_dataset(spec: Spec) -> dict[str, Any]:
    """Return a checked spec with every option written out; the split is none of them."""
    name = spec if isinstance(spec, str) else spec["name"]
    if name in DATASETS:
        return resolved(DATASETS, spec)
    if reader := dataset_reader(path_of(name), spec):
        return {"name": name, **resolved_options(reader, _options(spec))}
    own, common = _divide(spec)
    return {
        "name": name,
        **resolved_options(common_options, common),
        **resolved_options(graph_reader(path_of(name)), own),
    }


def without_labels(spec: Spec, trained_on: Spec | None = None) -> Spec:
    """Return a spec of files of one's own whose labels are not looked at, if their reader can so.

    Args:
        spec: of the data that are to be predicted.
        trained_on: of the data of training, whose options say what reads the others.
    """
    own = _mapping(spec)
    if own["name"] in DATASETS or not (path := path_of(own["name"])).exists():
        return spec
    reader = dataset_reader(path, trained_on or own) or dataset_reader(path, own)
    known = options_of(reader or graph_reader(path))
    return {"labels": "ignore", **own} if "labels" in known else spec


def own_files(spec: Spec) -> list[Path]:
    """Return the files of one's own graph; of one on disk `meta.json`, which knows the others."""
    spec = _mapping(spec)
    if not isinstance(spec.get("name"), str) or spec["name"] in DATASETS:
        file = spec.get("path")  # of words for files of one's own
        return [user_path(file)] if isinstance(file, str) and user_path(file).is_file() else []
    path, tables = path_of(spec["name"]), ("graphs", "nodes", "edges")
    if has_pairs(path):
        both = choose_languages(path, spec.get("source"), spec.get("target"))
        return [part_file(path, part, language) for part in PARTS for language in both]
    if folder := tu_folder(path):
        return sorted(folder.glob("*_*.txt"))
    options = (spec.get(key) for key in (*tables, "terms_of"))
    files = [path, *(Path(file).expanduser() for file in options if file)]
    if path.is_dir():
        files += [path / META, *(path / f"{table}{end}" for table in tables for end in SUFFIXES)]
        for table in tables:
            files += sorted(file for end in SUFFIXES for file in path.glob(f"{table}-*{end}"))
    return [file for file in files if file.is_file()]


def default_split(name: str) -> str | None:
    """Return the split of a recipe that names none; None if the graph has to be read to know."""
    if name in DATASETS:
        return _SPLITS.get(name)
    if has_pairs(path_of(name)):
        return "benchmark"
    if folder := on_disk_folder(name):
        return read_meta(folder).split
    stem = path_of(name).stem
    return NAMED[stem].split if stem in NAMED else None


def usual_batching(spec: Spec) -> str | None:
    """Return how data are divided into batches by default, None where all is one; reads nothing.

    Args:
        spec: what names the data.
    """
    name = _mapping(spec)["name"]
    builder = DATASETS[name] if name in DATASETS else dataset_reader(path_of(name), spec)
    kind = builder and typing.get_type_hints(builder).get("return")
    usual = getattr(kind, "batching", Dataset.batching)[0]
    return None if usual == Dataset.batching[0] else usual


def usual_structure(spec: Spec) -> dict[str, Spec]:
    """Return the usual `encoding` and `readout` of a set of graphs, nothing for other data.

    Args:
        spec: what names the data. Where it says `readout: mean`, the mean of the logits is read.
    """
    spec = _mapping(spec)
    name = spec["name"]
    builder = dict.get(SET_WORDS, name) or (
        None if name in DATASETS else dataset_reader(path_of(name), spec)
    )
    if builder not in (*SET_WORDS.values(), *SETS.values()):
        return {}
    return {"encoding": SET_ENCODING} | ({} if spec.get("readout") else {"readout": SET_READOUT})


def scored_on(recipe: Recipe) -> str:
    """Return what scores are of, data and split: those of others are no comparison."""
    dataset, options = divide(recipe.dataset, ("split", *TARGET_KEYS[1:]))
    name = word(dataset)
    if recipe.task:
        split = word(options.pop("split", None) or LinkData.split)
        return f"{name}, links, {split}"
    split = word(options.pop("split", None) or default_split(name) or "")
    rest = [f"{key} {value}" for key, value in options.items() if (key, value) != ("horizon", 1)]
    return ", ".join(part for part in (name, split, *rest) if part)


def metric_of(recipe: Recipe) -> str | None:
    """Return what a recipe is measured by, None where that is not known without its data."""
    metric = (recipe.measured and recipe.measured.metric) or (
        recipe.expect and recipe.expect.metric
    )
    named = word(recipe.train.get("metric", OWN))
    if named != OWN:
        return named
    if recipe.task:
        return LinkData.metric
    of_task = {**NODE_METRICS, **GRAPH_METRICS}.get(divide(recipe.dataset, ["task"])[1].get("task"))
    return metric or of_task or known_metric(word(recipe.dataset))
