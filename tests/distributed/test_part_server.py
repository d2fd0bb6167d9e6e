"""A graph in parts: the folder, what servers answer, and that batches are those of the whole."""

import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.config.options import pick
from zoo.datasets.load import load_graph
from zoo.datasets.splits import make_split
from zoo.dgl import dgl
from zoo.distributed.hosts import PORT, find_hosts, machines
from zoo.distributed.part_files import describe
from zoo.distributed.part_server import join, serve
from zoo.distributed.partition import CONFIG, open_partition, part_of, write_partition
from zoo.distributed.team import Team
from zoo.errors import ZooError
from zoo.experiments.launch import to_launch
from zoo.experiments.resolve import load_recipe, resolve
from zoo.graphs.sampling import neighbourhood, walked
from zoo.system import channel, process_group
from zoo.system.rendezvous import SECRET
from zoo.training.batches import BATCHING

SBM = {"name": "sbm", "nodes": 300, "classes": 3, "degree": 6, "dim": 4}
PARTS = 3


@pytest.fixture(scope="module")
def data():
    """A random graph, one node of which has no neighbours, in fp16 features of its numbers."""
    found = load_graph(SBM)
    graph = dgl.remove_edges(found.graph, found.graph.out_edges(5, form="eid"))
    graph = dgl.remove_edges(graph, graph.in_edges(5, form="eid"))
    graph = dgl.add_edges(graph, 5, 5)
    x = torch.arange(300).outer(torch.tensor([1.0, -1.0])).half()
    return dataclasses.replace(found, graph=graph, x=x)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    found = tmp_path_factory.mktemp("parts") / "sbm"
    said = write_partition(data, found, PARTS)
    assert [each["part"] for each in said] == [0, 1, 2]
    assert sum(each["nodes"] for each in said) == 300
    assert sum(each["edges"] for each in said) == data.graph.num_edges()
    assert all(0 < each["other_parts"] < each["edges"] / 2 for each in said)
    return found


@pytest.fixture(scope="module")
def meeting(folder):
    """A meeting folder, and a server of each part on a Unix socket in it."""
    with tempfile.TemporaryDirectory() as name:
        found = Path(name)
        (found / SECRET).write_bytes(b"x" * 32)
        for part in Team(1, config=folder / CONFIG).served(found):
            arguments = (part, folder / CONFIG, found)
            threading.Thread(target=serve, args=arguments, daemon=True).start()
        yield found


@pytest.fixture
def servers(folder, meeting, monkeypatch):
    """What a trainer asks."""
    monkeypatch.setenv(process_group.MEETING, str(meeting))
    join.cache_clear()
    return join(folder / CONFIG)


def pairs(graph):
    return sorted(zip(*(each.tolist() for each in graph.edges()), strict=True))


def test_every_node_edge_and_row_is_in_one_part(data, folder):
    found = open_partition(folder / CONFIG)
    assert torch.equal(found.old[found.new], torch.arange(300))
    assert found.ends[-1] == 300 and (found.ends.diff() > 0).all()
    edges, start = [], 0
    for part, end in enumerate(found.ends.tolist()):
        nodes = found.old[start:end]
        assert torch.equal(part_of(found.config, part)[1], data.x[nodes])
        begins = found.offsets[[start, end]]
        neighbours = found.old[part_of(found.config, part)[0]]
        assert len(neighbours) == begins[1] - begins[0]
        tips = nodes.repeat_interleave(found.offsets[start : end + 1].diff())
        edges += zip(neighbours.tolist(), tips.tolist(), strict=True)
        edges += zip(nodes.tolist(), nodes.tolist(), strict=True)
        start = end
    assert sorted(edges) == pairs(data.graph)


@pytest.mark.parametrize("fanouts", [[-1], [-1, -1], [3], [4, 3, 2]])
def test_a_neighbourhood_is_that_of_the_whole_graph(fanouts, data, servers):
    for seeds in ([5], [3, 77, 200], list(range(0, 300, 7))):
        seeds = torch.tensor(seeds)
        whole, wanted = neighbourhood(data.graph, seeds, fanouts, 9)
        nodes, graph = walked(servers.degrees, servers.tails, seeds, fanouts, 9, wanted.idtype)
        assert torch.equal(nodes, whole) and pairs(graph) == pairs(wanted)
        assert graph.idtype == wanted.idtype


def test_rows_are_those_of_the_nodes(data, servers):
    nodes = torch.tensor([299, 0, 5, 5, 150])
    assert torch.equal(servers.rows(nodes), data.x[nodes])


def test_batches_are_those_of_neighbours(data, folder, servers):
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    spec = {"name": "neighbours", "fanouts": [3, 2], "size": 40}
    hidden = dataclasses.replace(data, x=torch.full_like(data.x, torch.nan))

    def over(spec, data):
        torch.manual_seed(7)
        return pick(BATCHING, spec, data, split.train, "cpu")

    spread = {**spec, "name": "distributed", "config": str(folder / CONFIG)}
    one, other = over(spec, data), over(spread, data)
    other.data = hidden  # what it gives is from the servers
    for part, twin in zip(one.parts(0), other.parts(0), strict=True):
        assert pairs(part.graph) == pairs(twin.graph)
        assert torch.equal(part.x, twin.x) and twin.x.dtype == torch.float32
        assert torch.equal(part.y, twin.y) and torch.equal(part.rows, twin.rows)
        assert part.seed == twin.seed and part.weight == twin.weight
    asked = torch.tensor([8, 1, 5])
    answers = [each.logits(lambda graph, x: x, asked) for each in (one, other)]
    assert torch.equal(*answers) and answers[0][:, 0].tolist() == [8, 1, 5]


def test_one_part_will_do(data, tmp_path):
    write_partition(data, tmp_path / "one", 1)
    assert open_partition(tmp_path / "one" / CONFIG).ends.tolist() == [300]


def test_data_that_were_not_cut_are_refused(data, folder, monkeypatch):
    other = dataclasses.replace(data, x=torch.zeros(300, 5), transform="row")
    with pytest.raises(ZooError, match="features 2, not 5.*'raw', not 'row'.*partition"):
        open_partition(folder / CONFIG).check(other)
    for x, edges in ((100 * data.x, data.graph), (data.x, data.with_graph("none").graph)):
        with pytest.raises(ZooError, match="it has other edges or features"):
            open_partition(folder / CONFIG).check(dataclasses.replace(data, x=x, graph=edges))
    weighted = data.graph.clone()
    weighted.edata["weight"] = torch.ones(weighted.num_edges())
    with pytest.raises(ZooError, match="has weights, directions or features of edges.*neighbours"):
        write_partition(dataclasses.replace(data, graph=weighted), folder.parent / "w", 2)
    monkeypatch.delenv(process_group.MEETING, raising=False)
    join.cache_clear()
    spec = {"name": "distributed", "config": str(folder / CONFIG), "fanouts": [2], "size": 9}
    with pytest.raises(ZooError, match="no servers.*--processes R"):
        pick(BATCHING, spec, data, torch.arange(9), "cpu")


def test_what_cannot_be_cut_leaves_nothing(data, folder, tmp_path):
    with pytest.raises(ZooError, match="is there already"):
        write_partition(data, folder, 2)
    with pytest.raises(ZooError, match="write fewer"):
        write_partition(data, tmp_path / "many", 301)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [CONFIG, "old.npy"])
def test_a_damaged_folder_is_answered(name, folder, tmp_path):
    for each in (CONFIG, "new.npy", "old.npy", "offsets.npy"):
        (tmp_path / each).write_bytes((folder / each).read_bytes())
    open_partition(tmp_path / CONFIG)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ZooError, match="zoo data partition"):
        open_partition(tmp_path / CONFIG)
    path.unlink()
    with pytest.raises(ZooError, match="zoo data partition"):
        open_partition(tmp_path / CONFIG)


def changed(path, change):
    """Write an array file anew, of a copy that is changed."""
    np.save(path, change(np.load(path)))


def out_of_range(array):
    array[3] = 300
    return array


def swapped(array):
    array[[1, 2]] = array[[2, 1]]
    return array


DAMAGE = {
    "old.npy turned": ("old", lambda array: np.roll(array, 1), "contradict each other"),
    "old.npy with no node": ("old", out_of_range, "contradict each other"),
    "old.npy of another type": ("old", lambda array: array.astype(np.int32), "old.npy is <i4"),
    "fewer columns": ("part1/x", lambda array: array[:, :1], r"x.npy is <f2 of the shape.* 1\)"),
    "another type": ("part1/x", lambda array: array.astype(float), "x.npy is <f8"),
    "fewer neighbours": ("part1/neighbours", lambda array: array[:-1], "neighbours.npy is <i8"),
    "no node": ("part1/neighbours", out_of_range, "neighbours.npy holds numbers from .* to 300"),
    "offsets that fall": ("offsets", lambda array: array[::-1].copy(), "does not ascend"),
    "other features": ("part1/x", swapped, "part1/x.npy has changed since it was written"),
    "other edges": ("part1/neighbours", swapped, "neighbours.npy has changed since"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_part_is_answered_before_it_is_served(case, folder, meeting, tmp_path):
    name, change, words = DAMAGE[case]
    shutil.copytree(folder, tmp_path / "parts")
    changed(tmp_path / "parts" / f"{name}.npy", change)
    with pytest.raises(ZooError, match=words) as caught:
        serve(1, tmp_path / "parts" / CONFIG, meeting)
    assert "again" in str(caught.value) and "\n" not in str(caught.value)


def test_part_and_whole_have_to_agree_even_with_the_checksums(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "parts")
    config = tmp_path / "parts" / CONFIG
    changed(config.parent / "part1" / "x.npy", lambda array: array[:, :1])
    told = json.loads(config.read_text())
    told["arrays"] = {name: each.model_dump() for name, each in describe(config.parent).items()}
    config.write_text(json.dumps(told))
    with pytest.raises(ZooError, match=r"x.npy is .*, 1\), not \(\d+, 2\)"):
        part_of(config, 1)
    del told["arrays"]
    config.write_text(json.dumps(told))
    with pytest.raises(ZooError, match="earlier version.*without checksums.*write it again"):
        open_partition(config)


def test_a_part_of_something_else_is_refused_by_who_asks(servers):
    servers.partition = servers.partition._replace(columns=3)
    with pytest.raises(ZooError, match="300 rows|rows of a part take.*partition the graph again"):
        servers.rows(torch.arange(300))


def test_a_server_that_fails_says_why(folder, tmp_path):
    own = Team(1, config=folder / CONFIG).served(tmp_path)
    (tmp_path / SECRET).write_bytes(b"x" * 32)
    begun = subprocess.Popen(own[1], stderr=subprocess.PIPE, text=True)
    with channel.connect(str(tmp_path / "part-1"), b"x" * 32) as connection:
        connection.send_bytes(b"x" + np.int64(300).tobytes())
        with pytest.raises(EOFError):
            channel.receive(connection)
    _, said = begun.communicate(timeout=30)
    assert begun.returncode == 2 and said.count("\n") == 1
    assert "was asked for rows 300 to 300" in said and "Copy the folder" in said


def test_a_server_that_does_not_answer_is_told(servers):
    for each in servers._connections:
        each.close()
    with pytest.raises(ZooError, match="does not answer.*--resume RUN"):
        servers.rows(torch.arange(300))


def test_hosts_are_the_lines_of_a_file(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 4000\n203.0.113.1\n\n203.0.113.2 5000\n")
    assert (machines(path), machines(None)) == (3, 1)
    found = find_hosts(path, None)
    assert found.addresses == [("127.0.0.1", 4000), ("203.0.113.1", PORT), ("203.0.113.2", 5000)]
    assert (found.rank, found.own, found.count) == (0, "127.0.0.1", 3)
    assert found.meeting == ("127.0.0.1", 4001)
    assert found.allowed == ["127.0.0.1", "203.0.113.1", "203.0.113.2"]
    for text, rank, said in [
        ("127.0.0.1\n127.0.0.2\n", 2, "--host 2 is no line"),
        ("127.0.0.1\n127.0.0.2\n203.0.113.1", None, "2 lines.*--host 0"),
        ("203.0.113.1\n203.0.113.2\n203.0.113.3\n", None, "0 lines.*--host 0"),
        ("203.0.113.1\n127.0.0.1\n", 0, "no address of this machine"),
        ("0.0.0.0\n203.0.113.1\n", 0, "no address of this machine"),
        ("127.0.0.1 many\n", None, "'127.0.0.1 many' is no address"),
        ("127.0.0.1 65535\n", None, "is no address"),
        ("\n", None, "is empty"),
    ]:
        path.write_text(text)
        with pytest.raises(ZooError, match=said):
            find_hosts(path, rank)
    with pytest.raises(ZooError, match="cannot be read"):
        find_hosts(tmp_path / "none", None)


def batching(folder, size=300):
    spec = f"name: distributed, config: {folder / CONFIG}, fanouts: [5, 3], size: {size}"
    return f"train.batching={{{spec}}}"


def test_one_trainer_is_launched_too_and_none_by_a_trainer(folder, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    spread = resolve(load_recipe("sgformer-sbm-rba", [batching(folder)]))
    assert to_launch(1, spread) and not to_launch(1, resolve(load_recipe("sgformer-sbm-rba")))
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert not to_launch(1, spread)


RANDOM = "train.batching={name: random-nodes, size: 100}"


def test_the_command_says_what_is_wrong(folder, command, monkeypatch, tmp_path):
    (tmp_path / "hosts").write_text("127.0.0.1\n203.0.113.1\n")
    for name, mode in {"open": 0o644, "short": 0o600}.items():
        (tmp_path / name).write_text("short")
        (tmp_path / name).chmod(mode)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    train = ("train", "sgformer-sbm-rba", "--processes", "2")
    encoded = "encoding={name: laplacian, k: 2}"
    for words, said in {
        (*train, batching(folder), encoded): "adds an encoding",
        (*train, batching(folder / "none")): "none/part.json cannot be read",
        (*train, "train.batching={name: distributed, fanouts: [2], size: 9}"): "config",
        (*train, "--hosts", "hosts"): "nothing in",
        (*train, batching(folder), "--hosts", "hosts"): "names 2 machines",
        (*train, RANDOM, "--hosts", "hosts"): "--secret secret",
        (*train, RANDOM, "--hosts", "hosts", "--secret", "none"): "cannot be read",
        (*train, RANDOM, "--hosts", "hosts", "--secret", "open"): "chmod 600 open",
        (*train, RANDOM, "--hosts", "hosts", "--secret", "short"): "5 of 32 bytes",
    }.items():
        done = command(*words)
        assert done[0] == 2 and said in done[2], done


def test_the_command_cuts_a_graph(command):
    done = command("data", "partition", "karate", "here/karate", "--parts", "2")
    assert done[0] == 0 and "34 nodes" not in done[2]
    assert re.search(r"part 1: \d+ nodes.*from other parts", done[2])
    assert len(open_partition("here/karate/part.json").new) == 34
    assert command("data", "partition", "karate", "here/karate")[0] == 2
    assert command("data", "partition", "karat", "there")[0] == 2


NODES, EPOCHS = 2000, 100
RECIPE = f"""
dataset: {{name: sbm, nodes: {NODES}, classes: 3, degree: 10, dim: 8}}
model: {{name: sgformer, graph_dropout: 0.5}}
train: {{epochs: {EPOCHS}, evaluate: batches}}
seeds: [3]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a recipe, its graph in two parts, and a run of `neighbours` to compare."""
    found = tmp_path_factory.mktemp("place")
    (found / "two.yaml").write_text(RECIPE)
    write_partition(load_graph(load_recipe(found / "two.yaml").dataset), found / "parts", 2)
    same = "train.batching={name: neighbours, fanouts: [5, 3], size: 300}"
    assert begin(found, "two.yaml", same, "--processes", "2", "--runs", "whole").wait(300) == 0
    return found


def begin(place, *words):
    """Start the command; what it says is thrown away."""
    call = [sys.executable, "-W", "ignore", "-m", "zoo", "train", *words]
    return subprocess.Popen(call, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def losses(runs):
    [folder] = runs.iterdir()
    lines = [json.loads(each) for each in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(each["epoch"], each["loss"], each["train"], each["val"]) for each in lines]


def assert_same_run(place, name):
    ours, wanted = losses(place / name), losses(place / "whole")
    assert len(ours) == EPOCHS and [each[0] for each in ours] == [each[0] for each in wanted]
    for one, other in zip(ours, wanted, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    [folder] = (place / name).iterdir()
    assert json.loads((folder / "summary.json").read_text())["test"]["mean"] > 0.9


def started(place):
    """The processes whose working folder this is, by what they are: `server`, or a rank."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() != place:
                continue
            rank = re.search(rb"\0RANK=(\d)", (process / "environ").read_bytes())
            name = b"zoo.distributed.part_server" in (process / "cmdline").read_bytes() and "server"
        except OSError:
            continue
        found[int(process.name)] = name or (int(rank[1]) if rank else "other")
    return found


@pytest.mark.slow
def test_two_servers_and_two_trainers_do_what_neighbours_does(place):
    spread = begin(place, "two.yaml", batching(place / "parts"), "--processes", "2",
                   "--runs", "spread")  # fmt: skip
    assert spread.wait(timeout=300) == 0
    assert_same_run(place, "spread")
    assert not started(place)


@pytest.mark.slow
def test_two_hosts_with_a_trainer_each_do_too(place):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (place / "hosts").write_text(f"127.0.0.1 {port}\n127.0.0.2 {port}\n")
    (place / "secret").write_text("s" * 40)
    (place / "secret").chmod(0o600)
    words = ("two.yaml", batching(place / "parts"), "--hosts", "hosts", "--secret", "secret",
             "--runs", "hosts-run")  # fmt: skip
    both = [begin(place, *words, "--host", str(host)) for host in range(2)]
    assert [each.wait(timeout=300) for each in both] == [0, 0]
    assert_same_run(place, "hosts-run")


@pytest.mark.slow
@pytest.mark.parametrize("who", ["server", 1])
def test_who_is_killed_ends_all_and_the_run_goes_on(who, place):
    runs = f"killed-{who}"
    begun = begin(place, "two.yaml", batching(place / "parts"), "--processes", "2", "--runs", runs)
    limit = time.monotonic() + 120
    while not list(place.glob(f"{runs}/*/checkpoint-3.pt")):
        assert begun.poll() is None and time.monotonic() < limit
        time.sleep(0.1)
    processes = started(place)
    assert sorted(map(str, processes.values())) == ["0", "1", "other", "server", "server"]
    os.kill(next(each for each, name in processes.items() if name == who), signal.SIGKILL)
    assert begun.wait(timeout=30) != 0
    assert not started(place)
    [folder] = (place / runs).iterdir()
    again = begin(place, "--resume", str(folder), "--processes", "2")
    assert again.wait(timeout=300) == 0
    assert_same_run(place, runs)
