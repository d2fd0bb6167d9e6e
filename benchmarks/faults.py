"""What is kept when a disk is full, a file limited, a folder in the way, or a command ended.

python benchmarks/faults.py [WORDS OF A COMMAND]

Prints a row for each command and fault. Disks of a few kB are mounted for it, which takes root;
without, the rows that need them are left out.
"""

import hashlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LIMIT = 20_000
"""Bytes that a file may have, below what any of the commands writes."""

ASK = "gcn-digits --data digits"
ARRAYS = "node_labels={source}-labels.npy node_features={source}-x.npy --memory 0.001"
FAST = "train.epochs=2 seeds=[0]"
COMMANDS = {
    "data prepare": "data prepare {source}.npz mine --again",
    "data prepare --on-disk": "data prepare {source}.npz mine --again --on-disk",
    "the same, of edges": f"data prepare {{source}}.csv mine --again --on-disk {ARRAYS}",
    "data check --plot": "data check {source}.npz --plot {target}/out.png",
    "predict, .csv": f"predict {ASK} --out {{target}}/out.csv --again",
    "predict, .parquet": f"predict {ASK} --out {{target}}/out.parquet --again",
    "embed": f"embed {ASK} --out {{target}}/out.npy --again",
    "embed --layerwise": f"embed {ASK} --out {{source}}.out.npy --again --layerwise",
    "cache of encodings": "train gcn-digits dataset={source}.npz encoding.name=random_walk "
    f"encoding.steps=16 {FAST} --runs {{source}}-runs",
    "finetune": f"finetune {ASK} {FAST} --runs {{target}}/runs",
}
"""Name to what is typed; `embed --layerwise` has its folder for temporary files in the target."""

ROOM = {
    "data prepare --on-disk": 2_000_000,
    "the same, of edges": 2_000_000,
}
"""Bytes that are free where a disk becomes full on the way: more than is asked for before."""

ENDS = {"kill -9": signal.SIGKILL, "Ctrl-C": signal.SIGINT}


def write_sources(stem, nodes):
    """Write a graph as .npz, and as a list of edges with arrays beside it."""
    from zoo.data import GraphArrays
    from zoo.data.files.prepared import write_prepared

    random = np.random.default_rng(0)
    edges, labels = random.integers(nodes, size=(5 * nodes, 2)), np.arange(nodes) % 3
    x = random.standard_normal((nodes, 16)).astype(np.float32)
    write_prepared(GraphArrays(edges, labels, x), f"{stem}.npz")
    np.savetxt(f"{stem}.csv", edges, fmt="%d", delimiter=",")
    np.save(f"{stem}-labels.npy", labels)
    np.save(f"{stem}-x.npy", x)


def start(words, source, target, limit=None):
    """Start a command whose data folder, and whose folder for temporary files, is the target."""
    words = words.format(source=source, target=target).split()
    temporary = target if "--layerwise" in words else tempfile.gettempdir()
    known = {"ZOO_DATA": str(target), "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}

    def limited():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a shell's background ignores
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "zoo", *words],
        env={**os.environ, **known}, cwd=target, preexec_fn=limited, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def content(folder):
    """Return the SHA-256 of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def judge(name, fault, process, target, before):
    """Print the row of a command that is to end now."""
    try:
        said = process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        said = "HANGS " + process.communicate()[1]
    after = content(target)
    lost = [each for each in before if after.get(each) != before[each]]
    drafts = [each for each in after if ".draft/" in each]
    new = [each for each in after if each not in before and each not in drafts]
    kept = f"{len(before) - len(lost)} of {len(before)}"
    last = (said.strip().splitlines() or [""])[-1].replace(str(target), "DIR").replace("|", "/")
    trouble = "TRACEBACK " if "Traceback" in said else ""
    cells = name, fault, process.returncode, kept, len(new), len(drafts), trouble + last[:170]
    print("", *cells, "", sep=" | ", flush=True)


def mount(target, size, *more):
    """Mount a small disk; return whether that may be done."""
    call = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *more]), "tmpfs", str(target)]
    return subprocess.run(call, capture_output=True).returncode == 0


def drafts_of(target):
    """Return what is being written below a folder."""
    return [folder for folder, _, _ in os.walk(target) if folder.endswith(".draft")]


def spoil(name, fault, target):
    """Do to a folder what a fault is about; return the limit of files."""
    if fault == "limit of files":
        return LIMIT
    if fault == "read-only disk":
        subprocess.run(["mount", "-o", "remount,ro", str(target)], check=True)
    if fault.startswith("disk that"):
        left = ROOM.get(name, 24_000) if "way" in fault else 24_000
        room = os.statvfs(target)
        (target / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - left))
    return None


def try_out(name, words, fault, folder):
    """Have a command write something small, and something large under a fault."""
    target, small, large = folder / "target", folder / "small" / "g", folder / "large" / "g"
    target.mkdir()
    disk = "disk" in fault
    if disk and not mount(target, "16m"):
        target.rmdir()
        return
    try:
        start(words, small, target).communicate()
        limit, before = spoil(name, fault, target), content(target)
        process = start(words, large, target, limit)
        if fault in ENDS:
            while process.poll() is None and not drafts_of(target):
                time.sleep(0.0005)
            process.send_signal(ENDS[fault])
        judge(name, fault, process, target, before)
        if fault in ENDS:
            judge(name, "and then again", start(words, large, target), target, {})
    finally:
        if disk:
            subprocess.run(["umount", str(target)], check=True)
        shutil.rmtree(target)


def main():
    """Try every command that was asked for, with every fault."""
    asked = " ".join(sys.argv[1:])
    faults = ["limit of files", "disk that is full", "disk that fills on the way", "read-only disk"]
    print(" | command | fault | exit | files kept | new files | drafts | last line |")
    print(" | -- | -- | -- | -- | -- | -- | -- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size, nodes in {"small": 30, "large": 20_000}.items():
            (folder / size).mkdir()
            write_sources(folder / size / "g", nodes)
        for name, words in COMMANDS.items():
            for fault in [*faults, *ENDS]:
                if asked in name:
                    try_out(name, words, fault, folder)


if __name__ == "__main__":
    main()
