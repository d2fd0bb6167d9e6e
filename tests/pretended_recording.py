"""CUDA graphs on the pretended GPU: operations are noted with their tensors, and replayed on them.

As on a GPU nothing is computed while it is recorded: numbers that an operation writes on are as
before afterwards, and so is the generator. A replay computes each operation again, from what its
tensors hold then, and writes what comes of it where the recorded one's result is; what the host has
read or decided meanwhile stays as it was. Waiting, and copying from the CPU, end a recording.
"""

import contextlib

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

_OPEN: list["Recording"] = []


class State:
    """The state of a GPU's generator, which a refused recording leaves recording, as torch does."""

    recording = False

    def count(self):
        """Go on to further random numbers."""
        if self.recording and not _OPEN:
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")


class DefaultGenerator:
    """One of `torch.cuda.default_generators`."""

    def __init__(self):
        self.state = State()

    def clone_state(self):
        return DefaultGenerator()

    def graphsafe_set_state(self, other):
        self.state = other.state


class Recording:
    """A `torch.cuda.CUDAGraph`."""

    made: list["Recording"] = []  # noqa: RUF012 (all of them, for the tests)

    def __init__(self):
        self.calls, self.before, self.replays, self.refused = [], {}, 0, False
        self.made.append(self)

    def replay(self):
        self.state.count()
        self.replays += 1
        with _bare():
            for call, found in self.calls:
                for old, new in zip(tensors(found), tensors(call()), strict=True):
                    if old is not new and old.data_ptr() != new.data_ptr():
                        _written(old, new)

    def keep(self, tensor):
        """Keep what a tensor holds, which is about to be written on."""
        self.before.setdefault(tensor.data_ptr(), (tensor, tensor.clone()))


def _written(tensor, own):
    """Write numbers into a tensor, whose shape may have been squeezed since."""
    (tensor if tensor.shape == own.shape else tensor.view(own.shape)).copy_(own)


def tensors(found):
    return [each for each in tree_leaves(found) if isinstance(each, Tensor)]


@contextlib.contextmanager
def _bare():
    with torch.no_grad(), torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield


@contextlib.contextmanager
def record(graph, pool=None, stream=None):
    """A `torch.cuda.graph`."""
    state = torch.get_rng_state()
    _OPEN.append(graph)
    graph.state = torch.cuda.default_generators[0].state
    graph.state.recording = True
    try:
        yield
    finally:
        graph.state.recording = graph.refused
        _OPEN.remove(graph)
        torch.set_rng_state(state)
        with _bare():
            for tensor, own in graph.before.values():
                _written(tensor, own)


def noted(call, written=()):
    """Return what a call returns; where a step is being recorded, note it."""
    if not _OPEN:
        return call()
    with _bare():
        for each in written:
            _OPEN[-1].keep(each)
    found = call()
    _OPEN[-1].calls.append((call, found))
    return found


def written_by(func, args, kwargs):
    """Return the tensors that an operation writes on."""
    schema = func._schema
    if not schema.is_mutable:
        return []
    given = dict(zip((each.name for each in schema.arguments), args, strict=False)) | kwargs
    written = (each for each in schema.arguments if each.alias_info and each.alias_info.is_write)
    return [each for argument in written for each in tensors(given.get(argument.name))]


def refuse(what):
    """Have waiting end a recording, as a GPU does."""
    if _OPEN:
        _OPEN[-1].refused = True
        raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({what})")
