"""What every test may use: real graphs by name, a tiny graph, and a quiet place to write."""

import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch
from preloaded import run_preloaded
from threadpoolctl import threadpool_limits

from zoo.cli.app import main
from zoo.errors import ZooError
from zoo.graphs.examples import tiny_graph
from zoo.registry import leave_out_plugins

leave_out_plugins()  # what is tested is the zoo, whatever else is installed

THREADS = os.environ.get("ZOO_TEST_THREADS", "1")
"""Of torch: the graphs are tiny, and there is a process for each core."""

torch.set_num_threads(int(THREADS))
threadpool_limits(int(THREADS))
os.environ["OMP_NUM_THREADS"] = THREADS  # of the processes that tests and their fixtures begin

MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4e9:  # what is written is synced each time
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

DATA = os.environ.get("ZOO_DATA", "data").split(os.pathsep)


@pytest.fixture(autouse=True, scope="session")
def interrupted_as_in_a_terminal():
    """A job in the background is told to ignore Ctrl-C, which tests raise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def quiet_folders(tmp_path, monkeypatch):
    """Write caches and runs into the test's own folder; read graphs where they are; no network."""
    folders = [str(tmp_path / "data"), *(str(Path(each).absolute()) for each in DATA if each)]
    monkeypatch.setenv("ZOO_DATA", os.pathsep.join(folders))
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    torch.manual_seed(0)


@pytest.fixture
def preloaded_processes(monkeypatch):
    """Train apart in processes of their own that have imported torch."""
    from zoo.runs import earlier_runs

    def run(command, environment=None, **_):
        return run_preloaded(command[command.index("-P") + 1 :], Path.cwd(), **environment or {})

    monkeypatch.setattr(earlier_runs, "_run", run)


@pytest.fixture
def real_graph():
    """Load a real graph by name, or skip the test with the reason that it is not here."""
    from zoo.data.load import load_data

    def load(name, **options):
        try:
            return load_data(name, **options)
        except ZooError as error:
            pytest.skip(f"{name} is not in ZOO_DATA: {str(error)[:80]}")

    return load


@pytest.fixture
def tiny():
    """A connected canonical graph of 12 nodes with 5 features and 3 classes."""
    graph = tiny_graph()
    torch.manual_seed(1)
    return graph, torch.randn(12, 5), torch.arange(12) % 3


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Call the command; return its exit code and what it says."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["zoo", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
            sys.exit(0)
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return call


@pytest.fixture
def file_limit():
    """Give what limits, until the test ends, how many bytes a file may have in this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda count: resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
