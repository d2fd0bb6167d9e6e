"""A training step of translation by the length of the sequences: HTGN and the transformer.

Width 128, three layers of encoder and decoder, four heads, a vocabulary of 1,000; sources as long
as targets. HTGN has queries and keys of 16 columns a head, 32 random features, edges near the
diagonal and skip nodes that follow the length. Up to length 4,096 a step has 4,096 tokens of
sources and as many of targets, beyond it one pair. The transformer drops attention weights, as the
paper has it, for which it keeps them all; without any dropout torch stores none. Then HTGN alone,
one pair a step. Forward, loss and backward. Ratios are to HTGN in the same run.

One thread, each way in a process of its own, with the allocator of the C library. Seconds are those
in which the process had a processor, in brackets those of the clock; memory is what a step holds
beyond what was held before it.

    python benchmarks/sequence_lengths.py [--full]
"""

import os

import numpy as np
import torch
from contest import Aim, Cost, conclude, contest_of_processes, full_asked

from zoo.nn import Pairs, cross_entropy
from zoo.system.allocator import keep_freed_memory
from zoo.system.memory import available_memory, peak_during
from zoo.weights.create import create_model

WORDS, TOKENS = 1000, 4096
SHAPE = {"dim": 128, "layers": 3, "heads": 4}
HTGN = {"rank": 16, "random_features": 32, "cross_edges": "near", "global_every": None}
WAYS = {
    "htgn-seq2seq": ("htgn-seq2seq", HTGN),
    "htgn-seq2seq, no dropout": ("htgn-seq2seq", {**HTGN, "dropout": 0.0, "drop_path": 0.0}),
    "transformer-seq2seq": ("transformer-seq2seq", {}),
    "transformer-seq2seq, no dropout": ("transformer-seq2seq", {"dropout": 0.0}),
}
ROUNDS = {2048: 5, 100_000: 3}
"""Longest length to the number of timed steps."""


def step_of(name: str, options: dict, length: int, pairs: int):
    """Return a step, whose first call returns the bytes that it holds, all others the loss."""
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = Pairs([length] * pairs, [length] * pairs)
    x = torch.randint(WORDS, (2 * length * pairs,))
    y = torch.randint(WORDS, (length * pairs,))
    model = create_model(name, WORDS, WORDS, **SHAPE, **options)
    held: list[int] = []

    def step() -> float:
        model.zero_grad(set_to_none=True)
        logits, penalty = model(graph, x)
        loss = cross_entropy(logits, y, 0.1) + penalty
        loss.backward()
        return loss.item()

    def measured() -> float:
        if held:
            return step()
        step()
        held.append(peak_during(step, torch.device("cpu")))
        return held[0]

    return measured


def measured(ways: dict, length: int, pairs: int) -> dict[str, Cost]:
    """Return what a step of each way costs at a length."""
    rounds = next(each for most, each in ROUNDS.items() if length <= most)
    found = contest_of_processes(
        {name: (step_of, (*way, length, pairs)) for name, way in ways.items()},
        rounds=rounds,
        preloaded=(),
    )
    for name, cost in found.items():
        print(f"{length:,} x {pairs}, {name}: {cost}", flush=True)
    return found


def fits(last: tuple[int, int, Cost] | None, length: int, pairs: int) -> bool:
    """Return whether a way fits into memory, were all of it quadratic in the length."""
    if last is None:
        return True
    before, had, cost = last
    return cost.found * (length / before) ** 2 * pairs / had < 0.7 * available_memory()


def beside_each_other(lengths: list[int]) -> dict[int, dict[str, Cost]]:
    """Return what a step of every way costs at each length, where it fits."""
    last: dict[str, tuple[int, int, Cost]] = {}
    found = {}
    for length in lengths:
        pairs = max(1, TOKENS // length)
        ways = {
            name: way
            for name, way in WAYS.items()
            if name.startswith("htgn") or fits(last.get(name), length, pairs)
        }
        found[length] = measured(ways, length, pairs)
        last.update({name: (length, pairs, cost) for name, cost in found[length].items()})
    return found


def exponents(costs: dict[int, Cost], which: str) -> tuple[float, float]:
    """Return the log-log slope of a cost in the length, over all and between the last two."""
    lengths, values = np.log([*costs]), np.log([getattr(each, which) for each in costs.values()])
    slopes = (np.polyfit(lengths[i:], values[i:], 1)[0] for i in (0, -2))
    return tuple(map(float, slopes))


def main():
    """Measure, and write the results."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    full = full_asked(__doc__)
    beside = beside_each_other([32, 128, 512, 2048, 8192] if full else [32, 128, 512])
    alone = {
        length: measured({"htgn-seq2seq": WAYS["htgn-seq2seq"]}, length, 1)["htgn-seq2seq"]
        for length in ([1024, 4096, 16_384, 65_536] if full else [1024, 2048, 4096])
    }
    table = []
    for length, costs in beside.items():
        pairs = max(1, TOKENS // length)
        table += [
            _row(name, length, pairs, costs.get(name), costs["htgn-seq2seq"]) for name in WAYS
        ]
    table += [_row("htgn-seq2seq", length, 1, cost, cost) for length, cost in alone.items()]
    aims = []
    for which, what in {"processor": "time", "found": "memory"}.items():
        over, last = exponents(alone, which)
        aims.append(Aim(f"exponent of {what} from 1,024 on", over, 1.05))
        aims.append(Aim(f"of {what} between the last two", last, 1.05))
    conclude(__file__, full, table, aims)


def _row(name: str, length: int, pairs: int, cost: Cost | None, own: Cost) -> dict[str, str]:
    row = {"model": name, "length": f"{length:,}", "pairs": f"{pairs:,}"}
    if cost is None:
        return row | dict.fromkeys(("s", "ratio", "GB", "ratio of GB"), "does not fit")
    return row | {
        "s": f"{cost.processor:.2f} ({cost.seconds:.2f})",
        "ratio": f"{cost.processor / own.processor:.2f}",
        "GB": f"{cost.found / 1e9:.2f}",
        "ratio of GB": f"{cost.found / own.found:.2f}",
    }


if __name__ == "__main__":
    main()
