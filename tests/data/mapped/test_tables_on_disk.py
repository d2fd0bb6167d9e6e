"""Tables of nodes that are to be written on disk: what they say is kept, and they are no edges."""

import gzip

import numpy as np
import pytest

from zoo.data.load import load_graph, prepare_on_disk, read_graph
from zoo.errors import ZooError

ROWS = 20


def folder(path):
    path.mkdir()
    rows = [f"{i},{i % 7},{i / 2},{['', 'a', 'b'][i % 3]},{i % 2}" for i in range(ROWS)]
    (path / "nodes.csv").write_text("\n".join(["id,x,when,who,label", *rows]))
    (path / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    return str(path)


def test_times_and_groups_are_kept(tmp_path):
    spec = {"name": folder(tmp_path / "own"), "columns": "x",
            "time_column": "when", "group_column": "who"}  # fmt: skip
    prepare_on_disk(spec, tmp_path / "disk")
    wanted, data = load_graph(spec), load_graph(tmp_path / "disk")
    assert np.array_equal(data.times, wanted.times)
    assert data.groups.tolist() == wanted.groups.tolist()
    again = read_graph(tmp_path / "disk")
    assert np.array_equal(again.times, wanted.times) and len(again.groups) == ROWS
    bare = {"name": spec["name"], "columns": "x", "numbers": "raw"}
    prepare_on_disk(bare, tmp_path / "bare")
    assert load_graph(tmp_path / "bare").times is None
    assert '"learnt"' not in (tmp_path / "bare" / "meta.json").read_text()


HEADS = {
    "age,label": "'label'",
    "id,age": "'id'",
    "age,Split": "'split'",
    "label,age,height": "'label'",
    '"id","age"': "'id'",
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("end", [".csv", ".csv.gz"])
def test_a_table_of_nodes_is_no_list_of_edges(head, end, tmp_path):
    path = tmp_path / f"table{end}"
    width = head.count(",") + 1
    text = "\n".join(["# ages", head, *(",".join([f"{i % 5}"] * width) for i in range(ROWS))])
    path.write_bytes(gzip.compress(text.encode()) if end.endswith("gz") else text.encode())
    with pytest.raises(ZooError, match=f"a column {HEADS[head]}, as a table.*leave --on-disk out"):
        prepare_on_disk(path, tmp_path / "disk")
    prepare_on_disk({"name": str(path), "weights": "ignore"}, tmp_path / "disk")  # said to be edges


@pytest.mark.parametrize("head", ["", "source,target\n", "from,to\n", "label,source,target\n"])
def test_lists_of_edges_are_read_as_ever(head, tmp_path):
    rows = "1,0,1\n1,1,2\n" if "label" in head else "0,1\n1,2\n"
    (tmp_path / "edges.csv").write_text(head + rows)
    spec = {"name": str(tmp_path / "edges.csv")}
    prepare_on_disk({**spec, "weights": "ignore"} if "label" in head else spec, tmp_path / "disk")
    assert load_graph(tmp_path / "disk").graph.num_edges() == 7
