"""Two machines, each a network namespace of this one: trained on, and one of them killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

PORT = 29533
RECIPE = """
dataset: {name: sbm, nodes: 3000, classes: 3, dim: 8}
model: {name: sgformer, graph_dropout: 0.5, attention: rba}
train: {epochs: EPOCHS, batching: {name: random-nodes, size: 700}}
seeds: [3]
"""
SHARDED = (
    "train.batching={name: neighbours, fanouts: [5, 3], size: 300, features: sharded}",
    "train.evaluate=batches",
)


@pytest.fixture(scope="module")
def nodes():
    """Two network namespaces that a cable joins: their names, addresses and devices."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the command ip")
    tag = f"{os.getpid() % 10_000}"
    found = [(f"zoo-{tag}-{i}", f"10.77.0.{i + 1}", f"zoo{tag}-{i}") for i in range(2)]
    (one, _, first), (other, _, second) = found
    cable = ["link", "add", first, "netns", one, "type", "veth", "peer", "name", second]
    try:
        for name, _, _ in found:
            ip("netns", "add", name)
        ip(*cable, "netns", other)
        for name, address, device in found:
            ip("-n", name, "address", "add", f"{address}/24", "dev", device)
            for each in (device, "lo"):
                ip("-n", name, "link", "set", each, "up")
        yield found
    except subprocess.CalledProcessError:
        pytest.skip("network namespaces cannot be made here")
    finally:
        for name, _, _ in found:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def begin(nodes, place, *words, launcher):
    """Start on both machines what a user starts; what each says is in `said-0` and `said-1`."""
    begun = []
    for rank, (name, _, device) in enumerate(nodes):
        own = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": device}
        before, more = launcher(rank, nodes[0][1])
        with open(place / f"said-{rank}", "w") as said:
            begun.append(subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, "-W", "ignore", *before,
                 "-m", "zoo", "train", *words],
                cwd=place, env={**os.environ, **own, **more}, stdout=said, stderr=said,
            ))  # fmt: skip
    return begun


def by_torchrun(rank, first):
    """`torchrun` of one machine."""
    words = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    return [*words, "--node-rank", str(rank), "--master-addr", first, "--master-port",
            str(PORT)], {}  # fmt: skip


def by_variables(rank, first):
    """What `srun` starts, with the variables that torch asks for."""
    own = {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": first, "MASTER_PORT": PORT}
    return [], {name: str(each) for name, each in own.items()}


def kill(name):
    """End all that runs on a machine."""
    found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
    for process in map(int, found.stdout.split()):
        os.kill(process, signal.SIGKILL)


def listening(nodes):
    """Each machine with the addresses on which something listens there."""
    found = set()
    for name, own, _ in nodes:
        call = ["ip", "netns", "exec", name, "ss", "-Htln"]
        said = subprocess.run(call, capture_output=True, text=True).stdout
        found |= {(own, line.split()[3].rpartition(":")[0]) for line in said.splitlines()}
    return found


def until_checkpoint(place, runs, begun):
    limit = time.monotonic() + 120
    while not list(place.glob(f"{runs}/*/checkpoint-3.pt")):
        assert begun[0].poll() is None and time.monotonic() < limit
        time.sleep(0.2)


def ends(begun):
    return [each.wait(timeout=300) for each in begun]


def alone(place, *words):
    """Train on this machine."""
    call = [sys.executable, "-m", "zoo", "train", "two.yaml", *words]
    subprocess.run(call, cwd=place, check=True, capture_output=True)


def numbers(runs):
    [folder] = runs.iterdir()
    lines = [json.loads(each) for each in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("seconds", "crc32")
    return [{key: value for key, value in each.items() if key not in times} for each in lines]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The numbers of two processes of one machine that nothing has ended."""
    found = tmp_path_factory.mktemp("unbroken")
    (found / "two.yaml").write_text(RECIPE.replace("EPOCHS", "400"))
    alone(found, "--processes", "2", "--runs", "whole")
    return numbers(found / "whole")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "two.yaml").write_text(RECIPE.replace("EPOCHS", "40"))
    (tmp_path / "long.yaml").write_text(RECIPE.replace("EPOCHS", "400"))
    return tmp_path


def test_two_machines_do_what_two_processes_do(nodes, place):
    both = begin(nodes, place, "two.yaml", "--runs", "nodes", launcher=by_torchrun)
    heard = set()
    while any(each.poll() is None for each in both):
        heard |= listening(nodes)
        time.sleep(0.2)
    assert ends(both) == [0, 0], (place / "said-0").read_text()
    first = nodes[0][1]
    assert heard == {(own, own) for _, own, _ in nodes} | {(first, "*")}, heard
    alone(place, "--processes", "2", "--runs", "processes")
    found = numbers(place / "nodes")
    assert len(found) == 40 and found == numbers(place / "processes")
    alone(place, "train.batching.per_step=2", "--runs", "one")
    for one, other in zip(found, numbers(place / "one"), strict=True):
        assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize(("launcher", "dies"), [(by_torchrun, 1), (by_variables, 0)])
def test_a_machine_that_dies_ends_the_other_and_the_run_goes_on(
    launcher, dies, nodes, place, unbroken
):
    both = begin(nodes, place, "long.yaml", "--runs", "killed", launcher=launcher)
    until_checkpoint(place, "killed", both)
    kill(nodes[dies][0])
    assert both[1 - dies].wait(timeout=60) not in (0, None)
    both[dies].wait()
    said = (place / f"said-{1 - dies}").read_text()
    assert said.count("zoo: another process has ended") == 1, said
    assert launcher is by_torchrun or "Traceback" not in said, said
    [folder] = (place / "killed").iterdir()
    again = begin(nodes, place, "--resume", str(folder), launcher=launcher)
    assert ends(again) == [0, 0], (place / "said-0").read_text()
    assert (folder / "summary.json").exists()
    assert numbers(place / "killed") == unbroken


def test_machines_that_share_the_features(nodes, place):
    both = begin(nodes, place, "two.yaml", *SHARDED, "--runs", "nodes", launcher=by_variables)
    assert ends(both) == [0, 0], (place / "said-0").read_text()
    alone(place, *SHARDED, "--processes", "2", "--runs", "processes")
    assert numbers(place / "nodes") == numbers(place / "processes")
