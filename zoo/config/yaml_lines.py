"""Read YAML 1.2 and keep the line of each key, so that a mistake is reported with file and line.

Scalars follow the core schema of YAML 1.2. Refused is what makes a recipe less than complete or
plain: anchors and aliases, tags, duplicate keys, a second document.

The parser is PyYAML's. That of ruamel.yaml takes twice as long, see `benchmarks/libraries.py`, and
reads dates, 1_000, aliases and numbers as keys, so that all checks below would stay.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from zoo.errors import FIRST, Problem, ZooError, brief, printable

Keys = tuple[str | int, ...]


class Place(NamedTuple):
    """Where something was written: its rank among reported problems, and the words for it."""

    order: tuple[int, int]
    words: str


class Draft:
    """A recipe that is being read: its data, where each key was written, and its problems so far.

    Args:
        label: what errors call it, such as `recipe gcn-cora.yaml`.
    """

    def __init__(self, label: str):
        self.label = label
        self.data: dict[str, Any] = {}
        self.places: dict[Keys, Place] = {(): Place((0, 0), "")}
        self.problems: list[tuple[tuple[int, int], str]] = []

    def refuse(self, place: Place, problem: Problem | str) -> None:
        """Note a problem and where it was written."""
        line = f"{place.words}: {problem}" if place.words else str(problem)
        self.problems.append((place.order, line))

    def finish(self) -> None:
        """Raise all problems as one `ZooError`."""
        if self.problems:
            lines = [line for _, line in sorted(self.problems, key=lambda problem: problem[0])]
            count = "a problem" if len(lines) == 1 else f"{len(lines):,} problems"
            rest = [f"... and {len(lines) - FIRST:,} more."] if len(lines) > FIRST else []
            raise ZooError("\n".join([f"{self.label} has {count}:", *lines[:FIRST], *rest]))

    def place(self, keys: Keys) -> Place:
        """Return where a key was written, or the mapping in which it is missing."""
        return next(
            self.places[keys[:end]] for end in range(len(keys), -1, -1) if keys[:end] in self.places
        )

    def build(self, node: yaml.Node, keys: Keys, place: Callable[[int], Place]) -> Any:
        """Return the data of a YAML node; note the place of each key, and problems of keys.

        Args:
            node: what was parsed.
            keys: the keys that lead to it.
            place: maps a line number to a place.
        """
        if isinstance(node, yaml.ScalarNode):
            return _SCALARS.get(node.tag, str)(node.value)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.places[(*keys, index)] = place(_line(item))
            return [
                self.build(item, (*keys, index), place) for index, item in enumerate(node.value)
            ]
        data, lines = {}, {}
        for key_node, value_node in node.value:
            key, line = key_node.value, _line(key_node)
            if key_node.tag != _TAG + "str" or not key.isprintable() or key == "<<":
                shown = brief(key) if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
                message = f"{shown} is no key; a key is a plain word."
                self.refuse(place(line), Problem(keys, message) if keys else message)
            elif key in lines:
                message = f"written twice, on lines {lines[key]} and {line}; keep one."
                self.refuse(place(line), Problem((*keys, key), message))
            else:
                lines[key] = line
                self.places[(*keys, key)] = place(line)
                data[key] = self.build(value_node, (*keys, key), place)
        return data


def recipe_text(data: Mapping[str, Any]) -> str:
    """Return plain data as the text of a recipe file, its innermost mappings on one line.

    Text that cannot be seen is escaped: it is between double quotes, where YAML reads it back.
    """
    style = {"sort_keys": False, "default_flow_style": None, "allow_unicode": True, "width": 100}
    return printable(yaml.dump(data, Dumper=_Dumper, **style))


def line_text(data: Any) -> str:
    """Return a mapping, or another value, as one line of YAML, as it is written behind `dataset=`.

    >>> line_text({"name": "sbm", "nodes": 60, "label": ["a", "5e-4"]})
    "{name: sbm, nodes: 60, label: [a, '5e-4']}"
    >>> line_text(0.5)
    '0.5'
    """
    style = {"sort_keys": False, "default_flow_style": True, "allow_unicode": True}
    text = printable(yaml.dump(data, Dumper=_Dumper, width=float("inf"), **style)).strip()
    return text.removesuffix("\n...")  # what ends a document of a word or number alone


class NotYaml(Exception):
    """A text that is not the YAML of a recipe: the line, and what is wrong there."""

    def __init__(self, line: int, message: str):
        super().__init__(message)
        self.line = line
        self.message = message


_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    _TAG + "null": lambda text: None,
    _TAG + "bool": lambda text: text.lower() == "true",
    _TAG + "int": lambda text: int(text, 0 if text[1:2] in ("x", "o") else 10),
    _TAG + "float": lambda text: float(re.sub(r"\.(?=[in])", "", text.lower())),
}
# The words of YAML 1.2. PyYAML knows those of 1.1, where 5e-4 is text, on is true, 12:30 is 750 and
# 2024-05-01 is no text. No number is longer than 300 digits, because `int` refuses 5000 of them.
_WORDS = {
    None: [
        (_TAG + kind, re.compile(rf"(?:{pattern})\Z"))
        for kind, pattern in {
            "null": r"|~|null|Null|NULL",
            "bool": r"true|True|TRUE|false|False|FALSE",
            "int": r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}",
            "float": r"[-+]?(\.[0-9]{1,300}|[0-9]{1,300}(\.[0-9]{0,300})?)([eE][-+]?[0-9]{1,9})?"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        }.items()
    ]
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _WORDS

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Compose one node; refuse what stands for something written elsewhere."""
        event, problem = self.peek_event(), None
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            problem = "anchors (&) and aliases (*) are not read; write the value out, or quote it"
        elif event.tag is not None:
            tag = event.tag.replace(_TAG, "!!")
            problem = f"the tag {tag} is not read; write plain data, or quote the text"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = _WORDS

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal lists out each time: aliases are not read."""
        return True

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        """Write a list of sentences one below the other."""
        sentences = any(isinstance(item, str) and " " in item for item in sequence)
        return super().represent_sequence(tag, sequence, False if sentences else flow_style)

    def choose_scalar_style(self) -> str:
        """Escape unusual line ends: PyYAML writes them as they are and reads them as spaces."""
        return super().choose_scalar_style() if self.event.value.isprintable() else '"'


def compose(text: str) -> yaml.Node | None:
    """Return the root node of a YAML text, None for an empty one.

    Raises:
        NotYaml: it is no YAML, or has what a recipe may not have.
    """
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"the character U+{error.character:04X} may not stand in YAML; delete it"
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark or error.context_mark).line + 1
        message = f"{error.problem} ({error.context})" if error.context else error.problem
        if "\\t" in message:
            message += "; indent with spaces, not with tabs"
    raise NotYaml(line, f"{message}.")


def compose_value(text: str) -> yaml.Node | None:
    """Return the node of a value that was typed, as behind `KEY=`.

    What no YAML begins with is text: `%d.%m.%Y`, `,` and `|` need no quotes.

    Raises:
        NotYaml: it is no YAML otherwise.
    """
    if text[:1] in tuple("%,|>@`") and "\n" not in text:
        text = "'" + text.replace("'", "''") + "'"
    return compose(text)


def read_value(text: str) -> Any:
    """Return the plain data of a value in YAML, as it may stand behind a key of a recipe.

    Raises:
        ZooError: the text is not YAML, or not plain data.
    """
    draft = Draft(f"the value {brief(text)}")
    try:
        node = compose_value(text)
        data = node and draft.build(node, (), lambda line: draft.places[()])
    except NotYaml as error:
        raise ZooError(f"{brief(text)}: {error.message}") from None
    draft.finish()
    return data


def read_draft(path: Path, shown: str) -> Draft:
    """Return the draft of a recipe file.

    Args:
        path: of the file.
        shown: what errors call it.

    Raises:
        ZooError: it is not YAML with a mapping at the top.
    """
    draft = Draft(f"recipe {shown}")

    def place(line: int) -> Place:
        return Place((0, line), f"{shown}:{line}")

    try:
        node = compose(_read_text(path, shown))
        if node is None:
            raise NotYaml(1, "the file is empty; write at least `dataset: ...` and `model: ...`.")
        if not isinstance(node, yaml.MappingNode):
            kind = "a list" if isinstance(node, yaml.SequenceNode) else brief(node.value)
            message = "write `dataset: ...`, `model: ...` and so on, a key on each line."
            raise NotYaml(_line(node), f"the file holds {kind}; {message}")
    except NotYaml as error:
        draft.refuse(place(error.line), error.message)
        draft.finish()
    draft.places[()] = place(_line(node))
    draft.data = draft.build(node, (), place)
    return draft


def _read_text(path: Path, shown: str) -> str:
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ZooError(f"{shown}:{line}: not UTF-8; save the file as UTF-8 text.") from None


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
