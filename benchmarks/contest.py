"""Two ways of doing one thing, timed in turns in one process: medians and their ratio."""

import statistics
import time
from collections.abc import Callable, Mapping


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
