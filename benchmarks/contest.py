"""Ways of doing one thing, timed in turns: medians, memory and ratios, and the page of results."""

import argparse
import contextlib
import multiprocessing
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from zoo.system.allocator import installed, jemalloc

RESULTS = Path(__file__).with_name("results.md")
PACKAGES = ("torch", "dgl", "torch_geometric", "numpy", "scipy")


def contest(ways: Mapping[str, Callable[[], object]], *, rounds: int = 15) -> dict[str, float]:
    """Run each way once to warm up, then all in turns; return the median seconds of each."""
    for way in ways.values():
        way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in seconds.items()}


def report(title: str, medians: Mapping[str, float]) -> None:
    """Print the medians, and how many times longer each takes than the first one."""
    first = next(iter(medians.values()))
    cells = [f"{name} {1000 * each:.2f} ms ({each / first:.1f}x)" for name, each in medians.items()]
    print(f"{title}: {', '.join(cells)}")


class Cost(NamedTuple):
    """What a way costs: the median of its seconds, the peak bytes of its process, what it found."""

    seconds: float
    bytes: int
    found: float


def contest_of_processes(
    ways: Mapping[str, tuple[Callable[..., Callable[[], float]], tuple]],
    *,
    rounds: int = 5,
    preloaded: Sequence[str] = ("zoo",),
) -> dict[str, Cost]:
    """Run each way in a process of its own, all in turns, so that each has its own memory.

    Args:
        ways: by name, a function of a module that prepares and returns a step, and its arguments.
            A step returns a number, a loss for example.
        rounds: of all ways, after one to warm up.
        preloaded: ways with the memory of `zoo train`, jemalloc's where it is installed; the others
            take theirs from the C library as it is.
    """
    context = multiprocessing.get_context("spawn")
    lines = {}
    for name, (prepare, arguments) in ways.items():
        line, other = context.Pipe()
        with _environment(jemalloc() if name in preloaded else {}):
            context.Process(target=_serve, args=(other, prepare, arguments), daemon=True).start()
        lines[name] = line
        line.recv()  # prepared: one at a time, so that each has all of the machine
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found = {}
    for round_ in range(rounds + 1):
        for name, line in lines.items():
            line.send(True)
            spent, number = line.recv()
            found.setdefault(name, number)
            if round_:
                seconds[name].append(spent)
    costs = {}
    for name, line in lines.items():
        line.send(False)
        costs[name] = Cost(statistics.median(seconds[name]), line.recv(), found[name])
    return costs


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """Give new processes some more variables, as long as this lasts."""
    os.environ.update(more)
    yield
    for name in more:
        del os.environ[name]


def _serve(line, prepare: Callable[..., Callable[[], float]], arguments: tuple) -> None:
    import torch

    from zoo.system.memory import peak_memory

    step = prepare(*arguments)
    line.send(None)
    while line.recv():
        start = time.perf_counter()
        number = float(step())
        line.send((time.perf_counter() - start, number))
    line.send(peak_memory(torch.device("cpu")))


class Aim(NamedTuple):
    """A number that is to be at most, or at least, another one."""

    name: str
    value: float
    limit: float
    least: bool = False

    @property
    def met(self) -> bool:
        """Return whether it is."""
        return self.value >= self.limit if self.least else self.value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.least else "<="
        word = "met" if self.met else "missed"
        return f"{self.name} {self.value:.3g} ({sign} {self.limit:g}: {word})"


def full_asked(description: str) -> bool:
    """Return whether the command asks for the full sizes."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="The sizes that are published.")
    return parser.parse_args().full


def conclude(script: str, full: bool, table: list[dict[str, str]], aims: list[Aim]) -> None:
    """Print the table and one line of aims, and put both into the page of results."""
    head = list(table[0])
    lines = [_row(head), _row(["--"] * len(head)), *(_row([*each.values()]) for each in table)]
    # The aims are those of the full sizes.
    last = "; ".join(map(str, aims) if full else (f"{aim.name} {aim.value:.3g}" for aim in aims))
    print("\n".join([*lines, f"{Path(script).stem}: {last}"]))
    command = f"python benchmarks/{Path(script).name}{' --full' if full else ''}"
    _write(command, [*lines, "", f"{last}."])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(command: str, lines: list[str]) -> None:
    """Put a section into the page of results, in the place of the one of the same command."""
    text = RESULTS.read_text() if RESULTS.exists() else ""
    sections = dict(re.findall(r"^## `(.*?)`\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S))
    sections[command] = "\n".join(["", _machine(), "", *lines, "", ""])
    body = "".join(f"## `{name}`\n{sections[name]}" for name in sorted(sections))
    RESULTS.write_text(f"{_HEAD}\n{body}".rstrip() + "\n")


_HEAD = """# Results

Written by the scripts of this folder, each of which runs the peer beside the zoo in one run, in
turns: medians. Ratios are times of the peer by times of the zoo unless said otherwise.
"""


def _machine() -> str:
    import torch

    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) or [
        platform.processor()
    ]
    versions = [f"{each} {_version(each)}" for each in PACKAGES if _version(each)]
    memory = "jemalloc for the zoo" if installed() else "no jemalloc"
    return f"{names[0]}, {torch.get_num_threads()} threads; {', '.join(versions)}; {memory}."


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
