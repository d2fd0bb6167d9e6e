"""How commands end: full disks, closed outputs, Ctrl-C and signals; nothing is lost by them."""

import contextlib
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from zoo.cli import common, console
from zoo.cli.app import main
from zoo.data import GraphArrays
from zoo.data.files.prepared import write_prepared

NODES = 2000


@pytest.fixture
def graph(tmp_path):
    """A graph of which every command writes more than 20 kB."""
    random = np.random.default_rng(0)
    edges, labels = random.integers(NODES, size=(5 * NODES, 2)), np.arange(NODES) % 3
    x = random.standard_normal((NODES, 16))
    write_prepared(GraphArrays(edges, labels, x), tmp_path / "g.npz")
    np.savetxt(tmp_path / "g.csv", edges, fmt="%d", delimiter=",")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", labels)
    return tmp_path / "g.npz"


OLD = '{"format": "graph on disk"}'

WRITE = {
    "data/mine.npz": "data prepare g.npz mine --again",
    "data/mine/meta.json": "data prepare g.npz mine --again --on-disk",
    "data/edges/meta.json": "data prepare g.csv edges --again --on-disk node_labels=y.npy "
    "node_features=x.npy",
    "plot.png": "data check g.npz --plot plot.png",
    "out.csv": "predict gcn-digits --data digits --out out.csv --again",
    "out.npy": "embed gcn-digits --data digits --out out.npy --again",
}


@pytest.mark.parametrize("written", WRITE)
def test_a_limit_of_files_is_one_paragraph(written, graph, command, file_limit, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    if written.startswith("data/mine"):
        Path(written).parent.mkdir(parents=True)
        Path(written).write_text(OLD)
        before = sorted(tmp_path.rglob("*"))
    file_limit(20_000)
    code, out, said = command(*WRITE[written].split())
    assert code == 2, said
    assert "a file may not be so large here" in said and said.count("\n") <= 1 + ("part" in written)
    after = [each for each in sorted(tmp_path.rglob("*")) if each.name != "data"]
    assert after == [each for each in before if each.name != "data"]
    if written.startswith("data/mine"):
        assert Path(written).read_text() == OLD


def test_a_full_disk_is_one_paragraph(graph, command, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", "size=20k", "tmpfs", disk]
    if subprocess.run(call, capture_output=True).returncode:
        pytest.skip("mounting a small disk takes root")
    try:
        for words in (
            "data check g.npz --plot disk/plot.png",
            "predict gcn-digits --data digits --out disk/out.csv",
        ):
            code, _, said = command(*words.split())
            assert code == 2 and "cannot be written: the disk is full" in said
            assert "Make room, or write to another disk" in said
            assert not os.listdir(disk)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_cache_that_cannot_be_written_is_a_warning(graph, command, file_limit, caplog):
    file_limit(100_000)
    options = ["encoding={name: random_walk, steps: 30}", "seeds=[0]", "train.epochs=1"]
    code, _, said = command("train", "gcn-digits", f"dataset={graph}", *options)
    assert code == 0, said
    assert "encoding is not kept for later" in caplog.text


@pytest.fixture(autouse=True)
def consoles_that_print():
    """Rich has a console that met a broken pipe print nothing ever after."""
    yield
    console.out.quiet = console.errors.quiet = False


@contextlib.contextmanager
def in_the_place_of(name, file, monkeypatch):
    """Have a command write into a file that takes nothing, whatever is left in it at the end."""
    monkeypatch.setattr(f"sys.{name}", file)
    with pytest.raises(SystemExit) as left:
        yield left
    monkeypatch.undo()
    with contextlib.suppress(OSError):
        file.close()


@pytest.mark.parametrize("words", ["list recipes", "list models --json", "--help", "show gcn-cora"])
def test_an_output_that_takes_nothing(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["zoo", *words.split()])
    with in_the_place_of("stdout", open("/dev/full", "w"), monkeypatch) as left:
        main()
    assert left.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "the answer cannot be printed: No space left on device" in line


@pytest.mark.parametrize("words", ["list models", "list models --json", "--help", "show gcn-cora"])
def test_an_output_that_nobody_reads(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["zoo", *words.split()])
    behind, before = os.pipe()
    os.close(behind)
    with in_the_place_of("stdout", os.fdopen(before, "w"), monkeypatch) as left:
        main()
    assert left.value.code == 1
    assert not capsys.readouterr().err


def test_an_output_that_is_closed(monkeypatch):
    monkeypatch.setattr("sys.argv", ["zoo", "list", "models"])
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code


def test_nobody_reads_the_complaint(monkeypatch):
    errors = type(console.errors)(stderr=True)
    monkeypatch.setattr(console, "errors", errors)
    monkeypatch.setattr("sys.argv", ["zoo", "info", "nosuch"])
    with in_the_place_of("stderr", open("/dev/full", "w"), monkeypatch) as left:
        main()
    assert left.value.code == 2
    behind, before = os.pipe()
    os.close(behind)
    monkeypatch.setattr("sys.stderr", os.fdopen(before, "w"))
    errors.print("a remark")  # and no end
    assert errors.quiet
    with contextlib.suppress(OSError):
        sys.stderr.close()


def test_closed_outputs_are_no_place_for_files():
    code = (
        "import os; from zoo.__main__ import open_streams; open_streams(); "
        "os.write(9, b'%d' % os.open('/dev/null', 0))"
    )
    call = f'{sys.executable} -c "{code}" 9>&1 <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", call], capture_output=True, text=True)
    assert done.stdout == "3"


def test_ctrl_c_while_modules_are_imported_says_nothing(monkeypatch, capsys):
    from zoo.__main__ import main as program

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.cli.app.main", interrupt)
    monkeypatch.setattr("sys.argv", ["zoo", "list", "recipes"])
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        program()
    assert left.value.code == 130
    assert not capsys.readouterr().err


@pytest.fixture
def asked_to_end(command, monkeypatch):
    """Give what calls the command and sends a signal in the third epoch of its training."""
    from zoo.training import trainer

    def call(number, *words):
        epoch, count = trainer._run_epoch, []

        def asked(*given):
            count.append(1)
            if len(count) == 3:
                signal.raise_signal(number)
            return epoch(*given)

        monkeypatch.setattr(trainer, "_run_epoch", asked)
        monkeypatch.setattr(common, "_received", [])
        try:
            return command(*words)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            monkeypatch.setattr(trainer, "_run_epoch", epoch)

    return call


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_training_that_is_asked_to_end_keeps_what_it_has(number, asked_to_end, tmp_path):
    code, out, said = asked_to_end(number, "train", "gcn-digits", "seeds=[0]", "--json", "--quiet")
    assert code == 128 + number and not said
    assert json.loads(out)["interrupted"]
    assert list(tmp_path.glob("runs/*/seed-0/model.safetensors"))


@pytest.mark.slow
def test_a_study_that_is_asked_to_end_says_how_it_goes_on(asked_to_end, command, tmp_path):
    words = ["tune", "mlp", "--data", "karate", "train.epochs=4", "--trials", 2, "--splits", 1]
    code, _, said = asked_to_end(signal.SIGTERM, *words)
    (folder,) = tmp_path.glob("runs/tune-*")
    [goes_on] = re.findall("`zoo (tune --resume .*)` goes on", said)
    assert code == 143 and "compare" not in said
    code, out, _ = command(*goes_on.split())
    assert code == 0 and "scored once" in out and (folder / "best.yaml").exists()
    assert len((folder / "trials-table.csv").read_text().splitlines()) == 1 + 2  # and not 1 + 40


@pytest.fixture
def ended():
    """The summary of a run that was interrupted."""
    seed = {"seed": 0, "epoch": 1, "train": 1.0, "val": 0.5, "test": 0.5}
    mean = {"mean": 0.5, "std": None, "runs": 1}
    return {"recipe": "gcn-cora", "dataset": "cora", "metric": "accuracy", "seeds": [seed],
            "val": mean, "test": mean, "parameters": 1, "seconds_per_epoch": 1.0,
            "peak_memory_bytes": 1, "device": "cpu", "interrupted": True,
            "folder": "runs/gcn-cora"}  # fmt: skip


@pytest.mark.parametrize(("count", "own", "before", "after"), [
    (1, True, "", ""), (2, True, "", " --processes 2"),
    (4, False, "torchrun --nnodes N --nproc-per-node R -m ", ""),
])  # fmt: skip
def test_several_processes_go_on_as_several(count, own, before, after, ended, command, monkeypatch):
    monkeypatch.setattr("zoo.cli.train.train_plan", lambda *given, **options: ended)
    monkeypatch.setattr("zoo.system.process_group.count", lambda: count)
    if own:
        monkeypatch.setenv("ZOO_RENDEZVOUS", "meeting")
        monkeypatch.setattr("zoo.system.process_group.tell_run", lambda folder: None)
    code, said, _ = command("train", "gcn-cora")
    words = f"{before}zoo train --resume runs/gcn-cora{after}"
    assert code == 130 and f"go on with {words}\n" in said


def test_a_reproduction_that_was_ended_is_neither_pass_nor_fail(ended, command, monkeypatch):
    monkeypatch.setattr("zoo.cli.train.train_plan", lambda *given, **options: ended)
    code, said, _ = command("reproduce", "gcn-cora")
    assert code == 130 and "0.5000" in said and not {"PASS", "FAIL"} & {*said.split()}
    code, _, failed = command("reproduce", "gcn-cora", "--within-hours", "1")
    assert code == 2 and "--all" in failed


def test_a_signal_that_comes_twice_at_once_is_one(monkeypatch):
    monkeypatch.setattr(common, "_received", [])
    with pytest.raises(KeyboardInterrupt), common.graceful_shutdown():
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    assert common.exit_code() == 143
    with common.graceful_shutdown():
        pass
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


LONG, NOBODY = "x" * 300, "~nobodyhere/x"


@pytest.mark.parametrize(
    "words",
    [
        "predict gcn-digits --data digits --out {}.csv",
        "embed gcn-digits --data digits --out {}.npy",
        "data check karate --plot {}.png",
        "data prepare karate {}",
        "train gcn-digits --runs {}",
        "train --resume {}",
        "check {}.py",
    ],
)
@pytest.mark.parametrize("path", [LONG, NOBODY])
def test_paths_that_no_disk_takes(words, path, command):
    code, _, said = command(*words.format(path).split())
    assert code == 2 and said.startswith("zoo: ") and said.count("\n") == 1


def test_a_place_that_takes_no_file_is_found_before_the_work(command, monkeypatch, tmp_path):
    monkeypatch.setattr("zoo.weights.save_and_load.load", lambda _: pytest.fail("too late"))
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe.npy")
    for out in ("file/a.npy", "pipe.npy", "/proc/a.npy"):
        code, _, said = command("embed", "gcn-digits", "--data", "digits", "--out", out, "--again")
        assert code == 2 and f"{out} cannot be written" in said
    assert sorted(os.listdir(tmp_path)) == ["file", "pipe.npy"]


@pytest.mark.parametrize(
    "words",
    ["embed gcn-digits --data digits --again --out {}.npy", "data check g.npz --plot {}.png"],
)
def test_a_link_that_is_typed_is_written_through(words, graph, command, tmp_path):
    link = Path(words.split()[-1].format("link"))
    link.symlink_to(f"there{link.suffix}")
    code, _, said = command(*words.format("link").split())
    assert code == 0, said
    assert link.is_symlink() and (tmp_path / f"there{link.suffix}").stat().st_size > 1000


def test_a_picture_that_is_there_is_replaced_only_if_asked_for(graph, command, tmp_path):
    (tmp_path / "a.png").write_text("mine")
    words = "data", "check", "g.npz", "--plot", "a.png"
    code, _, said = command(*words)
    assert code == 2 and "a.png exists; name another file, or write --again" in said
    assert (tmp_path / "a.png").read_text() == "mine"
    assert command(*words, "--again")[0] == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_two_that_want_one_graph_download_it_once(command, monkeypatch, tmp_path):
    from zoo.data.load import load_graph, named

    fetched = []

    def download(url, path):
        fetched.append(url)
        time.sleep(0.05)
        path.touch()

    karate = load_graph("karate")
    arrays = GraphArrays(np.stack([each.numpy() for each in karate.graph.edges()], 1),
                         karate.y.numpy(), karate.x.numpy())  # fmt: skip
    source = named.Source("ogb", ("a",), lambda paths: arrays)
    monkeypatch.setattr(named, "download", download)
    obtaining = [threading.Thread(target=named.obtain, args=("club", source, 34)) for _ in "ab"]
    for each in obtaining:
        each.start()
    for each in obtaining:
        each.join()
    assert len(fetched) == 1
    assert os.listdir(tmp_path / "data") == ["club.npz"]


def test_what_nobody_foresaw_is_told_with_what_was_being_done(monkeypatch, capsys):
    """One paragraph, the library's own message, and the whole traceback in a file."""
    from zoo.cli import app, describe

    def fail():
        raise ArithmeticError("a \x1b[31mlibrary's own [bold]message")

    monkeypatch.setitem(describe.CATALOGUE, "models", fail)
    monkeypatch.setattr(sys, "argv", ["zoo", "list", "models"])
    monkeypatch.setattr("zoo.errors._is_users", lambda filename: False)  # this file is none
    with pytest.raises(SystemExit) as left:
        app.main()
    said = " ".join(capsys.readouterr().err.split())
    assert left.value.code == 1 and "\x1b[31m" not in said
    assert said.startswith("zoo: `zoo list models` ended by ArithmeticError: a ")
    assert "library's own [bold]message. The whole traceback is in " in said
    path = Path(said.rpartition(" in ")[2].rstrip("."))
    kept = path.read_text()
    assert "in fail" in kept and kept.rstrip().endswith("message")
    path.unlink()
