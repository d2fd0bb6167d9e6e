"""A pretended GPU: tensors that say they are on `cuda:0` and are computed on the CPU, by its rules.

Inside `with pretended_cuda() as gpu:` the word `cuda` is a device. Numbers are real, so that code
that depends on them runs. What a GPU refuses is an error here, `Mixed`: an operation of a tensor of
the GPU and one of the CPU that is no single number. Every time the host would wait for the GPU is
counted in `gpu.waits`, by the first line of `zoo/` on the stack: to read a number, to find out how
large a result is, to copy without `non_blocking`, or from memory that is not pinned.

C++ sees CPU tensors; `__torch_dispatch__` sees each operation, also of gradients, and a mode of
`torch.overrides` each public function. DGL, of a wheel without CUDA, keeps its graphs on the CPU.
"""

import contextlib
import contextvars
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

import torch
from pretended_recording import DefaultGenerator, Recording, noted, record, refuse, written_by
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

import zoo.training.batches

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
aten = torch.ops.aten


class Mixed(RuntimeError):
    """An operation of tensors of the GPU and of the CPU."""


class Waits:
    """How often the host waited, by the line: `epoch.py:120 item`; what streams were given."""

    def __init__(self):
        self.waits: Counter[str] = Counter()
        self.order: list[str] = []

    def note(self, what):
        self.waits[f"{line()} {what}"] += 1

    def take(self):
        """Return the waits since the last time."""
        taken, self.waits = self.waits, Counter()
        return taken


_PRESENT: list[Waits] = []


def line():
    """The first line of `zoo/` on the stack, else the line outside of torch and of this file."""
    frame, other = sys._getframe(1), "?"
    while frame is not None:
        name = frame.f_code.co_filename
        if "/zoo/" in name and "site-packages" not in name:
            return f"{name.rpartition('/zoo/')[2]}:{frame.f_lineno}"
        if other == "?" and name != __file__ and "/torch/" not in name:
            other = f"{name.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return other


def wait(what):
    refuse(what)
    if _PRESENT:
        _PRESENT[-1].note(what)


_WAITS = {
    aten._local_scalar_dense.default: "item",
    aten.is_nonzero.default: "item",
    aten.equal.default: "equal",
    aten.nonzero.default: "nonzero",
    aten.masked_select.default: "masked_select",
    aten.repeat_interleave.Tensor: "repeat_interleave",
    aten.bincount.default: "bincount",
    aten._unique2.default: "unique",
    aten.unique_consecutive.default: "unique",
    aten.unique_dim.default: "unique",
}
"""Operations whose result, or its size, the host has to know."""

_INDEXED = {
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
"""Operations that take indices from the CPU, too, and wait for their copy."""


class OnCuda(Tensor):
    """A tensor on the pretended GPU, around the one that holds its numbers."""

    inner: Tensor
    device = property(lambda self: CUDA)
    is_cpu = property(lambda self: False)
    is_cuda = property(lambda self: True)
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        out = Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, layout=inner.layout, device=inner.device)  # fmt: skip
        out.inner = inner
        return out

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def data_ptr(self):
        return self.inner.data_ptr()

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), OnCuda(self.inner.detach().clone()))

    def __reduce_ex__(self, protocol):  # in a file it is what `map_location="cpu"` reads
        return self.inner.detach().__reduce_ex__(protocol)

    def __repr__(self):
        return f"OnCuda({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
        _check(func, args, [each for each in tensors if not isinstance(each, OnCuda)])
        args, kwargs = tree_map(bare, (args, kwargs or {}))
        out = noted(partial(func, *args, **kwargs), written_by(func, args, kwargs))
        written = {id(each.inner): each for each in tensors if isinstance(each, OnCuda)}
        if func is aten.copy_.default and id(out) not in written:
            return out  # to the CPU
        return tree_map(
            lambda each: written[id(each)] if id(each) in written else on_cuda(each), out
        )


def _check(func, args, of_cpu):
    """Note what an operation waits for, and refuse one that a GPU refuses."""
    if func in _WAITS:
        wait(_WAITS[func])
    if func in _INDEXED:
        indices = [each for each in args[1] if each is not None]
        if any(each.dtype in (torch.bool, torch.uint8) for each in indices):
            wait("boolean index")
        if not all(isinstance(each, OnCuda) for each in indices):
            wait("index from the CPU")
        of_cpu = [each for each in of_cpu if all(each is not index for index in indices)]
    large = [each for each in of_cpu if each.dim()]
    if func is aten.copy_.default:
        if large:
            wait("copy_")
    elif large or (of_cpu and args and args[0] is of_cpu[0] and func in _INDEXED):
        raise Mixed(f"{func} of CUDA and of CPU {[tuple(each.shape) for each in large]}, {line()}")


def bare(x):
    """Return the tensor that holds the numbers."""
    return x.inner if isinstance(x, OnCuda) else x


def on_cuda(x):
    return OnCuda(x) if isinstance(x, Tensor) and not isinstance(x, OnCuda) else x


class _ToCuda(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return OnCuda(x.detach())

    @staticmethod
    def backward(ctx, grad):
        return bare(grad)


def to_cuda(x):
    """Return a tensor of the CPU on the GPU."""
    return _ToCuda.apply(x)


class _ToCpu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.inner.detach().clone()

    @staticmethod
    def backward(ctx, grad):
        return OnCuda(grad)


class _Csr:
    """A matrix in compressed rows on the pretended GPU."""

    layout, device = torch.sparse_csr, CUDA

    def __init__(self, offsets, indices, values, size):
        self.offsets, self.indices, self.entries = offsets, indices, values
        self.shape, self.dtype = tuple(size), values.dtype

    def crow_indices(self):
        return self.offsets

    def col_indices(self):
        return self.indices

    def values(self):
        return self.entries

    def __matmul__(self, x):
        if not isinstance(x, OnCuda) or x.dtype != self.dtype:
            raise Mixed(f"CSR {self.dtype} on CUDA times {x.dtype} on {x.device}, {line()}")
        return OnCuda(noted(lambda: self.bare() @ x.inner.detach()))

    def bare(self):
        parts = map(bare, (self.offsets, self.indices, self.entries))
        return torch.sparse_csr_tensor(*parts, self.shape, check_invariants=False)

    def sampled(self, one, other, **given):
        """`torch.sparse.sampled_addmm`, whose numbers of entries may be of 32 bits on a GPU."""
        if not all(isinstance(x, OnCuda) and x.dtype == self.dtype for x in (one, other)):
            raise Mixed(f"CSR {self.dtype} on CUDA sampled of {one.dtype} and {other.dtype}")

        def values():
            parts = bare(self.offsets).long(), bare(self.indices).long(), bare(self.entries)
            matrix = torch.sparse_csr_tensor(*parts, self.shape, check_invariants=False)
            return _SAMPLED(matrix, one.inner.detach(), other.inner.detach(), **given).values()

        return _Csr(self.offsets, self.indices, OnCuda(noted(values)), self.shape)


_SAMPLED = torch.sparse.sampled_addmm


def _sampled(matrix, *given, **options):
    return (matrix.sampled if isinstance(matrix, _Csr) else partial(_SAMPLED, matrix))(
        *given, **options
    )


class Stream:
    """A stream; `gpu.order` has what streams were given, in the order of the host."""

    def __init__(self, device=None, name="side"):
        self.name = name

    def wait_event(self, event):
        order(self.name, "waits for", event.of)

    def wait_stream(self, other):
        order(self.name, "waits for", other.name)


_DEFAULT = Stream(name="present")
_STREAM: contextvars.ContextVar[Stream] = contextvars.ContextVar("stream")


def present_stream(device=None):
    return _STREAM.get(_DEFAULT)


@contextlib.contextmanager
def _on(stream):
    token = _STREAM.set(stream)
    try:
        yield
    finally:
        _STREAM.reset(token)


def order(*words):
    if _PRESENT:
        _PRESENT[-1].order.append(" ".join(words))


class _Event:
    """An event of a stream: who waits for it waits for the GPU."""

    def __init__(self, *args, **options):
        self.of = "nothing"

    def record(self, stream=None):
        self.of = (stream or present_stream()).name
        order(self.of, "records")

    def synchronize(self):
        wait("event")


def is_cuda(device):
    if device is None or isinstance(device, torch.dtype):
        return False
    return torch.device(device).type == "cuda"


class _Mode(TorchFunctionMode):
    """Sees every call of a public function of torch."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        first = args[0] if args else None
        if name in ("to", "cuda", "cpu") and isinstance(first, Tensor):
            return _moved(name, first, args[1:], kwargs)
        if name == "sparse_csr_tensor" and (is_cuda(kwargs.get("device")) or _any_cuda(args)):
            size = args[3] if len(args) > 3 else kwargs["size"]
            return _Csr(*(_moved("cuda", each, (), {}) for each in args[:3]), size)
        if isinstance(first, OnCuda):
            return self.of_cuda(func, name, first, args[1:], kwargs)
        if name == "pin_memory":
            return _pinned(first.clone())
        pinned = kwargs.pop("pin_memory", False)
        if not is_cuda(kwargs.get("device")):
            out = func(*args, **kwargs)
            return _pinned(out) if pinned else out
        generator = kwargs.get("generator")
        if generator is not None and not generator.of_cuda:
            raise Mixed(f"a generator of the CPU for CUDA, {line()}")
        if name in ("tensor", "as_tensor"):
            wait(f"{name}()")
        return on_cuda(noted(partial(func, *args, **{**kwargs, "device": "cpu"})))

    def of_cuda(self, func, name, x, rest, kwargs):
        """Call a function whose first argument is on the GPU."""
        if name == "numpy":
            raise Mixed(f"numpy() of a tensor on CUDA, {line()}")
        if name == "tolist":
            wait(name)
            return x.inner.tolist()
        if name in ("item", "__bool__", "__float__", "__int__", "__index__"):
            wait("item")
            return getattr(x.inner.detach(), name)()
        if name == "dropout" and kwargs.get("training", True):
            torch.cuda.default_generators[0].state.count()
        if name == "pin_memory":
            raise Mixed(f"pin_memory() of a tensor on CUDA, {line()}")
        if name == "new_tensor":  # made on the CPU, and copied
            wait(name)
        if name in ("new_tensor", "one_hot"):  # makes numbers where x is
            return on_cuda(noted(partial(func, x.inner, *rest, **kwargs)))
        if name == "__setitem__" and not isinstance(rest[1], Tensor):
            refuse("copy of a number")  # nothing waits for it, but it cannot be recorded
        if "device" in kwargs and name != "__get__":
            there = is_cuda(kwargs.pop("device"))
            out = noted(partial(func, x.inner, *rest, **kwargs))
            return on_cuda(out) if there else out
        return func(x, *rest, **kwargs)


def _any_cuda(args):
    return any(isinstance(each, OnCuda) for each in args)


def _pinned(x):
    x.of_pinned_memory = True
    return x


def _moved(name, x, args, kwargs):
    """Return what `x.to(...)`, `x.cuda()` or `x.cpu()` would."""
    target, rest = {"cuda": CUDA, "cpu": CPU}.get(name), []
    for each in args if name == "to" else ():
        if isinstance(each, Tensor):
            target = each.device
            rest.append(each.dtype)
        elif isinstance(each, str | torch.device):
            target = torch.device(each)
        else:
            rest.append(each)
    target = torch.device(kwargs.pop("device", None) or target or x.device)
    waits = not kwargs.pop("non_blocking", False)
    if target.type == "cuda" and not isinstance(x, OnCuda):
        if waits or not getattr(x, "of_pinned_memory", False):
            wait("copy to CUDA" if waits else "copy of memory that is not pinned")
        refuse("copy to CUDA")
        order(present_stream().name, "copies")
        x = to_cuda(x)
    elif target.type == "cpu" and isinstance(x, OnCuda):
        refuse("copy to the CPU")
        if waits:
            wait("copy to the CPU")
        x = _ToCpu.apply(x)
    return x.to(*rest, **kwargs) if rest or kwargs else x


class _Generator(torch.Generator):
    def __new__(cls, device="cpu"):
        made = super().__new__(cls, device="cpu")
        made.of_cuda = is_cuda(device)
        return made

    def manual_seed(self, seed):
        """A GPU has other numbers of the same seed."""
        return super().manual_seed(seed + self.of_cuda)


class _Autocast(torch.autocast):
    def __init__(self, device_type, *args, **kwargs):
        super().__init__("cpu", *args, **kwargs)


def _module_to(self, *args, **kwargs):
    device = kwargs.get("device", args[0] if args else None)
    if device is None or isinstance(device, torch.dtype):
        return _MODULE_TO(self, *args, **kwargs)
    known = {}
    for module in self.modules():
        for store in (module._parameters, module._buffers):
            for name, each in store.items():
                if each is None or isinstance(each, OnCuda) == is_cuda(device):
                    continue
                if id(each) not in known:
                    moved = (
                        OnCuda(each.detach().clone()) if is_cuda(device) else bare(each).detach()
                    )
                    if isinstance(each, nn.Parameter):
                        moved = nn.Parameter(moved, requires_grad=each.requires_grad)
                    known[id(each)] = moved
                store[name] = known[id(each)]
    return self


_MODULE_TO = nn.Module.to


class _Pool(ThreadPoolExecutor):
    """A mode is of one thread: it is entered in others, too."""

    mode = None

    def submit(self, call, *args):
        def within():
            with self.mode:
                return call(*args)

        return super().submit(within)


@contextlib.contextmanager
def pretended_cuda():
    """Let `cuda` be a device as long as this lasts; give what counts the waits."""
    run, enabled, kind = (
        torch.autograd._engine_run_backward,
        torch.is_autocast_enabled,
        torch.get_autocast_dtype,
    )
    fork, gpu = torch.random.fork_rng, Waits()
    group = torch.optim.Optimizer._group_tensors_by_device_and_dtype

    def backward(*args, **kwargs):
        with _Mode():  # gradients of the zoo's own functions run below the first one
            return run(*args, **kwargs)

    def grouped(lists, *options):  # C++ takes the device of the numbers
        found = group(lists, *options).items()
        return {(lists[0][0].device, kind): each for (_, kind), each in found}

    by_device = "_group_tensors_by_device_and_dtype"

    instead = [
        (torch, "Generator", _Generator),
        (torch, "autocast", _Autocast),
        (torch, "is_autocast_enabled", lambda device="cpu": enabled("cpu")),
        (torch, "get_autocast_dtype", lambda device="cpu": kind("cpu")),
        (torch.random, "fork_rng", lambda devices=None, **options: fork(devices=[], **options)),
        (torch.autograd, "_engine_run_backward", backward),
        (torch.nn.utils.clip_grad, by_device, grouped),
        (torch.optim.Optimizer, by_device, staticmethod(grouped)),
        (torch.cuda, "device", lambda device: contextlib.nullcontext()),
        (torch.cuda, "manual_seed", lambda seed: None),
        (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "Event", _Event),
        (torch.cuda, "Stream", Stream),
        (torch.cuda, "stream", _on),
        (torch.cuda, "current_stream", present_stream),
        (torch.cuda, "default_generators", [DefaultGenerator()]),
        (torch.cuda, "CUDAGraph", Recording),
        (torch.cuda, "graph", record),
        (torch.sparse, "sampled_addmm", _sampled),
        (nn.Module, "to", _module_to),
        (zoo.training.batches, "ThreadPoolExecutor", type("Pool", (_Pool,), {"mode": _Mode()})),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, value in instead:
            stack.enter_context(mock.patch.object(owner, name, value))
        _PRESENT.append(gpu)
        stack.callback(_PRESENT.pop)
        stack.enter_context(_Mode())
        yield gpu
