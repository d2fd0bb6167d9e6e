"""The processes of one run: rank, count, and collectives that are no-ops in one process.

They are started by `zoo train --processes R`, on one machine, or by torchrun, on any number.
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

from zoo.errors import ZooError

RENDEZVOUS = "ZOO_RENDEZVOUS"
"""The variable of the environment that names the folder in which the processes of a run meet."""

RUN = "run"
"""The file in it that says which run they train."""

LOST = 75
"""The exit code of a process that has lost another: EX_TEMPFAIL, of sysexits.h."""

TIMEOUT = timedelta(days=365)
"""Of collectives: another process may evaluate for hours. One that has ended is noticed at
once, as its connections are closed."""

START_TIMEOUT = timedelta(minutes=5)
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
        store, rank, world_size = _rendezvous()
        distributed.init_process_group(
            backend, timeout=TIMEOUT, store=store, rank=rank, world_size=world_size
        )
    except (ValueError, KeyError, distributed.DistError) as error:
        raise ZooError(
            f"WORLD_SIZE is set, as launchers do, and these processes cannot meet ({error}). Write "
            "`torchrun --nproc-per-node R -m zoo train RECIPE`, set RANK, WORLD_SIZE, MASTER_ADDR "
            "and MASTER_PORT as it does, or `unset WORLD_SIZE` for one process."
        ) from None
    atexit.register(leave)


def _rendezvous() -> tuple[distributed.Store, int, int]:
    """Return the store by which processes find each other, the rank of this one, and how many."""
    folder = rendezvous()
    if folder is None:
        os.environ.setdefault("MASTER_PORT", "29500")
        return next(env_rendezvous("env://", timeout=START_TIMEOUT))
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return distributed.FileStore(str(folder / "store"), world_size), rank, world_size


def rendezvous() -> Path | None:
    """Return the folder in which the processes of this machine meet; None of other launchers."""
    return Path(os.environ[RENDEZVOUS]) if RENDEZVOUS in os.environ else None


def tell_run(folder: Path) -> None:
    """Tell the launcher of these processes which run they train."""
    place = rendezvous()
    if place is not None and rank() == 0:
        (place / RUN).write_text(str(folder))


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


def shares(total: int) -> list[int]:
    """Return how many of a total each process has; they differ by one at most."""
    small, larger = divmod(total, count())
    return [small + (number < larger) for number in range(count())]


def gather(x: Tensor, sizes: list[int]) -> Tensor:
    """Return the rows of all processes one below the other, (sum of sizes, ...), for own rows x.

    Args:
        x: the rows of this process, (sizes[rank], ...).
        sizes: the number of rows of each process.
    """
    if count() == 1:
        return x
    longest = max(sizes)
    padded = x.new_empty(count(), longest, *x.shape[1:])
    own = x.contiguous()
    if len(own) < longest:  # every process must send as much
        own = torch.cat([own, own.new_zeros(longest - len(own), *x.shape[1:])])
    distributed.all_gather(list(padded), own)
    return torch.cat([rows[:size] for rows, size in zip(padded, sizes, strict=True)])


def sum_own(x: Tensor, sizes: list[int]) -> Tensor:
    """Return the rows of this process of the sum over all processes of x (sum of sizes, ...)."""
    if count() == 1:
        return x
    padded = x.new_zeros(count(), max(sizes), *x.shape[1:])
    for rows, part in zip(padded, x.split(sizes), strict=True):
        rows[: len(part)] = part
    own = torch.empty_like(padded[0])
    distributed.reduce_scatter(own, list(padded))
    return own[: sizes[rank()]]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, sizes):
        ctx.sizes = sizes
        return gather(x, sizes)

    @staticmethod
    def backward(ctx, gradient):
        return sum_own(gradient, ctx.sizes), None


def gather_with_gradient(x: Tensor, sizes: list[int]) -> Tensor:
    """Return what `gather` does; the gradient is summed over all processes."""
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
    weights = [weight for weight in parameters if weight.requires_grad]
    if count() == 1 or not weights:
        return
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    has = weights[0].new_tensor([weight.grad is not None for weight in weights])
    summed = total(torch.cat([parameters_to_vector(gradients), has]))
    vector_to_parameters(summed[: -len(weights)], gradients)
    some = summed[-len(weights) :].tolist()
    for weight, gradient, has_gradient in zip(weights, gradients, some, strict=True):
        weight.grad = gradient if has_gradient else None


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
    receive = until.diff(prepend=until.new_zeros(1))  # rows from each process
    send = torch.empty_like(receive)
    distributed.all_to_all_single(send, receive)
    receive, send = receive.tolist(), send.tolist()
    numbers = wanted.new_empty(sum(send))
    distributed.all_to_all_single(numbers, wanted, send, receive)
    sent = own[numbers - (int(ends[rank()]) - len(own))].contiguous().view(torch.uint8)
    rows = torch.empty(len(wanted), own.shape[1], dtype=own.dtype)
    distributed.all_to_all_single(rows.view(torch.uint8), sent, receive, send)
    return rows


def average_buffers(buffers: list[Tensor], counts: bool = True) -> None:
    """Replace buffers of a model, such as running means, by their mean over the processes.

    Args:
        buffers: of floating point.
        counts: whether those of this process are part of the mean.
    """
    if count() > 1 and buffers:
        own = parameters_to_vector(buffers)
        own = torch.cat([own, own.new_ones(1)]) if counts else own.new_zeros(len(own) + 1)
        summed = total(own)
        vector_to_parameters(summed[:-1] / summed[-1], buffers)
