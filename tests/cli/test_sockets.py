"""No command listens beyond the loopback interface, whatever it starts (`make slow`)."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import typer
from sentences import write_pairs

import zoo
from zoo.cli.app import app
from zoo.sequences.data.tokenizer import train_tokenizer

SHORT = ("dataset={name: sbm, nodes: 400}", "train.epochs=3", "seeds=[0]")
BATCHES = "train.batching={name: random-nodes, size: 100}"
SHARDED = "train.batching={name: neighbours, fanouts: [2], size: 40, features: sharded}"
LONG = "train.epochs=100"

COMMANDS = [
    ("data prepare", "sbm", "own", "nodes=400", "--on-disk"),
    ("data check", "own"),
    ("train", "gcn-cora", *SHORT),
    ("train", "sgformer-sbm-rba", *SHORT, LONG, BATCHES, "--processes", "2"),
    ("train", "sgformer-sbm-rba", "dataset=own", LONG, "train.evaluate=batches", SHARDED,
     "--processes", "2"),
    ("reproduce", "gcn-cora", *SHORT, "expect={test: 0.1, within: 0.1, source: here}"),
    ("compare", "gcn-cora", "mlp-cora", *SHORT),
    ("results", "runs"),
    ("estimate", "gcn-cora", *SHORT),
    ("show", "gcn-cora"),
    ("list", "models"),
    ("info", "gcn"),
    ("schema",),
    ("doctor",),
    ("check", "gcn"),
    ("predict", "weights", "--data", "own", "--out", "predicted.csv"),
    ("predict", "text-weights", "--text", "text.en"),
    ("evaluate", "text-weights", "--data", "numbers-en-de"),
    ("train", "transformer-multi30k", "dataset={name: numbers-en-de, vocabulary: 300}",
     "model.dim=8", "train.epochs=2"),
    ("report", "run", "--out", "report.html"),
    ("embed", "weights", "--data", "own", "--out", "embedded.npy"),
    ("evaluate", "weights", "--data", "own"),
    ("finetune", "weights", "--data", "own", "train.epochs=2"),
    ("push", "weights", "someone/something"),
    ("pull", "someone/something", "pulled"),
    ("tune", "mlp", "train.epochs=2", "--data", "karate", "--trials", "1", "--splits", "1"),
    ("load", "gcn-digits", "--evaluate"),
    ("publish", "--to", "published"),
]  # fmt: skip

OFFLINE = ("push", "pull", "publish")
"""Those that end with an error here, without a network, or beside no verified runs."""


def names(command, before=""):
    for name, found in command.commands.items():
        if hasattr(found, "commands"):
            yield from names(found, f"{before}{name} ")
        else:
            yield before + name


def test_every_command_is_looked_at():
    assert {each[0] for each in COMMANDS} == set(names(typer.main.get_command(app)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a graph of its own, and weights."""
    found = tmp_path_factory.mktemp("place")
    data = zoo.load_data({"name": "sbm", "nodes": 400})
    zoo.save(zoo.create_model("gcn", data.x.shape[1], data.classes), found / "weights")
    model = zoo.create_model("transformer-seq2seq", 258, 258, dim=8, layers=1)
    model.tokenizer = train_tokenizer([], 258).text
    zoo.save(model, found / "text-weights")
    write_pairs(found / "numbers-en-de")
    recipe = {"dataset": "karate", "model": "gcn", "train": {"epochs": 2}}
    folder = zoo.run_recipe(recipe, runs=found / "runs")["folder"]
    Path(folder).rename(found / "run")
    (found / "text.en").write_text("one two three\n")
    return found


def listening(process):
    """Addresses on which a process and those that it has started listen, or receive datagrams."""
    found = set()
    try:
        for each in (process, *process.children(recursive=True)):
            for own in each.net_connections("inet"):
                if own.status == psutil.CONN_LISTEN or (
                    own.type == socket.SOCK_DGRAM and not own.raddr
                ):
                    found.add(own.laddr.ip)
    except psutil.Error:
        pass
    return found


@pytest.mark.slow
def test_no_command_listens_beyond_this_machine(place, monkeypatch):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ZOO_DATA": str(place / "data")}
    table, failed = {}, {}
    for command, *words in COMMANDS:
        call = [sys.executable, "-W", "ignore", "-m", "zoo", *command.split(), *words]
        begun = subprocess.Popen(call, cwd=place, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
        process, heard = psutil.Process(begun.pid), set()
        while begun.poll() is None:
            heard |= listening(process)
            time.sleep(0.01)
        said = begun.stderr.read().decode()
        if begun.returncode not in (0, 1) and command not in OFFLINE:
            failed[command] = said
        table[" ".join([command, *words])] = sorted(heard)
    for line, heard in table.items():
        sys.stdout.write(f"{line[:70]:70} {', '.join(heard) or '-'}\n")
    assert not failed
    assert {address for heard in table.values() for address in heard} == {"127.0.0.1"}
