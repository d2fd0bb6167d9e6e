"""Benchmark runner: alternating runs, medians, peak memory, ratios, and the page of results."""

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

from zoo.system.allocator import installed, variables

RESULTS = Path(__file__).with_name("results.md")
PACKAGES = ("torch", "dgl", "torch_geometric", "numpy", "scipy")


def contest(ways: Mapping[str, Callable[[], object]], *, rounds: int = 15) -> dict[str, float]:
    """Run each way once to warm up, then all alternating; return the median seconds of each."""
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
    """Print the medians, and their ratios to the first one."""
    first = next(iter(medians.values()))
    cells = [f"{name} {1000 * each:.2f} ms ({each / first:.1f}x)" for name, each in medians.items()]
    print(f"{title}: {', '.join(cells)}")


class Cost(NamedTuple):
    """Median seconds of a way, peak memory of its process in bytes, and the number it returned.

    `processor` are the median seconds that it had a processor, which others cannot take from it;
    `fastest` and `slowest` are the extremes of the seconds.
    """

    seconds: float
    bytes: int
    found: float
    processor: float
    fastest: float
    slowest: float


def contest_of_processes(
    ways: Mapping[str, tuple[Callable[..., Callable[[], float]], tuple]],
    *,
    rounds: int = 5,
    preloaded: Sequence[str] = ("zoo",),
) -> dict[str, Cost]:
    """Run each way in a process of its own, all alternating, so that each has its own memory.

    Args:
        ways: by name, a module-level function that returns a step, and its arguments. A step
            returns a number, for example the loss.
        rounds: timed rounds of all ways, after one to warm up.
        preloaded: ways with the allocator of `zoo train`, such as jemalloc, where one is
            installed; the others use that of the C library.
    """
    context = multiprocessing.get_context("spawn")
    lines = {}
    for name, (prepare, arguments) in ways.items():
        line, other = context.Pipe()
        with environment(variables() if name in preloaded else {}):
            context.Process(target=_serve, args=(other, prepare, arguments), daemon=True).start()
        lines[name] = line
        line.recv()  # wait: preparations run one at a time
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    found = {}
    for round_ in range(rounds + 1):
        for name, line in lines.items():
            line.send(True)
            *each, number = line.recv()
            found.setdefault(name, number)
            if round_:
                spent[name].append(each)
    costs = {}
    for name, line in lines.items():
        line.send(False)
        seconds, processor = zip(*spent[name], strict=True)
        middles = statistics.median(seconds), statistics.median(processor)
        costs[name] = Cost(
            middles[0], line.recv(), found[name], middles[1], min(seconds), max(seconds)
        )
    return costs


@contextlib.contextmanager
def environment(more: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started inside the context."""
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
        start, processor = time.perf_counter(), time.process_time()
        number = float(step())
        line.send((time.perf_counter() - start, time.process_time() - processor, number))
    line.send(peak_memory(torch.device("cpu")))


class Aim(NamedTuple):
    """A measured number and the limit that it should keep, an upper one or `least`."""

    name: str
    value: float
    limit: float
    least: bool = False

    @property
    def met(self) -> bool:
        """Return whether the limit is kept."""
        return self.value >= self.limit if self.least else self.value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.least else "<="
        word = "met" if self.met else "missed"
        return f"{self.name} {self.value:.3g} ({sign} {self.limit:g}: {word})"


def full_asked(description: str) -> bool:
    """Parse the command line: return whether `--full` is given."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="The sizes that are published.")
    return parser.parse_args().full


def conclude(script: str, full: bool, table: list[dict[str, str]], aims: list[Aim]) -> None:
    """Print the table and a line of aims, and write both to results.md."""
    head = list(table[0])
    lines = [_row(head), _row(["--"] * len(head)), *(_row([*each.values()]) for each in table)]
    # The aims are those of the full sizes.
    last = "; ".join(map(str, aims) if full else (f"{aim.name} {aim.value:.3g}" for aim in aims))
    aims_line = ["", f"{last}."] if aims else []
    print("\n".join([*lines, *aims_line]))
    _write(_command(script, full), [*lines, *aims_line])


def measured(script: str, full: bool = False) -> list[dict[str, str]]:
    """Return the rows of a table that results.md holds already; none where there is none."""
    section = _sections().get(_command(script, full), "")
    lines = [
        [cell.strip() for cell in line[1:-1].split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return [dict(zip(lines[0], row, strict=True)) for row in lines[2:]]


def processor() -> str:
    """Return the name of the processor."""
    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return names[0] if names else platform.processor()


def _command(script: str, full: bool) -> str:
    return f"python benchmarks/{Path(script).name}{' --full' if full else ''}"


def _sections() -> dict[str, str]:
    """Return the text of each section of results.md by its command."""
    text = RESULTS.read_text() if RESULTS.exists() else ""
    return dict(re.findall(r"^## `(.*?)`\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(command: str, lines: list[str]) -> None:
    """Write a section of results.md, replacing that of the same command."""
    sections = _sections()
    sections[command] = "\n".join(["", _machine(), "", *lines, "", ""])
    body = "".join(f"## `{name}`\n{sections[name]}" for name in sorted(sections))
    RESULTS.write_text(f"{_HEAD}\n{body}".rstrip() + "\n")


_HEAD = """# Results

Written by the scripts of this folder. Each times the zoo and its peers in one run, alternating, and
reports medians. A ratio is the time of the peer divided by that of the zoo, unless said otherwise.
"""


def _machine() -> str:
    import torch

    versions = [f"{each} {_version(each)}" for each in PACKAGES if _version(each)]
    better = installed()
    memory = f"{better.name} for the zoo" if better else "the C library's allocator"
    return f"{processor()}, {torch.get_num_threads()} threads; {', '.join(versions)}; {memory}."


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
