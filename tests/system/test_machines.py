"""Two machines, each a network namespace of this one: trained, killed, and attacked."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

RECIPE = """
dataset: {name: sbm, nodes: 3000, classes: 3, dim: 8}
model: {name: sgformer, graph_dropout: 0.5, attention: rba}
train: {epochs: EPOCHS, batching: {name: random-nodes, size: 700}}
seeds: [3]
"""


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


def begin(nodes, rank, place, *words):
    """Start what a user of several machines starts on each of them."""
    (place / "hosts").write_text("".join(f"{address}\n" for _, address, _ in nodes))
    (place / "secret").write_text("s" * 64)
    (place / "secret").chmod(0o600)
    meeting = ["--hosts", "hosts", "--secret", "secret"]
    return subprocess.Popen(
        ["ip", "netns", "exec", nodes[rank][0], sys.executable, "-W", "ignore", "-m", "zoo",
         "train", *words, *meeting],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


def numbers(runs):
    [folder] = runs.iterdir()
    lines = [json.loads(each) for each in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("seconds", "crc32")
    return [{key: value for key, value in each.items() if key not in times} for each in lines]


def test_two_nodes_do_what_two_processes_do(nodes, tmp_path):
    (tmp_path / "two.yaml").write_text(RECIPE.replace("EPOCHS", "40"))
    both = [begin(nodes, rank, tmp_path, "two.yaml", "--runs", "nodes") for rank in range(2)]
    heard = set()
    while any(each.poll() is None for each in both):
        for name, own, _ in nodes:
            said = subprocess.run(["ip", "netns", "exec", name, "ss", "-Htln"], capture_output=True,
                                  text=True).stdout  # fmt: skip
            heard |= {(own, line.split()[3].rpartition(":")[0]) for line in said.splitlines()}
        time.sleep(0.2)
    assert heard == {(own, own) for _, own, _ in nodes}, heard
    assert [each.wait(timeout=300) for each in both] == [0, 0]
    call = [sys.executable, "-m", "zoo", "train", "two.yaml", "--processes", "2", "--runs", "one"]
    subprocess.run(call, cwd=tmp_path, check=True, capture_output=True)
    found = numbers(tmp_path / "nodes")
    assert len(found) == 40 and found == numbers(tmp_path / "one")


def test_a_node_that_dies_ends_the_other_and_the_run_goes_on(nodes, tmp_path):
    (tmp_path / "two.yaml").write_text(RECIPE.replace("EPOCHS", "300"))
    both = [begin(nodes, rank, tmp_path, "two.yaml", "--runs", "killed") for rank in range(2)]
    limit = time.monotonic() + 120
    while not list(tmp_path.glob("killed/*/checkpoint-3.pt")):
        assert both[0].poll() is None and time.monotonic() < limit
        time.sleep(0.2)
    found = subprocess.run(["ip", "netns", "pids", nodes[1][0]], capture_output=True, text=True)
    for process in map(int, found.stdout.split()):
        os.kill(process, signal.SIGKILL)
    assert both[0].wait(timeout=30) != 0
    both[1].wait()
    [folder] = (tmp_path / "killed").iterdir()
    again = [begin(nodes, rank, tmp_path, "--resume", str(folder)) for rank in range(2)]
    assert [each.wait(timeout=300) for each in again] == [0, 0]
    assert (folder / "summary.json").exists() and len(numbers(tmp_path / "killed")) == 300
