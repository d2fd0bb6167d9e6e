"""SECURITY.md: each test that it names is there; and what no other room holds it to."""

import ast
import re
from pathlib import Path

import pytest

from zoo.data.load import load_graph
from zoo.errors import ZooError

ROOT = Path(__file__).parent.parent


def test_every_test_that_the_page_names_is_there():
    text = (ROOT / "SECURITY.md").read_text()
    files = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
    tests = {
        name: {each.name for each in ast.walk(ast.parse(path.read_text()))
               if isinstance(each, ast.FunctionDef)}
        for name, path in files.items()
    }  # fmt: skip
    named = re.findall(r"`(?:(test_\w+\.py)(?:::)?)?(test_\w+)?`", text)
    named = [each for each in named if any(each)]
    assert len(named) >= 15
    for file, test in named:
        assert not file or file in files, file
        assert not test or any(test in tests[each] for each in ([file] if file else tests)), test


GRAPHML = """<?xml version="1.0"?>
<!DOCTYPE graphml [{entities}]>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="l" for="node" attr.name="label" attr.type="string"/>
<graph edgedefault="undirected"><node id="a"><data key="l">{use}</data></node>
<node id="b"><data key="l">y</data></node><edge source="a" target="b"/></graph></graphml>
"""
LAUGHS = '<!ENTITY a0 "lol">' + "".join(
    f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12)
)


@pytest.mark.parametrize(
    "entities,use",
    [
        ('<!ENTITY x SYSTEM "file://{path}">', "&x;"),
        ('<!ENTITY % x SYSTEM "file://{path}"> %x;', "x"),
        (LAUGHS, "&a11;"),
    ],
    ids=["a file", "a file of entities", "entities of entities"],
)
def test_xml_reads_no_other_file(entities, use, tmp_path):
    (tmp_path / "secret").write_text("<!ENTITY y 'a secret'>")
    entities = entities.replace("{path}", str(tmp_path / "secret"))
    (tmp_path / "g.graphml").write_text(GRAPHML.format(entities=entities, use=use))
    try:
        said = str(load_graph(str(tmp_path / "g.graphml")).labels)
    except ZooError as error:
        said = str(error)
    assert "a secret" not in said and len(said) < 3000
