"""Time and peak memory of one answer of AnyGraph, or of a predictor, on a graph of N nodes.

    python benchmarks/studies/any_graph_cost.py 100000
    python benchmarks/studies/any_graph_cost.py 100000 --model ridge
    python benchmarks/studies/any_graph_cost.py 100000 --device cuda --body transformer --rba 256

Ten edges and 64 features each, five classes, five labels of each. On a CPU the seconds are of its
processors, and the memory is that of the process.
"""

import resource
import statistics
import time
from typing import Annotated

import torch
import typer

import zoo
from zoo.graphs.spmm import place

FEATURES, CLASSES, LABELS = 64, 5, 25
REPEATS = 3


def main(
    nodes: int,
    model: str = "anygraph",
    body: Annotated[str, typer.Option(help="A transformer, 32 wide, as body.")] = "",
    rba: Annotated[int, typer.Option(help="Size of its random batches; 0: its own.")] = 0,
    device: str = "cpu",
) -> None:
    """Print the median time of three answers after a first, and the peak memory."""
    torch.manual_seed(0)
    ends = torch.randint(nodes, (5 * nodes, 2))
    graph = place(zoo.canonical(ends, nodes=nodes), device)
    x = torch.randn(nodes, FEATURES).to(device)
    context = torch.full((nodes,), -1)
    context[torch.randperm(nodes)[:LABELS]] = torch.arange(LABELS) % CLASSES
    context = context.to(device)
    options: dict = {}
    if body:
        attention = {"attention": {"name": "rba", "size": rba}} if rba else {}
        options["body"] = {"name": body, "dim": 32, **attention}
    asked = zoo.create_model(model, FEATURES, CLASSES, **options).eval().to(device)
    cuda = torch.device(device).type == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    seconds = []
    for _ in range(1 + REPEATS):
        with torch.inference_mode():
            own = x.clone()  # a copy: results are kept for the features of before
            start = clock()
            asked(graph, own, context)
            if cuda:
                torch.cuda.synchronize(device)
            seconds.append(clock() - start)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if cuda:
        peak = torch.cuda.max_memory_allocated(device)
    print(f"{statistics.median(seconds[1:]):.3f} s, {peak / 2**30:.2f} GiB")


if __name__ == "__main__":
    typer.run(main)
