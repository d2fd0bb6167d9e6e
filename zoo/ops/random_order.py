"""Random orders of nodes, from generators of their own; what is drawn once is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.system.context import context
from zoo.tracing import operator


def drawn_seed() -> int | None:
    """Return a seed that the global generator draws; in a trace None: what it seeds draws it.

    Raises:
        ZooError: a call is being recorded, whose replays would all have this seed.
    """
    if torch.compiler.is_compiling():
        return None
    if context().recording:
        raise ZooError(
            "`train.capture` records a step, and this model draws something in it that cannot be "
            "drawn before, such as the directions of each random batch. Leave `capture` out."
        )
    return int(torch.randint(2**62, ()))


Draw = Callable[[int | None], Tensor]
"""Seed to what is drawn with it."""


def drawn(draw: Draw) -> tuple[Tensor, int | None]:
    """Return what is drawn with a seed of the global generator, and the seed.

    Of a call that is recorded it is what `Draws` has ready, with no seed.
    """
    draws = None if torch.compiler.is_compiling() else context().draws
    if draws is not None:
        return draws.take(draw)
    seed = drawn_seed()
    return draw(seed), seed


class Draws:
    """What a call draws on the host, so that it can be drawn before the call instead.

    The call is made once with `using(draws=...)`, and then recorded with it: the recording reads
    what was drawn, and `renew` draws all of it anew in its place, in the same order.
    """

    def __init__(self):
        self.places: list[tuple[Draw, Tensor]] = []
        self._taken = 0

    def take(self, draw: Draw) -> tuple[Tensor, int | None]:
        """Return what is drawn, and its seed; in a recording what was drawn here before."""
        if context().recording:
            self._taken += 1
            return self.places[self._taken - 1][1], None
        seed = drawn_seed()
        self.places.append((draw, draw(seed)))
        return self.places[-1][1], seed

    def renew(self) -> None:
        """Draw all of it anew."""
        for draw, place in self.places:
            place.copy_(draw(drawn_seed()))


def random_order(n: int, seed: int | None, *, device: torch.device | str = "cpu") -> Tensor:
    """Return a random permutation of n nodes, (n,) int64; None for a seed draws one.

    Where the context holds `identities`, a node meets the same others whatever the order of the
    rows: predictions for a graph whose nodes are renumbered are the same.

    Raises:
        ZooError: the identities in the context are not those of n nodes.
    """
    return _random_order(n, seed, torch.device(device))


@operator(
    "(int n, int? seed, Device device) -> Tensor",
    lambda n, _, device: torch.empty(n, dtype=torch.int64, device=device),
    random=True,
)
def _random_order(n: int, seed: int | None, device: torch.device) -> Tensor:
    identities, seed = context().identities, drawn_seed() if seed is None else seed
    if identities is not None:
        return _by_identity(identities, n, seed).to(device)
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randperm(n, generator=generator, device=device)


def seed_of(key: tuple[int, ...]) -> int:
    """Return a seed for a generator of its own, from the numbers that make it different."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _by_identity(identities: Tensor, n: int, seed: int) -> Tensor:
    """Order the nodes by a hash of identity and seed, splitmix64 (Steele et al., OOPSLA 2014)."""
    if identities.shape != (n,):
        raise ZooError(
            f"identities: {tuple(identities.shape)} of them for {n} nodes; give one number to each "
            "node of a single graph."
        )
    keys = identities.cpu().numpy().astype(np.uint64)
    for added in (np.uint64(seed), np.uint64(0x9E3779B97F4A7C15)):
        keys = keys + added  # wraps around
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
        keys ^= keys >> np.uint64(31)
    return torch.from_numpy(np.argsort(keys, kind="stable"))


class Kept:
    """Numbers that are the same each time, kept: those asked for last, up to `most` bytes in all.

    Several threads may ask. A copy begins with none, in a file there are none, and a trace draws
    them anew.
    """

    def __init__(self, most: int = 2**27):
        self.most = most
        self._values: OrderedDict[tuple, Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self):
        return Kept, (self.most,)

    def get(self, key: tuple, draw: Callable[[], Tensor]) -> Tensor:
        """Return what `draw` returns, which depends on the key alone; nobody may write on it."""
        if torch.compiler.is_compiling():
            return draw()
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        with torch.inference_mode(False):  # a gradient may go through what uses it next
            value = draw()
        with self._lock:
            self._values[key] = value
            while sum(value.nbytes for value in self._values.values()) > self.most:
                self._values.popitem(last=False)
        return value
