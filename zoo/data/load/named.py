"""The data sets by name: what each is, its task and default split, and where it is downloaded from.

Accuracy or ROC-AUC follows from the task. deezer-europe is measured by accuracy here, as in the
papers of SGFormer and DIFFormer; that of NodeFormer uses ROC-AUC. chameleon and squirrel are the
versions without duplicated nodes (Platonov et al., arXiv 2302.11640).
"""

import dataclasses
import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Count, Number
from zoo.data.files import converters
from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.prepared import KEYS, read_prepared, read_split, write_prepared
from zoo.data.files.text_lines import has_pairs
from zoo.data.generated import GENERATED
from zoo.data.load.graph_sets import read_tu, tu_folder
from zoo.data.load.images import IMAGES
from zoo.data.load.images import NODES as IMAGE_NODES
from zoo.data.load.series import series_of_json
from zoo.data.mapped.reader import is_on_disk
from zoo.data.molecules import read_molecules
from zoo.data.samples import NUMBERS_SPLIT, Samples
from zoo.data.snapshots import Scale, Snapshots
from zoo.data.tables.read import CsvFormat, read_header
from zoo.data.texts import NODES as TEXT_NODES
from zoo.data.texts import TEXTS
from zoo.errors import ZooError, cause
from zoo.system.cache import data_file, data_folders
from zoo.system.files import draft_folder, user_path
from zoo.system.http import download
from zoo.tasks.labels import (
    BINARY,
    CLASSIFICATION,
    FORECASTING,
    GRAPH_BINARY,
    GRAPH_MULTILABEL,
    GRAPH_REGRESSION,
    GRAPHS,
    MULTILABEL,
    SEQUENCES,
    TRANSLATION,
)
from zoo.tasks.task import TASKS

URLS = {
    "planetoid": "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data",
    "gnn-benchmark": "https://github.com/shchur/gnn-benchmark/raw/master/data/npz",
    "wikics": "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset",
    "heterophilous": (
        "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data"
    ),
    "ogb": "https://snap.stanford.edu/ogb/data/nodeproppred",
    "non-homophily": "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data",
    "tunedGNN": (
        "https://raw.githubusercontent.com/LUOyk1999/tunedGNN/"
        "23f9604e8b13a9a6d3faa2f691cd844006979153/medium_graph/data"
    ),
}
"""Where each collection is published; a mirror is used by changing its line."""

SETS = "https://www.chrsmrrs.com/graphkerneldatasets"
"""Where the TU collection is published; a mirror is used by changing this line."""


class SplitFile(NamedTuple):
    """The one split that a graph's numbers are published on: a file of tunedGNN, its SHA-256."""

    file: str
    sha256: str


class Source(NamedTuple):
    """Files of a collection, and the function that makes a graph of their paths, in this order."""

    collection: str
    files: tuple[str, ...]
    convert: Callable[[list[Path]], GraphArrays]


class NamedGraph(NamedTuple):
    """One named graph; `source` is None where no stable public address is known.

    `published` is the split `benchmark` of a graph whose own files have none.
    """

    what: str
    nodes: int
    task: str
    split: str
    source: Source | None
    published: SplitFile | None = None


def _planetoid(name: str) -> Source:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    files = tuple(f"ind.{name}.{part}" for part in parts)
    return Source("planetoid", files, converters.convert_planetoid)


def _yandex(name: str) -> Source:
    return Source("heterophilous", (f"{name}.npz",), lambda paths: read_prepared(*paths))


def _shchur(name: str) -> Source:
    return Source("gnn-benchmark", (f"{name}.npz",), converters.convert_gnn_benchmark)


def _ogb(name: str) -> Source:
    return Source("ogb", (f"{name}.zip",), converters.convert_ogb)


def _twitch(name: str) -> Source:
    parts = ("edges.csv", "features.json", "target.csv")
    files = tuple(f"twitch/{name}/musae_{name}_{part}" for part in parts)
    return Source("non-homophily", files, converters.convert_twitch)


_WIKICS = Source("wikics", ("data.json",), converters.convert_wikics)
_DEEZER = Source("non-homophily", ("deezer-europe.mat",), converters.convert_deezer)

# fmt: off
NAMED = {
    "cora": NamedGraph(
        "papers and citations, 7 topics",
        2_708, CLASSIFICATION, "per-class-20", _planetoid("cora")),
    "citeseer": NamedGraph(
        "papers and citations, 6 topics",
        3_327, CLASSIFICATION, "per-class-20", _planetoid("citeseer")),
    "pubmed": NamedGraph(
        "papers and citations on diabetes, 3 topics",
        19_717, CLASSIFICATION, "per-class-20", _planetoid("pubmed")),
    "computer": NamedGraph(
        "computers bought together, 10 categories",
        13_752, CLASSIFICATION, "ratio-60-20-20", _shchur("amazon_electronics_computers"),
        SplitFile("amazon-computer_split.npz",
                  "dff698aba1dd30b8bd7d1dca65c60b1f8d9027d950e07a23e86dcbf16c539f24")),
    "photo": NamedGraph(
        "cameras bought together, 8 categories",
        7_650, CLASSIFICATION, "ratio-60-20-20", _shchur("amazon_electronics_photo"),
        SplitFile("amazon-photo_split.npz",
                  "0609f6ab15ddabfe33a34f10d960d09499e634472f72104abb1f3be858127432")),
    "cs": NamedGraph(
        "authors in computer science, 15 fields",
        18_333, CLASSIFICATION, "ratio-60-20-20", _shchur("ms_academic_cs"),
        SplitFile("coauthor-cs_split.npz",
                  "b8c46a38d93b1f9d6b8b8ab944d870e8d44ccdde0639188681e0d38212480ec5")),
    "physics": NamedGraph(
        "authors in physics, 5 fields",
        34_493, CLASSIFICATION, "ratio-60-20-20", _shchur("ms_academic_phy"),
        SplitFile("coauthor-physics_split.npz",
                  "2034eb90f5ff80eee0e371cc05b20690a16786fb085924b9166c83361fbbcb39")),
    "wikics": NamedGraph(
        "Wikipedia pages on computer science, 10 branches",
        11_701, CLASSIFICATION, "benchmark", _WIKICS),
    "actor": NamedGraph(
        "actors on the same Wikipedia pages, 5 kinds",
        7_600, CLASSIFICATION, "benchmark", _yandex("actor")),
    "chameleon": NamedGraph(
        "Wikipedia pages on chameleons, 5 bins of traffic",
        890, CLASSIFICATION, "benchmark", _yandex("chameleon_filtered")),
    "squirrel": NamedGraph(
        "Wikipedia pages on squirrels, 5 bins of traffic",
        2_223, CLASSIFICATION, "benchmark", _yandex("squirrel_filtered")),
    "roman-empire": NamedGraph(
        "the words of a long article, 18 roles in the sentence",
        22_662, CLASSIFICATION, "benchmark", _yandex("roman_empire")),
    "amazon-ratings": NamedGraph(
        "products bought together, 5 ratings",
        24_492, CLASSIFICATION, "benchmark", _yandex("amazon_ratings")),
    "minesweeper": NamedGraph(
        "a grid with mines to find",
        10_000, BINARY, "benchmark", _yandex("minesweeper")),
    "tolokers": NamedGraph(
        "workers on the same tasks, banned or not",
        11_758, BINARY, "benchmark", _yandex("tolokers")),
    "questions": NamedGraph(
        "users who answered each other, still active or not",
        48_921, BINARY, "benchmark", _yandex("questions")),
    "ogbn-arxiv": NamedGraph(
        "arXiv papers in computer science, 40 subjects, split by year",
        169_343, CLASSIFICATION, "benchmark", _ogb("arxiv")),
    "ogbn-products": NamedGraph(
        "products bought together, 47 categories, split by sales",
        2_449_029, CLASSIFICATION, "benchmark", _ogb("products")),
    "ogbn-papers100M": NamedGraph(
        "papers and citations, 172 subjects of those on arXiv, split by year",
        111_059_956, CLASSIFICATION, "benchmark", None),
    "ogbn-proteins": NamedGraph(
        "associated proteins of 8 species, 112 functions",
        132_534, MULTILABEL, "benchmark", _ogb("proteins")),
    "twitch-de": NamedGraph(
        "German streamers and friendships, mature content or not",
        9_498, BINARY, "ratio-50-25-25", _twitch("DE")),
    "twitch-engb": NamedGraph(
        "English streamers and friendships, mature content or not",
        7_126, BINARY, "ratio-50-25-25", _twitch("ENGB")),
    "twitch-es": NamedGraph(
        "Spanish streamers and friendships, mature content or not",
        4_648, BINARY, "ratio-50-25-25", _twitch("ES")),
    "twitch-fr": NamedGraph(
        "French streamers and friendships, mature content or not",
        6_549, BINARY, "ratio-50-25-25", _twitch("FR")),
    "twitch-ptbr": NamedGraph(
        "Portuguese streamers and friendships, mature content or not",
        1_912, BINARY, "ratio-50-25-25", _twitch("PTBR")),
    "twitch-ru": NamedGraph(
        "Russian streamers and friendships, mature content or not",
        4_385, BINARY, "ratio-50-25-25", _twitch("RU")),
    "deezer-europe": NamedGraph(
        "listeners in Europe and friendships, gender",
        28_281, CLASSIFICATION, "ratio-50-25-25", _DEEZER),
    "pokec": NamedGraph(
        "a Slovak social network, gender",
        1_632_803, CLASSIFICATION, "ratio-50-25-25", None),
}
# fmt: on

_OF_COLLECTION = {
    "planetoid": "MIT (repository)",
    "gnn-benchmark": "MIT (repository)",
    "wikics": "MIT (repository)",
    "heterophilous": "MIT (repository)",
}

LICENCES = {
    **{
        name: _OF_COLLECTION[graph.source.collection]
        for name, graph in NAMED.items()
        if graph.source and graph.source.collection in _OF_COLLECTION
    },
    "ogbn-arxiv": "ODC-BY",
    "ogbn-papers100M": "ODC-BY",
    "ogbn-products": "Amazon licence",
    "ogbn-proteins": "CC-0",
    "digits": "CC BY 4.0 (UCI)",
    "chickenpox": "MIT (repository)",
}
"""The licence of each data set whose publisher states one; `data/README.md` says more."""


def obtain(name: str, source: Source | None, nodes: int) -> Path:
    """Convert the published files of a named graph, write it as `<name>.npz` into the data folder.

    They are looked for in the data folders first, and downloaded where they are in none. Where
    another process is at it, its file is waited for.

    Args:
        name: what the file is called.
        source: where it is from.
        nodes: how many nodes it is known to have.

    Returns:
        The path of the prepared file. Nothing else is left behind, whatever happens.

    Raises:
        ZooError: it cannot be downloaded, or is not what was published; says which file to put
            where instead.
    """
    folder = data_folders()[0]
    file = folder / f"{name}.npz"
    if source is None:
        raise _not_here(name, "no public address is known that is safe to download from", [])
    names = [Path(path).name for path in source.files]
    if paths := find_published(name, source):
        try:
            arrays = _converted(source, paths, nodes, f"the {paths[0].name} of {paths[0].parent}")
        except ZooError as error:
            raise ZooError(f"{name}: {error}; put the published files there, or none.") from None
        write_prepared(arrays, file)
        return file
    try:
        with draft_folder(folder / name, wait=True) as raw:
            if not file.exists():
                for path in source.files:
                    download(f"{URLS[source.collection]}/{path}", raw / Path(path).name)
                paths = [raw / own for own in names]
                write_prepared(_converted(source, paths, nodes, "what was downloaded"), file)
    except ZooError as error:
        raise _not_here(name, str(error), names) from None
    return file


def _converted(source: Source, paths: list[Path], nodes: int, what: str) -> GraphArrays:
    try:
        arrays = source.convert(paths)
    except (ZooError, MemoryError):
        raise
    except Exception as error:  # readers of eight formats raise nearly anything
        raise ZooError(f"{what} is not in the published layout ({cause(error)})") from error
    if len(arrays.labels) != nodes:
        raise ZooError(f"{what} has {len(arrays.labels):,} nodes and not the {nodes:,} published")
    return arrays


def _not_here(name: str, reason: str, files: list[str]) -> ZooError:
    folders = ", ".join(map(str, data_folders()))
    files = [*files[:2], "..."] if len(files) > 3 else files
    raw = f", or the published {', '.join(files)} as they are," if files else ""
    return ZooError(
        f"{name} is not in {folders}, and {reason.rstrip('.')}. Put a prepared file {name}.npz "
        f"(with {KEYS}; data/README.md says how to get it){raw} into {data_folders()[0]}, or name "
        "the folder that has it in ZOO_DATA."
    )


def find_published(name: str, source: Source) -> list[Path] | None:
    """Return the published files of a named graph in the data folders, None where some are missing.

    They lie in a folder of data itself, in one that is called like the graph or its collection, or
    in `raw` in it, as PyG and OGB leave them; files with a name of many graphs not in the first.
    """
    words = sorted({name, name.capitalize(), source.collection})
    for folder in data_folders():
        places = [folder / word for word in words]
        places += [place / "raw" for place in places]
        if not source.files[0].startswith("data."):
            places.insert(0, folder)
        for place in places:
            paths = [place / Path(file).name for file in source.files]
            if all(path.is_file() for path in paths):
                return paths
    return None


def check_size(name: str, path: Path, arrays: GraphArrays, nodes: int) -> None:
    """Refuse a file that is called like a named graph and is another.

    Raises:
        ZooError: it has another number of nodes, not counting those at its end that have neither
            label nor edge.
    """
    count, more = len(arrays.labels), arrays.labels[nodes:]
    unknown = more.size and (np.isnan(more) | (more < 0)).all()
    if count != nodes and not (unknown and arrays.edges.max(initial=-1) < nodes):
        raise ZooError(
            f"{path} has {count:,} nodes, and {name} has {nodes:,}: it is another graph, or "
            f"another version. Give it another name, or put {name} there."
        )


def find_split(name: str, split: SplitFile) -> Path | None:
    """Return the file of a graph's published split in the data folders, None where none has it.

    It is `splits/<name>.npz` there, or what it is called at its source, in `tunedGNN` or not.
    """
    places = (f"splits/{name}.npz", split.file, f"tunedGNN/{split.file}")
    paths = (folder / place for folder in data_folders() for place in places)
    return next(filter(Path.is_file, paths), None)


def obtain_split(name: str, split: SplitFile, nodes: int) -> dict[str, Tensor]:
    """Return the published split of a graph, downloaded where no data folder has its file.

    Args:
        name: of the graph.
        split: its file.
        nodes: of the graph as it was loaded.

    Returns:
        `train`, `val` and `test`, each (1, nodes) bool.

    Raises:
        ZooError: it cannot be downloaded, or is another file; says which file to put where.
    """
    url, own = f"{URLS['tunedGNN']}/{split.file}", data_folders()[0] / "splits" / f"{name}.npz"
    instead = "or write split: ratio-60-20-20, which is drawn at random."
    path = find_split(name, split)
    if path is None:
        try:
            download(url, path := own, sha256=split.sha256)
        except ZooError as error:
            raise ZooError(
                f"the published split of {name} is not here: {str(error).rstrip('.')}. Put that "
                f"file there as {own}, {instead}"
            ) from None
    elif hashlib.sha256(path.read_bytes()).hexdigest() != split.sha256:
        raise ZooError(
            f"{path} is not the published split of {name}, by its checksum; put {url} in its "
            f"place, {instead}"
        )
    return {part: torch.from_numpy(mask) for part, mask in read_split(path, nodes).items()}


def obtain_folder(
    name: str,
    is_there: Callable[[Path], object],
    fill: Callable[[Path], None],
    what: str,
) -> Path:
    """Return the folder of a data set, downloaded whole or not at all where no data folder has it.

    Where another process is at it, its folder is waited for.

    Args:
        name: what the folder is called.
        is_there: whether a folder is one.
        fill: downloads its files into an empty folder.
        what: the files, as errors name them.

    Raises:
        ZooError: they cannot be downloaded; says which files to put where instead.
    """
    folders = [folder / name for folder in data_folders()]
    if path := next(filter(is_there, folders), None):
        return path
    folder = folders[0]
    try:
        with draft_folder(folder, wait=True) as draft:
            if not is_there(folder):
                fill(draft)
                draft.rename(folder)
    except ZooError as error:
        raise ZooError(
            f"{name} is in none of {', '.join(map(str, data_folders()))}, and "
            f"{str(error).rstrip('.')}. Put {what} into {folder}, or name the folder that has "
            f"{name} in ZOO_DATA."
        ) from None
    return folder


NAMED_PAIRS = {"multi30k-en-de": "zoo.data.load.named_pairs:multi30k_en_de"}
"""Word to builder `(*, options) -> SentencePairs`, imported when asked for."""


def chickenpox(
    *, lags: Count = 4, horizon: Count = 1, scale: Scale = "none", period: Count | None = 52
) -> Snapshots:
    """Cases of chickenpox in 20 counties of Hungary in 521 weeks, standardised; 41 borders.

    Args:
        lags: weeks that are read.
        horizon: weeks that are predicted at once.
        scale: the values are standardised already, by all times; `standard` does so once more.
        period: weeks of a year.
    """
    path = data_file("chickenpox.json", "that of PyTorch Geometric Temporal")
    return series_of_json(path, lags=lags, horizon=horizon, scale=scale, period=period)


SERIES_WORDS: dict[str, Callable[..., Snapshots]] = {"chickenpox": chickenpox}
"""Word to builder `(*, lags, horizon, ...) -> Snapshots`."""


def _named_set(folder: str, what: str) -> Callable[..., Samples]:
    def fill(path: Path) -> None:
        download(f"{SETS}/{folder}.zip", path / "set.zip")
        try:
            with zipfile.ZipFile(path / "set.zip") as archive:
                for member in archive.namelist():
                    name = Path(member).name  # whatever folders it has them in
                    if name.startswith(f"{folder}_") and name.endswith(".txt"):
                        (path / name).write_bytes(archive.read(member))
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:  # or encrypted
            raise ZooError(f"what was downloaded is no archive ({error})") from None
        (path / "set.zip").unlink()

    def build(
        *,
        degrees: Number | None = None,
        edge_features: Literal["use", "ignore"] = "use",
        readout: Literal["mean"] | None = None,
    ) -> Samples:
        files = f"the files of {SETS}/{folder}.zip ({folder}_A.txt and others)"
        path = obtain_folder(folder, tu_folder, fill, files)
        data = read_tu(path, degrees=degrees, edge_features=edge_features, readout=readout)
        return dataclasses.replace(data, name=build.__name__)

    build.__name__ = build.__qualname__ = folder.lower()
    build.__doc__ = (
        f"{what}, of the TU collection.\n\nArgs:\n"
        "    degrees: columns for the degrees of nodes, up to this one, 0 for none.\n"
        "    edge_features: labels of edges, which some copies of the collection have not.\n"
        "    readout: `mean` of the logits of its nodes; left out, `readout` of the recipe."
    )
    return build


class NamedMolecules(NamedTuple):
    """A set of MoleculeNet: Wu et al., arXiv 1703.00564, whose split and metric are its own.

    `labels` are the columns that are predicted: as the set is shared here, and as MoleculeNet's
    `file` has them.
    """

    what: str
    task: str
    metric: str
    split: str
    file: str
    labels: tuple[list[str], ...]


_TOX21 = [
    "NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma",
    "SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53",
]  # fmt: skip

MOLECULES = {
    "esol": NamedMolecules(
        "1,128 molecules and how much of each water dissolves, the logarithm of mol/l",
        GRAPH_REGRESSION, "rmse", NUMBERS_SPLIT, "delaney-processed.csv",
        (["log_solubility"], ["measured log solubility in mols per litre"])),
    "freesolv": NamedMolecules(
        "642 molecules and their free energy of hydration, in kcal/mol",
        GRAPH_REGRESSION, "rmse", NUMBERS_SPLIT, "SAMPL.csv", (["hydration_energy"], ["expt"])),
    "lipophilicity": NamedMolecules(
        "4,200 molecules and how much rather they go into octanol than water, log D at pH 7.4",
        GRAPH_REGRESSION, "rmse", NUMBERS_SPLIT, "Lipophilicity.csv", (["logd"], ["exp"])),
    "bbbp": NamedMolecules(
        "2,050 molecules that pass from blood to brain, or do not; RDKit reads 2,039",
        GRAPH_BINARY, "roc-auc", "scaffold", "BBBP.csv", (["permeable"], ["p_np"])),
    "tox21": NamedMolecules(
        "7,831 molecules in twelve tests of toxicity; RDKit reads 7,823",
        GRAPH_MULTILABEL, "roc-auc", NUMBERS_SPLIT, "tox21.csv", (_TOX21,)),
}  # fmt: skip
"""The data sets of molecules by name."""


def _named_molecules(name: str, known: NamedMolecules) -> Callable[..., Samples]:
    def build() -> Samples:
        what = f"MoleculeNet's {known.file}, called {name}.csv,"
        path = data_file(f"{name}.csv", what, "molecules")
        names = read_header(path, CsvFormat())
        labels = next((own for own in known.labels if {*own} <= {*names}), known.labels[0])
        data = read_molecules(path, label=labels, task=known.task)
        return dataclasses.replace(data, name=name, metric=known.metric, split=known.split)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{known.what}."
    return build


SET_WORDS: dict[str, Callable[..., Samples]] = {
    "enzymes": _named_set("ENZYMES", "600 proteins of six classes of enzymes"),
    "mutag": _named_set("MUTAG", "188 molecules, mutagenic or not"),
    "proteins": _named_set("PROTEINS", "1,113 proteins, enzymes or not"),
    **{name: _named_molecules(name, known) for name, known in MOLECULES.items()},
}
"""Word to builder `(*, degrees, ...) -> Samples`."""

_KNOWN_TASKS = {
    **{name: known.task for name, known in NAMED.items()},
    **dict.fromkeys((*IMAGES, *SET_WORDS), GRAPHS),
    **{name: known.task for name, known in MOLECULES.items()},
    **dict.fromkeys(TEXTS, SEQUENCES),
    **dict.fromkeys((*GENERATED, *IMAGE_NODES, *TEXT_NODES), CLASSIFICATION),
    **dict.fromkeys(NAMED_PAIRS, TRANSLATION),
    **dict.fromkeys(SERIES_WORDS, FORECASTING),
}


def known_metric(name: str) -> str | None:
    """Return the metric of a data set by its name, None if it is not known without reading it."""
    if name in MOLECULES:
        return MOLECULES[name].metric
    return TASKS[_KNOWN_TASKS[name]]().metric_name if name in _KNOWN_TASKS else None


def own_metric(name: str) -> str | None:
    """Return the metric that a data set has in the place of its task's; None of others."""
    known = MOLECULES.get(name)
    usual = known and TASKS[known.task]().metric_name
    return known.metric if known and known.metric != usual else None


def path_of(name: str) -> Path:
    """Return the path that a name is, or that of the prepared graph of this name."""
    path = user_path(name)
    return path if path.exists() or path.name != name else find(name) or path


def find(name: str) -> Path | None:
    """Return the prepared graph, or the folder, of this name in the data folders; None if none."""
    files = [folder / f"{name}.npz" for folder in data_folders()]
    folders = [folder / name for folder in data_folders()]
    paths = [path for path in files if path.is_file()]
    paths += [path for path in folders if is_on_disk(path) or has_pairs(path) or tu_folder(path)]
    return paths[0] if paths else None


def on_disk_folder(name: str) -> Path | None:
    """Return the folder of the on-disk graph that a path or a name is; None if it is none."""
    path = path_of(name)
    return path if is_on_disk(path) else None
