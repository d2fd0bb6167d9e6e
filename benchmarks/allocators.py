"""What a training step holds and takes by where its large blocks come from.

The step of SGFormer of `sgformer_step.py`, at the size of ogbn-arxiv with `--full`. Each way begins
a process of its own, one at a time, in ROUNDS of all ways, and is timed for STEPS after one to warm
up. Milliseconds are those that the process had a processor, and ratios are to the first way.
Allocators are those that are installed here.

    python benchmarks/allocators.py [--full]
"""

import ctypes
import os
import statistics

import torch
from contest import Aim, Cost, conclude, contest_of_processes, environment, full_asked
from sgformer_step import zoo_step

from zoo.system.allocator import ALLOCATORS, TUNABLES, set_threshold

KEPT = "C library, all kept"
HUGE = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
UNCACHED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"}
OWN = {"GLIBC_TUNABLES": TUNABLES}
ROUNDS, STEPS = 1, 1
MIB = 2**20


def kept(*size):
    """Return a step that keeps what is freed, as `zoo train` does."""
    os.environ.pop("GLIBC_TUNABLES", None)  # which has been read, and would leave all as it is
    return zoo_step(*size)


def returned(*size):
    """Return a step whose blocks of 32 MiB and more go back to the system at once."""
    step = kept(*size)
    set_threshold(32 * MIB)
    return step


def trimmed(*size):
    """Return a step that keeps what is freed, but before it begins and before its gradients."""
    step, backward = kept(*size), torch.Tensor.backward
    trim = ctypes.CDLL(None).malloc_trim

    def trimmed_backward(loss):
        trim(0)
        backward(loss)

    def trimmed_step():
        trim(0)
        return step()

    torch.Tensor.backward = trimmed_backward
    return trimmed_step


def ways():
    """Return by name the environment of each way, and what makes its step."""
    found = {
        KEPT: ({}, kept),
        "as the zoo has it: no caches of small blocks, huge pages": (OWN, kept),
        "all kept, no caches of small blocks": (UNCACHED, kept),
        "all kept, huge pages": (HUGE, kept),
        "all kept, trimmed twice in a step": ({}, trimmed),
        "32 MiB and more not kept": ({}, returned),
        "not kept, huge pages": (HUGE, returned),
        "not kept, huge pages of torch": ({"THP_MEM_ALLOC_ENABLE": "1"}, returned),
    }
    for each in ALLOCATORS:
        if each.shared_object():
            found[each.name] = (each.variables(), kept)
    return found


def measured(size) -> dict[str, Cost]:
    """Print each cost, and return by name the medians of all rounds."""
    costs: dict[str, list[Cost]] = {}
    for _ in range(ROUNDS):
        for name, (variables, prepare) in ways().items():
            with environment(variables):
                alone = contest_of_processes({name: (prepare, size)}, rounds=STEPS, preloaded=())
            costs.setdefault(name, []).append(alone[name])
            print(f"{name}: {alone[name]}", flush=True)
    columns = {name: zip(*each, strict=True) for name, each in costs.items()}
    return {name: Cost(*map(statistics.median, each)) for name, each in columns.items()}


def main():
    """Measure, and write the results."""
    full = full_asked(__doc__)
    size = (169_343, 1_166_000, 128, 256) if full else (20_000, 138_000, 128, 128)
    costs = measured(size)
    first = costs[KEPT]
    table = [
        {
            "large blocks": name,
            "ms": f"{1000 * each.processor:.0f}",
            "ratio": f"{each.processor / first.processor:.2f}",
            "GB": f"{each.bytes / 1e9:.2f}",
        }
        for name, each in costs.items()
    ]
    aims = [
        Aim(f"GB, {name}", each.bytes / 1e9, 5)
        for name, each in costs.items()
        if name in {each.name for each in ALLOCATORS}
    ]
    conclude(__file__, full, table, aims or [Aim(f"GB, {KEPT}", first.bytes / 1e9, 9)])


if __name__ == "__main__":
    main()
