"""The named graphs: what each is, its task and default split, and where it comes from.

Accuracy or ROC-AUC follows from the task. deezer-europe is measured by accuracy here, as in the
papers of SGFormer and DIFFormer; that of NodeFormer uses ROC-AUC. chameleon and squirrel are the
versions without duplicated nodes (Platonov et al., arXiv 2302.11640).
"""

from typing import NamedTuple

from zoo.data.files import converters
from zoo.data.files.converters import convert_planetoid
from zoo.data.generated import GENERATED
from zoo.data.load.images import IMAGES
from zoo.data.load.images import NODES as IMAGE_NODES
from zoo.data.load.many_graphs import SERIES_WORDS, SET_WORDS
from zoo.data.load.obtain import Source, SplitFile
from zoo.data.texts import NODES as TEXT_NODES
from zoo.data.texts import TEXTS
from zoo.tasks.labels import (
    BINARY,
    CLASSIFICATION,
    FORECASTING,
    GRAPHS,
    MULTILABEL,
    SEQUENCES,
    TRANSLATION,
)
from zoo.tasks.task import TASKS


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
    files = tuple(f"ind.{name}.{part}" for part in ("x", "tx", "allx", "y", "ty", "ally", "graph"))
    return Source("planetoid", (*files, f"ind.{name}.test.index"), convert_planetoid)


def _yandex(name: str) -> Source:
    return Source("heterophilous", (f"{name}.npz",), converters.convert_heterophilous)


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


NAMED_PAIRS = {"multi30k-en-de": "zoo.data.load.named_pairs:multi30k_en_de"}
"""Word to builder `(*, options) -> SentencePairs`, imported when asked for."""


_KNOWN_TASKS = {
    **{name: known.task for name, known in NAMED.items()},
    **dict.fromkeys((*IMAGES, *SET_WORDS), GRAPHS),
    **dict.fromkeys(TEXTS, SEQUENCES),
    **dict.fromkeys((*GENERATED, *IMAGE_NODES, *TEXT_NODES), CLASSIFICATION),
    **dict.fromkeys(NAMED_PAIRS, TRANSLATION),
    **dict.fromkeys(SERIES_WORDS, FORECASTING),
}


def known_metric(name: str) -> str | None:
    """Return the metric of a data set by its name, None if it is not known without reading it."""
    return TASKS[_KNOWN_TASKS[name]]().metric_name if name in _KNOWN_TASKS else None
