"""Fine-tuning on a graph that has grown: no node that weights were trained on is tested later."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import zoo
from zoo.data.known_nodes import read_known
from zoo.data.splits import PARTS, split_of, split_problems
from zoo.errors import ZooError
from zoo.inference.training_data import dataset_of_run, training_spec
from zoo.runs.prepare import prepare
from zoo.runs.resolve import load_recipe, resolve


def table(path, nodes, labels=None, **columns):
    """A table of nodes: ids of the numbers, two columns and a label each."""
    nodes = list(nodes)
    frame = pd.DataFrame({"id": [f"n{each}" for each in nodes], "age": [i % 7 for i in nodes]})
    frame["label"] = [(labels or "ab"[i % 2]) if labels != "" else "" for i in nodes]
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.assign(**columns).to_csv(path, index=False)
    return str(path)


def trained(tmp_path, data, *, split=None, **changes):
    """Return the folder of the first seed of a run, as short as can be."""
    dataset = {"name": str(data)} if isinstance(data, str | Path) else data
    dataset = {**dataset, **({"split": split} if split else {})}
    recipe = {"dataset": dataset, "model": {"name": "mlp", "dim": 4}, "train": {"epochs": 1},
              "seeds": [0], **changes}  # fmt: skip
    run = zoo.run_recipe(recipe, runs=tmp_path / "runs", device="cpu")
    return Path(run["folder"]) / f"seed-{recipe['seeds'][0]}"


@pytest.fixture
def finetuned(command, tmp_path):
    def finetune(run, data, *words):
        told = ("train.epochs=1", "--runs", tmp_path / "runs", "--json", "--quiet")
        code, out, err = command("finetune", run, "--data", data, *words, *told)
        assert code == 0, err
        return Path(json.loads(out)["folder"]) / "seed-0"

    return finetune


def parts_of(run):
    """The part of each node by its id, as the run's own recipe divides its data."""
    spec = dataset_of_run(run)
    data = zoo.load_data({key: each for key, each in spec.items() if key != "split"})
    split = split_of(data, spec["split"], int(run.name.removeprefix("seed-")))
    result = json.loads((run / "result.json").read_text())
    assert split.sha256 == result["scores"]["split_sha256"]
    ids = np.arange(len(data.y)) if data.ids is None else data.ids
    return {str(each): part for part in PARTS for each in ids[getattr(split, part).numpy()]}


def seen_by(run):
    return json.loads((run.parent / "start_from.json").read_text())["seen"]


@pytest.mark.parametrize("split", [None, "stratified", "folds-5", {"name": "ratio", "train": 30}])
def test_known_nodes_keep_their_part_and_new_ones_are_dealt(split, tmp_path, finetuned, caplog):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)), split=split, seeds=[3])
    before = parts_of(run)
    again = finetuned(run, table(tmp_path / "new.csv", range(-20, 55)))
    after = parts_of(again)
    for node in range(55):
        assert after.get(f"n{node}") == before.get(f"n{node}")
    new = [after.get(f"n{node}") for node in range(-20, 0)]
    assert new.count("train") == (6 if isinstance(split, dict) else 12)
    assert new.count("val") == new.count("test") == 4
    kept = sum(int(each[1:]) < 55 for each in before)
    told = f"{kept} nodes keep their part of {run.parent.name}/seed-3, "
    told += f"{55 - kept} are in none, as there, " if kept < 55 else ""
    assert f"{told}20 new ones are dealt." in caplog.text and seen_by(again) == 0
    written = dataset_of_run(again)["split"]
    assert written["name"] == "kept" and written["new"] == (split or "ratio-60-20-20")


def test_the_run_before_need_not_be_there_any_more(tmp_path, finetuned, command):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)))
    again = finetuned(run, table(tmp_path / "new.csv", range(80)))
    score = json.loads((again / "result.json").read_text())["scores"]["test"]
    shutil.rmtree(run.parent)
    (tmp_path / "old.csv").unlink()
    found = json.loads(command("evaluate", again, "--json")[1])
    assert (found["score"], found["nodes"], found["seen"]) == (score, 16, False)
    data = ("--data", tmp_path / "new.csv", "--json")
    assert json.loads(command("evaluate", again, *data, "--part", "test")[1])["seen"] is False
    assert json.loads(command("evaluate", again, *data)[1])["seen"]
    moved = again.parent.rename(tmp_path / "moved") / "seed-0"
    assert json.loads(command("evaluate", moved, "--json")[1])["score"] == score
    copied = shutil.copytree(moved, tmp_path / "copied")
    assert json.loads(command("evaluate", copied, *data, "--part", "train")[1])["seen"]


def test_the_published_weights_do_not_tell_the_folder_of_the_run(tmp_path, finetuned):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)))
    again = finetuned(run, table(tmp_path / "new.csv", range(80)))
    told = json.loads((again / "config.json").read_text())["about"]["recipe"]["dataset"]["split"]
    assert told["run"] == f"{run.parent.name}/seed-0"


def test_labels_that_come_and_go(tmp_path, finetuned):
    """What had no label then is new; what has lost its label is in no part."""
    labels = ["" if each % 4 == 0 else "ab"[each % 2] for each in range(60)]
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60), label=labels))
    before = parts_of(run)
    labels = ["" if each % 4 == 1 else "ab"[each % 2] for each in range(60)]
    after = parts_of(finetuned(run, table(tmp_path / "new.csv", range(60), label=labels)))
    assert {node for node in after} == {f"n{each}" for each in range(60) if each % 4 != 1}
    assert all(after[node] == part for node, part in before.items() if node in after)
    new = [part for node, part in after.items() if node not in before]
    assert [new.count(part) for part in PARTS] == [9, 3, 3]


def test_nodes_are_known_through_a_chain_of_runs(tmp_path, finetuned, caplog):
    """Those too that were gone for a while."""
    first = trained(tmp_path, table(tmp_path / "one.csv", range(60)))
    second = finetuned(first, table(tmp_path / "two.csv", range(30, 90)))
    third = finetuned(second, table(tmp_path / "three.csv", range(100)))
    parts = [parts_of(each) for each in (first, second, third)]
    assert all(parts[2][node] == part for each in parts[:2] for node, part in each.items())
    assert "90 nodes keep their part of" in caplog.text and "10 new ones are dealt" in caplog.text
    assert seen_by(second) == seen_by(third) == 0
    told = json.loads((third.parent / "nodes.json").read_bytes())
    assert told["count"] == 100 and "before" not in told
    told = json.loads((second.parent / "nodes.json").read_bytes())
    assert len(told["before"]["ids"]) == 30
    again = finetuned(third, table(tmp_path / "four.csv", range(100)))
    same = [json.loads((each / "result.json").read_text())["scores"]["split_sha256"]
            for each in (third, again)]  # fmt: skip
    assert same[0] == same[1], "every part is known"


def test_another_split_is_honoured_and_told(tmp_path, finetuned, command, caplog):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)))
    data = table(tmp_path / "new.csv", range(80))
    other = finetuned(run, data, "dataset.split={name: ratio, train: 60, val: 20, seed: 5}")
    before, after = parts_of(run), parts_of(other)
    seen = {node for node, part in before.items() if part == "train" and after[node] != "train"}
    assert seen and seen_by(other) == len(seen)
    assert f"had {len(seen)} of the 32 nodes of validation and test in its training" in caplog.text
    assert "whose scores are too good" in caplog.text and "{name: kept, run: " in caplog.text
    assert json.loads(command("evaluate", other, "--json")[1])["seen"], "by the weights before"
    caplog.clear()
    more = finetuned(other, table(tmp_path / "more.csv", range(90)))
    assert all(parts_of(more)[node] == part for node, part in after.items())
    assert seen_by(more) == len(seen), "the chain keeps knowing"
    assert f"had {len(seen)} of the 36 nodes" in caplog.text


def test_a_split_of_the_new_data_is_taken_and_told(tmp_path, finetuned, caplog):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)))
    train = [node for node, part in parts_of(run).items() if part == "train"]
    words = np.array(["train"] * 80, dtype=object)
    words[[int(each[1:]) for each in train[:7]]] = "test"
    words[60:70] = "val"
    own = table(tmp_path / "new.csv", range(80), split=words)
    again = finetuned(run, own)
    assert dataset_of_run(again)["split"] == "benchmark" and seen_by(again) == 7
    assert "had 7 of the 17 nodes of validation and test in its training" in caplog.text
    assert [*parts_of(again).values()].count("test") == 7


@pytest.mark.parametrize("ids", [True, False])
def test_a_file_that_grows_where_it_lies(ids, tmp_path, finetuned, caplog):
    """Without ids, rows are known by their numbers, as it is the same file."""
    own = {} if ids else {"columns": ["age"]}
    path = tmp_path / "own.csv"

    def written(nodes):
        table(path, nodes)
        if not ids:
            pd.read_csv(path).drop(columns="id").to_csv(path, index=False)
        return {"name": str(path), **own}

    run = trained(tmp_path, written(range(60)))
    before = parts_of(run)
    written(range(75))
    again = finetuned(run, path)
    after = parts_of(again)
    assert all(after[node] == part for node, part in before.items()) and len(after) == 75
    rows = "" if ids else ", by their rows"
    assert f"60 nodes keep their part of {run.parent.name}/seed-0{rows}, 15 new" in caplog.text
    assert "has changed since" not in caplog.text and seen_by(again) == 0


def test_rows_without_ids_are_not_those_of_another_file(tmp_path, finetuned, caplog):
    for name in ("one", "two"):
        pd.read_csv(table(tmp_path / f"{name}.csv", range(60))).drop(columns="id").to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    run = trained(tmp_path, tmp_path / "one.csv")
    again = finetuned(run, tmp_path / "two.csv")
    assert dataset_of_run(again)["split"] == "ratio-60-20-20"
    assert "keep their part" not in caplog.text


def test_what_nobody_has_noted_is_said(tmp_path, finetuned, caplog):
    """Weights that were copied out of their run do not know its nodes."""
    run = trained(tmp_path, table(tmp_path / "own.csv", range(60)))
    copied = shutil.copytree(run, tmp_path / "copied")
    finetuned(copied, table(tmp_path / "new" / "own.csv", range(70)))
    assert "own is called like the data that" in caplog.text
    caplog.clear()
    finetuned(copied, table(tmp_path / "other.csv", range(70)))
    assert "called like" not in caplog.text


def test_no_node_is_known_in_another_graph(tmp_path, finetuned, caplog):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)))
    again = finetuned(run, table(tmp_path / "new.csv", range(60, 120)))
    assert dataset_of_run(again)["split"] == "ratio-60-20-20"
    assert "keep their part" not in caplog.text and seen_by(again) == 0
    told = json.loads((again.parent / "nodes.json").read_bytes())
    assert len(told["before"]["ids"]) == 60, "which may come back"


def test_a_recipe_that_starts_from_weights_keeps_parts_too(tmp_path, caplog):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)))
    data = table(tmp_path / "new.csv", range(80))
    start = {"weights": str(run)}
    recipe = {"dataset": data, "model": {"name": "mlp", "dim": 4}, "start_from": start}
    prepared = prepare(resolve(load_recipe({**recipe, "seeds": [0, 1]})))
    assert "60 nodes keep their part of" in caplog.text
    before = parts_of(run)
    for split in prepared.splits:
        for part in PARTS:
            ids = prepared.data.ids[getattr(split, part).numpy()]
            assert {before.get(node, part) for node in ids} == {part}
    assert prepared.splits[0].sha256 != prepared.splits[1].sha256, "the new nodes are dealt"


@pytest.mark.parametrize("new", [1, 2, 5, 30])
def test_new_nodes_of_a_group_are_where_the_group_is(new, tmp_path, finetuned):
    owners = [f"o{each % 12}" for each in range(60)]
    own = {"name": table(tmp_path / "old.csv", range(60), owner=owners), "group_column": "owner",
           "columns": ["age"]}  # fmt: skip
    run = trained(tmp_path, own, split="group")
    owners = [f"o{each % 12 if each % 2 else 12 + each % 3}" for each in range(60, 60 + new)]
    owners = [f"o{each % 12}" for each in range(60)] + owners
    after = parts_of(finetuned(run, table(tmp_path / "new.csv", range(60 + new), owner=owners)))
    held = {part: {owners[int(node[1:])] for node, own in after.items() if own == part}
            for part in PARTS}  # fmt: skip
    assert len(after) == 60 + new
    assert not held["train"] & held["val"] and not held["train"] & held["test"]
    assert not held["val"] & held["test"]


def test_nodes_of_several_kinds_are_known_by_kind_and_id(tmp_path, finetuned):
    def write(name, people):
        folder = tmp_path / name
        table(folder / "nodes-person.csv", people)
        pd.DataFrame({"id": ["n0", "n1"], "size": [1, 2]}).to_csv(
            folder / "nodes-good.csv", index=False
        )
        ends = {"source": [f"n{each}" for each in people], "target": "n1"}
        pd.DataFrame(ends).to_csv(folder / "edges-person-good.csv", index=False)
        return str(folder)

    run = trained(tmp_path, write("old", range(40)))
    before = parts_of(run)
    after = parts_of(finetuned(run, write("new", range(-5, 40))))
    assert len(before) == 40 and len(after) == 45
    assert all(after[node] == part for node, part in before.items())


def sets_of_graphs(folder, graphs):
    folder.mkdir(exist_ok=True)
    owners = np.repeat(np.arange(graphs) + 1, 3)
    first = np.arange(graphs) * 3 + 1
    edges = [f"{one}, {one + 1}\n{one + 1}, {one}" for one in first]
    (folder / "DS_A.txt").write_text("\n".join(edges))
    (folder / "DS_graph_indicator.txt").write_text("\n".join(map(str, owners)))
    (folder / "DS_graph_labels.txt").write_text("\n".join(str(i % 2) for i in range(graphs)))
    return folder


def test_graphs_of_a_set_keep_their_part(tmp_path, finetuned, command, caplog):
    run = trained(tmp_path, sets_of_graphs(tmp_path / "DS", 40), split="ratio-70-10-20")
    before = parts_of(run)
    sets_of_graphs(tmp_path / "DS", 60)
    after = parts_of(again := finetuned(run, tmp_path / "DS"))
    assert all(after[graph] == part for graph, part in before.items()) and len(after) == 60
    assert "40 samples keep their part of" in caplog.text
    for words in ((), ("--data", tmp_path / "DS", "--part", "test")):
        found = json.loads(command("evaluate", again, *words, "--json")[1])
        assert found["nodes"] == [*after.values()].count("test") and not found["seen"]
    other = finetuned(again, sets_of_graphs(tmp_path / "another", 40))
    assert dataset_of_run(other)["split"] == "stratified-80-10-10", "none is known"
    other = finetuned(run, sets_of_graphs(tmp_path / "other", 40))
    assert dataset_of_run(other)["split"] == "ratio-70-10-20", "as for the others"


def test_named_data_with_other_edges_are_divided_as_then(tmp_path, finetuned, caplog):
    own = {"name": "digits", "neighbours": 3}
    run = trained(tmp_path, own, seeds=[2], split="ratio-60-20-20")
    before = json.loads((run / "result.json").read_text())["scores"]["split_sha256"]
    words = ("--data", "digits")
    from_two = finetuned_seed(finetuned, run, *words)
    after = json.loads((from_two / "result.json").read_text())["scores"]["split_sha256"]
    assert after == before and not caplog.text
    trained(tmp_path, "digits", start_from={"weights": str(run)})
    assert re.search(r"was trained on \d+ of the 719 nodes of validation", caplog.text)


def finetuned_seed(finetune, run, _, data):
    """The seed of a fine-tuning, which is that of the weights."""
    folder = finetune(run, data).parent
    (seed,) = folder.glob("seed-*")
    return seed


def test_what_is_noted_and_damaged_is_told(tmp_path, command):
    run = trained(tmp_path, table(tmp_path / "old.csv", range(60)))
    table(tmp_path / "new.csv", range(80))
    (run.parent / "nodes.json").write_text("{}")
    code, _, err = command("finetune", run, "--data", tmp_path / "new.csv", "train.epochs=1")
    assert code == 2 and "nodes.json is damaged" in err and "`split`" in err


def test_the_word_is_checked(tmp_path):
    data = zoo.load_graph(table(tmp_path / "old.csv", range(60)))
    with pytest.raises(ZooError, match=r"split kept: .* `run: RUN/seed-0`"):
        split_of(data, {"name": "kept", "run": str(tmp_path / "seed-0")}, 0)
    (problem,) = split_problems("kept", ("split",))
    assert problem.path == ("split", "run")
    wrong = {"name": "kept", "run": "a", "new": {"name": "ratio", "train": 80}}
    (problem,) = split_problems(wrong, ("split",))
    assert problem.path == ("split", "new") and "120" in problem.message
    run = trained(tmp_path, tmp_path / "old.csv")
    with pytest.raises(ZooError, match="is a run; write which seed of it: .*/seed-0"):
        split_of(data, {"name": "kept", "run": str(run.parent)}, 0)
    bare = zoo.Dataset.from_arrays([[0, 1]], torch.rand(60, 1), torch.arange(60) % 2)
    with pytest.raises(ZooError, match="need ids, on both sides or on none"):
        split_of(bare, {"name": "kept", "run": str(run)}, 0)
    assert read_known(run).trained.sum() == 36
    assert training_spec(run)["split"] == "ratio-60-20-20"


def test_a_class_that_weights_do_not_know_is_named(command, tmp_path):
    rows = ["id,x,kind", *(f"n{each},{each / 60},{'ab'[each % 2]}" for each in range(60))]
    (tmp_path / "mine.csv").write_text("\n".join(rows))
    quick = ["--quiet", "--json", "train.epochs=1", "seeds=[0]"]
    code, said, _ = command("train", "mlp", "--data", "{name: mine.csv, label: kind}", *quick)
    assert code == 0
    run = json.loads(said)["folder"]
    code, _, told = command("finetune", run, "--data", "mine.csv", *quick[:3])
    assert code == 0 and "do not know" not in told
    (tmp_path / "mine.csv").write_text("\n".join([*rows, *(f"m{n},{n / 20},c" for n in range(20))]))
    code, _, told = command("finetune", run, "--data", "mine.csv", *quick[:3])
    assert code == 0 and "do not know 'c' of mine.csv: what the head" in " ".join(told.split())
