"""The processes of one run: which of them this is, and what they send each other.

They are started by `zoo train --processes R`, on one machine, or by torchrun, on any number. A run
of one process is a run like any other: nothing is sent then, and every function here returns what
it was given.
"""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shlex
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous as env_rendezvous
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.errors import ZooError

RENDEZVOUS = "ZOO_RENDEZVOUS"
"""The variable of the environment that names the folder in which the processes of a run meet."""

RUN = "run"
"""The file in it that says which run they train."""

LOST = 75
"""The exit code of a process that has lost another: EX_TEMPFAIL, of sysexits.h."""

PATIENCE = timedelta(days=365)
"""How long one waits for another, whose evaluation may take hours. One that has ended is noticed at
once, as its connections are closed."""

MEETING = timedelta(minutes=5)
"""How long processes of several machines wait for each other before they begin."""

_GONE = re.compile(r"gloo|NCCL|closed by peer|reset by peer|timed? ?out", re.IGNORECASE)


def start() -> None:
    """Join the other processes where a launcher has started several; gloo, and NCCL on CUDA.

    `zoo train --processes R` starts them on this machine. `torchrun`, `srun`, or anything that sets
    RANK, WORLD_SIZE and MASTER_ADDR, starts them on any: they meet as `env://` of torch.distributed
    says, at MASTER_PORT, 29500 where it is not set.

    Raises:
        ZooError: these variables do not fit, or nobody answers where the processes should meet.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1" or distributed.is_initialized():
        return
    # The threads of a group have to end before Python does, or may abort the process. Imported
    # later, by the first optimiser, torch._dynamo would keep the group from ending.
    importlib.import_module("torch._dynamo")
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store, own, number = _meet()
        distributed.init_process_group(
            backend, timeout=PATIENCE, store=store, rank=own, world_size=number
        )
    except (ValueError, KeyError, distributed.DistError) as error:
        raise ZooError(
            f"WORLD_SIZE is set, as launchers do, and these processes cannot meet ({error}). Write "
            "`torchrun --nproc-per-node R -m zoo train RECIPE`, set RANK, WORLD_SIZE, MASTER_ADDR "
            "and MASTER_PORT as it does, or `unset WORLD_SIZE` for one process."
        ) from None
    atexit.register(leave)


def _meet() -> tuple[distributed.Store, int, int]:
    """Return what the processes find each other by, the number of this one, and how many."""
    folder = rendezvous()
    if folder is None:
        os.environ.setdefault("MASTER_PORT", "29500")
        return next(env_rendezvous("env://", timeout=MEETING))
    own, number = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return distributed.FileStore(str(folder / "store"), number), own, number


def rendezvous() -> Path | None:
    """Return the folder in which the processes of this machine meet; None of other launchers."""
    return Path(os.environ[RENDEZVOUS]) if RENDEZVOUS in os.environ else None


def tell_run(folder: Path) -> None:
    """Tell who has started these processes which run they train."""
    told = rendezvous()
    if told is not None and rank() == 0:
        (told / RUN).write_text(str(folder))


def resume_command(run: str, processes: int | None = None) -> str:
    """Return the command that goes on with a run in as many processes as it had.

    Args:
        run: its folder.
        processes: how many; None: as many as train this one.
    """
    words = f"zoo train --resume {shlex.quote(run)}"
    if processes is None and count() > 1 and rendezvous() is None:  # started by torchrun
        return f"torchrun --nnodes N --nproc-per-node R -m {words}"
    processes = processes or count()
    return words + (f" --processes {processes}" if processes > 1 else "")


def lost(error: BaseException) -> bool:
    """Return whether an error says that another process, or the way to it, is gone."""
    return count() > 1 and isinstance(error, RuntimeError) and bool(_GONE.search(str(error)))


def leave() -> None:
    """Leave the other processes, if there are any: the threads that send and receive end."""
    if distributed.is_initialized():
        distributed.destroy_process_group()


def count() -> int:
    """Return the number R of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, 0 for the one that writes and prints."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def wait() -> None:
    """Wait until every process has come as far as this."""
    if count() > 1:
        distributed.barrier()


class SentBytes(TorchDispatchMode):
    """Counts, as long as it lasts, the bytes that this process sends.

        with SentBytes() as sent:
            step()
        print(sent.total)

    The collectives are taken to be ring algorithms, as gloo has them. Every operation of torch
    passes through here and takes longer: time it elsewhere.

    Attributes:
        total: the bytes so far.
    """

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        """Count and run an operation."""
        sent = _SENT.get(function.name().partition(".")[0])
        if sent is not None:
            self.total += sent(count(), arguments)
        return function(*arguments, **(options or {}))


_SENT = {
    "c10d::allgather_": lambda r, given: (r - 1) * given[1][0].nbytes,  # of the own rows
    "c10d::reduce_scatter_": lambda r, given: (r - 1) * given[0][0].nbytes,  # of the own sum
    "c10d::allreduce_": lambda r, given: 2 * (r - 1) * given[0][0].nbytes // r,
}
"""Collective to `(processes R, its arguments) -> bytes that a process sends`."""


def shares(total: int) -> list[int]:
    """Return how many of a total each process has; they differ by one at most."""
    small, larger = divmod(total, count())
    return [small + (each < larger) for each in range(count())]


def gather(x: Tensor, sizes: list[int]) -> Tensor:
    """Return the rows of all processes one below the other, (sum of sizes, ...), for own rows x.

    Args:
        x: the rows of this process, (sizes[rank], ...).
        sizes: the number of rows of each process.
    """
    if count() == 1:
        return x
    longest = max(sizes)
    everyone = x.new_empty(count(), longest, *x.shape[1:])
    own = x.contiguous()
    if len(own) < longest:  # every process must send as much
        own = torch.cat([own, own.new_zeros(longest - len(own), *x.shape[1:])])
    distributed.all_gather(list(everyone), own)
    return torch.cat([rows[:size] for rows, size in zip(everyone, sizes, strict=True)])


def sum_own(x: Tensor, sizes: list[int]) -> Tensor:
    """Return the rows of this process of the sum over all processes of x (sum of sizes, ...)."""
    if count() == 1:
        return x
    longest = max(sizes)
    everyone = x.new_zeros(count(), longest, *x.shape[1:])
    for rows, part in zip(everyone, x.split(sizes), strict=True):
        rows[: len(part)] = part
    own = torch.empty_like(everyone[0])
    distributed.reduce_scatter(own, list(everyone))
    return own[: sizes[rank()]]


class _Gather(torch.autograd.Function):
    """`gather`, whose gradient is the sum of what all processes made of the rows."""

    @staticmethod
    def forward(ctx, x, sizes):
        ctx.sizes = sizes
        return gather(x, sizes)

    @staticmethod
    def backward(ctx, gradient):
        return sum_own(gradient, ctx.sizes), None


def gather_with_gradient(x: Tensor, sizes: list[int]) -> Tensor:
    """Return what `gather` does; the gradient is the sum of what all processes made of the rows."""
    return _Gather.apply(x, sizes)


def total(x: Tensor) -> Tensor:
    """Return the sum of x over all processes, which all of them get."""
    if count() > 1:
        x = x.clone()
        distributed.all_reduce(x)
    return x


def of_first(numbers: list[float]) -> list[float]:
    """Return the numbers that the first process has, which all of them get."""
    if count() == 1:
        return numbers
    own = torch.tensor(numbers, dtype=torch.float64)
    return total(own if rank() == 0 else torch.zeros_like(own)).tolist()


def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its sum over the processes, in one message.

    A process without a gradient, whose own nodes gave none, adds zeros; where none has one, it
    stays None.
    """
    known = [each for each in parameters if each.requires_grad]
    if count() == 1 or not known:
        return
    given = [torch.zeros_like(each) if each.grad is None else each.grad for each in known]
    has = known[0].new_tensor([each.grad is not None for each in known])
    summed = total(torch.cat([parameters_to_vector(given), has]))
    vector_to_parameters(summed[: -len(known)], given)
    for each, gradient, some in zip(known, given, summed[-len(known) :].tolist(), strict=True):
        each.grad = gradient if some else None


def exchange_rows(own: Tensor, sizes: list[int], wanted: Tensor) -> Tensor:
    """Return some rows of a matrix of which each process holds a stretch; all call it together.

    Args:
        own: the rows of this process, (sizes[rank], F) on the CPU.
        sizes: the number of rows of each process, in the order of processes.
        wanted: numbers of rows over all processes, (n,) int64 in increasing order.

    Returns:
        These rows, (n, F).
    """
    ends = torch.tensor(sizes).cumsum(0)
    if count() == 1:
        return own[wanted]
    until = torch.searchsorted(wanted, ends)
    asking = until.diff(prepend=until.new_zeros(1))
    asked = torch.empty_like(asking)
    distributed.all_to_all_single(asked, asking)
    asking, asked = asking.tolist(), asked.tolist()
    numbers = wanted.new_empty(sum(asked))
    distributed.all_to_all_single(numbers, wanted, asked, asking)
    answers = own[numbers - (int(ends[rank()]) - len(own))].contiguous().view(torch.uint8)
    rows = torch.empty(len(wanted), own.shape[1], dtype=own.dtype)
    distributed.all_to_all_single(rows.view(torch.uint8), answers, asking, asked)
    return rows


def average_buffers(buffers: list[Tensor], counts: bool = True) -> None:
    """Replace what a model counts as it goes, running means for example, by the processes' mean.

    Args:
        buffers: of fractions.
        counts: whether this process is one of those whose mean it is.
    """
    if count() > 1 and buffers:
        own = parameters_to_vector(buffers)
        own = torch.cat([own, own.new_ones(1)]) if counts else own.new_zeros(len(own) + 1)
        summed = total(own)
        vector_to_parameters(summed[:-1] / summed[-1], buffers)
