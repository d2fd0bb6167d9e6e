"""What the columns of tables seem to be: the options that `zoo data check` proposes.

Each guess says what no option says yet, by what columns hold, and knows the guesses before it: how
a CSV is written, ids and the ends of edges, weights, the split, the label, features, and what
becomes of gaps. Training applies none of them.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.config.yaml_lines import line_text
from zoo.data.files.graph_arrays import PARTS
from zoo.data.tables.columns import (
    KINDS,
    LABELS,
    Columns,
    guess_option,
    has_decimal_commas,
    label_word,
    list_names,
)
from zoo.data.tables.nodes_and_edges import (
    ENDS,
    TABLES,
    WEIGHTS,
    find_table,
    has_graph_table,
    kinds_of,
)
from zoo.data.tables.read import (
    CsvFormat,
    NotUtf8,
    guess_separator,
    is_index,
    kind_of,
    parse_dates,
    parse_numbers,
    parse_texts,
    read_header,
    read_table,
)
from zoo.errors import Finding, ZooError, brief, reading
from zoo.system.files import user_path
from zoo.tasks.labels import Unit, doubtful

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_NEARLY = 0.9  # of the rows: a column of text with so many different words names them
_SOME = 0.2  # of the edges: so many that lead to names of nodes say which columns are their ends
_UNKNOWN = 0.2  # of the rows: a column with such gaps is one to be predicted
_CLASSES = 50  # whole numbers up to which each is a class
_FEW = 20  # different words that are kinds of things, however few rows there are
_PARTS = {*PARTS, "training", "valid", "validation", "dev", "testing"}
_DATE_FORMATS = ("%d/%m/%Y", "%m/%d/%Y")
_TIMES = {"time", "date", "timestamp", "datetime", "year", "since", "when"}
_WHAT = {
    "one_hot": "kinds of things, a column for each",
    "text": "text, whose terms become columns",
    "dates": "dates",
    "vectors": "several numbers in a cell",
}
"""Options of features to what their columns hold."""
_LEFT_OUT = ("empty", "a split", "called like a label", "nearly all different")


class Tables(NamedTuple):
    """The tables of a graph, or of a set of graphs, without what names the graphs in a set.

    Attributes:
        labelled: those whose rows have labels and a split.
        nodes: those whose columns are features; the same, but in a set of graphs.
        edges: those of edges; none where nodes have none.
        unit: what a row of `labelled` is.
    """

    labelled: list["DataFrame"]
    nodes: list["DataFrame"]
    edges: list["DataFrame"]
    unit: Unit = "node"

    def all(self) -> list["DataFrame"]:
        """Return all of them."""
        return [*self.labelled, *self.nodes, *self.edges]

    def numbers(self) -> int:
        """Return how many columns are numbers."""
        return sum(kind_of(frame[name]) == "number" for frame in self.all() for name in frame)


def guess_options(path: Path, given: Mapping[str, Any]) -> list[Finding]:
    """Return what tables need said and no option says; `values` of each finding are options.

    Args:
        path: a folder of tables, or a table of nodes.
        given: the options that are said.

    Raises:
        ZooError: a table is not in UTF-8, whatever options are said.
    """
    findings: list[Finding] = []
    with _left_to_the_reader(path):
        nodes = _paths(path, given.get("edges"))["nodes"][0]
        if "separator" not in given and (mark := guess_separator(nodes)):
            found = f"{nodes.name} has {mark!r} between its cells"
            findings.append(_proposal(found, separator=mark))
        tables = _read(path, {**given, **proposed(findings)})
        frames = () if "decimal" in given else tables.all()
        names = [name for frame in frames for name in frame if has_decimal_commas(frame[name])]
        if names := [*dict.fromkeys(names)]:
            found = f"a comma before the digits of a fraction in {', '.join(map(repr, names))}"
            commas = _proposal(found, decimal="comma")
            other = _read(path, {**given, **proposed([*findings, commas])})
            if other.numbers() > tables.numbers():  # none has a point
                findings, tables = [*findings, commas], other
        for guess in _GUESSES:
            findings += guess(tables, {**given, **proposed(findings)})
    return findings


@contextlib.contextmanager
def _left_to_the_reader(path: Path) -> Iterator[None]:
    """Leave errors to who reads the table, but for that of which they would all come."""
    try:
        with reading(path, "tables"):
            yield
    except NotUtf8:
        raise
    except ZooError:
        pass


def proposed(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return the options that guesses propose."""
    return {key: value for finding in findings for key, value in finding.values.items()}


def _proposal(found: str, **options: Any) -> Finding:
    fix = ", ".join(f"`{line_text({key: value})[1:-1]}`" for key, value in options.items())
    return Finding(", ".join(options), "fix", found, fix, options)


# The tables


def _paths(path: Path, edges: str | None) -> dict[str, list[Path]]:
    """Return the tables of a graph by `graphs`, `nodes` and `edges`."""
    if has_graph_table(path):
        return {stem: [find_table(path, stem)] for stem in TABLES}
    if path.is_dir() and edges is None and (kinds := kinds_of(path)):
        return {"nodes": [*kinds.values()], "edges": [*kinds_of(path, "edges").values()]}
    of_edges = [user_path(edges)] if edges else [find_table(path, "edges")] if path.is_dir() else []
    return {"nodes": [find_table(path, "nodes") if path.is_dir() else path], "edges": of_edges}


def _read(path: Path, given: Mapping[str, Any]) -> Tables:
    csv_format = CsvFormat(given.get("separator"), given.get("decimal", "point"))

    def frames(tables: list[Path], *said: str) -> list["DataFrame"]:
        names = {table: read_header(table, csv_format) for table in tables}
        names = {table: [name for name in own if not is_index(name) and name not in said]
                 for table, own in names.items()}  # fmt: skip
        return [read_table(table, (), own, csv_format)[own] for table, own in names.items()]

    paths = _paths(path, given.get("edges"))
    if "graphs" not in paths:
        nodes = frames(paths["nodes"])
        return Tables(nodes, nodes, frames(paths["edges"]))
    graph, id = given.get("graph_column", "graph"), given.get("id", "id")
    graphs = frames(paths["graphs"])
    name = graph if graph in graphs[0] else id
    ends = (given.get(end, end) for end in ("source", "target"))
    return Tables(
        [frame.drop(columns=name, errors="ignore") for frame in graphs],
        frames(paths["nodes"], graph, id), frames(paths["edges"], graph, *ends), "graph",
    )  # fmt: skip


def _choice(given: Mapping[str, Any]) -> Columns:
    names = [field.name for field in dataclasses.fields(Columns)]
    return Columns(**{name: given[name] for name in names if name in given})


def _unsaid(frame: "DataFrame", given: Mapping[str, Any]) -> list[str]:
    """Return the columns that neither an option names nor their own name."""
    choice = _choice(given)
    roles = choice.roles([*frame])
    said = {choice.id, choice.time_column, choice.group_column, roles.split, *roles.labels,
            *roles.masks, *choice.named("columns")}  # fmt: skip
    said |= {name for option in KINDS for name in choice.named(option)}
    return [name for name in frame if name not in said]


def _numbers(frame: "DataFrame", given: Mapping[str, Any]) -> list[str]:
    """Return the columns that are read as features of numbers, whatever they hold."""
    roles = _choice(given).roles([*frame])
    return [name for name, kind in roles.features.items()
            if kind == "number" and name in frame and name not in roles.masks]  # fmt: skip


def _is_number(column: "Series") -> bool:
    try:
        return parse_numbers(column, "") is not None
    except ZooError:  # numbers in two ways of writing: the reader says which
        return True


def _words(column: "Series") -> "Series":
    """Return the cells of a column as text, without those that are empty."""
    import pandas

    if kind_of(column) in ("list", "other"):
        return pandas.Series([str(cell) for cell in column.dropna()], dtype=object)
    words = pandas.Series(parse_texts(column, None, whole=True), dtype=object)
    return words[words != ""]


def _listed(names: Iterable[str]) -> str:
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


# Ids, and the ends of edges


def _guess_ids(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    """Guess what names nodes, and which columns of edges hold these names."""
    if tables.unit == "graph":
        return []
    shared = _shared(tables.nodes)
    ids: list[str | None] = [given.get("id", "id")]
    if known := "id" in given or "id" in shared:
        if ids[0] not in (None, *shared):
            return []
    else:
        ids = _ids(tables.nodes, 1.0)
    if not tables.edges:
        ids = [] if known else [name for name in ids if _is_name(name, tables.nodes[0][name])]
        return [_id_of(name, len(tables.nodes[0])) for name in ids[:1]]
    ends = [given.get(end, end) for end in ("source", "target")]
    said = all({*ends} <= {*frame} for frame in tables.edges)
    if said and known:
        return []
    names = ends if said else _shared(tables.edges)
    nearly = [] if known else [name for name in _ids(tables.nodes, _NEARLY) if name not in ids]
    for id in ids if known else [*ids, *nearly, None]:
        if found := _ends(tables, names, id):
            of_ids = [] if known else [_id_of(id, sum(map(len, tables.nodes)), id in nearly)]
            text = f"{found[0]!r} and {found[1]!r} hold ids of nodes"
            ends = [] if said else [_proposal(text, source=found[0], target=found[1])]
            return [*of_ids, *ends]
    return []  # the reader says what it misses


def _shared(frames: list["DataFrame"]) -> list[str]:
    return [name for name in frames[0] if all(name in frame for frame in frames)]


def _ids(frames: list["DataFrame"], share: float) -> list[str]:
    """Return the columns that name rows: in so large a share of these with a name of their own."""
    return [name for name in _shared(frames) if all(_is_name_of(f[name], share) for f in frames)]


def _id_of(id: str | None, rows: int, nearly: bool = False) -> Finding:
    found = f"{id!r} has another value in {'nearly ' * nearly}each of {rows:,} rows"
    if id is None:
        found = f"none, and edges lead from 0 to {rows - 1:,} at most: the numbers of rows"
    return _proposal(found, id=id)


def _is_name_of(column: "Series", share: float) -> bool:
    """Return whether a column is of text, or whole numbers, such a share of the rows with its own.

    Of less than all rows it has to be text: numbers may be different by chance.
    """
    if kind_of(column) not in ("text", "number"):
        return False
    words = _words(column)
    whole = kind_of(column) == "text" or (share == 1 and words.str.isdecimal().all())
    return bool(whole and words.nunique() >= share * len(column) > 1)


def _is_name(name: str, column: "Series") -> bool:
    """Return whether a column whose cells are all different names rows that no edge leads to."""
    if kind_of(column) == "text":
        return guess_option(column) == "one_hot"
    return name.lower().endswith(("id", "number", "index", "key"))


def _ends(tables: Tables, names: list[str], id: str | None) -> tuple[str, str] | None:
    """Return the first two columns of edges that hold ids for the most part, known pairs first.

    Args:
        tables: all of them.
        names: columns of edges.
        id: the column of ids; None: nodes are numbered by their rows, from 0.
    """
    if id is None:
        ids = np.arange(sum(map(len, tables.nodes)) * (len(tables.nodes) == 1)).astype(str)
        least = 1.0  # numbers of rows look like any others
    else:
        ids, least = np.concatenate([_words(frame[id]) for frame in tables.nodes]), 0.5
        text = all(kind_of(frame[id]) == "text" for frame in tables.nodes)
        least = _SOME if text else least  # many nodes may be missing
    found = [
        name
        for name in names
        if all(_words(frame[name]).isin(ids).mean() >= least for frame in tables.edges)
    ]
    known = (name for pair in ENDS for word in pair for name in found if name.lower() == word)
    first = [*known][:2]
    chosen = first if len(first) == 2 else found[:2]
    return (chosen[0], chosen[1]) if len(chosen) == 2 else None


# Weights


def _guess_weight(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    """Guess which column of edges is their weight: it has to be said of any, or that none is."""
    if {"weight", "weights", "edge_features"} & {*given} or not tables.edges:
        return []
    said = {given.get("source", "source"), given.get("target", "target"),
            given.get("edge_time"), given.get("edge_split"), "split"}  # fmt: skip
    others = [name for frame in tables.edges for name in frame if name not in said]
    if not others:
        return []
    able = [name for name in _shared(tables.edges) if name in others
            and all(_may_weigh(name, frame[name]) for frame in tables.edges)]  # fmt: skip
    named = [name for name in able if name.lower() in WEIGHTS]
    chosen = named or able
    if len(chosen) == 1 and (named or _STRENGTH & {*_WORD.findall(chosen[0].lower())}):
        found = f"{chosen[0]!r} of edges holds numbers from 0: the larger, the stronger the link"
        return [_proposal(found, weight=chosen[0])]
    found = f"{_listed(dict.fromkeys(others))} of edges may be left unread"
    if len(able) == 1:
        found += f"; if a larger {able[0]!r} is a stronger link, write `weight={able[0]}` instead"
    elif able:
        found += f"; or one of {_listed(able)} is their `weight`, or `edge_features` name several"
    return [_proposal(found, weights="ignore")]


_WORD = re.compile(r"[a-z]+")

_STRENGTH = {
    "amount", "amounts", "calls", "confidence", "count", "counts", "freq", "frequency", "messages",
    "n", "number", "orders", "probability", "score", "scores", "similarity", "strength", "sum",
    "times", "total", "trips", "value", "values", "visits", "volume",
}  # fmt: skip
"""Words in the name of a column of which more is a stronger link; of days or metres it is not."""


def _may_weigh(name: str, column: "Series") -> bool:
    if kind_of(column) != "number" or column.isna().any() or name.lower() in _TIMES:
        return False
    numbers = parse_numbers(column, name)
    return bool(len(numbers) and (numbers >= 0).all() and numbers.any())


# The split and the label


def _guess_split(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    if "split_column" in given:
        return []
    columns = {name: frame[name] for frame in tables.labelled for name in _unsaid(frame, given)}
    columns = {name: column for name, column in columns.items() if _says_split(column)}
    for name, column in columns.items():
        words = _words(column).unique()
        found = f"{name!r} holds {_listed(words)}"
        if {*words} <= {*PARTS}:
            return [_proposal(found, split_column=name)]
        fix = f"write train, val and test there, and `split_column: {name}`; it is left out here"
        return [Finding("split_column", "fix", found, fix)]
    return []


def _says_split(column: "Series") -> bool:
    """Return whether a column says the parts of a split, in the zoo's words or others."""
    words = _words(column).str.lower().unique() if kind_of(column) == "text" else []
    return len(words) > 1 and {*words} <= _PARTS


def _guess_label(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    if given.get("labels") == "ignore" or not isinstance(given.get("label", ""), str):
        return []
    named = given.get("label") or ("label" if any("label" in f for f in tables.labelled) else None)
    findings: list[Finding] = []
    if named is None:
        findings = _guess_label_column(tables, given)
        named = proposed(findings).get("label")
    frame = next((frame for frame in tables.labelled if named in frame), None)
    if frame is None:
        return findings
    return [*findings, *_guess_reading(frame[named], given, tables.unit)]


def _guess_label_column(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    able = {name: frame[name] for frame in tables.labelled for name in _unsaid(frame, given)
            if _may_be_label(frame[name])}  # fmt: skip
    gaps = {name: 1 - len(_known(column)) / len(column) for name, column in able.items()}
    named = [name for word in LABELS for name in able if label_word(name) == word]
    named = [name for name in named if not (name == "y" and "x" in able)]  # which are coordinates
    bare = [name for name in able if gaps[name] >= _UNKNOWN]
    bare.sort(key=lambda name: (_is_number(able[name]), -gaps[name]))
    bare = [name for name in bare if not (named and _is_number(able[name]))]
    likely = [*dict.fromkeys([*named, *bare])]
    if tables.unit == "graph" and len(able) == 1:
        likely = [*able]
    if not likely:
        few = [name for name, column in able.items() if not _is_number(column)]
        found = f"none is called so, nor has its gaps; it may be {', '.join(map(repr, few))}"
        fix = "if it is there, name it, `label: COLUMN`"
        return [Finding("label", "look", found, fix)] if few else []
    name, *others = likely
    found = f"{name!r} has {_known(able[name]).nunique():,} values, in {1 - gaps[name]:.1%} of rows"
    found += f"; or it may be {', '.join(map(repr, others))}" if others else ""
    return [_proposal(found, label=name)]


def _known(column: "Series") -> "Series":
    """Return the labels of a column that are known, as text."""
    words = _words(column)
    return words[~words.isin(doubtful(words.unique()))]


def _may_be_label(column: "Series") -> bool:
    """Return whether values of a column, words or numbers, are there more than once."""
    if kind_of(column) == "list" or not (_is_number(column) or guess_option(column) == "one_hot"):
        return False
    words = _words(column)
    return words.nunique() > 1 and (_is_number(column) or words.nunique() <= len(words) / 2)


def _guess_reading(column: "Series", given: Mapping[str, Any], unit: Unit) -> Iterator[Finding]:
    """Guess which word of the labels says that they are unknown, and whether they are numbers."""
    doubt = doubtful(_words(column).unique())
    if doubt and "unknown" not in given:
        found = f"{doubt[0]!r} may say that a label is not known, and not be a class"
        yield _proposal(found, unknown=doubt[0])
    if "task" in given or kind_of(column) != "number":
        return
    numbers = _known(column).unique().astype(np.float64)
    whole = (numbers % 1 == 0).all()
    codes = whole and len(numbers) and numbers.max() - numbers.min() + 1 == len(numbers)
    codes = codes and numbers.min() in (0, 1) and 2 * len(numbers) <= len(_known(column))
    if not whole or (len(numbers) > _CLASSES and not codes):
        found = f"numbers, {len(numbers):,} different ones, and no classes"
        yield _proposal(found, task=f"{unit}-regression")


# Features


def _guess_set(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    """Tell of a column that may name the graph of each node, of many."""
    names = [name for frame in tables.nodes for name in _unsaid(frame, given)
             if tables.unit == "node" and name.lower() in ("graph", "graph_id")]  # fmt: skip
    found = "may say of which graph each node is, and all are read as one"
    fix = "a set of graphs has a table graphs.csv beside, with a row for each: docs/graphs.md"
    return [Finding("graph", "look", f"{name!r} {found}", fix) for name in names[:1]]


def _guess_features(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    """Guess what columns are that are no numbers; those that are no features are left out."""
    frames = {name: frame for frame in tables.nodes for name in _numbers(frame, given)}
    options = {name: _option_of(name, frame[name]) for name, frame in frames.items()}
    findings = []
    for option, what in _WHAT.items():
        if own := [name for name in options if options[name] == option]:
            shown = ", ".join(f"{name!r} ({_example(frames[name][name])})" for name in own)
            if option == "dates" and not tables.edges:
                what += f"; `time: {own[0]}` forecasts instead"
            names = [*(list_names(given.get(option)) or ()), *own]
            findings.append(_proposal(f"{shown}: {what}", **{option: names}))
    left = {name: why for name, why in options.items() if why in _LEFT_OUT}
    if left and "columns" not in given:
        found = "left out: " + ", ".join(f"{name!r} ({why})" for name, why in left.items())
        numbers = [name for name, option in options.items() if option == "number"]
        findings.append(_proposal(found, columns=numbers))
    dates = [frames[name][name] for name in options if options[name] == "dates"]
    return findings + _guess_date_format(dates, given)


def _mostly_numbers(words: "Series") -> bool:
    """Return whether nearly all words are numbers: the reader says which are none."""
    import pandas

    return bool(pandas.to_numeric(words, errors="coerce").notna().mean() >= _NEARLY)


def _option_of(name: str, column: "Series") -> str:
    """Return the option of features that fits a column, `number`, or why it is no feature.

    Times of day and numbers in two ways of writing are numbers: the reader says what to do.
    """
    if len(column) and not len(words := _words(column)):
        return "empty"
    if (
        not len(column)
        or _is_number(column)
        or (option := guess_option(column)) in ("times", "decimal")
    ):
        return "number"
    if _mostly_numbers(words):
        return "number"
    if _says_split(column):
        return "a split"
    if option == "one_hot" and label_word(name):
        return "called like a label"
    many = option == "one_hot" and words.nunique() > max(len(words) / 2, _FEW)
    return "nearly all different" if many else option


def _example(column: "Series") -> str:
    return brief(str(_words(column).iloc[0]), 30)


def _guess_date_format(dates: list["Series"], given: Mapping[str, Any]) -> list[Finding]:
    """Guess how dates with slashes are written; where they may be either way, the day is first."""
    slashed = [column for column in dates if kind_of(column) == "text" and "/" in _example(column)]
    if not slashed or "date_format" in given:
        return []
    fit = [form for form in _DATE_FORMATS if all(_are_dates(column, form) for column in slashed)]
    if not fit:
        return []
    found = f"dates such as {_example(slashed[0])}" + "; or month first" * (len(fit) > 1)
    return [_proposal(found, date_format=fit[0])]


def _are_dates(column: "Series", date_format: str) -> bool:
    try:
        parse_dates(column, "", date_format)
    except ZooError:
        return False
    return True


def _guess_missing(tables: Tables, given: Mapping[str, Any]) -> list[Finding]:
    """Guess what becomes of gaps in numbers and dates."""
    if "missing" in given:
        return []
    dates = _choice(given).named("dates")
    gaps = {
        name: len(frame) - len(_words(frame[name]))
        for frame in tables.nodes
        for name in (*_numbers(frame, given), *dates)
        if name in frame and kind_of(frame[name]) != "list"
    }
    gaps = {name: count for name, count in gaps.items() if count}
    if not gaps:
        return []
    found = ", ".join(f"{name!r} ({count:,})" for name, count in gaps.items())
    found = f"empty: {found}; `zero` and `indicator` are other ways"
    return [_proposal(found, missing="mean")]


_GUESSES: tuple[Callable[[Tables, Mapping[str, Any]], Iterable[Finding]], ...] = (
    _guess_ids, _guess_weight, _guess_split, _guess_label, _guess_set, _guess_features,
    _guess_missing,
)  # fmt: skip
"""In this order: each knows what those before it have found."""
